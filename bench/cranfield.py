"""The Cranfield collection through the running service: quality, rate of ingestion, latency. A table and a JSON file.

    .venv/bin/python bench/cranfield.py [--model all-MiniLM-L6-v2] [--clients 8]

Starts an instance of its own in a temporary home. Every text is posted alone, by `clients` at once. The baseline of
the ingestion rate is the embedder alone, in this process, on the same chunks, right after. Quality is nDCG@10 with
the grades of qrels.tsv as gains.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))
CRANFIELD = PROJECT.parent / "shared" / "data" / "cranfield"
RESULTS = PROJECT / "bench" / "results" / "cranfield.json"
COMMAND = Path(sys.executable).with_name("retrieval")
WAYS = {"semantic": None, "keyword": (0.0, 1.0), "hybrid": (0.5, 0.5)}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--model", default="all-MiniLM-L6-v2")
    options.add_argument("--clients", type=int, default=8)
    chosen = options.parse_args()
    if not CRANFIELD.is_dir():
        sys.exit(f"The Cranfield collection is not there: {CRANFIELD}")
    documents = [
        (row["id"], f"{row['title']}\n\n{row['text']}".strip()) for row in _lines("corpus.jsonl") if row["text"].strip()
    ]
    home = Path(tempfile.mkdtemp(prefix="rt-bench-"))
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("RETRIEVAL_", "PREFECT_", "PYTHOND"))} | {
        "RETRIEVAL_HOME": str(home),
        **{f"RETRIEVAL_{role}_PORT": "0" for role in ("API", "PREFECT", "UI")},
    }
    try:
        started = time.perf_counter()
        subprocess.run([COMMAND, "up", "--detach"], env=environment, check=True, stdout=subprocess.DEVNULL)
        report: dict[str, Any] = {"model": chosen.model, "documents": len(documents)}
        report["start_s"] = round(time.perf_counter() - started, 1)
        service = Service(json.loads((home / "service.json").read_text()), chosen.model)
        report["one_text_s"] = service.one_text()
        report |= service.ingest(documents, chosen.clients)
        for way, weights in WAYS.items():
            report[way] = service.judge(weights)
        report["weights_1_0_equal_semantic"] = service.same_as_semantic()
        report["cranfield_embedder_alone_s"] = _embedder_alone(chosen.model, documents, home)
        report["ratio_to_embedder"] = round(report["cranfield_embedder_alone_s"] / report["ingest_s"], 2)
    finally:
        subprocess.run([COMMAND, "down"], env=environment, check=False, stdout=subprocess.DEVNULL)
        shutil.rmtree(home, ignore_errors=True)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(report, indent=1))
    _show(report)


class Service:
    """The API of the instance, and a namespace of our own in it."""

    def __init__(self, info: dict[str, str], model: str) -> None:
        limits = httpx.Limits(max_connections=64)
        headers = {"Authorization": f"Bearer {info['apiKey']}"}
        self.client = httpx.Client(base_url=info["api"], headers=headers, timeout=120, limits=limits)
        body = {
            "name": "cranfield",
            "fileStorageConfig": {"type": "LOCAL"},
            "vectorStorageConfig": {"provider": "PGVECTOR"},
            "embeddingModelConfig": {"provider": "LOCAL", "model": model},
        }
        self.namespace = self._post("/v1/namespaces", body)["namespace"]["id"]
        self.queries = [(row["id"], row["text"]) for row in _lines("queries.jsonl")]

    def one_text(self, rounds: int = 9) -> dict[str, float]:
        """Seconds from sending one text of 2 kB to finding it, warm: median and worst."""
        seconds = []
        for number in range(rounds + 2):
            text = f"Latency probe number {number}. " + "Wing flutter at transonic speed was observed. " * 42
            started = time.perf_counter()
            run = self._text(f"probe {number}", text, {})
            self._wait([run], pause=0.01)
            seconds.append(time.perf_counter() - started)
        warm = seconds[2:]
        self._delete_probes()
        return {"median": round(statistics.median(warm), 2), "worst": round(max(warm), 2)}

    def ingest(self, documents: list[tuple[str, str]], clients: int) -> dict[str, float]:
        """Post each text alone; seconds until the last answer, and until the last one is searchable."""
        started = time.perf_counter()
        with ThreadPoolExecutor(clients) as pool:
            runs = list(pool.map(lambda d: self._text(f"cranfield {d[0]}", d[1], {"cranfield": d[0]}), documents))
        accepted = time.perf_counter() - started
        self._wait(runs[::-1], pause=0.25)
        took = time.perf_counter() - started
        return {
            "accept_s": round(accepted, 1),
            "ingest_s": round(took, 1),
            "documents_per_s": round(len(documents) / took, 1),
        }

    def judge(self, weights: tuple[float, float] | None) -> dict[str, float]:
        """nDCG@10 over all queries, and the latency of the answers."""
        grades: dict[str, dict[str, int]] = {}
        for row in csv.DictReader((CRANFIELD / "qrels.tsv").open(), delimiter="\t"):
            grades.setdefault(row["query"], {})[row["doc"]] = int(row["grade"])
        scores, seconds = [], []
        for number, text in self.queries:
            started = time.perf_counter()
            hits = self._search(text, weights)
            seconds.append(time.perf_counter() - started)
            found = list(dict.fromkeys(hit["metadata"].get("cranfield") for hit in hits))[:10]
            scores.append(_ndcg([grades.get(number, {}).get(name, 0) for name in found], grades.get(number, {})))
        return {
            "ndcg10": round(statistics.mean(scores), 4),
            "p50_ms": round(statistics.median(seconds) * 1000, 1),
            "p95_ms": round(statistics.quantiles(seconds, n=20)[-1] * 1000, 1),
        }

    def same_as_semantic(self) -> bool:
        """Weights 1/0 answer exactly as /v1/search, on fifty queries."""
        return all(self._search(text, (1.0, 0.0)) == self._search(text, None) for _, text in self.queries[:50])

    def _search(self, text: str, weights: tuple[float, float] | None) -> list[dict[str, Any]]:
        body: dict[str, Any] = {"namespaceId": self.namespace, "query": text, "topK": 30}
        if weights is None:
            return list(self._post("/v1/search", body)["results"])
        body["hybridConfig"] = {"semanticWeight": weights[0], "keywordWeight": weights[1]}
        return list(self._post("/v1/search/hybrid", body)["results"])

    def _text(self, name: str, text: str, metadata: dict[str, Any]) -> str:
        config = {"text": text, "name": name, "metadata": metadata}
        body = {"namespaceId": self.namespace, "ingestConfig": {"source": "TEXT", "config": config}}
        return str(self._post("/v1/ingest/text", body)["ingestJobRunId"])

    def _wait(self, runs: list[str], *, pause: float) -> None:
        for run in runs:
            while True:
                answer = self.client.get(f"/v1/ingest-job-runs/{run}", params={"namespaceId": self.namespace})
                if answer.status_code == 429:
                    time.sleep(1)
                    continue
                data = answer.raise_for_status().json()["data"]
                if data["status"] == "COMPLETED":
                    if data["documents"]["failed"]:
                        sys.exit(f"A document failed: {data['documents']['failed'][0]['error']}")
                    break
                time.sleep(pause)

    def _delete_probes(self) -> None:
        names = [f"probe {number}" for number in range(40)]
        where = {"documentIds": [], "documentExternalIds": names, "documentTypes": []}
        body = {"namespaceId": self.namespace, "filterConfig": where}
        self.client.request("DELETE", "/v1/documents", json=body).raise_for_status()

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = self.client.post(path, json=body)
        if answer.status_code == 429:
            time.sleep(float(answer.headers["Retry-After"]))
            return self._post(path, body)
        if answer.status_code != 200:
            sys.exit(f"{path} answered {answer.status_code}: {answer.text[:300]}")
        return dict(answer.json()["data"])


def _embedder_alone(model: str, documents: list[tuple[str, str]], home: Path) -> float:
    """Seconds that the model needs for the same chunks, in one process with the machine to itself."""
    from connectors.embedders import local
    from retrieval.ingestion.chunking.split import effective_size, split
    from retrieval.ingestion.chunking.tokenizer import tokenizer_for
    from retrieval.ports import Parsed

    embedder = local.load(model, home)
    size, overlap = effective_size(1000, 200, embedder.max_tokens)
    tokenizer = tokenizer_for("LOCAL", model)
    texts = [chunk.text for _, text in documents for chunk in split(Parsed(text), tokenizer, size, overlap)]
    texts.sort(key=len)
    embedder.embed(texts[:8], "document")
    started = time.perf_counter()
    for start in range(0, len(texts), 256):
        embedder.embed(texts[start : start + 256], "document")
    return round(time.perf_counter() - started, 1)


def _ndcg(found: list[int], judged: dict[str, int]) -> float:
    def gain(grades: list[int]) -> float:
        return sum(grade / math.log2(rank + 2) for rank, grade in enumerate(grades[:10]))

    best = gain(sorted(judged.values(), reverse=True))
    return gain(found) / best if best else 0.0


def _lines(name: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (CRANFIELD / name).read_text().splitlines()]


def _show(report: dict[str, Any]) -> None:
    print(f"\n{report['documents']} texts, model {report['model']}; started in {report['start_s']} s")
    print(f"one text of 2 kB, sent -> searchable: {report['one_text_s']['median']} s median")
    print(f"all texts: accepted in {report['accept_s']} s, searchable in {report['ingest_s']} s,", end=" ")
    print(
        f"{report['documents_per_s']} a second; the embedder alone {report['cranfield_embedder_alone_s']} s:", end=" "
    )
    print(f"{report['ratio_to_embedder']} of its rate")
    print(f"\n{'':<10}{'nDCG@10':>9}{'p50 ms':>9}{'p95 ms':>9}")
    for way in WAYS:
        row = report[way]
        print(f"{way:<10}{row['ndcg10']:>9.4f}{row['p50_ms']:>9}{row['p95_ms']:>9}")
    print(f"weights 1/0 answer as /v1/search: {report['weights_1_0_equal_semantic']}")


if __name__ == "__main__":
    main()
