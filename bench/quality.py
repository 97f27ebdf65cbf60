"""Quality of semantic, keyword and hybrid search on judged collections.

    python -m bench.quality [--model all-MiniLM-L6-v2] [--only cranfield] [--rerank]

`bench-v0` in local/prove/collections counts .7 recall of cited files and .3 precision of the best five chunks.
Collections in ../shared/data have `corpus.jsonl`, `queries.jsonl` and `qrels.tsv` (nDCG@10), or `documents.jsonl` and
`questions.jsonl` with spans (share of answer characters in the best five chunks). Texts are indexed as by the service
in an embedded PostgreSQL; vectors are cached. Intervals (95 %) come from 2,000 resamples. `--rerank` adds the figures,
the gain and the time of reranking.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness import DATA_FOLDER, PROJECT_FOLDER, RESULTS_FOLDER, migrated_database, write_figures
from connectors.embedders import local as local_embedder
from connectors.parsers import detect
from connectors.rerankers.local import LateInteraction
from connectors.vectors.pgvector import PgVectorStore
from retrieval import ids, settings
from retrieval.database import database
from retrieval.ingestion.chunking import titles
from retrieval.ingestion.chunking.titles import embedded_text
from retrieval.ingestion.chunking.tokenizer import tokenizer_for
from retrieval.keywords import postings
from retrieval.ports import Parsed, Scope, Vector
from retrieval.search import reranking, search

SEARCH_WEIGHTS = {"semantic": (1.0, 0.0), "keyword": (0.0, 1.0), "hybrid": (0.5, 0.5)}
CHUNK_SIZE, CHUNK_OVERLAP, TOP_K = 1000, 200, 5
# Chunks of a search for nDCG@10 of their documents.
RANKED_CHUNKS = 50
SAMPLE_COUNT = 2000
# Questions whose reranking is timed.
TIMED_QUESTIONS = 20
COLLECTIONS_FOLDER = PROJECT_FOLDER / "local" / "prove" / "collections"


def load_ports(model: str) -> tuple[Any, Any]:
    """Load a local model; return embedder and tokenizer."""
    return local_embedder.load_model(model, settings.load_settings().home), tokenizer_for("LOCAL", model)


class CachedEmbedder:
    """Model with cached vectors of queries."""

    provider, batch_size, calls = "BENCH", 64, 1

    def __init__(self, model: Any, name: str) -> None:
        self.inner, self.model, self.dimensions = model, name, model.dimensions
        self.max_tokens = model.max_tokens
        self.passage_prefix = model.passage_prefix
        self.unrelated_cosine = getattr(model, "unrelated_cosine", 0.0)
        self.query_vectors: dict[str, Any] = {}

    def embed_cached(self, texts: list[str], kind: str) -> Any:
        """Return vectors of texts, cached in a file."""
        digest = hashlib.sha256(json.dumps([self.model, kind, texts]).encode()).hexdigest()[:20]
        file = RESULTS_FOLDER / f"vectors-{digest}.npy"
        if not file.exists():
            RESULTS_FOLDER.mkdir(parents=True, exist_ok=True)
            order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
            new_vectors = np.empty((len(texts), self.dimensions), np.float32)
            for at in range(0, len(order), 64):
                new_vectors[order[at : at + 64]] = self.inner.embed([texts[n] for n in order[at : at + 64]], kind)
            np.save(file, new_vectors)
        vectors = np.load(file)
        self.query_vectors |= dict(zip(texts, vectors, strict=True)) if kind == "query" else {}
        return vectors

    def embed(self, texts: list[str], kind: str) -> Any:  # noqa: ARG002 - the port's signature
        return np.stack([self.query_vectors[text] for text in texts])


class CachedTokenModel(local_embedder.MiniLM):
    """Model with cached token vectors."""

    token_cache: dict[tuple[int, ...], Any]

    def token_vectors(self, network: Any, rows: list[list[int]]) -> Any:
        for row in rows:
            if tuple(row) not in self.token_cache:
                self.token_cache[tuple(row)] = super().token_vectors(network, [row])[0].astype(np.float16)
        tokens = np.zeros((len(rows), max(map(len, rows)), self.dimensions), np.float32)
        for at, row in enumerate(rows):
            tokens[at, : len(row)] = self.token_cache[tuple(row)]
        return tokens


class Collection:
    """Documents and judged questions."""

    def __init__(self, folder: Path) -> None:
        self.name = folder.name
        judged = (folder / "qrels.tsv").exists()
        self.cited = (folder / "corpus").is_dir()
        if self.cited:
            self._read_cited(folder)
            return
        self.documents = read_lines(folder / ("corpus.jsonl" if judged else "documents.jsonl"))
        self.questions = read_lines(folder / ("queries.jsonl" if judged else "questions.jsonl"))
        self.grades: dict[str, dict[str, int]] = {}
        if judged:
            with (folder / "qrels.tsv").open() as file:
                for row in list(csv.reader(file, delimiter="\t"))[1:]:
                    self.grades.setdefault(row[0], {})[row[1]] = int(row[-1])
            self.questions = [question for question in self.questions if question["id"] in self.grades]

    def _read_cited(self, folder: Path) -> None:
        files = sorted((folder / "corpus").iterdir())
        texts = [file.read_text() for file in files]
        rows = zip(files, texts, strict=True)
        self.documents = [
            {"id": file.name, "text": text, "title": "", "heading": detect.first_heading(text)} for file, text in rows
        ]
        self.questions = [{**row, "text": row["question"]} for row in read_lines(folder / "questions.jsonl")]
        self.grades = {}

    def _cited_value(self, question: dict[str, Any], hits: list[Any]) -> float:
        cited = {name.rpartition("/")[2] for name in question["ground_truth_citations"]}
        names = {hit.external_id for hit in hits}
        answerable = sum(bool(row["ground_truth_citations"]) for row in self.questions)
        recall = len(names & cited) / len(cited) * len(self.questions) / answerable if cited else 0.0
        return 0.7 * recall + 0.3 * len(names & cited) / max(len(names), 1)

    @property
    def top_k(self) -> int:
        """Return the number of requested chunks."""
        return RANKED_CHUNKS if self.grades else TOP_K

    def score_hits(self, question: dict[str, Any], hits: list[Any]) -> float:
        if self.cited:
            return self._cited_value(question, hits)
        if self.grades:
            grades = self.grades[question["id"]]
            names = dict.fromkeys(hit.external_id for hit in hits)
            return float(compute_ndcg([grades.get(name, 0) for name in names], grades))
        answer_positions = {at for span in question["spans"] for at in range(span["start"], span["end"])}
        hit_spans = [(hit.start, hit.end) for hit in hits if hit.external_id == question["doc"]]
        return sum(any(start <= at < end for start, end in hit_spans) for at in answer_positions) / len(
            answer_positions
        )


class IndexedCollection:
    """Collection in the database, as left by the pipeline."""

    def __init__(self, db: Any, collection: Collection, embedder: Any, tokenizer: Any) -> None:
        self.db, self.embedder = db, embedder
        self.scope = Scope(ids.organization_id(), ids.namespace_id())
        values = {"organization": self.scope.organization, "namespace": self.scope.namespace}
        db.rows("insert into organizations (id, name) values (%(organization)s, 'bench')", values)
        db.rows(
            "insert into namespaces (id, organization_id, name, secrets) values"
            " (%(namespace)s, %(organization)s, 'bench', '')",
            values,
        )
        self.partition = db.row("insert into partitions (namespace_id) values (%(namespace)s) returning id", values)[
            "id"
        ]
        self.store = PgVectorStore(db, self.scope.namespace, embedder.dimensions)
        self._fill(collection, tokenizer)

    def _fill(self, collection: Collection, tokenizer: Any) -> None:
        chunks, headings = [], {}
        for row in collection.documents:
            text = f"{row.get('title', '')}\n\n{row['text']}".strip()
            if row["text"].strip():
                split = titles.split_titled(
                    Parsed(text, row.get("heading", "")), tokenizer, CHUNK_SIZE, CHUNK_OVERLAP, self.embedder.max_tokens
                )
                headings[row["id"]] = split.title
                chunks += [
                    (row["id"], chunk, embedded_text(split.title, chunk.header, chunk.text)) for chunk in split.chunks
                ]
        vectors = self.embedder.embed_cached([text for _, _, text in chunks], "document")
        names = {name: ids.document_id() for name in dict.fromkeys(name for name, _, _ in chunks)}
        with self.db.transaction() as connection:
            run = self._insert_run(connection)
            for name, document in names.items():
                connection.execute(
                    "insert into documents (id, partition_id, job_id, job_run_id, source, external_id, document_type,"
                    " name, status, active_generation)"
                    " values (%s, %s, 'job', 'run', 'TEXT', %s, 'TEXT', %s, 'SUCCESS', 1)",
                    (document, self.partition, name, name),
                )
                connection.execute(
                    "insert into run_documents (job_run_id, document_id, position, generation, name, title)"
                    " values (%s, %s, 0, 1, %s, %s)",
                    (run, document, name, headings[name]),
                )
            for (name, chunk, _), vector in zip(chunks, vectors, strict=True):
                key = hashlib.sha256(vector.tobytes()).digest()[:16]
                connection.execute(
                    "insert into embeddings (partition_id, key, values) values (%s, %s, %s::halfvec)"
                    " on conflict do nothing",
                    (self.partition, key, str(vector.tolist())),
                )
                connection.execute(
                    'insert into chunks (partition_id, document_id, generation, index, start, "end", tokens, content,'
                    " embedding_key) values (%s, %s, 1, %s, %s, %s, %s, %s, %s)",
                    (self.partition, names[name], chunk.index, chunk.start, chunk.end, chunk.tokens, chunk.text, key),
                )
        stored_vectors = [
            Vector(ids.vector_id(names[name], 1, chunk.index), names[name], vector.tolist())
            for (name, chunk, _), vector in zip(chunks, vectors, strict=True)
        ]
        self.store.upsert(self.scope, stored_vectors)
        with self.db.transaction() as connection:
            rows = connection.execute("select id from chunks where partition_id = %s", (self.partition,)).fetchall()
            totals = postings.index_chunks(connection, self.partition, [row["id"] for row in rows], "english")
            connection.execute(
                "update partitions set chunks = chunks + %s, terms = terms + %s where id = %s",
                (*totals, self.partition),
            )

    def _insert_run(self, connection: Any) -> str:
        """Insert the documents' job run, which records titles."""
        job, run = ids.new_id("job_"), ids.new_id("ijr_")
        connection.execute(
            "insert into jobs (id, organization_id, partition_id, source, config) values (%s, %s, %s, 'TEXT', '{}')",
            (job, self.scope.organization, self.partition),
        )
        connection.execute(
            "insert into job_runs (id, job_id, partition_id, source) values (%s, %s, %s, 'TEXT')",
            (run, job, self.partition),
        )
        return run

    def find_hits(self, text: str, weights: tuple[float, float], top_k: int) -> list[Any]:
        return list(self.run_search(text, weights, top_k).hits)

    def run_search(self, text: str, weights: tuple[float, float], top_k: int) -> search.SearchResult:
        query = search.Query(text, top_k=top_k, semantic_weight=weights[0], keyword_weight=weights[1])
        return search.run_search(self.db, self.scope, query, viewer=None, embedder=self.embedder, vectors=self.store)

    def rerank_hits(self, text: str, top_k: int, model: local_embedder.MiniLM) -> list[Any]:
        query = search.Query(text, top_k=top_k, semantic_weight=0.5, keyword_weight=0.5)
        hits = self.find_hits(text, SEARCH_WEIGHTS["hybrid"], reranking.RerankRequest().widen_query(query).top_k)
        return reranking.rerank_hits(LateInteraction(model), query, hits, math.inf) or []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--only", default="")
    parser.add_argument("--rerank", action="store_true")
    options = parser.parse_args()
    model, tokenizer = load_ports(options.model)
    embedder = CachedEmbedder(model, options.model)
    figures: dict[str, Any] = {"model": options.model}
    with migrated_database() as (_, url):
        db = database.Database(url)
        modes = [*SEARCH_WEIGHTS, "reranked"] if options.rerank else [*SEARCH_WEIGHTS]
        columns = [*modes, "gain"] if options.rerank else modes
        print(f"{'collection':<12}{'questions':>10}" + "".join(f"{column:>24}" for column in columns))
        for folder in list_collections(DATA_FOLDER):
            if options.only in ("", folder.name):
                collection = Collection(folder)
                embedder.embed_cached([question["text"] for question in collection.questions], "query")
                shelf = IndexedCollection(db, collection, embedder, tokenizer)
                figures[folder.name] = judge_collection(shelf, collection, modes)
        db.close()
    write_figures("quality", figures)


