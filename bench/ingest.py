"""Texts through the running service: latency of one, throughput and memory of many, searches, idle cost, an evaluation.

    python -m bench.ingest [--clients 8] [--texts 1398]

Posts each text of the Cranfield collection by `clients` in parallel, then all unchanged. Two baselines process the
same texts in this process: only the embedder, and a script that cuts, embeds and stores each text in pgvector.
With all texts, an evaluation asks the collection's questions under four settings.
"""

from __future__ import annotations

import csv
import json
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import psycopg
from pgvector import Vector
from pgvector.psycopg import register_vector

from bench.harness import (
    DATA_FOLDER,
    NAMESPACE_CONFIG,
    Instance,
    measure_memory,
    migrated_database,
    parse_options,
    process_seconds,
    run_instance,
    tree_seconds,
    write_figures,
)

CRANFIELD_FOLDER = DATA_FOLDER / "cranfield"
PROBE_TEXT = "Latency probe number {}. " + "Wing flutter at transonic speed was observed. " * 42
# Semantic and keyword weight by setting.
EVALUATION_WEIGHTS = {"meaning": (1.0, 0.0), "words": (0.0, 1.0), "hybrid": (0.5, 0.5), "mostly meaning": (0.8, 0.2)}


def main() -> None:
    options = parse_options(__doc__, clients=8, texts=1398)
    if not CRANFIELD_FOLDER.is_dir():
        sys.exit(f"The Cranfield collection is not there: {CRANFIELD_FOLDER}")
    rows = [row for row in _read_lines("corpus.jsonl") if row["text"].strip()]
    documents = [(row["id"], f"{row['title']}\n\n{row['text']}".strip()) for row in rows]
    posted = documents[: options.texts]
    with run_instance() as running:
        service = ServiceClient(running)
        figures: dict[str, Any] = {"one_text_s": service.time_one_text(), "idle": service.measure_idle()}
        memory = {"idle": service.measure_memory()}
        figures["hundred"] = service.ingest_texts(posted[:100], options.clients)
        memory["after 100 texts"] = service.measure_memory()
        figures["first"] = service.ingest_texts(posted[100:], options.clients)
        memory[f"after {len(posted)} texts"] = service.measure_memory()
        figures["searches"] = service.time_searches()
        figures["again"] = service.ingest_texts(posted, options.clients)
        memory["after all again"] = service.measure_memory()
        figures["memory_mb"] = memory
        if len(posted) == len(documents):
            figures["evaluation"] = service.run_evaluation()
        print("the embedder only …", flush=True)
        figures["embedder"] = embed_directly(posted, running.home)
    print("one process and pgvector …", flush=True)
    plain = figures["plain_script"] = store_plainly(posted)
    embedder, first, again = (figures[name] for name in ("embedder", "first", "again"))
    figures["ratios"] = {
        "again, times faster": round(again["documents_per_s"] / first["documents_per_s"], 2),
        "embedder's CPU of a text over the service's": round(
            1000 * embedder["cpu_s"] / len(posted) / first["cpu_ms_of_a_text"], 2
        ),
        "embedder's time of a text over the service's": round(
            embedder["clock_s"] / len(posted) * first["documents_per_s"], 2
        ),
        "CPU of a text over the script's": round(first["cpu_ms_of_a_text"] / plain["cpu_ms_of_a_text"], 2),
        "semantic search over the script's": round(
            figures["searches"]["semantic, 1 client"]["p50_ms"] / plain["search_p50_ms"], 2
        ),
    }
    for name, value in figures.items():
        print(f"{name:<12}{value}")
    write_figures("ingest", figures)


