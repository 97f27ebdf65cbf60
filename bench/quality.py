"""Quality of search on every judged collection beside the project: semantic, keyword and hybrid, by the search itself.

    python -m bench.quality [--model all-MiniLM-L6-v2] [--only cranfield] [--rerank]

A collection is `bench-v0` in local/prove/collections (company documents; .7 of the recall of cited files and .3 of the
precision among the best five chunks, by the rule of its README), or one in ../shared/data with `corpus.jsonl` (id,
title, text), `queries.jsonl` (id, text) and `qrels.tsv` (query, document, grade), or with `documents.jsonl` and
`questions.jsonl` (text, doc, spans). Texts are cut, embedded and indexed as the service does it, in an embedded
PostgreSQL of this run; vectors are kept beside the results. Documents count by their best chunk. nDCG@10 takes the
grades as gains; of spans: the share of the answers' characters in the best five chunks. Intervals hold 95 % of the
means of 2,000 samples of the questions, drawn with replacement. `--rerank` adds hybrid search whose best chunks the
service's own model reads again, the gain, and what it takes for the first 20 questions; after these the token vectors
of texts are kept.
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

from bench.harness import DATA, PROJECT, RESULTS, migrated_database, write
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

WAYS = {"semantic": (1.0, 0.0), "keyword": (0.0, 1.0), "hybrid": (0.5, 0.5)}
SIZE, OVERLAP, TOP = 1000, 200, 5
RANKED = 50
"""Chunks whose documents nDCG ranks."""
SAMPLES = 2000
TIMED = 20
"""Questions whose reranking is timed."""
FIXTURES = PROJECT / "local" / "prove" / "collections"


def ports(model: str) -> tuple[Any, Any]:
    """Load a local model; its embedder and its tokenizer."""
    return local_embedder.load_model(model, settings.load_settings().home), tokenizer_for("LOCAL", model)


class Given:
    """The model with its vectors of queries kept."""

    provider, batch_size, calls = "BENCH", 64, 1

    def __init__(self, model: Any, name: str) -> None:
        self.inner, self.model, self.dimensions = model, name, model.dimensions
        self.max_tokens = model.max_tokens
        self.passage_prefix = model.passage_prefix
        self.unrelated = getattr(model, "unrelated_cosine", 0.0)
        self.known: dict[str, Any] = {}

    def learn(self, texts: list[str], kind: str) -> Any:
        """Vectors of texts, from the file of a former run where they are the same."""
        digest = hashlib.sha256(json.dumps([self.model, kind, texts]).encode()).hexdigest()[:20]
        file = RESULTS / f"vectors-{digest}.npy"
        if not file.exists():
            RESULTS.mkdir(parents=True, exist_ok=True)
            order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
            made = np.empty((len(texts), self.dimensions), np.float32)
            for at in range(0, len(order), 64):
                made[order[at : at + 64]] = self.inner.embed([texts[n] for n in order[at : at + 64]], kind)
            np.save(file, made)
        vectors = np.load(file)
        self.known |= dict(zip(texts, vectors, strict=True)) if kind == "query" else {}
        return vectors

    def embed(self, texts: list[str], kind: str) -> Any:  # noqa: ARG002 - the port's signature
        return np.stack([self.known[text] for text in texts])


class KeptTokens(local_embedder.MiniLM):
    """The model with its token vectors kept by text."""

    kept: dict[tuple[int, ...], Any]

    def token_vectors(self, network: Any, rows: list[list[int]]) -> Any:
        for row in rows:
            if tuple(row) not in self.kept:
                self.kept[tuple(row)] = super().token_vectors(network, [row])[0].astype(np.float16)
        tokens = np.zeros((len(rows), max(map(len, rows)), self.dimensions), np.float32)
        for at, row in enumerate(rows):
            tokens[at, : len(row)] = self.kept[tuple(row)]
        return tokens


class Collection:
    """Documents, questions and what is known of them."""

    def __init__(self, folder: Path) -> None:
        self.name = folder.name
        judged = (folder / "qrels.tsv").exists()
        self.cited = (folder / "corpus").is_dir()
        if self.cited:
            self._read_cited(folder)
            return
        self.documents = _lines(folder / ("corpus.jsonl" if judged else "documents.jsonl"))
        self.questions = _lines(folder / ("queries.jsonl" if judged else "questions.jsonl"))
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
        self.questions = [{**row, "text": row["question"]} for row in _lines(folder / "questions.jsonl")]
        self.grades = {}

    def _cited_value(self, question: dict[str, Any], hits: list[Any]) -> float:
        cited = {name.rpartition("/")[2] for name in question["ground_truth_citations"]}
        names = {hit.external_id for hit in hits}
        answerable = sum(bool(row["ground_truth_citations"]) for row in self.questions)
        recall = len(names & cited) / len(cited) * len(self.questions) / answerable if cited else 0.0
        return 0.7 * recall + 0.3 * len(names & cited) / max(len(names), 1)

    @property
    def top_k(self) -> int:
        """Chunks that a question asks for."""
        return RANKED if self.grades else TOP

    def value(self, question: dict[str, Any], hits: list[Any]) -> float:
        if self.cited:
            return self._cited_value(question, hits)
        if self.grades:
            grades = self.grades[question["id"]]
            names = dict.fromkeys(hit.external_id for hit in hits)
            return float(_ndcg([grades.get(name, 0) for name in names], grades))
        wanted = {at for span in question["spans"] for at in range(span["start"], span["end"])}
        held = [(hit.start, hit.end) for hit in hits if hit.external_id == question["doc"]]
        return sum(any(start <= at < end for start, end in held) for at in wanted) / len(wanted)


class Shelf:
    """A collection in the tables, as the pipeline would leave it."""

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
        cut, headings = [], {}
        for row in collection.documents:
            text = f"{row.get('title', '')}\n\n{row['text']}".strip()
            if row["text"].strip():
                made = titles.split_titled(
                    Parsed(text, row.get("heading", "")), tokenizer, SIZE, OVERLAP, self.embedder.max_tokens
                )
                headings[row["id"]] = made.title
                cut += [
                    (row["id"], chunk, embedded_text(made.title, chunk.header, chunk.text)) for chunk in made.chunks
                ]
        vectors = self.embedder.learn([text for _, _, text in cut], "document")
        names = {name: ids.document_id() for name in dict.fromkeys(name for name, _, _ in cut)}
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
            for (name, chunk, _), vector in zip(cut, vectors, strict=True):
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
        written = [
            Vector(ids.vector_id(names[name], 1, chunk.index), names[name], vector.tolist())
            for (name, chunk, _), vector in zip(cut, vectors, strict=True)
        ]
        self.store.upsert(self.scope, written)
        with self.db.transaction() as connection:
            chunks = connection.execute("select id from chunks where partition_id = %s", (self.partition,)).fetchall()
            more = postings.index_chunks(connection, self.partition, [row["id"] for row in chunks], "english")
            connection.execute(
                "update partitions set chunks = chunks + %s, terms = terms + %s where id = %s", (*more, self.partition)
            )

    def _insert_run(self, connection: Any) -> str:
        """Insert the job run that documents are of: titles are recorded with it."""
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

    def find(self, text: str, weights: tuple[float, float], top_k: int) -> list[Any]:
        return list(self.ask(text, weights, top_k).hits)

    def ask(self, text: str, weights: tuple[float, float], top_k: int) -> search.SearchResult:
        query = search.Query(text, top_k=top_k, semantic_weight=weights[0], keyword_weight=weights[1])
        return search.run_search(self.db, self.scope, query, viewer=None, embedder=self.embedder, vectors=self.store)

    def reread(self, text: str, top_k: int, model: local_embedder.MiniLM) -> list[Any]:
        query = search.Query(text, top_k=top_k, semantic_weight=0.5, keyword_weight=0.5)
        hits = self.find(text, WAYS["hybrid"], reranking.RerankRequest().widen_query(query).top_k)
        return reranking.rerank_hits(LateInteraction(model), query, hits, math.inf) or []


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--model", default="all-MiniLM-L6-v2")
    options.add_argument("--only", default="")
    options.add_argument("--rerank", action="store_true")
    chosen = options.parse_args()
    model, tokenizer = ports(chosen.model)
    embedder = Given(model, chosen.model)
    figures: dict[str, Any] = {"model": chosen.model}
    with migrated_database() as (_, url):
        db = database.Database(url)
        ways = [*WAYS, "reranked"] if chosen.rerank else [*WAYS]
        shown = [*ways, "gain"] if chosen.rerank else ways
        print(f"{'collection':<12}{'questions':>10}" + "".join(f"{way:>24}" for way in shown))
        for folder in list_collections(DATA):
            if chosen.only in ("", folder.name):
                collection = Collection(folder)
                embedder.learn([question["text"] for question in collection.questions], "query")
                shelf = Shelf(db, collection, embedder, tokenizer)
                figures[folder.name] = judge(shelf, collection, ways)
        db.close()
    write("quality", figures)


def list_collections(data: Path) -> list[Path]:
    """The project's own collections, and the judged ones in a folder of data."""
    own = sorted(FIXTURES.iterdir())
    shared = sorted(data.iterdir()) if data.is_dir() else []
    judged = [path for path in shared if (path / "qrels.tsv").exists() or (path / "questions.jsonl").exists()]
    return own + [path for path in judged if path.name not in {folder.name for folder in own}]


