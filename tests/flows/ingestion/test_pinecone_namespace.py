"""The main job on a namespace with vectors in Pinecone."""

import pytest

from retrieval import settings
from retrieval.documents import documents
from retrieval.errors import Retryable
from retrieval.filters import DocumentFilter
from retrieval.namespaces import namespaces
from retrieval.principals import Access
from retrieval.search import selectivity
from tests.flows.configured import Configured
from tests.library import viewer_of
from tests.standins.pinecone import cut, status

DIMENSIONS = 256
OWLS, BATS = "Owls hunt mice at night.", "Bats hunt moths at night."


@pytest.fixture
def index(pinecone_index, monkeypatch):
    monkeypatch.setenv("RETRIEVAL_FETCH_ALLOW", "127.0.0.0/8")
    monkeypatch.setenv("RETRIEVAL_READBACK_SECONDS", "3")
    settings.load_settings.cache_clear()
    yield pinecone_index(dimension=DIMENSIONS)
    settings.load_settings.cache_clear()


@pytest.fixture
def space(db, index):
    return Configured(db, vectorStorageConfig=index.config())


def patch(space, document_id, **metadata):
    document_filter = DocumentFilter(document_ids=(document_id,))
    return space.call(documents.patch_metadata(space.db, space.scope, document_filter, metadata, {}, {}))


def records(space, index):
    return index.space(space.scope.namespace)


def visible(space, document_id):
    statement = """select c.content from documents d join chunks c
        on c.document_id = d.id and c.generation = d.active_generation where d.id = %(id)s"""
    return space.db.row(statement, {"id": document_id})["content"]


def marks(space, index):
    return sorted(mark for record in records(space, index).values() for mark in record["metadata"]["marks"])


def test_what_is_not_shown_in_time_fails_and_the_version_before_stays(space, index, monkeypatch):
    first = space.text(OWLS, "owls")
    space.work()
    monkeypatch.setenv("RETRIEVAL_READBACK_SECONDS", "0.3")
    settings.load_settings.cache_clear()
    index.reads = 10**6
    second = space.text(BATS, "owls")
    space.work()
    run = space.run(second.job_run_id)
    assert (run.status, len(run.failed)) == ("COMPLETED", 1)
    assert "1 of them could not be read back within 0.3 seconds" in run.failed[0].error
    assert visible(space, first.document_id) == OWLS
    index.reads = 0
    index.settle()
    space.sweep()
    assert len(records(space, index)) == 1


def test_a_deletion_is_looked_at_again_until_the_index_shows_it(space, index):
    text = space.text(OWLS, "owls")
    space.work()
    space.delete(text.document_id)
    index.reads = 10
    space.sweep()
    assert space.db.rows("select 1 from sweeps where document_id = %(id)s", {"id": text.document_id})
    index.reads = 0
    index.settle()
    space.sweep()
    assert records(space, index) == {}
    assert not space.db.rows("select 1 from sweeps where document_id = %(id)s", {"id": text.document_id})
    assert not space.db.rows("select 1 from documents where id = %(id)s", {"id": text.document_id})


@pytest.mark.parametrize("step", ["fetch", "upsert", "between"])
def test_a_run_under_way_cannot_bring_a_deleted_document_back(space, index, step):
    text = space.text(OWLS, "owls")

    def delete(_handler):
        space.delete(text.document_id)
        return False

    if step == "between":
        index.faults.append(("/vectors/upsert", delete))
    space.work(before_step=lambda name: name == step and delete(None))
    space.sweep()
    assert space.search("owls") == []
    assert records(space, index) == {}