class ServiceClient:
    """API client of the instance with a namespace."""

    def __init__(self, running: Instance) -> None:
        self.root, self.roles = running.root, running.roles
        self.client = running.open_client()
        self.namespace = self._post("/v1/namespaces", {"name": "cranfield", **NAMESPACE_CONFIG})["namespace"]["id"]

    def time_one_text(self, rounds: int = 15) -> dict[str, float]:
        """Return seconds from sending a text of 2 kB to the search result, median and worst."""
        seconds = []
        for number in range(rounds + 2):
            started = time.perf_counter()
            self.wait_until_completed([self.post_text(f"probe {number}", PROBE_TEXT.format(number))], pause=0.01)
            seconds.append(time.perf_counter() - started)
        document_filter = {
            "documentIds": [],
            "documentExternalIds": [f"probe {n}" for n in range(40)],
            "documentTypes": [],
        }
        body = {"namespaceId": self.namespace, "filterConfig": document_filter}
        self.client.request("DELETE", "/v1/documents", json=body).raise_for_status()
        # Two rounds are warm-up.
        return {"median": round(statistics.median(seconds[2:]), 2), "worst": round(max(seconds[2:]), 2)}

    def measure_idle(self, seconds: float = 40) -> dict[str, float]:
        """Measure CPU and memory of the idle service."""
        # Earlier work must have settled.
        time.sleep(5)
        cpu_before, began = tree_seconds(self.root), time.perf_counter()
        time.sleep(seconds)
        used = (tree_seconds(self.root) - cpu_before) / (time.perf_counter() - began)
        return {"percent_of_a_core": round(used * 100, 1), "megabytes": measure_memory(self.root)}

    def ingest_texts(self, documents: list[tuple[str, str]], clients: int) -> dict[str, Any]:
        """Post each text separately; return seconds and CPU until all are searchable."""
        print(f"{len(documents)} texts …", flush=True)
        started, cpu_before, role_seconds = time.perf_counter(), tree_seconds(self.root), self._role_seconds()
        with ThreadPoolExecutor(clients) as pool:
            runs = list(pool.map(lambda document: self.post_text(f"cranfield {document[0]}", document[1]), documents))
        accepted = time.perf_counter() - started
        self.wait_until_completed(runs[::-1], pause=0.25)
        spent = time.perf_counter() - started
        return {
            "documents": len(documents),
            "accept_s": round(accepted, 1),
            "ingest_s": round(spent, 1),
            "documents_per_s": round(len(documents) / spent, 1),
            "cpu_s": round(tree_seconds(self.root) - cpu_before, 1),
            "cpu_ms_of_a_text": round(1000 * (tree_seconds(self.root) - cpu_before) / len(documents), 1),
            "cpu_s_of_roles": {name: round(cpu - role_seconds[name], 1) for name, cpu in self._role_seconds().items()},
        }

    def measure_memory(self) -> dict[str, int]:
        """Return megabytes of each role and of all, 15 s after the last request."""
        time.sleep(15)
        return {name: measure_memory(pid) for name, pid in self.roles.items()} | {"all": measure_memory(self.root)}

    def time_searches(self) -> dict[str, dict[str, float]]:
        """Search for each question of the collection; return median and CPU in milliseconds by kind and clients."""
        queries = [row["text"] for row in _read_lines("queries.jsonl")]
        figures = {}
        # A repeated query is not embedded again: each run has queries of its own.
        for number, (kind, clients) in enumerate(product(("semantic", "hybrid"), (1, 8))):
            cpu_before = tree_seconds(self.root)
            with ThreadPoolExecutor(clients) as pool:
                seconds = list(pool.map(lambda query, kind=kind: self.time_search(kind, query), queries[number::4]))
            figures[f"{kind}, {clients} client{'s' * (clients > 1)}"] = {
                "p50_ms": round(1000 * statistics.median(seconds), 1),
                "cpu_ms": round(1000 * (tree_seconds(self.root) - cpu_before) / len(seconds), 1),
            }
        return figures

    def time_search(self, kind: str, query: str) -> float:
        started = time.perf_counter()
        body: dict[str, Any] = {"namespaceId": self.namespace, "query": query}
        if kind == "semantic":
            self._post("/v1/search", body)
        else:
            self._post("/v1/search/hybrid", {**body, "hybridConfig": {"semanticWeight": 0.5, "keywordWeight": 0.5}})
        return time.perf_counter() - started

    def _role_seconds(self) -> dict[str, float]:
        return {name: tree_seconds(pid) for name, pid in self.roles.items()}

    def run_evaluation(self) -> dict[str, Any]:
        """Evaluate all questions under four settings; return seconds, CPU and nDCG@10."""
        grades: dict[str, list[dict[str, Any]]] = {}
        for row in csv.DictReader((CRANFIELD_FOLDER / "qrels.tsv").open(), delimiter="\t"):
            if int(row["grade"]) > 0:
                relevant = {"externalId": f"cranfield {row['doc']}", "grade": int(row["grade"])}
                grades.setdefault(row["query"], []).append(relevant)
        questions = [{"query": row["text"], "relevant": grades[row["id"]]} for row in _read_lines("queries.jsonl")]
        body = {"namespaceId": self.namespace, "name": "cranfield", "questions": questions}
        runs_path = f"/v1/evaluations/{self._post('/v1/evaluations', body)['evaluation']['id']}/runs"
        settings = [
            {"name": name, "semanticWeight": s, "keywordWeight": k} for name, (s, k) in EVALUATION_WEIGHTS.items()
        ]
        started, cpu_before = time.perf_counter(), tree_seconds(self.root)
        run = self._post(runs_path, {"namespaceId": self.namespace, "settings": settings})["run"]
        while run["status"] in {"QUEUED", "RUNNING"}:
            time.sleep(0.25)
            query = {"namespaceId": self.namespace, "questionLimit": 0}
            run = self.client.get(f"{runs_path}/{run['id']}", params=query).raise_for_status().json()["data"]["run"]
        if run["status"] != "COMPLETED":
            sys.exit(f"The evaluation failed: {run['error']}")
        return {
            "questions": len(questions),
            "seconds": round(time.perf_counter() - started, 1),
            "cpu_s": round(tree_seconds(self.root) - cpu_before, 1),
            "ndcg10": {row["name"]: round(row["metrics"]["ndcgAt10"]["value"], 4) for row in run["settings"]},
        }

    def post_text(self, name: str, text: str) -> str:
        """Post a text; return its job run's id."""
        source = {"source": "TEXT", "config": {"text": text, "name": name}}
        body = {"namespaceId": self.namespace, "ingestConfig": source}
        return str(self._post("/v1/ingest/text", body)["ingestJobRunId"])

    def wait_until_completed(self, runs: list[str], *, pause: float) -> None:
        """Wait for the job runs, 100 per request."""
        for start in range(0, len(runs), 100):
            open_runs = runs[start : start + 100]
            while open_runs := self._list_open(open_runs):
                time.sleep(pause)

    def _list_open(self, runs: list[str]) -> list[str]:
        """Return unfinished runs of at most 100; exit after a failed document."""
        query = {"namespaceId": self.namespace, "ids": ",".join(runs), "pageSize": str(len(runs))}
        answer = self.client.get("/v1/ingest-job-runs", params=query)
        if answer.status_code == 429:
            time.sleep(1)
            return runs
        views = {run["id"]: run for run in answer.raise_for_status().json()["data"]["ingestJobRuns"]}
        if failed := [run["name"] for run in views.values() if run["outcome"] not in {None, "SUCCEEDED"}]:
            sys.exit(f"Documents failed: {failed[:3]}")
        return [run for run in runs if views[run]["status"] != "COMPLETED"]

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = self.client.post(path, json=body)
        if answer.status_code == 429:
            time.sleep(float(answer.headers["Retry-After"]))
            return self._post(path, body)
        if answer.status_code != 200:
            sys.exit(f"{path} answered {answer.status_code}: {answer.text[:300]}")
        return dict(answer.json()["data"])