def judge(shelf: Shelf, collection: Collection, ways: Sequence[str] = tuple(WAYS)) -> dict[str, dict[str, float]]:
    """The mean of each way of searching, with its interval."""
    figures, of_ways = {}, {}
    model = KeptTokens(settings.load_settings().home)
    model.kept = {}
    unanswerable = [question.get("ground_truth_citations") == [] for question in collection.questions]
    for way in ways:
        values = [
            collection.value(
                question,
                shelf.find(question["text"], WAYS[way], collection.top_k)
                if way in WAYS
                else shelf.reread(question["text"], collection.top_k, model),
            )
            for question in collection.questions
        ]
        of_ways[way] = values
        figures[way] = _summarize(values, unanswerable)
    if "reranked" in of_ways:
        gains = np.subtract(of_ways["reranked"], of_ways["hybrid"]).tolist()
        figures["gain"] = _summarize(gains, [False] * len(gains))
    cells = [f"{row['mean']:.4f} ({row['low']:.3f} to {row['high']:.3f})" for row in figures.values()]
    print(
        f"{collection.name:<12}{len(collection.questions):>10}" + "".join(f"{cell:>24}" for cell in cells), flush=True
    )
    if "reranked" in figures:
        figures["reranking"] = _time_reranking(shelf, collection)
        print(f"{'':<12}{'':>10}  reranking: {figures['reranking']}", flush=True)
    return figures


