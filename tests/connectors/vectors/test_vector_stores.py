"""Contract suite of the vector stores; the oracle sorts all vectors by their cosine."""

import math
import random
import time

import psycopg
import pytest

from connectors.vectors import pgvector
from connectors.vectors.pgvector import PgVectorStore
from retrieval.errors import Fatal, Retryable
from retrieval.filters import DocumentFilter
from retrieval.ports import Scope, Vector
from tests.standins.pinecone_place import pinecone_store

DIMENSIONS = 16


def some_vectors(count, seed=1, document="doc_1", generation=1):
    dice = random.Random(seed)
    return [
        Vector(f"{document}#{generation}#{n}", document, unit([dice.gauss(0, 1) for _ in range(DIMENSIONS)]))
        for n in range(count)
    ]


def unit(values):
    """Embedders give vectors of length 1."""
    length = math.hypot(*values)
    return [value / length for value in values]


@pytest.fixture(params=["pgvector", "pgvector indexed", "pinecone cosine", "pinecone dotproduct", "pinecone euclidean"])
def store_case(request, db, new_scope, monkeypatch):
    """Return a store, an empty scope and a function to call after a large upsert."""
    scope = new_scope()
    vendor, _, metric = request.param.partition(" ")
    if vendor == "pinecone":
        index = request.getfixturevalue("pinecone_index")(dimension=DIMENSIONS, metric=metric)
        return pinecone_store(index, scope.namespace, DIMENSIONS), scope, lambda: None
    store = PgVectorStore(db, scope.namespace, DIMENSIONS)
    if request.param == "pgvector":
        return store, scope, lambda: None
    monkeypatch.setattr(pgvector, "INDEX_MIN_ROWS", 1)
    return store, scope, lambda: store.ensure_index(scope)


def test_the_nearest_come_first_as_in_the_oracle(store_case):
    store, scope, settled = store_case
    vectors = some_vectors(300)
    store.upsert(scope, vectors)
    settled()
    pairs = {vector.id: zip(vector.values, vectors[7].values, strict=True) for vector in vectors}
    cosines = {name: sum(a * b for a, b in numbers) for name, numbers in pairs.items()}
    nearest = sorted(cosines, key=lambda name: -cosines[name])
    for limit in (1, 10, 300, 500):
        matches = store.query(scope, vectors[7].values, limit)
        assert [match.id for match in matches][:1] == [vectors[7].id]
        assert len(matches) == len(nearest[:limit])
        assert [match.score for match in matches] == pytest.approx(
            [cosines[name] for name in nearest[:limit]], abs=2e-2
        )
        assert len({match.id for match in matches} & set(nearest[:limit])) >= 0.95 * len(matches)


def test_the_same_id_again_replaces_the_vector(store_case):
    store, scope, settled = store_case
    first, second = some_vectors(20), some_vectors(20, seed=2)
    store.upsert(scope, first)
    settled()
    store.upsert(scope, second)
    assert len(list(store.ids(scope, ""))) == 20
    assert store.query(scope, second[3].values, 1)[0].score == pytest.approx(1.0, abs=2e-3)


def test_an_id_twice_in_one_batch_is_one_vector(store_case):
    store, scope, _ = store_case
    vector = some_vectors(1)[0]
    store.upsert(scope, [vector, vector])
    assert list(store.ids(scope, "")) == [vector.id]


def test_deleting_removes_these_and_forgives_unknown_ones(store_case):
    store, scope, settled = store_case
    vectors = some_vectors(30)
    store.upsert(scope, vectors)
    settled()
    store.delete(scope, [*[vector.id for vector in vectors[:10]], "never#1#1"])
    store.delete(scope, [])
    remaining_ids = {vector.id for vector in vectors[10:]}
    assert set(store.ids(scope, "")) == remaining_ids
    assert {match.id for match in store.query(scope, vectors[0].values, 50)} == remaining_ids


def test_ids_by_prefix_take_it_literally(store_case):
    store, scope, _ = store_case
    for document in ("doc_1", "doc_10", "docX1", "doc%"):
        store.upsert(scope, some_vectors(3, document=document))
    store.upsert(scope, some_vectors(2, document="doc_1", generation=2))
    assert sorted(store.ids(scope, "doc_1#")) == sorted(
        ["doc_1#1#0", "doc_1#1#1", "doc_1#1#2", "doc_1#2#0", "doc_1#2#1"]
    )
    assert sorted(store.ids(scope, "doc_1#2#")) == ["doc_1#2#0", "doc_1#2#1"]
    assert len(list(store.ids(scope, "doc%"))) == 3


def test_tenants_never_see_each_other(store_case):
    store, scope, settled = store_case
    tenant = Scope(scope.organization, scope.namespace, "t1")
    store.upsert(scope, some_vectors(5, document="ours"))
    store.upsert(tenant, some_vectors(5, document="theirs"))
    settled()
    assert {match.id[:4] for match in store.query(scope, [1.0] * DIMENSIONS, 10)} == {"ours"}
    store.delete(scope, list(store.ids(tenant, "")))
    assert len(list(store.ids(tenant, ""))) == 5
    assert list(store.ids(Scope(scope.organization, scope.namespace, "t2"), "")) == []


