"""Quality on the Cranfield collection: the same vectors in both stores find the same, whatever the index's metric."""

import csv
import json
import math
import statistics

import pytest

from connectors.embedders import local
from connectors.vectors.pgvector import PgVectorStore
from retrieval.ports import Vector
from tests.standins.pinecone_place import pinecone_store

CHARACTERS = 2_000
pytestmark = [pytest.mark.shared, pytest.mark.timeout(280)]


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def cranfield(shared_data):
    """Vectors of the abstracts, vectors of the queries, and the grades by query."""
    folder, model = shared_data / "cranfield", local.WordLlama()
    corpus, queries = lines(folder / "corpus.jsonl"), lines(folder / "queries.jsonl")
    texts = model.embed([f"{row['title']}\n\n{row['text']}"[:CHARACTERS] or "." for row in corpus], "document")
    asked = model.embed([row["text"] for row in queries], "query")
    grades = {}
    for row in csv.DictReader((folder / "qrels.tsv").read_text().splitlines(), delimiter="\t"):
        grades.setdefault(row["query"], {})[row["doc"]] = int(row["grade"])
    vectors = [Vector(f"{row['id']}#1#0", row["id"], one.tolist()) for row, one in zip(corpus, texts, strict=True)]
    return vectors, [(row["id"], one.tolist()) for row, one in zip(queries, asked, strict=True)], grades


def ndcg(store, scope, queries, grades):
    """Mean nDCG@10 with the grades as gains."""
    scores = []
    for number, values in queries:
        judged = grades.get(number, {})
        found = [match.id.partition("#")[0] for match in store.query(scope, values, 10)]
        best = gain(sorted(judged.values(), reverse=True))
        scores.append(gain([judged.get(name, 0) for name in found]) / best if best else 0.0)
    return statistics.mean(scores)


def gain(grades):
    return sum(grade / math.log2(rank + 2) for rank, grade in enumerate(grades[:10]))


def test_every_metric_is_as_good_as_the_embedded_store(cranfield, db, new_scope, pinecone_index):
    vectors, queries, grades = cranfield
    scope, size = new_scope(), len(vectors[0].values)
    own = PgVectorStore(db, scope.namespace, size)
    own.upsert(scope, vectors)
    expected = ndcg(own, scope, queries, grades)
    assert expected > 0.2
    for metric in ("cosine", "dotproduct", "euclidean"):
        store = pinecone_store(pinecone_index(dimension=size, metric=metric), scope.namespace, size)
        store.upsert(scope, vectors)
        assert ndcg(store, scope, queries, grades) == pytest.approx(expected, abs=0.002), metric