def _time_reranking(shelf: Shelf, collection: Collection) -> dict[str, float]:
    """Processor seconds of this process and the median seconds of a search, without and with reranking."""
    model = local_embedder.MiniLM(settings.load_settings().home)
    texts = [question["text"] for question in collection.questions[: TIMED + 1]]
    seconds: dict[str, list[tuple[float, float]]] = {"hybrid": [], "reranked": []}
    for text in texts:
        for name, spent in seconds.items():
            cpu, start = time.process_time(), time.perf_counter()
            if name == "hybrid":
                shelf.find(text, WAYS["hybrid"], collection.top_k)
            else:
                shelf.reread(text, collection.top_k, model)
            spent.append((time.process_time() - cpu, time.perf_counter() - start))
    return {
        f"{name} {unit}": round(float(take([row[at] for row in spent[1:]])), 4)
        for name, spent in seconds.items()
        for at, unit, take in ((0, "CPU s", np.mean), (1, "p50 s", np.median))
    }


def _summarize(values: list[float], unanswerable: list[bool]) -> dict[str, float]:
    low, high = _interval(values, unanswerable)
    return {"mean": round(float(np.mean(values)), 4), "low": low, "high": high}


def _interval(values: list[float], unanswerable: list[bool]) -> tuple[float, float]:
    """95 % interval of the mean over resampled questions; as many of them are unanswerable in each sample."""
    answered = np.array(values)[~np.array(unanswerable)]
    drawn = np.random.default_rng(1).choice(answered, (SAMPLES, len(answered))).sum(axis=1) / len(values)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return round(float(low), 4), round(float(high), 4)


def _ndcg(grades: list[int], judged: dict[str, int]) -> float:
    def gain(ranked: list[int]) -> float:
        return sum(grade / math.log2(rank + 2) for rank, grade in enumerate(ranked[:10]))

    best = gain(sorted(judged.values(), reverse=True))
    return gain(grades) / best if best else 0.0


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


if __name__ == "__main__":
    main()
