"""Search on a real database: hits, scores and access."""

import math

import pytest

from retrieval.filters import DocumentFilter
from retrieval.ports import Match, Scope, Vector
from retrieval.principals import Viewer
from retrieval.search import search, selectivity
from retrieval.search.result_selection import Shape
from retrieval.search.search import Query
from tests.conditions import condition_of
from tests.library import viewer_of

COMMON_WORDS = "pressure", "wing", "boundary", "layer"

ANYBODY = pytest.mark.parametrize("looks", [None, "bob"], ids=["all", "bob"])


def axis(*weights):
    """Return a vector of length 1 with its first number as cosine to axis(1)."""
    remainder = math.sqrt(max(0.0, 1 - sum(weight * weight for weight in weights)))
    return [*weights, *([0.0] * (7 - len(weights))), remainder]


class FixedEmbedder:
    """Every query is the first axis."""

    provider, model, dimensions, batch_size, calls, max_tokens = "TEST", "fixed", 8, 8, 1, 256
    passage_prefix = ""

    def embed(self, texts, kind):
        assert kind == "query"
        return [axis(1.0) for _ in texts]

    def check(self):
        pass


@pytest.fixture
def find(library):
    def run(text="anything", *, scope=None, vectors=None, viewer=None, user=None, **fields):
        query = Query(text, **fields)
        store, scope = vectors or library.store, scope or library.scope
        if user is not None:
            viewer = viewer_of(library.db, scope, user)
        return search.run_search(library.db, scope, query, viewer=viewer, embedder=FixedEmbedder(), vectors=store).hits

    return run


def hybrid(weight):
    return {"semantic_weight": weight, "keyword_weight": 1 - weight}


def test_semantic_hits_come_nearest_first_with_the_cosine_as_score(library, find):
    library.put(["low", "high", "against"], [axis(0.2), axis(0.9), axis(-0.5)])
    hits = find()
    assert [hit.content for hit in hits] == ["high", "low", "against"]
    assert [hit.score for hit in hits] == pytest.approx([0.9, 0.2, 0.0], abs=2e-3)
    assert [hit.semantic_rank for hit in hits] == [1, 2, 3]


def test_weights_of_one_and_nothing_give_exactly_the_order_of_one_side(library, find):
    texts = [" ".join([*COMMON_WORDS[: 1 + n % 4] * (1 + n % 3), f"n{n}"]) for n in range(40)]
    library.put(texts, [axis(((n * 37) % 41) / 41) for n in range(40)])
    semantic = [(hit.index, hit.score) for hit in find("wing layer", top_k=30)]
    assert [(hit.index, hit.score) for hit in find("wing layer", top_k=30, **hybrid(1.0))] == semantic
    words = [hit.index for hit in find("wing layer", top_k=40, **hybrid(0.0))]
    ranks = [hit.keyword_rank for hit in find("wing layer", top_k=40, **hybrid(0.0))]
    assert len(words) > 10
    assert ranks == sorted(ranks)


def test_the_threshold_is_on_the_final_score(library, find):
    library.put(["a", "b"], [axis(0.9), axis(0.4)])
    assert [hit.content for hit in find(threshold=0.5)] == ["a"]
    assert find(threshold=0.5, **hybrid(0.5)) == []


def test_top_k_bounds_the_hits(library, find):
    library.put([f"t{n}" for n in range(120)], [axis(0.5 + n / 1000) for n in range(120)])
    assert len(find(top_k=7)) == 7
    assert len(find(top_k=100)) == 100


def test_no_scope_sees_another(new_library, new_scope):
    own_library, other_library = new_library(), new_library()
    tenant = new_library(Scope(own_library.scope.organization, own_library.scope.namespace, "t1"))
    for library, text in ((own_library, "wing ours"), (other_library, "wing other"), (tenant, "wing tenant")):
        library.put([text], [axis(0.9)])
    for library, text in ((own_library, "wing ours"), (other_library, "wing other"), (tenant, "wing tenant")):
        for weight in (1.0, 0.5, 0.0):
            hits = search.run_search(
                library.db,
                library.scope,
                Query("wing", **hybrid(weight)),
                viewer=None,
                embedder=FixedEmbedder(),
                vectors=library.store,
            ).hits
            assert [hit.content for hit in hits] == [text]
    stranger = Scope("org_none", own_library.scope.namespace)
    assert (
        search.run_search(
            own_library.db, stranger, Query("wing"), viewer=None, embedder=FixedEmbedder(), vectors=own_library.store
        ).hits
        == []
    )


def test_another_scopes_vector_id_in_the_store_is_never_shown(new_library):
    own_library, other_library = new_library(), new_library()
    secret = other_library.put(["secret"], [axis(0.9)])
    own_library.put(["mine"], [axis(0.1)])
    own_library.store.upsert(own_library.scope, [Vector(f"{secret}#1#0", secret, axis(1.0))])
    hits = search.run_search(
        own_library.db, own_library.scope, Query("x"), viewer=None, embedder=FixedEmbedder(), vectors=own_library.store
    ).hits
    assert [hit.content for hit in hits] == ["mine"]