def embed_directly(documents: list[tuple[str, str]], home: Path) -> dict[str, float]:
    """Embed the same chunks in this process; return wall and CPU seconds."""
    from connectors.embedders import local
    from retrieval.ingestion.chunking.splitter import effective_size, split_text
    from retrieval.ingestion.chunking.tokenizer import tokenizer_for
    from retrieval.ports import Parsed

    model = NAMESPACE_CONFIG["embeddingModelConfig"]["model"]
    embedder = local.load_model(model, home)
    size, overlap = effective_size(1000, 200, embedder.max_tokens)
    tokenizer = tokenizer_for("LOCAL", model)
    texts = [chunk.text for _, text in documents for chunk in split_text(Parsed(text), tokenizer, size, overlap)]
    # Texts of equal length need no padding in a batch.
    texts.sort(key=len)
    embedder.embed(texts[:8], "document")
    started, cpu = time.perf_counter(), time.process_time()
    for start in range(0, len(texts), 256):
        embedder.embed(texts[start : start + 256], "document")
    clock = time.perf_counter() - started
    return {"clock_s": round(clock, 2), "cpu_s": round(time.process_time() - cpu, 2), "chunks": len(texts)}


def store_plainly(documents: list[tuple[str, str]]) -> dict[str, Any]:
    """Cut, embed and store each text in one table with both indexes; return time, CPU and the time of a search."""
    from connectors.embedders import local
    from retrieval.ingestion.chunking.splitter import effective_size, split_text
    from retrieval.ingestion.chunking.tokenizer import tokenizer_for
    from retrieval.ports import Parsed

    model = NAMESPACE_CONFIG["embeddingModelConfig"]["model"]
    with migrated_database() as (home, url), psycopg.connect(url, autocommit=True) as connection:
        embedder, tokenizer = local.load_model(model, home), tokenizer_for("LOCAL", model)
        size, overlap = effective_size(1000, 200, embedder.max_tokens)
        register_vector(connection)
        connection.execute(
            "create table bench_plain (id bigserial primary key, name text, content text, embedding vector(384),"
            " words tsvector generated always as (to_tsvector('english', content)) stored)"
        )
        connection.execute("create index on bench_plain using hnsw (embedding vector_cosine_ops)")
        connection.execute("create index on bench_plain using gin (words)")
        embedder.embed(["warm up"], "document")
        backend = connection.info.backend_pid
        started, cpu = time.perf_counter(), time.process_time() + process_seconds(backend)
        for name, text in documents:
            chunks = [chunk.text for chunk in split_text(Parsed(text), tokenizer, size, overlap)]
            rows = [
                (name, chunk, Vector(vector))
                for chunk, vector in zip(chunks, embedder.embed(chunks, "document"), strict=True)
            ]
            with connection.transaction(), connection.cursor() as cursor:
                cursor.executemany("insert into bench_plain (name, content, embedding) values (%s, %s, %s)", rows)
        clock, cpu = time.perf_counter() - started, time.process_time() + process_seconds(backend) - cpu
        searches = []
        for row in _read_lines("queries.jsonl"):
            started = time.perf_counter()
            (vector,) = embedder.embed([row["text"]], "query")
            connection.execute(
                "select id, content, 1 - (embedding <=> %(v)s) from bench_plain order by embedding <=> %(v)s limit 10",
                {"v": Vector(vector)},
            ).fetchall()
            searches.append(time.perf_counter() - started)
    return {
        "clock_s": round(clock, 1),
        "cpu_ms_of_a_text": round(1000 * cpu / len(documents), 1),
        "search_p50_ms": round(1000 * statistics.median(searches), 1),
    }


def _read_lines(name: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (CRANFIELD_FOLDER / name).read_text().splitlines()]


if __name__ == "__main__":
    main()
