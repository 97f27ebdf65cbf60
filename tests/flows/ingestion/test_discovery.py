"""Discovering job runs: paging, cancellation, failure, abandonment."""

import asyncio
import base64
import gc
import hashlib
from datetime import UTC, datetime
from itertools import count

import pytest
from prefect.exceptions import FailedRun

from connectors import registry
from flows import context
from flows import sources as source_flows
from retrieval import ids
from retrieval.errors import Fatal, Retryable, Skippable
from retrieval.ingestion import discover, download
from retrieval.ingestion.queries import listings, results, run_documents
from retrieval.job_config import Ingestion
from retrieval.jobs import runs
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import OpenBatch
from retrieval.namespaces import namespaces
from retrieval.ports import Page, RawContent, Scope, SourceItem
from retrieval.security.secrets import KeyRing
from tests.flows.jobs.test_batches import claimed, read

SITE = "https://example.org"


class Listing:
    """Source with one item a page; exceptions are raised in turn."""

    def __init__(self, *items):
        self.items = items
        self.asked = []
        self.cursors = []

    def discover(self, request, cursor):
        self.asked.append(request)
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
    assert source.asked[0].config == {"url": SITE}
    assert source.asked[0].scope == scope
    assert listings.pending_listings(db, lease) == []
    rows = db.rows(
        "select external_id, document_type, source, metadata from documents where job_run_id = %(run)s order by 1",
        {"run": run.job_run_id},
    )
    assert rows == [
        {"external_id": f"{SITE}/{name}", "document_type": "URL", "source": "WEBSITE", "metadata": {"k": 1}}
        for name in "ab"
    ]


def test_nothing_to_list_is_a_completed_run_without_documents(db, new_scope):
    scope = new_scope()
    run = accept(db, scope)
    lease = claimed(db)
    discover.record_listing(db, lease, listings.pending_listings(db, lease)[0], Listing())
    results.settle_runs(db, lease)
    run_after = read(db, scope, run)
    assert run_after.status == "COMPLETED"
    assert [
        *run_after.queued,
        *run_after.processing,
        *run_after.completed,
        *run_after.failed,
        *run_after.cancelled,
    ] == []


def test_a_run_that_has_not_found_out_everything_is_not_completed(db, new_scope):
    scope = new_scope()
    run = accept(db, scope)
    lease = claimed(db)
    results.settle_runs(db, lease)
    assert read(db, scope, run).status == "QUEUED"


def test_what_could_not_be_found_out_is_one_failed_entry(db, new_scope):
    scope = new_scope()
    run = accept(db, scope)
    lease = claimed(db)
    discover.fail_listing(db, lease, listings.pending_listings(db, lease)[0], "The site did not answer.")
    results.settle_runs(db, lease)
    run_after = read(db, scope, run)
    assert run_after.status == "COMPLETED"
    assert [entry.error for entry in run_after.failed] == ["The site did not answer."]


def test_a_listing_that_breaks_off_keeps_what_it_found_and_goes_on_there(db, new_scope):
    scope = new_scope()
    run = accept(db, scope)
    lease = claimed(db)
    (listing,) = listings.pending_listings(db, lease)
    with pytest.raises(Fatal):
        discover.record_listing(db, lease, listing, Listing("a", Fatal("The listing broke off.")))
    assert len(read(db, scope, run).queued) == 1
    second_listing = Listing("a", "b")
    discover.record_listing(db, lease, listing, second_listing)
    assert second_listing.cursors == ["1"]
    assert len(read(db, scope, run).queued) == 2


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


def test_what_cannot_be_had_is_a_failed_entry_beside_the_others(db, new_scope):
    scope = new_scope()
    run = accept(db, scope)
    lease = claimed(db)
    broken = SourceItem(f"{SITE}/x", "page x", error="The page is gone.")
    discover.record_listing(db, lease, listings.pending_listings(db, lease)[0], Listing("a", broken, "b"))
    run_after = read(db, scope, run)
    assert len(run_after.queued) == 2
    assert [entry.error for entry in run_after.failed] == ["The page is gone."]
    assert len(db.rows("select id from documents where job_run_id = %(run)s", {"run": run.job_run_id})) == 2


def test_a_cancelled_run_asks_for_no_more(db, new_scope):
    scope = new_scope()
    run = accept(db, scope)
    lease = claimed(db)
    (listing,) = listings.pending_listings(db, lease)
    page_count = count()

    class Endless:
        def discover(self, _request, _cursor):
            for number in page_count:
                assert number < 5, "listed on after the run was cancelled"
                if number == 2:
                    db.rows("update job_runs set cancel_requested = true where id = %(id)s", {"id": run.job_run_id})
                yield Page([SourceItem(f"{SITE}/{number}", "page")], str(number), done=False)

    discover.record_listing(db, lease, listing, Endless())
    results.settle_runs(db, lease)
    run_after = read(db, scope, run)
    assert run_after.status == "COMPLETED"
    assert len(run_after.cancelled) == 2


