"""Batches: forming, leases, fences, retries, ends."""

import asyncio

import pytest

from retrieval.ingestion import poison_detection
from retrieval.ingestion.queries import results, run_documents
from retrieval.job_config import Ingestion
from retrieval.jobs import runs
from retrieval.jobs.queries import batches, leases
from retrieval.jobs.queries.batches import Superseded


def post(db, scope, *texts):
    async def accept():
        accepted = [
            await runs.accept_text(db, scope, text=text, name=f"text {number}", ingestion=Ingestion())
            for number, text in enumerate(texts)
        ]
        await db.async_close()
        return accepted

    return asyncio.run(accept())


def read(db, scope, run):
    async def look():
        job_run = await runs.read_run(db, scope, run.job_run_id)
        await db.async_close()
        return job_run

    return asyncio.run(look())


def claimed(db):
    batches.form_batches(db, size=64, batches=8)
    (batch,) = batches.undispatched_batches(db)
    batches.record_flow_run(db, batch, "run")
    lease = batches.claim_lease(db, batch.id, batch.attempt, seconds=30)
    assert lease is not None
    return lease


def test_waiting_job_runs_of_one_scope_share_a_batch_up_to_its_size(db, new_scope):
    post(db, new_scope(), *"abcde")
    assert batches.form_batches(db, size=2, batches=8) == 3
    assert sorted(len(batch.job_runs) for batch in batches.undispatched_batches(db)) == [1, 2, 2]


def test_two_scopes_never_share_a_batch(db, new_scope):
    first, second = new_scope(), new_scope()
    post(db, first, "a")
    post(db, second, "b")
    assert batches.form_batches(db, size=64, batches=8) == 2


def test_a_batch_is_held_by_one_worker(db, new_scope):
    post(db, new_scope(), "a")
    lease = claimed(db)
    assert batches.claim_lease(db, lease.batch_id, 1, seconds=30) is None


def test_a_worker_taken_for_dead_can_write_no_more(db, new_scope):
    post(db, new_scope(), "a")
    lease = claimed(db)
    (batch,) = batches.open_batches(db)
    poison_detection.restart_batch(db, batch)
    with pytest.raises(Superseded):
        run_documents.start_window(db, lease, [])
    assert not leases.renew_lease(db, lease, seconds=30)
    (second_attempt,) = batches.undispatched_batches(db)
    assert second_attempt.attempt == 2
    assert second_attempt.idempotency_key != f"{lease.batch_id}:1"


def test_a_lost_lease_shows(db, new_scope):
    post(db, new_scope(), "a")
    batches.form_batches(db, size=64, batches=8)
    (batch,) = batches.undispatched_batches(db)
    batches.record_flow_run(db, batch, "run")
    batches.claim_lease(db, batch.id, 1, seconds=-1)
    (open_batch,) = batches.open_batches(db)
    assert open_batch.lease_lost


def test_giving_up_fails_what_is_not_done_and_completes_the_job_run(db, new_scope):
    scope = new_scope()
    (run,) = post(db, scope, "a")
    claimed(db)
    (batch,) = batches.open_batches(db)
    batches.end_batch(db, batch, status="FAILED", error="The worker died 3 times on this.")
    job_run = read(db, scope, run)
    assert job_run.status == "COMPLETED"
    assert [entry.error for entry in job_run.failed] == ["The worker died 3 times on this."]


def test_cancelling_one_job_run_leaves_its_neighbour_alone(db, new_scope):
    scope = new_scope()
    first, second = post(db, scope, "a", "b")
    lease = claimed(db)
    db.rows("update job_runs set cancel_requested = true where id = %(id)s", {"id": first.job_run_id})
    results.settle_runs(db, lease)
    assert len(read(db, scope, first).cancelled) == 1
    assert read(db, scope, first).status == "COMPLETED"
    assert len(read(db, scope, second).queued) == 1


def test_windows_are_cut_by_count_and_by_size(db, new_scope):
    post(db, new_scope(), *["x" * 600] * 5)
    lease = claimed(db)
    assert [len(window) for window in run_documents.list_windows(db, lease, documents=2, size=10_000)] == [2, 2, 1]
    assert [len(window) for window in run_documents.list_windows(db, lease, documents=64, size=1000)] == [1, 1, 1, 1, 1]
    assert [len(window) for window in run_documents.list_windows(db, lease, documents=2, size=10_000, updates=9)] == [
        2,
        2,
        1,
    ]


def test_new_documents_and_new_versions_that_arrive_by_turns_fill_two_windows(db, new_scope):
    # After an outage 108 texts, 40 versions of one document, took 46 windows.
    post(db, new_scope(), *map(str, range(20)))
    lease = claimed(db)
    db.rows(
        "update documents d set active_generation = 1 from run_documents m join job_runs r on r.id = m.job_run_id"
        " where m.document_id = d.id and r.batch_id = %(batch)s and mod(r.number, 2) = 0",
        {"batch": lease.batch_id},
    )
    windows = run_documents.list_windows(db, lease, documents=64, size=1 << 24, updates=1024)
    assert [len(window) for window in windows] == [10, 10]
    (all_of_them,) = run_documents.list_windows(db, lease, documents=64, size=1 << 24)
    assert set(all_of_them) == {*windows[0], *windows[1]}
    order = {key: position for position, key in enumerate(all_of_them)}
    assert all(window == sorted(window, key=order.__getitem__) for window in windows)


def test_a_text_without_a_name_never_shows_its_words_to_prefect(db, new_scope):
    asyncio.run(_post_nameless(db, new_scope()))
    batches.form_batches(db, size=64, batches=8)
    (batch,) = batches.undispatched_batches(db)
    assert batch.name.startswith("text ")
    assert "secret" not in batch.name


async def _post_nameless(db, scope):
    await runs.accept_text(db, scope, text="a secret recipe", ingestion=Ingestion())
    await db.async_close()
