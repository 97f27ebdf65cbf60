"""BM25 from packed lists on real texts equals BM25 written out plainly, over the terms that were indexed."""

import json
import math
from collections import Counter

import pytest

from retrieval.search import bm25, packing, ranking

pytestmark = pytest.mark.shared


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def bags_of(library):
    bags = {}
    rows = library.db.rows(
        "select chunk_id, term, tf from postings where partition_id = %(partition)s", {"partition": library.partition}
    )
    for row in rows:
        bags.setdefault(row["chunk_id"], Counter())[row["term"]] = row["tf"]
    return bags


def rarity(bags, word):
    df = sum(word in bag for bag in bags.values())
    return math.log(1 + (len(bags) - df + 0.5) / (df + 0.5))


def oracle(bags, words):
    lengths = {key: sum(tf for term, tf in bag.items() if term[0] not in "^~") for key, bag in bags.items()}
    average = sum(lengths.values()) / len(bags)
    scores = Counter()
    for word, times in words.items():
        weight = times * rarity(bags, word)
        for key, bag in bags.items():
            if tf := bag[word]:
                scores[key] += weight * tf * 2.5 / (tf + 1.5 * (0.25 + 0.75 * lengths[key] / average))
    return scores


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
        with library.db.transaction() as connection:
            terms = bm25.terms(connection, library.partition, query["text"], "english")
            found = ranking.rank(connection, terms).best(len(texts))
        assert terms.names
        idf = {word: rarity(bags, word) for word in terms.names}
        words = {word: round(weight / idf[word]) for word, weight in zip(terms.names, terms.weights, strict=True)}
        assert list(terms.weights) == pytest.approx([words[word] * idf[word] for word in terms.names])
        expected = oracle(bags, words)
        assert {one.chunk_id: one.score for one in found} == pytest.approx(dict(expected), rel=1e-9)
        assert [one.chunk_id for one in found[:1]] == [key for key, _ in expected.most_common(1)]
