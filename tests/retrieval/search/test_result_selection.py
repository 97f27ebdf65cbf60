"""Shaped search on a real database: hits per document, and recency."""

import pytest

from retrieval.search import search
from retrieval.search.result_selection import Shape
from retrieval.search.search import Query
from tests.retrieval.search.test_search import FixedEmbedder, axis, hybrid


def find(library, shape, **fields):
    query = Query("wing", shape=shape, **fields)
    return search.run_search(
        library.db, library.scope, query, viewer=None, embedder=FixedEmbedder(), vectors=library.store
    ).hits


@pytest.mark.parametrize("weight", [1.0, 0.5, 0.0])
def test_one_document_has_no_more_than_its_share_and_the_others_fill_up(library, weight):
    long = library.put([f"wing wing {n}" for n in range(450)], [axis(0.9)] * 450)
    for n in range(12):
        library.put([f"wing on a plate in a long text {n}", "wing beside much other text here"], [axis(0.3), axis(0.2)])
    for share in (1, 2):
        hits = find(library, Shape(per_document=share), **hybrid(weight))
        documents = [hit.document_id for hit in hits]
        assert len(hits) == 10
        assert max(map(documents.count, documents)) == share
        assert documents[0] == long
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
