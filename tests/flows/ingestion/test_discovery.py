"""Discovering job runs: paging, cancellation, failure, abandonment."""

import asyncio

import pytest

from retrieval.errors import Retryable
from retrieval.ingestion import discover
from retrieval.ingestion.queries import listings
from retrieval.job_config import Ingestion
from retrieval.jobs import runs
from retrieval.ports import Page, SourceItem
from tests.flows.jobs.test_batches import claimed, read

SITE = "https://example.org"


class Listing:
    """Source with one item a page; exceptions are raised in turn."""

    def __init__(self, *items):
        self.items = items
        self.calls = []
        self.cursors = []

    def discover(self, request, cursor):
        self.calls.append(request)
        self.cursors.append(cursor)
        for number, item in enumerate(self.items[int(cursor or 0) :], int(cursor or 0) + 1):
            if isinstance(item, Exception):
                raise item
            source_item = item if isinstance(item, SourceItem) else SourceItem(f"{SITE}/{item}", f"page {item}")
            yield Page([source_item], str(number), done=False)
        yield Page([], str(len(self.items)), done=True)


def accept(db, scope, source="WEBSITE", config=None, **options):
    async def post():
        receipt = await runs.accept_discovery(
            db, scope, source=source, config=config or {"url": SITE}, ingestion=Ingestion(metadata={"k": 1}), **options
        )
        await db.async_close()
        return receipt

    return asyncio.run(post())


def test_a_run_lists_its_documents_and_goes_through_pre_processing(db, new_scope):
    scope = new_scope()
    run = accept(db, scope, connection_id=None)
    assert read(db, scope, run).status == "QUEUED"
    lease = claimed(db)
    (listing,) = listings.pending_listings(db, lease)
    source = Listing("a", "b")
    statuses_seen = []

    class Watched(Listing):
        def discover(self, request, cursor):
            statuses_seen.append(read(db, scope, run).status)
            yield from source.discover(request, cursor)

    discover.record_listing(db, lease, listing, Watched())
    run_after = read(db, scope, run)
    assert statuses_seen == ["PRE_PROCESSING"]
    assert run_after.status == "PROCESSING"
    assert [entry.status for entry in run_after.queued] == ["QUEUED", "QUEUED"]
    assert source.calls[0].config == {"url": SITE}
    assert source.calls[0].scope == scope
    assert listings.pending_listings(db, lease) == []
    rows = db.rows(
        "select external_id, document_type, source, metadata from documents where job_run_id = %(run)s order by 1",
        {"run": run.job_run_id},
    )
    assert rows == [
        {"external_id": f"{SITE}/{name}", "document_type": "URL", "source": "WEBSITE", "metadata": {"k": 1}}
        for name in "ab"
    ]


def test_a_listing_without_an_end_is_not_taken_for_a_complete_one(db, new_scope):
    scope = new_scope()
    run = accept(db, scope)
    lease = claimed(db)
    (listing,) = listings.pending_listings(db, lease)

    class Cut(Listing):
        def discover(self, request, cursor):
            yield next(super().discover(request, cursor))

    with pytest.raises(Retryable, match="broke off"):
        discover.record_listing(db, lease, listing, Cut("a", "b"))
    assert read(db, scope, run).status == "PRE_PROCESSING"
    assert listings.pending_listings(db, lease) == [listing]