def test_what_is_gone_at_its_source_is_removed_and_what_is_left_out_is_counted(db, new_scope):
    scope = new_scope()
    run = accept(db, scope)
    lease = claimed(db)
    discover.record_listing(db, lease, listings.pending_listings(db, lease)[0], Listing("a", "b"))
    batches.finish_batch(db, lease)
    db.rows("update job_runs set finished_at = now() where id = %(run)s", {"run": run.job_run_id})
    run = accept(db, scope)
    lease = claimed(db)

    class Counting(Listing):
        def discover(self, request, cursor):
            yield Page([], "0", done=False, skipped={"Too old.": 2, "Hidden.": 1})
            yield Page([], "1", done=False, skipped={"Too old.": 1})
            yield from super().discover(request, None)

    deleted_item = SourceItem(f"{SITE}/a", "page a", deleted=True)
    discover.record_listing(db, lease, listings.pending_listings(db, lease)[0], Counting(deleted_item, "b"))
    remaining = db.rows(
        "select d.external_id from documents d join partitions p on p.id = d.partition_id"
        " where p.namespace_id = %(id)s and d.deleted_at is null",
        {"id": scope.namespace},
    )
    assert remaining == [{"external_id": f"{SITE}/b"}]
    progress = read(db, scope, run).progress
    assert progress["skipped"] == 4
    assert progress["skippedReasons"] == {"Too old.": 3, "Hidden.": 1}
    assert progress["found"] == 1


def test_a_page_listed_again_is_the_same_document(db, new_scope):
    scope = new_scope()
    ids_found = []
    for _ in range(2):
        run = accept(db, scope)
        lease = claimed(db)
        discover.record_listing(db, lease, listings.pending_listings(db, lease)[0], Listing("a", "a"))
        ids_found.append([entry.id for entry in read(db, scope, run).queued])
        batches.finish_batch(db, lease)
    assert len(ids_found[0]) == 1
    assert ids_found[0] == ids_found[1]


def test_a_batch_that_is_given_up_while_listing_says_why(db, new_scope):
    scope = new_scope()
    run = accept(db, scope)
    lease = claimed(db)
    given_up = OpenBatch(lease.batch_id, 1, "run", claimed=True, lease_lost=True, seconds_since_dispatch=0.0)
    batches.end_batch(db, given_up, status="FAILED", error="It was tried 3 times.")
    run_after = read(db, scope, run)
    assert run_after.status == "COMPLETED"
    assert [entry.error for entry in run_after.failed] == ["It was tried 3 times."]


class Pages(Listing):
    """Source of pages with their address as text; `gone` fails."""

    def fetch(self, item, request, to):
        assert request.config == {"url": SITE}
        if item.external_id.endswith("gone"):
            raise Skippable("The page is gone.")
        if item.external_id.endswith("busy"):
            raise Retryable("The site is busy.")
        to.write_text(item.external_id)
        return RawContent(to, item.name, "text/html", to.stat().st_size)


class Shelf(dict):
    """A file store in memory."""

    def put(self, key, chunks):
        self[key] = b"".join(chunks)
        return len(self[key])


def test_pages_are_fetched_each_for_itself(db, new_scope):
    scope, shelf = new_scope(), Shelf()
    run = accept(db, scope)
    lease = claimed(db)
    source = Pages("a", "gone", "busy", "b")
    discover.record_listing(db, lease, listings.pending_listings(db, lease)[0], source)
    (window,) = run_documents.list_windows(db, lease, documents=64, size=1 << 20)
    run_documents.start_window(db, lease, window)
    with pytest.raises(Retryable):
        download.download_documents(
            db, lease, run_documents.items_at_stage(db, lease, window, "accepted"), shelf, source
        )
    assert [entry.error for entry in read(db, scope, run).failed] == ["The page is gone."]
    stored = [item for item in run_documents.items_at_stage(db, lease, window, "accepted") if item.raw_key]
    assert [shelf[item.raw_key] for item in stored] == [f"{SITE}/a".encode(), f"{SITE}/b".encode()]
    assert [item.raw_hash for item in stored] == [hashlib.sha256(shelf[item.raw_key]).digest() for item in stored]
    assert {(item.media_type, item.raw_size) for item in stored} == {("text/html", len(f"{SITE}/a"))}


@pytest.mark.usefixtures("prefect_server")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Prefect's client leaves its sockets
def test_a_flow_whose_source_is_not_there_fails_with_one_reason(db, new_scope, monkeypatch):
    ring = KeyRing.parse("1:" + base64.b64encode(bytes(32)).decode())
    scope = new_scope()
    embedded = namespaces.NamespaceConfig(
        id=ids.namespace_id(),
        organization_id=scope.organization,
        name="embedded",
        dimensions=None,
        created_at=datetime.now(UTC),
        updated_at=datetime.now(UTC),
        **namespaces.split_configs(namespaces.EMBEDDED_CONFIGS),
    )
    db.rows(namespaces.INSERT_NAMESPACE, namespaces.row_values(ring, embedded))
    scope = Scope(scope.organization, embedded.id)
    run = accept(db, scope, "SITEMAP")
    monkeypatch.setattr(registry, "SOURCE_FACTORIES", {})
    batches.form_batches(db, size=64, batches=8)
    (batch,) = batches.undispatched_batches(db)
    monkeypatch.setattr(context, "open_database", lambda: db)
    monkeypatch.setattr(context, "load_keys", lambda: ring)
    with pytest.raises(FailedRun, match="1 failed"):
        asyncio.run(source_flows.ingest_sitemap(batch.id, batch.attempt))
    gc.collect()
    run_after = read(db, scope, run)
    assert run_after.status == "COMPLETED"
    (entry,) = run_after.failed
    assert "SITEMAP is not available" in entry.error
