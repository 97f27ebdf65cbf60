"""Compare ranks, scores and spans of searches over 60 Cranfield abstracts with golden/results.jsonl. Vectors are
hashes of words, so results are independent of models. After an intended change, write the file again: `GOLDEN=write
.venv/bin/python -m pytest tests/retrieval/search/test_golden.py`"""

import hashlib
import itertools
import json
import math
import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from connectors.vectors import pgvector
from connectors.vectors.pgvector import PgVectorStore
from retrieval.filters import DocumentFilter
from retrieval.keywords import posting_blocks
from retrieval.search import search, selectivity
from retrieval.search.context_expansion import Expansion, Texts, Unit
from retrieval.search.diversity import Recency, Shape
from tests.library import Library

FOLDER = Path(__file__).with_name("golden")
DIMENSIONS = 64
SENTENCES = 2
"""Sentences of a chunk."""
WEIGHTS = {"semantic": (1.0, 0.0), "keyword": (0.0, 1.0), "hybrid": (0.5, 0.5)}
TENTH, HALF = DocumentFilter(metadata={"tenth": [3]}), DocumentFilter(metadata={"even": True})
RECENCY = Recency(half_life_days=100, weight=0.3)
# Each query uses one option in turn, next to the search without options.
OPTIONS = {
    "half": {"document_filter": HALF},
    "tenth": {"document_filter": TENTH},
    "recency": {"shape": Shape(recency=RECENCY)},
    "one per document": {"shape": Shape(per_document=1)},
    "context": {"shape": Shape(expansion=Expansion(Unit.CHUNK, 24))},
    "half, recency, two per document, section": {
        "document_filter": HALF,
        "shape": Shape(per_document=2, recency=RECENCY, expansion=Expansion(Unit.SECTION, 60)),
    },
}


class WordEmbedder:
    """Adds up the bits of the hashes of a text's words."""

    provider, model, dimensions, batch_size, calls, max_tokens = "TEST", "words", DIMENSIONS, 64, 1, 256
    passage_prefix = ""

    def embed(self, texts, _kind):
        return [embed_words(text) for text in texts]

    def check(self):
        pass


class WordTokenizer:
    """Words are the tokens."""

    def spans(self, texts):
        return [[match.span() for match in re.finditer(r"\S+", text)] for text in texts]


def embed_words(text):
    sums = [0.0] * DIMENSIONS
    for word in re.findall(r"[a-z]{4,}", text.lower()):
        bits = int.from_bytes(hashlib.sha256(word[:6].encode()).digest()[: DIMENSIONS // 8])
        sums = [value + (1 if bits >> position & 1 else -1) for position, value in enumerate(sums)]
    length = math.sqrt(sum(value * value for value in sums)) or 1.0
    return [value / length for value in sums]


def split_text(text):
    """Return the spans of chunks of so many sentences."""
    ends = [match.end() for match in re.finditer(r" \.(?=\s|$)|\n\n", text)]
    ends = sorted({*ends[SENTENCES - 1 :: SENTENCES], len(text)})
    return [(start, end) for start, end in itertools.pairwise([0, *ends]) if text[start:end].strip()]


def read_lines(name):
    return [json.loads(line) for line in (FOLDER / name).read_text().splitlines()]


@pytest.fixture(scope="module")
def texts():
    return {document["id"]: document["text"] for document in read_lines("documents.jsonl")}


@pytest.fixture
def shelf(db, new_scope, texts, monkeypatch):
    """The documents in a scope of their own, with an index of vectors and packed postings."""
    scope = new_scope()
    library = Library(db, scope, PgVectorStore(db, scope.namespace, DIMENSIONS))
    monkeypatch.setattr(pgvector, "INDEX_MIN_ROWS", 1)
    current_time = datetime.now(UTC)
    for number, (name, text) in enumerate(texts.items()):
        spans = split_text(text)
        contents = [text[start:end] for start, end in spans]
        document = library.put(
            contents,
            [embed_words(content) for content in contents],
            id=f"doc_{library.partition}_{name}",
            external_id=name,
            metadata={"tenth": number % 10, "even": number % 2 == 0},
        )
        values = {
            "document": document,
            "key": name,
            "moment": (current_time - timedelta(days=7 * (number % 30))).isoformat(),
            "starts": [start for start, _ in spans],
            "ends": [end for _, end in spans],
        }
        db.rows(
            "update documents set parsed_key = %(key)s,"
            " properties = jsonb_build_object('modifiedAt', %(moment)s::text) where id = %(document)s",
            values,
        )
        db.rows(
            'update chunks set start = (%(starts)s::int[])[index + 1], "end" = (%(ends)s::int[])[index + 1]'
            " where document_id = %(document)s",
            values,
        )
    posting_blocks.pack_postings(db, library.partition)
    library.store.ensure_index(scope)
    yield library
    library.store.drop_index(scope)


def run_searches(library, texts):
    """Return external id, span, scores and context of every search."""
    results = []
    for number, query in enumerate(read_lines("queries.jsonl")):
        name = list(OPTIONS)[number % len(OPTIONS)]
        for side, (semantic, keyword) in WEIGHTS.items():
            for label, options in (("plain", {}), (name, OPTIONS[name])):
                hits = search.run_search(
                    library.db,
                    library.scope,
                    search.Query(query["text"], 5, semantic_weight=semantic, keyword_weight=keyword, **options),
                    viewer=None,
                    embedder=WordEmbedder(),
                    vectors=library.store,
                    texts=Texts(WordTokenizer(), texts.get),
                ).hits
                rows = [[hit.external_id, hit.start, hit.end, *list_scores(hit), *list_context(hit)] for hit in hits]
                results.append({"query": query["id"], "side": side, "options": label, "hits": rows})
    return results


def list_scores(hit):
    return [None if score is None else round(score, 5) for score in (hit.score, hit.semantic, hit.keyword, hit.recency)]


def list_context(hit):
    return [] if hit.context is None else [hit.context.start, hit.context.end]


def test_every_search_answers_as_the_golden_file_has_it(shelf, texts, monkeypatch):
    results = run_searches(shelf, texts)
    file = FOLDER / "results.jsonl"
    if os.environ.get("GOLDEN") == "write":
        file.write_text("".join(json.dumps(result) + "\n" for result in results))
    for limit in (None, 0):  # the matches are compared one by one, or the index and the posting lists are asked
        if limit is not None:
            monkeypatch.setattr(selectivity, "limit_exact", lambda *_: 0)
            results = run_searches(shelf, texts)
        for result, expected in zip(results, read_lines(file.name), strict=True):
            assert {**result, "hits": len(result["hits"])} == {**expected, "hits": len(expected["hits"])}
            for hit, golden in zip(result["hits"], expected["hits"], strict=True):
                assert hit == pytest.approx(golden, abs=2e-5), (result, expected)
