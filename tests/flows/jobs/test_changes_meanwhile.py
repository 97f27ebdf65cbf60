"""A client's changes during a job run persist at any step and after kills."""

from __future__ import annotations

from contextlib import suppress

import pytest

from connectors import registry
from connectors.vectors.pgvector import PgVectorStore
from connectors.vectors.pinecone.store import PineconeStore
from retrieval import settings
from retrieval.documents import documents
from retrieval.filters import DocumentFilter
from retrieval.ingestion.queries import activation, run_documents
from retrieval.jobs import control
from retrieval.jobs.queries import batches
from retrieval.search import selectivity
from tests.flows.configured import STEPS, Configured
from tests.flows.connected import connected_space
from tests.standins import memory

BEFORE, AFTER = "Owls hunt mice at night.", "Bats hunt moths at night."
FIRST = {"team": "red", "tags": ["old"], "kept": 1}
SECOND = {"team": "green", "tags": ["new"], "own": 2}
CHANGE = {"set": {"team": "blue"}, "append": {"tags": ["mine"]}, "remove": {"tags": ["old"]}}

# Before each step, and within the last one.
MOMENTS = ["accepted", *(step.__name__ for step in STEPS), "vectors are written", "flip", "done"]
# Name: earlier metadata, then text and metadata of the request, then the result.
KINDS = {
    "a new document": ([], AFTER, SECOND, {"team": "blue", "tags": ["new", "mine"], "own": 2}),
    "a new version with other metadata": ([FIRST], AFTER, SECOND, {"team": "blue", "tags": ["new", "mine"], "own": 2}),
    "a new version without": ([FIRST], AFTER, None, {"team": "blue", "tags": ["mine"], "kept": 1}),
    "the same text with other metadata": (
        [FIRST],
        BEFORE,
        SECOND,
        {"team": "blue", "tags": ["new", "mine"], "own": 2},
    ),
}


class Killed(BaseException):
    """Stands for the death of the process."""


@pytest.fixture
def index(pinecone_index, monkeypatch):
    monkeypatch.setenv("RETRIEVAL_FETCH_ALLOW", "127.0.0.0/8")
    monkeypatch.setenv("RETRIEVAL_READBACK_SECONDS", "3")
    settings.load_settings.cache_clear()
    yield pinecone_index(dimension=256)
    settings.load_settings.cache_clear()


@pytest.fixture
def space(request, db):
    """Namespace with the vector store of `request.param`."""
    if request.param == "PGVECTOR":
        return Configured(db)
    return Configured(db, vectorStorageConfig=request.getfixturevalue("index").config())


def change(space, document, **how):
    """PATCH a document as the API does; return the response."""
    document_filter = DocumentFilter(document_ids=(document,))
    how = how or CHANGE
    parts = (how.get(name, {}) for name in ("set", "append", "remove"))
    (row,) = space.call(documents.patch_metadata(space.db, space.scope, document_filter, *parts))
    return row.metadata


def at(moment, monkeypatch, do):
    """Hook for `work`: call `do` once at that moment."""
    todo = [do]

    def once(*_):
        while todo:
            todo.pop()()

    if moment == "vectors are written":
        for store in (PgVectorStore, PineconeStore):
            _wrapped(monkeypatch, store, "upsert", once)
    if moment == "flip":
        _wrapped(monkeypatch, activation, "activate_generations", once)
    return lambda name: once() if name == moment else None


def _wrapped(monkeypatch, owner, name, call_before):
    whole = getattr(owner, name)

    def wrapper(*arguments, **keywords):
        call_before()
        return whole(*arguments, **keywords)

    monkeypatch.setattr(owner, name, wrapper)


def taken_up(space):
    """Take over the batch of a lost worker."""
    space.db.rows("update batches set lease_until = now() - interval '1 second' where finished_at is null")
    for row in space.db.rows("select id, attempt from batches where finished_at is null"):
        lease = batches.claim_lease(space.db, row["id"], row["attempt"], seconds=30)
        assert lease is not None
        space.take(lease)


def metadata(space, document):
    return space.db.row("select metadata from documents where id = %(id)s", {"id": document})["metadata"]


