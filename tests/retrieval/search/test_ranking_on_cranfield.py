"""BM25 from packed lists on real texts equals BM25 written out plainly, over PostgreSQL's lexemes."""

import json
import math
from collections import Counter

import pytest

from retrieval.search import bm25, packing, ranking

LEXEMES = (
    "select {key} as key, lexeme, cardinality(positions) as tf from {source}, unnest(to_tsvector('english', {text}))"
)

pytestmark = pytest.mark.shared


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def bags_of(library):
    bags = {}
    of = {"partition": library.partition}
    every = LEXEMES.format(key="c.id", source="chunks c", text="c.content") + " where c.partition_id = %(partition)s"
    for row in library.db.rows(every, of):
        bags.setdefault(row["key"], Counter())[row["lexeme"]] = row["tf"]
    return bags


def oracle(bags, words):
    average = sum(bag.total() for bag in bags.values()) / len(bags)
    scores = Counter()
    for word, times in words.items():
        df = sum(word in bag for bag in bags.values())
        weight = times * math.log(1 + (len(bags) - df + 0.5) / (df + 0.5))
        for key, bag in bags.items():
            if tf := bag[word]:
                scores[key] += weight * tf * 2.5 / (tf + 1.5 * (0.25 + 0.75 * bag.total() / average))
    return scores


@pytest.mark.decision("H115")
def test_packed_lists_give_the_scores_of_the_formula(library, monkeypatch, shared_data):
    """Half of the texts stand in blocks, half came later and are read by their rows."""
    monkeypatch.setattr(packing, "FREQUENT", 15)
    texts = [row["text"] for row in lines(shared_data / "cranfield" / "corpus.jsonl") if row["text"].strip()][:400]
    for start in range(0, len(texts), 40):
        library.put(texts[start : start + 40])
        if start == 200:
            packing.keep(library.db, library.partition)
    bags = bags_of(library)
    assert len(bags) == len(texts)
    for query in lines(shared_data / "cranfield" / "queries.jsonl")[:60]:
        asked = LEXEMES.format(key="1", source="(select 1) one", text="%(text)s")
        words = {row["lexeme"]: row["tf"] for row in library.db.rows(asked, {"text": query["text"]})}
        expected = oracle(bags, words)
        with library.db.transaction() as connection:
            terms = bm25.terms(connection, library.partition, query["text"], "english")
            found = ranking.rank(connection, terms).best(len(texts))
        assert {one.chunk_id: one.score for one in found} == pytest.approx(dict(expected), rel=1e-9)
        assert [one.chunk_id for one in found[:1]] == [key for key, _ in expected.most_common(1)]
