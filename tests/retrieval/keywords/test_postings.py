"""The keyword side against BM25 written out plainly, through adding, removing and adding up."""

import math
import random
import time
from collections import Counter

import pytest

from retrieval.database.database import Database
from retrieval.keywords import bm25_scorer, postings

VOCABULARY_WORDS = ["wing", "flow", "plate", "shock", "cone", "jet", "heat", "drag"]


@pytest.fixture
def texts():
    dice = random.Random(5)
    return [" ".join(dice.choices(VOCABULARY_WORDS, weights=range(1, 9), k=dice.randint(1, 30))) for _ in range(60)]


@pytest.fixture
def ask(library):
    def run(query, n=100):
        with library.db.transaction() as connection:
            terms = bm25_scorer.read_terms(connection, library.partition, query, "english")
            return bm25_scorer.rank_chunks(connection, terms).best(n)

    return run


def chunk_ids(library):
    rows = library.db.rows(
        "select id from chunks where partition_id = %(partition)s order by document_id, index",
        {"partition": library.partition},
    )
    return [row["id"] for row in rows]


def bm25(texts, query):
    """Return the BM25 score by position for texts with a query word."""
    bags = [Counter(text.split()) for text in texts]
    average = sum(bag.total() for bag in bags) / len(bags)
    scores = {}
    for number, bag in enumerate(bags):
        score = 0.0
        for word, times in Counter(query.split()).items():
            df = sum(word in document_words for document_words in bags)
            weight = math.log(1 + (len(bags) - df + 0.5) / (df + 0.5))
            score += times * weight * bag[word] * 2.5 / (bag[word] + 1.5 * (0.25 + 0.75 * bag.total() / average))
        if score:
            scores[number] = score
    return scores


def same_as_oracle(hits, chunks, texts, query):
    oracle = bm25(texts, query)
    assert {hit.chunk_id: hit.score for hit in hits} == pytest.approx({chunks[n]: s for n, s in oracle.items()})
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


@pytest.mark.parametrize("query", ["wing", "wing drag", "cone jet heat wing flow", "wing wing wing", "unknown wing"])
def test_scores_are_bm25(library, ask, texts, query):
    library.put(texts)
    same_as_oracle(ask(query), chunk_ids(library), texts, query)


def test_what_is_removed_no_longer_counts_in_any_score(library, ask, texts):
    removed, remaining = library.put(texts[:30]), library.put(texts[30:])
    library.flip(removed, 99)
    rows = library.db.rows("select id from chunks where document_id = %(id)s order by index", {"id": remaining})
    same_as_oracle(ask("wing shock"), [row["id"] for row in rows], texts[30:], "wing shock")


def test_adding_up_the_counts_changes_no_score(library, ask, texts):
    for text in texts:
        library.put([text])
    hits_before = ask("wing drag cone")
    with library.db.transaction() as connection:
        postings.compact_counts(connection, library.partition, chunk_ids(library))
    parts = library.db.row(
        "select count(*) as n from term_counts where partition_id = %(partition)s", {"partition": library.partition}
    )
    assert parts["n"] < 16 * len(VOCABULARY_WORDS)
    assert [(hit.chunk_id, hit.score) for hit in ask("wing drag cone")] == [
        (hit.chunk_id, pytest.approx(hit.score)) for hit in hits_before
    ]


def test_indexing_twice_or_removing_what_is_not_there_changes_nothing(library, texts):
    library.put(texts)
    with library.db.transaction() as connection:
        assert postings.index_chunks(connection, library.partition, chunk_ids(library), "english") == (0, 0)
        assert postings.remove_chunks(connection, [-1, -2]) == (0, 0)


def test_huge_words_and_texts_are_no_error(library, ask):
    library.put(["x" * 5000 + " wing", "wing " * 30_000, "\U0001f600 é " * 1000 + "wing", "of the"])
    assert len(ask("wing")) == 3


def test_only_the_rarest_terms_of_a_very_long_query_count(library, ask):
    words = [f"word{number}" for number in range(100)]
    library.put([" ".join(words), *words])
    with library.db.transaction() as connection:
        assert (
            len(bm25_scorer.read_terms(connection, library.partition, " ".join(words), "simple").names)
            == bm25_scorer.MAX_TERMS
        )
    assert len(ask(" ".join(words))) == 1 + bm25_scorer.MAX_TERMS


@pytest.fixture
def swept(database_url):
    """Return one shared sweep connection, with plans from small tables."""
    opened = Database(database_url, size=1, role="sweep")
    yield opened
    opened.close()


def replaced(swept, library, document, generation, *texts):
    """Replace a version as a run and the following sweep do, and return the sweep's seconds."""
    library.put(texts, document_id=document, generation=generation)
    old = library.db.rows(
        "select id from chunks where document_id = %(d)s and generation = %(g)s", {"d": document, "g": generation - 1}
    )
    began = time.monotonic()
    postings.forget_terms(swept, library.partition, [row["id"] for row in old], "english")
    library.db.rows("delete from chunks where id = any(%(ids)s)", {"ids": [row["id"] for row in old]})
    return time.monotonic() - began


def test_a_long_text_after_many_short_ones_is_forgotten_in_a_moment(library, swept):
    small = library.put(["a small text"])
    for generation in range(2, 60):
        replaced(swept, library, small, generation, f"a small text number{generation}")
    library.db.rows("analyze term_counts, chunks, postings")
    for generation in range(60, 80):
        replaced(swept, library, small, generation, f"a small text number{generation}")
    words = [f"word{number}x" for number in range(6000)]
    pages = [" ".join(words[at : at + 60]) for at in range(0, 6000, 60)]
    large = library.put(pages)
    took = replaced(swept, library, large, 2, *pages[:50])
    took += replaced(swept, library, large, 3, *pages[50:])
    remaining_terms = library.db.rows(
        "select term, sum(chunks) as chunks from term_counts where partition_id = %(p)s group by term",
        {"p": library.partition},
    )
    assert {row["term"] for row in remaining_terms if row["term"].startswith("word")} == set(words[3000:])
    assert took < 5