def list_collections(data: Path) -> list[Path]:
    """Return the project's collections, and judged ones of a data folder."""
    own = sorted(COLLECTIONS_FOLDER.iterdir())
    shared = sorted(data.iterdir()) if data.is_dir() else []
    judged = [path for path in shared if (path / "qrels.tsv").exists() or (path / "questions.jsonl").exists()]
    return own + [path for path in judged if path.name not in {folder.name for folder in own}]


def judge_collection(
    shelf: IndexedCollection, collection: Collection, modes: Sequence[str] = tuple(SEARCH_WEIGHTS)
) -> dict[str, dict[str, float]]:
    """Return mean and interval per search mode."""
    figures, values_by_mode = {}, {}
    model = CachedTokenModel(settings.load_settings().home)
    model.token_cache = {}
    unanswerable = [question.get("ground_truth_citations") == [] for question in collection.questions]
    for mode in modes:
        values = [
            collection.score_hits(
                question,
                shelf.find_hits(question["text"], SEARCH_WEIGHTS[mode], collection.top_k)
                if mode in SEARCH_WEIGHTS
                else shelf.rerank_hits(question["text"], collection.top_k, model),
            )
            for question in collection.questions
        ]
        values_by_mode[mode] = values
        figures[mode] = summarize_values(values, unanswerable)
    if "reranked" in values_by_mode:
        gains = np.subtract(values_by_mode["reranked"], values_by_mode["hybrid"]).tolist()
        figures["gain"] = summarize_values(gains, [False] * len(gains))
    cells = [f"{row['mean']:.4f} ({row['low']:.3f} to {row['high']:.3f})" for row in figures.values()]
    print(
        f"{collection.name:<12}{len(collection.questions):>10}" + "".join(f"{cell:>24}" for cell in cells), flush=True
    )
    if "reranked" in figures:
        figures["reranking"] = _time_reranking(shelf, collection)
        print(f"{'':<12}{'':>10}  reranking: {figures['reranking']}", flush=True)
    return figures


