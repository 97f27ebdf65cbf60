"""A batch yields between windows, documents or pages without a loss."""

import asyncio

import pytest

from connectors import registry
from flows import pipeline, run_context
from flows.run_context import RunContext, TimeSlice
from retrieval.ingestion import discover, fetch
from retrieval.ingestion.queries import listings
from retrieval.jobs import runs
from retrieval.jobs.queries import batches
from retrieval.jobs.runs import Ingestion
from retrieval.ports import Page, RawContent, SourceItem
from tests.flows.configured import Configured
from tests.flows.plain_steps import without_prefect


@pytest.fixture
def at_once(monkeypatch):
    """Shortest turns of a batch."""
    monkeypatch.setattr(run_context, "TIME_SLICE_SECONDS", 0.0)
    monkeypatch.setattr(run_context, "QUEUE_CHECK_SECONDS", 0.0)
    monkeypatch.setattr(run_context, "FREE_SLOT_SECONDS", 0.0)


@pytest.fixture
def space(db):
    return Configured(db)


def post(db, scope, *names):
    async def accept():
        for name in names:
            await runs.accept_text(db, scope, text=f"about {name}", name=name, ingestion=Ingestion())
        await db.async_close()

    asyncio.run(accept())


def request_listing(space, source="URLS_LIST"):
    """Job run with a discovery."""
    acceptance = runs.accept_discovery(
        space.db, space.scope, source=source, config={"urls": ["https://example.org/"]}, ingestion=Ingestion()
    )
    return space.call(acceptance).job_run_id


def claim_batch(space, source="TEXT"):
    """Lease of the namespace's batch of this source."""
    db = space.db
    batches.form_batches(db, size=64, batches=8)
    for batch in batches.undispatched_batches(db):
        if (batch.source, batch.namespace) == (source, space.scope.namespace):
            batches.record_flow_run(db, batch, "run")
            return batches.claim_lease(db, batch.id, batch.attempt, seconds=30)
    raise AssertionError("no such batch")


class Endless:
    """Slow source with one document a page."""

    def __init__(self):
        self.calls = []
        self.fetched = []

    def discover(self, _request, cursor):
        for number in range(int(cursor or 0), 1000):
            self.calls.append(number)
            item = SourceItem(f"https://example.org/{number}", f"page {number}", "text/html")
            yield Page([item], str(number + 1), done=False)

    def fetch(self, item, _request, path):
        self.fetched.append(item.external_id)
        size = path.write_text("<p>something</p>")
        return RawContent(path, "page", "text/html", size)


def test_another_organizations_batch_ends_a_turn(db, space, new_scope, at_once):
    post(db, space.scope, "one")
    lease = claim_batch(space)
    post(db, new_scope(), "theirs")
    batches.form_batches(db, size=64, batches=8)
    (theirs,) = batches.undispatched_batches(db)
    assert not TimeSlice(db, lease).is_over(), "nobody can take up a batch that has no flow run"
    batches.record_flow_run(db, theirs, "run")
    assert TimeSlice(db, lease).is_over()


def test_what_was_not_begun_is_fetched_in_another_batch_and_nothing_twice(db, space):
    request_listing(space)
    source = Endless()
    files = registry.make_file_store(space.config)
    lease = claim_batch(space, "URLS_LIST")
    (listing,) = listings.pending_listings(db, lease)
    discover.record_listing(db, lease, listing, source, files, should_continue=lambda: len(source.calls) < 20)
    fetched_before = _fetch(db, lease, files, source, lambda: len(source.fetched) < 4)
    assert 4 <= fetched_before < 20
    batches.return_runs(db, lease)
    _fetch(db, claim_batch(space, "URLS_LIST"), files, source, lambda: True)
    assert len(source.fetched) == len(set(source.fetched)) == 20


def _fetch(db, lease, files, source, should_continue):
    from retrieval.ingestion.queries import run_documents

    for window in run_documents.list_windows(db, lease, documents=64, size=1 << 24):
        run_documents.start_window(db, lease, window)
        fetch.fetch_documents(db, lease, window, files, {"provider": "LOCAL"}, source, should_continue=should_continue)
    return len(source.fetched)


class Brief(TimeSlice):
    """Turn with waiters from the second window on."""

    calls = 0

    def is_over(self):
        self.calls += 1
        self.has_ended = self.calls > 3
        return self.has_ended


def test_a_backlog_is_ingested_whole_though_it_gives_way_again_and_again(db, space, monkeypatch):
    monkeypatch.setattr(pipeline, "WINDOW_DOCUMENTS", 2)
    monkeypatch.setattr(pipeline, "MAX_WINDOWS", 1)
    without_prefect(monkeypatch, db, space.ring)
    names = [f"text {number}" for number in range(9)]
    post(db, space.scope, *names)
    pauses = []
    while not pauses or pauses[-1]:
        lease = claim_batch(space)
        run = RunContext(db, space.ring, lease)
        run.time_slice = Brief(db, lease)
        asyncio.run(pipeline.ingest_documents(run))
        pauses.append(asyncio.run(run.close_batch()))
    assert pauses == [5, 1, 0]
    assert set(space.search("about text", top_k=20)) == set(names)


def open_runs(space):
    return space.db.rows(
        "select 1 from job_runs r join partitions p on p.id = r.partition_id"
        " where p.namespace_id = %(namespace)s and r.finished_at is null",
        {"namespace": space.scope.namespace},
    )
