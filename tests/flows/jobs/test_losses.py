"""Lost flow runs: an interruption is free, and a crashing document fails without its neighbours."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from psycopg import OperationalError
from psycopg_pool import PoolTimeout

from flows import context, pipeline, sources
from flows.dispatch import reconciliation
from flows.dispatch.prefect_client import FlowRunState
from flows.lease_renewal import keep_lease
from retrieval.database.database import Database
from retrieval.ingestion import crash_isolation, discover
from retrieval.ingestion.queries import crashes, listings, results, run_documents
from retrieval.jobs.queries import batches, leases
from tests.flows.ingestion.test_discovery import Listing, accept
from tests.flows.jobs.test_batches import post, read

TEXTS = 12
ATTEMPTS = 3


def claim(db, seconds=30):
    """Claim the next attempt as a worker."""
    batches.form_batches(db, size=64, batches=8)
    (batch,) = batches.undispatched_batches(db)
    batches.record_flow_run(db, batch, "run")
    lease = batches.claim_lease(db, batch.id, batch.attempt, seconds=seconds)
    assert lease is not None
    return lease


def lose(db, blame=crash_isolation.DEATH_BLAME):
    (batch,) = batches.open_batches(db)
    crash_isolation.restart_batch(db, batch, blame=blame, max_attempts=ATTEMPTS)


def begin(db, lease):
    for window in run_documents.list_windows(db, lease, documents=64, size=1 << 24):
        run_documents.start_window(db, lease, window)


def succeed(db, lease, keys):
    db.rows(
        "update run_documents set status = 'SUCCESS' where document_id = any(%(ids)s)",
        {"ids": [key.document_id for key in keys]},
    )
    results.settle_runs(db, lease)


def test_orderly_interruptions_are_held_against_nobody(db, new_scope):
    scope = new_scope()
    runs = post(db, scope, *"abc")
    for _ in range(10):
        lease = claim(db)
        begin(db, lease)
        crashes.release_lease(db, lease)
        assert not leases.renew_lease(db, lease, seconds=30)
        lose(db, blame=0)
    lease = claim(db)
    assert crashes.list_suspects(db, lease) == []
    assert [read(db, scope, run).failed for run in runs] == [[], [], []]


def test_a_document_that_takes_its_process_with_it_three_times_fails_alone(db, new_scope):
    scope = new_scope()
    runs = post(db, scope, *[f"text {number}" for number in range(TEXTS)])
    poisoned_id, deaths = runs[4].document_id, 0
    for _ in range(TEXTS):
        lease = claim(db)
        begin(db, lease)
        blamed = crashes.list_suspects(db, lease)
        if not blamed and not deaths:
            deaths += 1
            lose(db)  # all of them were being worked on
            continue
        for key in blamed:
            if key.document_id == poisoned_id:
                with pytest.raises(KeyboardInterrupt), crash_isolation.mark_isolated(db, lease, key.document_id):
                    raise KeyboardInterrupt
                deaths += 1
                lose(db)
                break
            with crash_isolation.mark_isolated(db, lease, key.document_id):
                succeed(db, lease, [key])
        else:
            break
    assert deaths == ATTEMPTS
    ended = [read(db, scope, run) for run in runs]
    assert [len(run.failed) for run in ended] == [int(run.document_id == poisoned_id) for run in runs]
    assert [len(run.completed) for run in ended] == [int(run.document_id != poisoned_id) for run in runs]
    assert "each time it came to this document" in ended[4].failed[0].error


def test_a_worker_that_is_lost_as_a_whole_fails_nothing_ten_times_over(db, new_scope):
    scope = new_scope()
    (run,) = post(db, scope, "a long one")
    for _ in range(20):
        lease = claim(db)
        begin(db, lease)
        for key in crashes.list_suspects(db, lease):
            with pytest.raises(SystemExit), crash_isolation.mark_isolated(db, lease, key.document_id):
                raise SystemExit
        lose(db, crash_isolation.LOSS_BLAME)
    assert len(read(db, scope, run).processing) == 1


def list_until_the_process_dies(db, *pages):
    lease = claim(db)
    (waiting,) = listings.pending_listings(db, lease)
    with pytest.raises(RuntimeError), crash_isolation.mark_isolated(db, lease, waiting.job_run_id):
        discover.record_listing(db, lease, waiting, Listing(*pages, RuntimeError()))
    lose(db)


def test_a_listing_that_makes_progress_survives_any_number_of_dead_processes(db, new_scope):
    scope = new_scope()
    run = accept(db, scope)
    for page in range(5):
        list_until_the_process_dies(db, *"abcdefgh"[: page + 1])
    assert len(read(db, scope, run).queued) == 5
    assert listings.pending_listings(db, claim(db))


def test_a_listing_that_kills_its_process_each_time_fails_with_the_reason(db, new_scope):
    scope = new_scope()
    run = accept(db, scope)
    for _ in range(ATTEMPTS):
        list_until_the_process_dies(db)
    assert "each time it listed this" in read(db, scope, run).failed[0].error


@pytest.mark.parametrize(("ends_by", "released"), [(KeyboardInterrupt, True), (RuntimeError, False)])
def test_a_flow_that_is_asked_to_end_hands_its_lease_back(db, new_scope, ends_by, released):
    post(db, new_scope(), "a")
    lease = claim(db)
    with pytest.raises(ends_by), keep_lease(db, lease, seconds=30):
        raise ends_by
    (batch,) = batches.open_batches(db)
    assert batch.released is released


@pytest.mark.parametrize(
    "error", [PoolTimeout("no connection"), OperationalError("gone"), httpx.ReadTimeout("Prefect")]
)
def test_a_database_or_prefect_that_is_away_is_no_death_of_the_work(db, new_scope, monkeypatch, error):
    scope = new_scope()
    (run,) = post(db, scope, "a long one")

    async def go_away(run):
        begin(db, run.lease)
        raise error

    monkeypatch.setattr(pipeline, "ingest_documents", go_away)
    monkeypatch.setattr(context, "open_database", lambda: db)
    monkeypatch.setattr(context, "load_keys", lambda: None)
    for _ in range(2 * ATTEMPTS):
        batches.form_batches(db, size=64, batches=8)
        (batch,) = batches.undispatched_batches(db)
        batches.record_flow_run(db, batch, "run")
        ended = asyncio.run(sources.ingest_text.fn(batch.id, batch.attempt))
        (opened,) = batches.open_batches(db)
        flow_run_state = FlowRunState(ended.type.value, datetime.now(UTC), ended.name)
        action = reconciliation.decide_batch(opened, flow_run_state, datetime.now(UTC), lease=timedelta(seconds=30))
        db.rows(
            "update batches set at_work = %(document)s where id = %(batch)s",
            {"document": run.document_id, "batch": batch.id},
        )
        crash_isolation.restart_batch(db, opened, blame=reconciliation.BLAME_BY_ACTION[action], max_attempts=ATTEMPTS)
    assert len(read(db, scope, run).processing) == 1


@pytest.mark.slow
def test_a_worker_whose_connections_are_all_at_work_keeps_its_lease(database_url, db, new_scope):
    post(db, new_scope(), "a")
    lease = claim(db, seconds=3)
    busy = Database(database_url, size=1, role="worker")
    with busy.transaction(), keep_lease(busy, lease, seconds=3):
        for _ in range(5):
            time.sleep(1)
            (batch,) = batches.open_batches(db)
            assert not batch.lease_lost
    busy.close()
