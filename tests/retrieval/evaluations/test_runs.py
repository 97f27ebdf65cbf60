"""Evaluation runs without a worker, or with a lost worker."""

import pytest

from retrieval.evaluations import runs


@pytest.fixture
def run(db, library):
    """Create a run and return its id."""
    db.rows("update evaluation_runs set finished_at = now() where finished_at is null")
    db.rows(
        "insert into evaluations (id, partition_id, name) select %(id)s, id, 'animals' from partitions"
        " where namespace_id = %(namespace)s",
        {"id": f"eval_{library.scope.namespace}", "namespace": library.scope.namespace},
    )
    (row,) = db.rows(
        "insert into evaluation_runs (id, evaluation_id) values (%(id)s, %(evaluation)s) returning id",
        {"id": f"run_{library.scope.namespace}", "evaluation": f"eval_{library.scope.namespace}"},
    )
    return row["id"]


def time_passes(db):
    db.rows("update evaluation_runs set lease_until = now() - interval '1 second' where finished_at is null")


def status(db, run):
    (row,) = db.rows("select status, error from evaluation_runs where id = %(id)s", {"id": run})
    return row["status"], row["error"]


def test_a_run_that_waits_for_a_worker_for_long_has_lost_none(db, run):
    (first,) = runs.list_waiting(db)
    for _ in range(5):
        time_passes(db)
        (waiting_run,) = runs.list_waiting(db)
        assert waiting_run.attempt == first.attempt, "whichever flow run comes first may begin"
    assert status(db, run) == ("QUEUED", None)
    claimed = runs.claim_run(db, run, first.attempt)
    assert claimed is not None
    assert runs.claim_run(db, run, waiting_run.attempt) is None, "the other flow run finds it begun"
    assert runs.finish_run(db, claimed, {})
    assert status(db, run) == ("COMPLETED", None)


def test_a_run_whose_workers_are_lost_is_begun_three_times(db, run):
    for _ in range(3):
        (waiting_run,) = runs.list_waiting(db)
        claimed = runs.claim_run(db, run, waiting_run.attempt)
        time_passes(db)
    assert runs.list_waiting(db) == []
    assert status(db, run) == ("FAILED", "Its worker was lost three times; start the run again.")
    assert not runs.renew_lease(db, claimed)


def test_runs_that_prefect_did_not_take_are_asked_for_soon(db, run):
    (waiting_run,) = runs.list_waiting(db)
    runs.retry_start(db, [run])
    (row,) = db.rows(
        "select lease_until < now() + interval '1 minute' as soon from evaluation_runs where id = %(id)s", {"id": run}
    )
    assert row["soon"]
    time_passes(db)
    (retried_run,) = runs.list_waiting(db)
    assert retried_run.attempt == waiting_run.attempt