def test_metadata_is_changed_at_once_and_in_the_index_when_it_can_be_reached(space, index, monkeypatch):
    text = space.text(OWLS, "owls", metadata={"team": "red"})
    space.work()
    index.always.append(("", status(500)))
    (changed,) = patch(space, text.document_id, team="blue")
    assert changed.metadata == {"team": "blue"}
    assert space.search("owls", document_filter=DocumentFilter(metadata={"team": "blue"})) == ["owls"]
    space.sweep()
    assert marks(space, index) == ['["team","red"]']
    index.always.clear()
    space.sweep()
    assert marks(space, index) == ['["team","blue"]']
    monkeypatch.setattr(selectivity, "limit_exact", lambda *_: 0)
    assert space.search("owls", document_filter=DocumentFilter(metadata={"team": "blue"})) == ["owls"]
    assert space.search("owls", document_filter=DocumentFilter(metadata={"team": "red"})) == []
    assert not space.db.rows("select 1 from sweeps where kind = 'labels'")


@pytest.mark.parametrize("fault", [status(503, Retry_After="1"), cut], ids=["503", "cut"])
def test_an_index_in_trouble_delays_and_doubles_nothing(space, index, fault):
    space.text(OWLS, "owls")
    index.faults.append(("/vectors/upsert", fault))
    lease = space.lease()
    with pytest.raises(Retryable):
        space.take(lease)
    space.take(lease)
    assert space.search("owls") == ["owls"]
    assert len(records(space, index)) == 1


def test_a_deleted_namespace_leaves_what_is_not_ours(space, index):
    index.spaces["theirs"] = {"x": {"values": [1.0] * DIMENSIONS, "metadata": {}}}
    space.text(OWLS, "owls")
    space.work()
    space.call(namespaces.delete_namespace(space.db, space.scope.organization, space.scope.namespace))
    space.sweep()
    assert list(index.spaces) == ["theirs"]


@pytest.mark.parametrize("weights", [{}, {"semantic_weight": 0.5, "keyword_weight": 0.5}])
def test_whatever_the_index_answers_shows_nobody_what_is_not_for_them(db, space, index, weights):
    """Records of another namespace and version, of deleted and hidden documents, and of none, nearest of all."""
    neighbour = Configured(db, vectorStorageConfig=index.config())
    neighbour.text("Another namespace's owls.", "foreign")
    neighbour.work()
    receipts_by_name = {
        name: space.text(f"{OWLS} They are {name}.", name) for name in ("hidden", "deleted", "replaced", "open")
    }
    space.work()
    space.delete(receipts_by_name["deleted"].document_id)
    stale = next(
        record_id
        for record_id in records(space, index)
        if record_id.startswith(receipts_by_name["replaced"].document_id)
    )
    space.text("Bats, not birds.", "replaced")
    space.work()
    hidden_filter = DocumentFilter(document_ids=(receipts_by_name["hidden"].document_id,))
    access = documents.NewAccess(Access(("ada",)))
    space.call(documents.patch_metadata(db, space.scope, hidden_filter, {}, {}, {}, access=access))
    (record,) = [
        record_id
        for name, record_id in records(space, index).items()
        if name.startswith(receipts_by_name["open"].document_id)
    ]
    forged = [
        *index.space(neighbour.scope.namespace),
        *records(space, index),
        stale,
        f"{receipts_by_name['deleted'].document_id}#1#0",
        f"{receipts_by_name['open'].document_id}#{'9' * 40}#0",
        f"{receipts_by_name['open'].document_id}#1#{2**31}",
        f"{receipts_by_name['open'].document_id}#{'9' * 5000}#0"[:512],
        f"{receipts_by_name['open'].document_id}#\u0661#\u0660",
        "{}#1#0",
        'a"}#1#0',
        "##",
        "",
    ]
    index.spaces[space.scope.namespace] |= dict.fromkeys(filter(None, forged), record)
    index.settle()
    bob = viewer_of(space.db, space.scope, "bob")
    assert set(space.search("owls at night", top_k=50, viewer=bob, **weights)) == {"replaced", "open"}
    assert set(space.search("owls at night", top_k=50, **weights)) == {"hidden", "replaced", "open"}
    assert space.search("owls at night", top_k=1, viewer=bob, **weights) == ["open"]


def test_what_is_shown_late_is_waited_for(space, index):
    index.lag = 0.4
    space.text(OWLS, "owls")
    space.work()
    assert space.search("owls") == ["owls"]
    assert len(index.bodies("/vectors/list")) > 1
