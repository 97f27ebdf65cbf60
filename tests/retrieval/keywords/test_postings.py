"""The keyword side against BM25 written out plainly, through adding, removing and adding up."""

import math
import random
from collections import Counter

import pytest

from retrieval.keywords import bm25_scorer

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


def test_huge_words_and_texts_are_no_error(library, ask):
    library.put(["x" * 5000 + " wing", "wing " * 30_000, "\U0001f600 é " * 1000 + "wing", "of the"])
    assert len(ask("wing")) == 3
