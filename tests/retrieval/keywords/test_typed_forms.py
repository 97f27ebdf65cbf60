"""Forms that people type find the text among the first three results, by words."""

from pathlib import Path

import pytest

from retrieval.search import search
from retrieval.search.search import Query
from tests.nightly import nightly_except

# Required share of successful queries; every list has about thirty.
MIN_SHARE = 0.9


def read_forms():
    """Return texts and queries by kind, from typed_forms.txt."""
    forms, kind, text = {}, "", ""
    for line in (Path(__file__).parent / "typed_forms.txt").read_text("utf-8").splitlines():
        if line.startswith("  "):
            forms[kind][text] = line.strip().split(" | ")
        elif not line.startswith("#"):
            kind, _, text = line.partition(": ")
            forms.setdefault(kind, {})[text] = []
    return forms


FORMS = read_forms()
OTHER_TEXTS = [[*FORMS.pop(kind)] for kind in [*FORMS] if kind.startswith("other ")]


# Compounds, endings, scripts and codes; the quick tests are in test_languages.py and test_analyzer.py.
IN_CI = ("fi", "ar", "han", "units", "diacritics")


@pytest.mark.parametrize("kind", nightly_except(FORMS, *IN_CI))
def test_forms_that_people_type_find_their_text(library, kind):
    for texts in [*([text] for text in FORMS[kind]), *OTHER_TEXTS]:
        library.put(texts)
    missed = [
        query
        for text, queries in FORMS[kind].items()
        for query in queries
        if text not in find(library, Query(query, top_k=3, semantic_weight=0.0, keyword_weight=1.0))
    ]
    assert len(missed) <= (1 - MIN_SHARE) * sum(map(len, FORMS[kind].values())), missed


def find(library, query):
    found = search.run_search(library.db, library.scope, query, viewer=None, embedder=None, vectors=None)
    return [hit.content for hit in found.hits]