def test_ghosts_in_the_store_are_never_shown_and_cost_no_hits(library, find):
    library.put(["real", "also real"], [axis(0.3), axis(0.2)])
    ghosts = [Vector(f"doc_gone#1#{n}", "doc_gone", axis(0.9)) for n in range(300)]
    library.store.upsert(library.scope, [*ghosts, Vector("nonsense", "x", axis(1.0))])
    assert [hit.content for hit in find()] == ["real", "also real"]


def test_a_half_written_generation_is_never_shown(library, find):
    document = library.put(["wing old"], [axis(0.5)])
    library.put(["wing new"], [axis(0.9)], document_id=document, generation=2, visible=False)
    library.put(["wing never"], [axis(0.9)], visible=False)
    for weight in (1.0, 0.5, 0.0):
        assert [hit.content for hit in find("wing", **hybrid(weight))] == ["wing old"]


def test_a_document_is_replaced_without_a_moment_in_which_it_is_missing(library, find):
    document = library.put(["wing old"], [axis(0.9)])

    class FlipsInBetween:
        """Vector store that activates the new generation after its answer."""

        stores_labels = False

        def query(self, *_):
            matches = [Match(f"{document}#1#0", 0.9)]
            library.put(["wing new"], [axis(0.8)], document_id=document, generation=2)
            return matches

    assert [hit.content for hit in find("wing", vectors=FlipsInBetween())] == ["wing new"]
    assert [hit.content for hit in find("wing", **hybrid(0.0))] == ["wing new"]


@pytest.mark.parametrize("weight", [1.0, 0.5, 0.0])
def test_a_filter_restricts_and_still_fills_top_k(library, find, weight, monkeypatch):
    library.put([f"wing {n}" for n in range(300)], [axis(0.9)] * 300, metadata={"team": "red"})
    library.put([f"wing {n}" for n in range(20)], [axis(0.1)] * 20, metadata={"team": ["blue"]})
    document_filter = DocumentFilter(metadata={"team": "blue"})
    for few in (2_000, 10):
        monkeypatch.setattr(selectivity, "limit_exact", lambda *_, few=few: few)
        hits = find("wing", document_filter=document_filter, **hybrid(weight))
        assert len(hits) == 10
        assert all(hit.metadata == {"team": ["blue"]} for hit in hits)


def test_a_vector_of_another_model_scores_nothing_and_breaks_nothing(library, find):
    library.put(["old model"], [[1.0] * 4], stored=False)
    library.put(["wing"], [axis(0.9)])
    assert [(hit.content, round(hit.semantic, 1)) for hit in find("old wing", **hybrid(0.5))] == [
        ("wing", 0.9),
        ("old model", 0.0),
    ]


def test_matches_far_from_the_query_are_found_behind_a_store_that_filters_in_part(library, find, monkeypatch):
    monkeypatch.setattr(selectivity, "limit_exact", lambda *_: 0)
    monkeypatch.setattr("retrieval.search.search.MAX_STORE_CANDIDATES", 50)
    library.put([f"red {n}" for n in range(60)], [axis(0.9)] * 60, metadata={"year": 2020})
    library.put([f"blue {n}" for n in range(12)], [axis(0.1)] * 12, metadata={"year": 2024})

    class FiltersNothing:
        stores_labels = True

        def query(self, *args):
            return library.store.query(*args[:3])

    document_filter = DocumentFilter(where=condition_of({"field": "metadata.year", "op": "gt", "value": 2020}))
    assert [hit.metadata["year"] for hit in find(document_filter=document_filter, vectors=FiltersNothing())] == [
        2024
    ] * 10
    shaped = Shape(per_document=10)
    assert [
        hit.metadata["year"] for hit in find(document_filter=document_filter, vectors=FiltersNothing(), shape=shaped)
    ] == [2024] * 10
    viewer = Viewer("bob", ("u:bob",), library.partition)
    library.db.rows(
        "update documents set access = '{}' where partition_id = %(p)s and metadata @> '{\"year\": 2020}'",
        {"p": library.partition},
    )
    for options in ({}, {"shape": shaped}):
        hits = find(viewer=viewer, vectors=FiltersNothing(), **options)
        assert [hit.metadata["year"] for hit in hits] == [2024] * 10


@ANYBODY
def test_a_deleted_namespace_is_not_searched(library, find, looks):
    library.put(["a wing"], [axis(0.9)])
    assert find(user=looks) == find(user=looks)
    library.db.rows("update namespaces set deleted_at = now() where id = %(id)s", {"id": library.scope.namespace})
    assert find(user=looks) == []
    library.db.rows("update namespaces set deleted_at = null where id = %(id)s", {"id": library.scope.namespace})
    assert [hit.content for hit in find(user=looks)] == ["a wing"]
