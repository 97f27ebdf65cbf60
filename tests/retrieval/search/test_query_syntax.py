"""Quotes require a phrase and -word excludes, on both sides of a hybrid search."""

import pytest

from retrieval.access.queries.lists import set_lists
from retrieval.principals import Access
from retrieval.search import search
from retrieval.search.query_syntax import parse_query
from retrieval.search.search import Query
from tests.library import viewer_of
from tests.retrieval.search.test_search import FixedEmbedder, axis

DOCUMENT_TEXTS = [
    "The red valve is closed. The pump room is locked at night.",
    "The room of the pump is bright. It is never locked.",
    "A pump stands in every room, and each is locked.",
    "In the blue pump-room the Café Müller is open.",
    "To be or not to be, that is the question.",
    "海豹在岩石上休息。发票已经导出。",
]


def fill(library):
    for number, text in enumerate(DOCUMENT_TEXTS):
        library.put([text], [axis(0.9 - number / 10)], external_id=str(number))
    return library


@pytest.fixture(scope="module")
def filled(new_library):
    """Texts that no test changes."""
    return fill(new_library())


@pytest.fixture
def find(filled):
    return search_of(filled)


def search_of(library):
    def run(text, *, weight=0.5, user=None, **fields):
        query = Query(text, semantic_weight=weight, keyword_weight=1 - weight, **fields)
        viewer = None if user is None else viewer_of(library.db, library.scope, user)
        return search.run_search(
            library.db, library.scope, query, viewer=viewer, embedder=FixedEmbedder(), vectors=library.store
        )

    return run


def numbers(result):
    return sorted(DOCUMENT_TEXTS.index(hit.content) for hit in result.hits)


@pytest.mark.parametrize("weight", [0.0, 0.5, 0.9], ids=["words", "hybrid", "mostly meaning"])
@pytest.mark.parametrize(
    ("query", "texts"),
    [
        ('"pump room"', [0, 3]),
        ('"pump room" locked', [0, 3]),
        ('"PUMP ROOM" -locked', [3]),
        ('"pump room" "red valve"', [0]),
        ('"cafe muller"', [3]),
        ("\u201epump room\u201c", [0, 3]),
        ("\u00abpump room\u00bb -blue", [0]),
        ('pump -"pump room"', [1, 2]),
        ('"to be or not to be"', [4]),
        ('"be to"', []),
        ("「海豹」", [5]),
        ('"发票"', [5]),
    ],
)
def test_phrases_and_exclusions_filter_both_sides(find, query, texts, weight):
    result = find(query, weight=weight)
    by_words = texts == numbers(result)
    assert by_words or (weight > 0 and query.startswith("pump") and numbers(result) == [*texts, 4, 5])
    assert result.note.startswith("Only passages with")


def test_a_stop_word_cannot_be_excluded_and_the_note_says_so(find):
    result = find("pump -the -locked")
    assert numbers(result) == [3, 4, 5]
    assert result.note == (
        "Only passages without \u201clocked\u201d were searched."
        " Most passages have \u201cthe\u201d, which cannot be excluded."
    )


def test_a_phrase_that_no_passage_has_finds_nothing_and_says_so(find):
    result = find('"room pump"')
    assert not result.hits
    assert "leave out the quotes" in result.note


def test_a_user_finds_phrases_only_in_documents_that_the_user_may_see(library):
    find = search_of(fill(library))
    with library.db.transaction() as connection:
        hit = find('"red valve"').hits[0]
        set_lists(connection, {hit.document_id: Access(users=["alice"])})
    assert numbers(find('"pump room"', user="bob")) == [3]
    assert numbers(find('"pump room"', user="alice")) == [0, 3]


@pytest.mark.parametrize(
    "query",
    [
        'what does "fail fast" mean in our code',
        'Where is the "pump room"?',
        "how do I remove a node with -force",
        "the room - a bright one",
        'a 5" pipe',
        "-18 degrees",
        "state-of-the-art pump",
        '""',
        "-",
        "-locked",
    ],
)
def test_a_sentence_and_what_is_no_syntax_restrict_nothing(find, query):
    parsed = parse_query(query)
    assert not parsed.has_restrictions
    assert parsed.text == query
    assert numbers(find(query)) == [0, 1, 2, 3, 4, 5]