def is_found(space, document, **metadata_filter):
    # Search names only one of several documents with the same text.
    document_filter = DocumentFilter(document_ids=(document,), metadata=metadata_filter)
    return bool(space.search("hunting at night", document_filter=document_filter))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("space", "kind", "killed"),
    [
        *(("PGVECTOR", kind, False) for kind in KINDS),
        ("PGVECTOR", "a new version with other metadata", True),
        ("PINECONE", "a new version with other metadata", True),
        ("PINECONE", "the same text with other metadata", False),
    ],
    indirect=["space"],
)
def test_a_change_at_any_moment_survives(space, monkeypatch, kind, killed):
    """In the document, in the search filter and in the labels of the vectors."""
    earlier, text, request_metadata, expected = KINDS[kind]
    monkeypatch.setattr(selectivity, "limit_exact", lambda *_: 0)  # the store's own labels are asked
    for moment in MOMENTS:
        for metadata_before in earlier:
            space.text(BEFORE, moment, metadata=metadata_before)
            space.work()
        receipt = space.text(text, moment, metadata=request_metadata)

        def patch(document=receipt.document_id, moment=moment):
            change(space, document)
            if killed and moment not in {"accepted", "done"}:
                raise Killed

        with monkeypatch.context() as patches:
            hook = at(moment, patches, patch)
            hook("accepted")
            with suppress(Killed):
                space.work(before_step=hook)
            taken_up(space)
            with suppress(Killed):  # unchanged text reaches no later step
                hook(moment)
        space.sweep()
        assert metadata(space, receipt.document_id) == expected, moment
        assert is_found(space, receipt.document_id, team="blue"), moment
        assert is_found(space, receipt.document_id, tags="mine"), moment
        assert not is_found(space, receipt.document_id, team="green"), moment
        assert not is_found(space, receipt.document_id, tags="old"), moment
        assert space.run(receipt.job_run_id).failed == []


def test_a_later_request_wins_over_an_earlier_change(db):
    space = Configured(db)
    receipt = space.text(BEFORE, "owls", metadata=FIRST)
    change(space, receipt.document_id)
    space.text(AFTER, "owls", metadata=SECOND)
    space.work()
    assert metadata(space, receipt.document_id) == SECOND
    space.text(BEFORE, "owls", metadata=FIRST)
    space.work()
    assert metadata(space, receipt.document_id) == FIRST


def test_a_change_of_a_document_that_failed_survives_its_retry(db, monkeypatch):
    space = Configured(db)
    receipt = space.text(BEFORE, "owls", metadata=FIRST)
    space.work()
    second_receipt = space.text(AFTER, "owls", metadata=SECOND)
    with monkeypatch.context() as once:
        once.setattr("retrieval.ingestion.embed.embed_documents", _failing)
        space.work()
    assert metadata(space, receipt.document_id) == FIRST
    change(space, receipt.document_id)
    space.call(control.retry_run(db, space.scope, second_receipt.job_run_id))
    space.work()
    assert metadata(space, receipt.document_id) == KINDS["a new version with other metadata"][3]


def _failing(db, lease, window, _embedder):
    run_documents.fail_items(db, lease, dict.fromkeys(window, "The model is away."))


@pytest.fixture
def account(monkeypatch):
    monkeypatch.setitem(registry.CONNECTOR_FACTORIES, "BOX", "tests.standins.memory:make")
    with memory.serving("BOX") as opened:
        yield opened


@pytest.mark.parametrize("how", ["request", "schedule"])
def test_a_change_before_an_item_is_listed_survives(db, account, monkeypatch, how):
    """Includes a schedule with options of an older request."""
    file = account.put("one.txt", BEFORE)
    with connected_space(db, account, monkeypatch) as space:
        space.request(metadata=FIRST)
        space.work()
        document = space.db.row("select id from documents where connection_id = %(id)s", {"id": space.connection})["id"]
        account.change(file, AFTER)
        if how == "request":
            space.request(metadata=SECOND)
            change(space, document)
            expected = KINDS["a new version with other metadata"][3]
        else:
            change(space, document)
            assert space.repeat().job_run_id
            expected = KINDS["a new version without"][3]
        space.work()
        assert metadata(space, document) == expected
        assert space.db.row("select active_generation > 1 as again from documents where id = %(id)s", {"id": document})
