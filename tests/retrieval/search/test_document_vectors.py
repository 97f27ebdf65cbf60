"""In-memory document vectors choose the same chunks as an exact comparison."""

import random

import pytest

from retrieval.filters import DocumentFilter
from retrieval.search import document_vectors, queries_filters, queries_vectors
from retrieval.search.document_vectors import compare_versions

NO_LIMIT = 10**6
EVERYTHING = DocumentFilter()


@pytest.fixture(params=[1, NO_LIMIT], ids=["stacked sets are kept", "stacked anew"])
def shelf(library, monkeypatch, request):
    """40 documents of 0 to 12 chunks with random vectors, some of length 0."""
    monkeypatch.setattr(document_vectors, "MIN_SELECTION_CHUNKS", request.param)
    dice = random.Random(56)
    for number in range(40):
        vectors = [[dice.gauss(0, 1) * (dice.random() > 0.02) for _ in range(8)] for _ in range(dice.randint(0, 12))]
        library.put([f"text {number} {at}" for at in range(len(vectors))], vectors, metadata={"even": number % 2 == 0})
    return library


def list_versions(library, document_filter=EVERYTHING):
    return queries_vectors.list_versions(library.db, library.partition, document_filter, viewer=None, limit=NO_LIMIT)


def compare(library, versions, values, nearest=10, max_chunks=NO_LIMIT):
    return compare_versions(library.db, library.partition, versions, values, nearest, max_chunks)


def match_exactly(library, document_filter, values, nearest=10):
    return queries_filters.match_chunks(
        library.db, library.partition, document_filter, values, viewer=None, max_chunks=NO_LIMIT, nearest=nearest
    )


@pytest.mark.parametrize(
    "document_filter", [DocumentFilter(), DocumentFilter(metadata={"even": True})], ids=["all", "half"]
)
def test_the_nearest_are_those_of_an_exact_comparison(shelf, document_filter):
    dice = random.Random(7)
    for _ in range(20):
        values = [dice.gauss(0, 1) for _ in range(8)]
        matches, expected = (
            compare(shelf, list_versions(shelf, document_filter), values),
            match_exactly(shelf, document_filter, values),
        )
        assert matches.nearest == expected.nearest
        assert sorted(matches.chunks) == sorted(expected.chunks)


def test_a_new_version_takes_the_place_of_the_former(library):
    document = library.put(["former"], [[1.0] + [0.0] * 7])
    former = compare(library, list_versions(library), [1.0] + [0.0] * 7)
    library.put(["latter", "too"], [[1.0] + [0.0] * 7] * 2, document_id=document, generation=2)
    latter = compare(library, list_versions(library), [1.0] + [0.0] * 7)
    assert (len(former.nearest), len(latter.nearest)) == (1, 2)
    assert not set(former.chunks) & set(latter.chunks)


def test_nothing_matches_nothing(library):
    library.put([], [])
    assert compare(library, list_versions(library), [1.0] * 8).nearest == []
    assert list(compare(library, [], [1.0] * 8).chunks) == []
