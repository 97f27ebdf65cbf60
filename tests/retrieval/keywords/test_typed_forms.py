"""Alternative spellings find the text among texts of other kinds."""

from pathlib import Path

import pytest

from retrieval.search import search
from retrieval.search.search import Query


def read_forms():
    """Yield the kind, the text and the queries of each entry of typed_forms.txt."""
    lines = (Path(__file__).parent / "typed_forms.txt").read_text("utf-8").splitlines()
    entries = [line for line in lines if not line.startswith("#")]
    for heading, queries in zip(entries[::2], entries[1::2], strict=True):
        kind, _, text = heading.partition(": ")
        yield kind, text, [query.strip() for query in queries.split("|")]


FORMS = list(read_forms())
FORM_KINDS = list(dict.fromkeys(kind for kind, _, _ in FORMS))
# Required share of successful queries by language; 1 for other kinds.
MIN_SHARE = dict.fromkeys(("de", "nl", "sv", "da", "no", "fi", "pl", "uk", "tr"), 0.9)


@pytest.fixture
def missed(library):
    """Return queries by kind without a match among the first three results."""
    for _, text, _ in FORMS:
        library.put([text], [[1.0] + [0.0] * 7])
    missed_queries = {kind: [] for kind in FORM_KINDS}
    for kind, text, queries in FORMS:
        for query in queries:
            request = Query(query, top_k=3, semantic_weight=0.0, keyword_weight=1.0)
            result = search.run_search(library.db, library.scope, request, viewer=None, embedder=None, vectors=None)
            if text not in [hit.content for hit in result.hits]:
                missed_queries[kind].append(query)
    return missed_queries


def test_forms_that_people_type_find_their_text(missed):
    counts = {kind: sum(len(queries) for name, _, queries in FORMS if name == kind) for kind in FORM_KINDS}
    too_many = {
        kind: queries
        for kind, queries in missed.items()
        if len(queries) > counts[kind] * (1 - MIN_SHARE.get(kind, 1.0))
    }
    assert not too_many
