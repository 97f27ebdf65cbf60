"""Documents beyond a quota fail with the reason, whatever their source."""

import asyncio

from retrieval.accounts import quotas
from retrieval.ingestion import discover, within_quotas
from retrieval.ingestion.queries import listings, run_documents
from retrieval.jobs import runs
from tests.flows.ingestion.test_discovery import Listing, accept
from tests.flows.jobs.test_batches import claimed


def list_pages(db, scope, *names):
    run = accept(db, scope).job_run_id
    lease = claimed(db)
    (listing,) = listings.pending_listings(db, lease)
    discover.record_listing(db, lease, listing, Listing(*names))
    return run, lease


def test_a_listing_fills_what_is_left_and_tells_of_the_rest(db, new_scope):
    scope = new_scope()
    quotas.set_organization_quotas(db, scope.organization, {"documents": 3})
    run, _ = list_pages(db, scope, "a", "b")
    db.rows("update job_runs set finished_at = now(), status = 'COMPLETED' where id = %(run)s", {"run": run})
    run, _ = list_pages(db, scope, "b", "c", "d", "e")
    errors = runs_of(db, scope, run)
    assert sorted(errors.values(), key=str) == sorted([None, None, *[errors["page d"]] * 2], key=str)
    assert errors["page d"] == (
        "The organization's quota of 3 documents is used up (3 are used). Delete documents or raise the quota, then run"
        " this again."
    )
    assert [errors[name] for name in ("page b", "page c")] == [None, None]
    counted = db.row(
        "select count(*) as n from documents where deleted_at is null and job_run_id = %(run)s", {"run": run}
    )
    assert counted["n"] == 2


def runs_of(db, scope, run):
    rows = db.rows("select name, error from run_documents where job_run_id = %(run)s", {"run": run})
    job_run = asyncio.run(read_run(db, scope, run))
    assert len(job_run.failed) == sum(row["error"] is not None for row in rows)
    return {row["name"]: row["error"] for row in rows}


async def read_run(db, scope, run):
    try:
        return await runs.read_run(db, scope, run)
    finally:
        await db.async_close()


def test_what_is_fetched_beyond_the_bytes_fails_before_it_is_embedded(db, new_scope):
    scope = new_scope("alice")
    db.rows("insert into tenants (organization_id, id) values (%(o)s, 'alice')", {"o": scope.organization})
    quotas.set_tenant_quotas(db, scope.organization, "alice", {"storedBytes": 250})
    run, lease = list_pages(db, scope, "a", "b", "c")
    window = run_documents.list_windows(db, lease, documents=10, size=10**6)[0]
    for key in window:
        db.rows(
            "update run_documents set stage = 'CHUNKED', raw_size = 100, properties = '{\"fileSize\": 100}'"
            " where job_run_id = %(run)s and document_id = %(id)s",
            {"run": key.job_run_id, "id": key.document_id},
        )
    work = run_documents.items_at_stage(db, lease, window, stage_of(db, run))
    affordable = within_quotas.affordable_items(db, lease, work)
    assert len(affordable) == 2
    assert [item.key for item in within_quotas.affordable_items(db, lease, affordable)] == [
        item.key for item in affordable
    ]
    [(name, reason)] = [(name, error) for name, error in runs_of(db, scope, run).items() if error]
    assert name == "page c"
    assert reason.startswith("The tenant's quota of 250 stored bytes is used up (200 are used).")


def stage_of(db, run):
    return db.row("select stage from run_documents where job_run_id = %(run)s limit 1", {"run": run})["stage"]


def test_members_of_an_archive_fill_what_is_left(db, new_scope):
    scope = new_scope()
    quotas.set_organization_quotas(db, scope.organization, {"documents": 3, "storedBytes": 100})
    run, _ = list_pages(db, scope, "archive")
    with db.transaction() as connection:
        reasons = within_quotas.member_reasons(connection, run, [60, 60, 40, 1])
    assert [reason is None for reason in reasons] == [True, False, True, False]
    assert "stored bytes" in reasons[1]
    assert "documents" in reasons[3]
