"""What a client changes while a job run is under way stays changed, wherever the run stands, killed or not."""

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

MOMENTS = ["accepted", *(step.__name__ for step in STEPS), "vectors are written", "flip", "done"]
"""Before each step of the flow, and within the last one."""
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
"""By name: metadata of the version before, then text and metadata of the request, then what is to be in the end."""


class Killed(BaseException):
    """The process ends where it stands."""


@pytest.fixture
def index(pinecone_index, monkeypatch):
    monkeypatch.setenv("RETRIEVAL_FETCH_ALLOW", "127.0.0.0/8")
    monkeypatch.setenv("RETRIEVAL_READBACK_SECONDS", "3")
    settings.load_settings.cache_clear()
    yield pinecone_index(dimension=256)
    settings.load_settings.cache_clear()


@pytest.fixture
def space(request, db):
    """`request.param`: where the vectors lie."""
    if request.param == "PGVECTOR":
        return Configured(db)
    return Configured(db, vectorStorageConfig=request.getfixturevalue("index").config())


def change(space, document, **how):
    """A PATCH, as the API makes it; what it answers."""
    where = DocumentFilter(document_ids=(document,))
    how = how or CHANGE
    parts = (how.get(name, {}) for name in ("set", "append", "remove"))
    (row,) = space.call(documents.patch_metadata(space.db, space.scope, where, *parts))
    return row.metadata


def at(moment, monkeypatch, do):
    """Have `do` called once at that moment; the `before` for a space's `work`."""
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


def _wrapped(monkeypatch, place, name, before):
    whole = getattr(place, name)

    def wrapper(*given, **named):
        before()
        return whole(*given, **named)

    monkeypatch.setattr(place, name, wrapper)


def taken_up(space):
    """The batch of a worker that was lost, by another one."""
    space.db.rows("update batches set lease_until = now() - interval '1 second' where finished_at is null")
    for row in space.db.rows("select id, attempt from batches where finished_at is null"):
        lease = batches.claim_lease(space.db, row["id"], row["attempt"], seconds=30)
        assert lease is not None
        space.take(lease)


def metadata(space, document):
    return space.db.row("select metadata from documents where id = %(id)s", {"id": document})["metadata"]


def found(space, **wanted):
    return space.search("hunting at night", top_k=9, document_filter=DocumentFilter(metadata=wanted))


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
    earlier, text, asked, wanted = KINDS[kind]
    monkeypatch.setattr(selectivity, "limit_exact", lambda *_: 0)  # the store's own labels are asked
    for moment in MOMENTS:
        for one in earlier:
            space.text(BEFORE, moment, metadata=one)
            space.work()
        sent = space.text(text, moment, metadata=asked)

        def patch(document=sent.document_id, moment=moment):
            change(space, document)
            if killed and moment not in {"accepted", "done"}:
                raise Killed

        with monkeypatch.context() as here:
            before = at(moment, here, patch)
            before("accepted")
            with suppress(Killed):
                space.work(before=before)
            taken_up(space)
            with suppress(Killed):  # unchanged text reaches no later step
                before(moment)
        space.sweep()
        assert metadata(space, sent.document_id) == wanted, moment
        assert moment in found(space, team="blue"), moment
        assert moment in found(space, tags="mine"), moment
        assert moment not in found(space, team="green"), moment
        assert moment not in found(space, tags="old"), moment
        assert space.run(sent.job_run_id).failed == []


def test_a_later_request_wins_over_an_earlier_change(db):
    space = Configured(db)
    sent = space.text(BEFORE, "owls", metadata=FIRST)
    change(space, sent.document_id)
    space.text(AFTER, "owls", metadata=SECOND)
    space.work()
    assert metadata(space, sent.document_id) == SECOND
    space.text(BEFORE, "owls", metadata=FIRST)
    space.work()
    assert metadata(space, sent.document_id) == FIRST


def test_a_change_of_a_document_that_failed_survives_its_retry(db, monkeypatch):
    space = Configured(db)
    sent = space.text(BEFORE, "owls", metadata=FIRST)
    space.work()
    again = space.text(AFTER, "owls", metadata=SECOND)
    with monkeypatch.context() as once:
        once.setattr("retrieval.ingestion.embed.embed_documents", _failing)
        space.work()
    assert metadata(space, sent.document_id) == FIRST
    change(space, sent.document_id)
    space.call(control.retry_run(db, space.scope, again.job_run_id))
    space.work()
    assert metadata(space, sent.document_id) == KINDS["a new version with other metadata"][3]


def _failing(db, lease, window, _embedder):
    run_documents.fail_items(db, lease, dict.fromkeys(window, "The model is away."))


def test_many_changes_are_kept_in_bounds_and_none_is_lost(db):
    space = Configured(db)
    sent = space.text(BEFORE, "owls", metadata=FIRST)
    for number in range(40):
        shown = change(space, sent.document_id, set={f"key{number}": number}, append={"tags": [number]})
    space.work()
    assert (
        metadata(space, sent.document_id)
        == shown
        == {
            **FIRST,
            "tags": ["old", *range(40)],
            **{f"key{number}": number for number in range(40)},
        }
    )
    kept = space.db.row("select changes from documents where id = %(id)s", {"id": sent.document_id})["changes"]
    assert len(kept) <= 20


@pytest.fixture
def account(monkeypatch):
    monkeypatch.setitem(registry.CONNECTOR_FACTORIES, "BOX", "tests.standins.memory:make")
    with memory.serving("BOX") as made:
        yield made


@pytest.mark.parametrize("how", ["request", "schedule"])
def test_a_change_before_an_item_is_listed_survives(db, account, monkeypatch, how):
    """Also where a schedule goes on with the options of a request that was accepted long before."""
    one = account.put("one.txt", BEFORE)
    with connected_space(db, account, monkeypatch) as space:
        space.request(metadata=FIRST)
        space.work()
        document = space.db.row("select id from documents where connection_id = %(id)s", {"id": space.connection})["id"]
        account.change(one, AFTER)
        if how == "request":
            space.request(metadata=SECOND)
            change(space, document)
            wanted = KINDS["a new version with other metadata"][3]
        else:
            change(space, document)
            assert space.repeat().job_run_id
            wanted = KINDS["a new version without"][3]
        space.work()
        assert metadata(space, document) == wanted
        assert space.db.row("select active_generation > 1 as again from documents where id = %(id)s", {"id": document})
