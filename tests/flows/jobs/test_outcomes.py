"""Outcomes, notices and names of job runs; names hold no secret."""

import pytest
from prefect.states import StateType

from flows import flow_states
from flows.dispatch import prefect_client
from retrieval.ingestion import discover
from retrieval.ingestion.queries import listings, results, run_documents
from retrieval.jobs import control
from retrieval.jobs import names as run_names
from retrieval.jobs.queries import batches, retry
from retrieval.ports import Page
from tests.flows.ingestion.test_discovery import Listing, accept
from tests.flows.jobs.test_batches import claimed, post, read


def close(db, lease, **ends):
    """Let documents end by name: `SUCCESS`, `FAILED` or `CANCELLED`."""
    for name, status in ends.items():
        db.rows(
            "update run_documents d set status = %(status)s, error = case when %(status)s = 'FAILED' then 'x' end"
            " from job_runs r where r.id = d.job_run_id and r.batch_id = %(batch)s and d.name like %(name)s",
            {"status": status, "batch": lease.batch_id, "name": f"%{name}"},
        )
    results.settle_runs(db, lease)
    batches.finish_batch(db, lease)


def list_pages(db, scope, *names, **options):
    """Website's run with these pages, and its lease."""
    run = accept(db, scope, **options)
    lease = claimed(db)
    discover.record_listing(db, lease, listings.pending_listings(db, lease)[0], Listing(*names))
    return run, lease


@pytest.mark.parametrize(
    ("ends", "outcome", "state"),
    [
        ({"a": "SUCCESS", "b": "SUCCESS"}, "SUCCEEDED", "Completed"),
        ({"a": "SUCCESS", "b": "FAILED"}, "COMPLETED_WITH_FAILURES", "CompletedWithFailures"),
        ({"a": "FAILED", "b": "FAILED"}, "FAILED", "Failed"),
        ({"a": "FAILED", "b": "CANCELLED"}, "FAILED", "Failed"),
    ],
)
def test_the_outcome_follows_from_the_documents(db, new_scope, ends, outcome, state):
    scope = new_scope()
    run, lease = list_pages(db, scope, "a", "b")
    assert read(db, scope, run).outcome is None
    close(db, lease, **ends)
    job_run = read(db, scope, run)
    assert (job_run.status, job_run.outcome, job_run.notices) == ("COMPLETED", outcome, [])
    assert flow_states.final_state([job_run.outcome], "").name == state


@pytest.mark.parametrize("with_documents", [[], ["a", "b"]])
def test_a_cancelled_run_is_cancelled_with_and_without_documents(db, new_scope, with_documents):
    scope = new_scope()
    run = accept(db, scope)
    lease = claimed(db)
    if with_documents:
        discover.record_listing(db, lease, listings.pending_listings(db, lease)[0], Listing(*with_documents))
    control.cancel_run(db, scope, run.job_run_id)
    close(db, lease)
    job_run = read(db, scope, run)
    assert (job_run.status, job_run.outcome, job_run.notices) == ("COMPLETED", "CANCELLED", [])
    assert flow_states.final_state([job_run.outcome], "").type == StateType.CANCELLED


@pytest.mark.parametrize(
    ("source", "skipped", "notices"),
    [
        ("WEBSITE", {"robots.txt forbids it.": 1}, [("robots.txt forbids it.", 1)]),
        ("WEBSITE", {"Left out.": 3, "Other host.": 2}, [("Left out.", 3), ("Other host.", 2)]),
        ("WEBSITE", {}, [("The website led to no page.", 0)]),
        ("SITEMAP", {}, [("The sitemap names no page.", 0)]),
        ("BOX", {}, [("Nothing is new or changed at the content service since the last run.", 0)]),
    ],
)
def test_a_run_that_finds_nothing_says_why(db, new_scope, source, skipped, notices):
    scope = new_scope()
    run = accept(db, scope, source=source)
    lease = claimed(db)

    class Empty(Listing):
        def discover(self, _request, _cursor):
            yield Page([], "0", done=True, skipped=skipped)

    discover.record_listing(db, lease, listings.pending_listings(db, lease)[0], Empty())
    close(db, lease)
    job_run = read(db, scope, run)
    assert (job_run.outcome, [(notice.reason, notice.count) for notice in job_run.notices]) == ("SUCCEEDED", notices)


