"""Chunks with equal text form one hit with the names of the viewer's documents."""

import pytest

from retrieval.ingestion.chunking.tokenizer import MINILM_MODEL, tokenizer_for
from retrieval.search import search
from retrieval.search.context_expansion import Expansion, Texts, Unit
from retrieval.search.result_selection import Recency, Shape
from retrieval.search.search import Query
from tests.library import viewer_of
from tests.retrieval.search.test_search import FixedEmbedder, axis

TOKENIZER = tokenizer_for("LOCAL", MINILM_MODEL)
WEIGHTS = pytest.mark.parametrize("weight", [1.0, 0.5, 0.0], ids=["semantic", "hybrid", "keyword"])
SHAPES = pytest.mark.parametrize(
    "shape",
    [Shape(), Shape(recency=Recency(30, 0.2)), Shape(per_document=1), Shape(expansion=Expansion(Unit.CHUNK, 64))],
    ids=["plain", "recency", "perDocument", "expand"],
)


@pytest.fixture
def find(library):
    def run(*, user=None, **fields):
        query = Query("wing", **fields)
        viewer = None if user is None else viewer_of(library.db, library.scope, user)
        texts = Texts(TOKENIZER, lambda _: None)
        embedder, store = FixedEmbedder(), library.store
        return search.run_search(
            library.db, library.scope, query, viewer=viewer, embedder=embedder, vectors=store, texts=texts
        ).hits

    return run


def sides(weight):
    return {"semantic_weight": weight, "keyword_weight": 1 - weight}


def names(hit):
    return [copy.name for copy in hit.copies]


@WEIGHTS
@SHAPES
def test_the_same_text_takes_one_place_and_names_the_other_documents(library, find, weight, shape):
    for name, score in (("report.pdf", 0.9), ("copy.pdf", 0.9), ("page", 0.89)):
        library.put(["wing of the same length"], [axis(score)], name=name)
    library.put(["wing of another length"], [axis(0.8)], name="other")
    hits = find(top_k=2, shape=shape, **sides(weight))
    assert sorted(hit.content for hit in hits) == ["wing of another length", "wing of the same length"]
    same = next(hit for hit in hits if "same" in hit.content)
    assert sorted([same.name, *names(same)]) == ["copy.pdf", "page", "report.pdf"]
    assert [names(hit) for hit in hits if hit is not same] == [[]]


@WEIGHTS
def test_places_are_filled_from_below_many_copies(library, find, weight):
    for number in range(60):
        library.put(["wing copied everywhere"], [axis(0.9)], name=f"copy {number:02}")
    for number in range(12):
        library.put([f"wing number {number} of a long list of others"], [axis(0.5 - number / 100)])
    hits = find(top_k=10, **sides(weight))
    assert len({hit.content for hit in hits}) == len(hits) == 10
    (copied,) = [hit for hit in hits if "copied" in hit.content]
    assert len(set(names(copied))) == 10


@WEIGHTS
def test_only_documents_that_the_viewer_may_see_are_named(library, find, weight):
    visible, hidden = (library.put(["wing for all"], [axis(0.9)], name=name) for name in ("open", "secret"))
    library.db.rows(
        """update documents set access = '{"users": ["bob"], "groups": []}' where id = %(id)s""", {"id": hidden}
    )
    (hit,) = find(user="ada", **sides(weight))
    assert (hit.document_id, names(hit)) == (visible, [])
    (hit,) = find(user="bob", **sides(weight))
    assert sorted([hit.name, *names(hit)]) == ["open", "secret"]


def test_a_text_twice_in_one_document_is_one_result_without_names(library, find):
    library.put(["wing again", "wing again"], [axis(0.9), axis(0.9)])
    (hit,) = find()
    assert (hit.index, names(hit)) == (0, [])
