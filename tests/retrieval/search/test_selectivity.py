"""Filtered search returns the hits of an exact comparison by every strategy."""

import random

import pytest

from connectors.vectors import pgvector
from retrieval.access.queries import memberships
from retrieval.filters import DocumentFilter
from retrieval.search import queries, search, selectivity
from tests.retrieval.search.test_search import COMMON_WORDS, FixedEmbedder, axis, hybrid

ROUNDS = 12


@pytest.fixture
def filled(library, monkeypatch):
    """Insert 60 documents of ten teams, 0 to 12 chunks each, one deleted, in an indexed partition."""
    dice = random.Random(480)
    monkeypatch.setattr(pgvector, "INDEX_MIN_ROWS", 1)
    document_ids = []
    for number in range(60):
        count = dice.choice([0, 0, 1, 3, 12])
        texts = [" ".join(dice.choices([*COMMON_WORDS, "flow"], k=dice.randint(1, 9))) for _ in range(count)]
        vectors = [axis(round(dice.random(), 4)) for _ in texts]
        document_ids.append(library.put(texts, vectors, metadata={"team": number % 10}))
    library.db.rows("update documents set deleted_at = now() where id = %(id)s", {"id": document_ids[11]})
    library.store.ensure_index(library.scope)
    yield library
    library.store.drop_index(library.scope)


def _found(library, document_filter, weight, top_k, viewer=None):
    query = search.Query("wing layer flow", top_k=top_k, document_filter=document_filter, **hybrid(weight))
    response = search.run_search(
        library.db, library.scope, query, viewer=viewer, embedder=FixedEmbedder(), vectors=library.store
    )
    return [(hit.document_id, hit.index, hit.score) for hit in response.hits]


def _above_the_last(hits):
    """Drop hits tied with the last; the database adds scores in another order."""
    return {hit[:2] for hit in hits if hit[2] > hits[-1][2] + 1e-9}


@pytest.mark.parametrize("weight", [1.0, 0.5, 0.0])
def test_every_way_finds_what_an_exact_comparison_finds(filled, monkeypatch, weight):
    dice, met = random.Random(weight), 0
    for _ in range(ROUNDS):
        teams = dice.sample(range(10), dice.choice([1, 1, 2, 5]))
        document_filter, top_k = DocumentFilter(metadata={"team": teams}), dice.choice([3, 10])
        monkeypatch.setattr(selectivity, "limit_exact", lambda *_: 10**6)
        selectivity.forget_remembered(filled.db)
        expected = _found(filled, document_filter, weight, top_k)
        met += bool(expected)
        for limit, checked in (
            (0, 10**6),  # the filter is applied to the best by words
            (0, -(10**6)),  # all matching chunks are listed
            (5, 5),
        ):
            monkeypatch.setattr(selectivity, "limit_exact", lambda *_, limit=limit: limit)
            monkeypatch.setattr(search, "MAX_FILTERED_CHUNKS", checked)
            for _ in range(2):  # the second one knows what the first met
                hits = _found(filled, document_filter, weight, top_k)
                assert [hit[2] for hit in hits] == pytest.approx([hit[2] for hit in expected])
                assert _above_the_last(hits) == _above_the_last(expected), (limit, checked)
    assert met > ROUNDS / 2


def test_many_documents_without_chunks_hide_none_that_has_some(library, monkeypatch):
    monkeypatch.setattr(selectivity, "limit_exact", lambda *_: 3)
    for _ in range(12):
        library.put([], [], metadata={"team": "red"})
    document = library.put(["wing"], [axis(0.1)], metadata={"team": "red"})
    partition = queries.find_partition(library.db, library.scope)
    selected = selectivity.estimate_selectivity(
        library.db, partition, _red(), axis(1.0), 10, viewer=None, by_words=True
    ).matches
    assert (len(selected.chunks), len(selected.nearest)) == (1, 1)
    assert [hit[0] for hit in _found(library, _red(), 0.5, 10)] == [document]


def test_the_index_is_searched_for_vectors_of_named_documents(filled):
    document_ids = tuple(
        row["id"]
        for row in filled.db.rows(
            "select id from documents where partition_id = %(p)s and deleted_at is null", {"p": filled.partition}
        )
    )
    document_filter = DocumentFilter(document_ids=document_ids[:20], metadata={"team": [1, 2, 3]})
    rows = filled.db.rows(
        "select v.id from vectors v join documents d on d.id = v.document_id where d.id = any(%(named)s)"
        " and d.metadata ->> 'team' = any(%(teams)s) order by v.values <=> %(values)s::halfvec, v.id limit 5",
        {"named": list(document_ids[:20]), "teams": ["1", "2", "3"], "values": str(axis(1.0))},
    )
    assert rows
    hits = filled.store.query(filled.scope, axis(1.0), 5, document_filter)
    assert [hit.id for hit in hits] == [row["id"] for row in rows]


def _red():
    return DocumentFilter(metadata={"team": "red"})


def test_a_name_filter_of_many_documents_finds_one_added_after_the_first_search(library, monkeypatch):
    monkeypatch.setattr(memberships, "MAX_VISIBLE_IDS", 3)
    documents = [library.put([f"wing {number}"], [axis(0.1)]) for number in range(5)]
    common = library.db.rows("select name from documents where id = %(id)s", {"id": documents[0]})[0]["name"][:3]
    by_name = DocumentFilter(words=(common.lower(),))
    assert {hit[0] for hit in _found(library, by_name, 0.5, 10)} == set(documents)
    documents.append(library.put(["wing 5"], [axis(0.1)]))
    assert {hit[0] for hit in _found(library, by_name, 0.5, 10)} == set(documents)
    assert _found(library, DocumentFilter(words=("absent",)), 0.5, 10) == []
