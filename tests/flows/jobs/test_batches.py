"""Batches: forming, leases, fences, retries, ends."""

import asyncio

import pytest

from retrieval.ingestion import crash_isolation
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


def test_a_worker_taken_for_dead_can_write_no_more(db, new_scope):
    post(db, new_scope(), "a")
    lease = claimed(db)
    (batch,) = batches.open_batches(db)
    crash_isolation.restart_batch(db, batch)
    with pytest.raises(Superseded):
        run_documents.start_window(db, lease, [])
    assert not leases.renew_lease(db, lease, seconds=30)
    (second_attempt,) = batches.undispatched_batches(db)
    assert second_attempt.attempt == 2
    assert second_attempt.idempotency_key != f"{lease.batch_id}:1"


def test_cancelling_one_job_run_leaves_its_neighbour_alone(db, new_scope):
    scope = new_scope()
    first, second = post(db, scope, "a", "b")
    lease = claimed(db)
    db.rows("update job_runs set cancel_requested = true where id = %(id)s", {"id": first.job_run_id})
    results.settle_runs(db, lease)
    assert len(read(db, scope, first).cancelled) == 1
    assert read(db, scope, first).status == "COMPLETED"
    assert len(read(db, scope, second).queued) == 1


def test_a_text_without_a_name_never_shows_its_words_to_prefect(db, new_scope):
    asyncio.run(_post_nameless(db, new_scope()))
    batches.form_batches(db, size=64, batches=8)
    (batch,) = batches.undispatched_batches(db)
    assert batch.name.startswith("text ")
    assert "secret" not in batch.name


async def _post_nameless(db, scope):
    await runs.accept_text(db, scope, text="a secret recipe", ingestion=Ingestion())
    await db.async_close()