@pytest.mark.parametrize(
    ("raw_name", "expected"),
    [
        ("https://me:pw@docs.example.org/a?sig=1#x", "https://docs.example.org/a"),
        ("report.pdf", "report.pdf"),
        ("report.pdf?token=abc&x=1", "report.pdf"),
        ("Who? Me. What is 1 & 1?", "Who? Me. What is 1 & 1?"),
        ("two\nlines\x00 here", "two lines here"),
        ("x" * 500, "x" * 99 + "…"),
    ],
)
def test_names_are_bounded_and_tell_no_query(raw_name, expected):
    assert run_names.plain_name(raw_name) == expected


def test_a_run_is_called_by_what_it_is_about(db, new_scope):
    scope = new_scope()
    config = {"url": "https://me:pw@docs.example.org/start?key=SECRET"}
    run = accept(db, scope, config=config)
    (text,) = post(db, scope, "a")
    assert read(db, scope, run).name == "docs.example.org/start"
    assert read(db, scope, text).name == "text 0"
    batches.form_batches(db, size=64, batches=8)
    batches_by_source = {
        batch.source: (batch.name, prefect_client.batch_tags(batch)) for batch in batches.undispatched_batches(db)
    }
    assert batches_by_source["WEBSITE"] == ("website docs.example.org/start", [scope.namespace, run.job_run_id])
    assert batches_by_source["TEXT"] == ("text 0", [scope.namespace, text.job_run_id])


def test_what_failed_in_a_batch_runs_again_in_the_same_flow_run(db, new_scope):
    scope = new_scope()
    runs = post(db, scope, *"abc")
    lease = claimed(db)
    close(db, lease, **{"text 0": "FAILED", "text 1": "SUCCESS", "text 2": "FAILED"})
    db.rows("update batches set flow_run_id = 'flow' where id = %(id)s", {"id": lease.batch_id})
    db.rows(
        "update documents set status = 'FAILED' where job_run_id = any(%(ids)s)", {"ids": [r.job_run_id for r in runs]}
    )
    retried_batch = retry.retry_batch(db, lease.batch_id, "flow").batch_id
    assert retry.find_newest_batch(db, lease.batch_id, "flow") == retried_batch
    second = batches.claim_lease(db, retried_batch, 1, seconds=30)
    (window,) = run_documents.list_windows(db, second, documents=64, size=1 << 20)
    assert {key.document_id for key in window} == {runs[0].document_id, runs[2].document_id}
    close(db, second, **{"text 0": "SUCCESS", "text 2": "SUCCESS"})
    assert retry.retry_batch(db, lease.batch_id, "flow") == retry.Retry()


def test_the_failed_documents_of_a_connection_are_left_to_the_dispatcher(db, new_scope):
    (run,) = post(db, new_scope(), "a")
    lease = claimed(db)
    close(db, lease, **{"text 0": "FAILED"})
    db.rows("update batches set source = 'OBJECTS' where id = %(id)s", {"id": lease.batch_id})
    db.rows("update documents set status = 'FAILED' where job_run_id = %(id)s", {"id": run.job_run_id})
    retried = retry.retry_batch(db, lease.batch_id, "flow")
    (waiting,) = retried.waiting_runs
    assert retried.batch_id is None
    assert db.row("select status, batch_id from job_runs where id = %(id)s", {"id": waiting}) == {
        "status": "QUEUED",
        "batch_id": None,
    }


def test_a_run_that_was_cancelled_too_late_succeeded(db, new_scope):
    scope = new_scope()
    run, lease = list_pages(db, scope, "a")
    db.rows("update run_documents set status = 'SUCCESS' where job_run_id = %(run)s", {"run": run.job_run_id})
    control.cancel_run(db, scope, run.job_run_id)
    close(db, lease)
    assert read(db, scope, run).outcome == "SUCCEEDED"