def _time_reranking(shelf: IndexedCollection, collection: Collection) -> dict[str, float]:
    """Return CPU and median seconds of a search with and without reranking."""
    model = local_embedder.MiniLM(settings.load_settings().home)
    texts = [question["text"] for question in collection.questions[: TIMED_QUESTIONS + 1]]
    seconds: dict[str, list[tuple[float, float]]] = {"hybrid": [], "reranked": []}
    for text in texts:
        for name, spent in seconds.items():
            cpu, start = time.process_time(), time.perf_counter()
            if name == "hybrid":
                shelf.find_hits(text, SEARCH_WEIGHTS["hybrid"], collection.top_k)
            else:
                shelf.rerank_hits(text, collection.top_k, model)
            spent.append((time.process_time() - cpu, time.perf_counter() - start))
    return {
        f"{name} {unit}": round(float(take([row[at] for row in spent[1:]])), 4)
        for name, spent in seconds.items()
        for at, unit, take in ((0, "CPU s", np.mean), (1, "p50 s", np.median))
    }


def summarize_values(values: list[float], unanswerable: list[bool]) -> dict[str, float]:
    low, high = compute_interval(values, unanswerable)
    return {"mean": round(float(np.mean(values)), 4), "low": low, "high": high}


def compute_interval(values: list[float], unanswerable: list[bool]) -> tuple[float, float]:
    """Return the 95 % interval of the mean, with a fixed number of unanswerable questions."""
    answered = np.array(values)[~np.array(unanswerable)]
    # Unanswerable questions count 0 in every sample.
    drawn = np.random.default_rng(1).choice(answered, (SAMPLE_COUNT, len(answered))).sum(axis=1) / len(values)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return round(float(low), 4), round(float(high), 4)


def compute_ndcg(grades: list[int], judged: dict[str, int]) -> float:
    def gain(ranked: list[int]) -> float:
        return sum(grade / math.log2(rank + 2) for rank, grade in enumerate(ranked[:10]))

    best = gain(sorted(judged.values(), reverse=True))
    return gain(grades) / best if best else 0.0


def read_lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


if __name__ == "__main__":
    main()