def test_an_unknown_scope_is_empty(store_case):
    store, scope, _ = store_case
    assert store.query(scope, [1.0] * DIMENSIONS, 5) == []
    store.delete(scope, ["x#1#1"])
    assert list(store.ids(scope, "")) == []


def test_a_zero_vector_never_scores(store_case):
    store, scope, _ = store_case
    store.upsert(scope, [Vector("zero#1#0", "zero", [0.0] * DIMENSIONS), *some_vectors(1)])
    scores = {match.id: match.score for match in store.query(scope, some_vectors(1)[0].values, 5)}
    assert scores.get("zero#1#0", 0.0) == 0.0
    assert store.list_unsettled(scope, ["doc_1#1#0"]) == []


def test_dropping_a_scope_leaves_the_others(store_case):
    store, scope, _ = store_case
    tenant = Scope(scope.organization, scope.namespace, "t1")
    store.upsert(scope, some_vectors(3))
    store.upsert(tenant, some_vectors(2))
    for _ in range(2):
        store.drop(scope)
    assert list(store.ids(scope, "")) == []
    assert len(list(store.ids(tenant, ""))) == 2


@pytest.fixture
def store(db, new_scope):
    scope = new_scope()
    return PgVectorStore(db, scope.namespace, DIMENSIONS), scope


def test_pgvector_refuses_other_dimensions_and_other_namespaces(store, new_scope):
    pg_store, scope = store
    with pytest.raises(Fatal, match="16"):
        pg_store.upsert(scope, [Vector("a#1#0", "a", [1.0] * 3)])
    with pytest.raises(Fatal, match="16"):
        pg_store.upsert(scope, [*some_vectors(1), Vector("a#1#0", "a", [1.0] * 3)])
    assert list(pg_store.ids(scope, "")) == []
    with pytest.raises(Fatal, match="another namespace"):
        pg_store.query(new_scope(), [1.0] * DIMENSIONS, 1)
    with pytest.raises(Fatal, match="half precision"):
        pg_store.upsert(scope, [Vector("a#1#0", "a", [1e9] * DIMENSIONS)])


def test_pgvector_changes_its_dimensions_next_to_an_index(store, db, monkeypatch):
    # A namespace with a new model writes new vectors next to the old; a later sweep removes these.
    monkeypatch.setattr(pgvector, "INDEX_MIN_ROWS", 1)
    pg_store, scope = store
    pg_store.upsert(scope, some_vectors(20))
    assert pg_store.ensure_index(scope)
    assert not pg_store.ensure_index(scope)
    other_store = PgVectorStore(db, scope.namespace, 3)
    other_store.upsert(scope, [Vector("new#2#0", "new", [1.0, 0.0, 0.0])])
    assert [match.id for match in other_store.query(scope, [1.0, 0.0, 0.0], 5)] == ["new#2#0"]
    assert len(pg_store.query(scope, [1.0] * DIMENSIONS, 50)) == 20
    pg_store.drop_index(scope)
    assert len(pg_store.query(scope, [1.0] * DIMENSIONS, 50)) == 20


def test_who_is_dropped_does_not_wait_for_an_index_of_another(store, db, monkeypatch):
    monkeypatch.setattr(pgvector, "INDEX_MIN_ROWS", 1)
    monkeypatch.setattr(pgvector, "DROP_LOCK_SECONDS", 0.5)
    pg_store, scope = store
    pg_store.upsert(scope, some_vectors(20))
    pg_store.ensure_index(scope)
    with psycopg.connect(db.url) as building:
        building.execute("lock table vectors in share update exclusive mode")
        began = time.monotonic()
        with pytest.raises(Retryable):
            pg_store.drop(scope)
        assert time.monotonic() - began < 5
    pg_store.drop(scope)
    assert list(pg_store.ids(scope, "")) == []


@pytest.mark.parametrize("indexed", [False, True])
def test_pgvector_narrows_by_document(store, db, monkeypatch, indexed):
    pg_store, scope = store
    vectors = [vector for n in range(40) for vector in some_vectors(5, seed=n, document=f"{scope.namespace}_{n}")]
    pg_store.upsert(scope, vectors)
    db.rows(
        "insert into documents (id, partition_id, job_id, job_run_id, source, external_id, document_type, name,"
        " metadata) select distinct on (document_id) document_id, partition_id, 'j', 'r', 'TEXT', document_id, 'TEXT',"
        " 'n', jsonb_build_object('few', document_id like '%%_1_') from vectors where id like %(ours)s",
        {"ours": f"{scope.namespace}%"},
    )
    if indexed:
        monkeypatch.setattr(pgvector, "INDEX_MIN_ROWS", 1)
        pg_store.ensure_index(scope)
    matches = pg_store.query(scope, vectors[0].values, 30, DocumentFilter(metadata={"few": True}))
    assert len(matches) == 30
    assert {match.id.split("#")[0] for match in matches} <= {f"{scope.namespace}_{n}" for n in range(10, 20)}
    assert len(pg_store.query(scope, vectors[0].values, 100, DocumentFilter(metadata={"few": True}))) == 50
