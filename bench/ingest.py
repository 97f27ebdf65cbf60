"""Texts through the running service: time of one, rate and processor time of many, idle cost, an evaluation.

    python -m bench.ingest [--clients 8] [--texts 1398]

Starts an instance of its own. Texts are those of the Cranfield collection. Every text is posted alone, by `clients` at
once, and all of them once more, unchanged. The baseline is the embedder alone, in this process, on the same chunks,
right after. If all texts are there, an evaluation of the service asks the collection's questions under four settings.
"""

from __future__ import annotations

import csv
import json
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.harness import DATA, NAMESPACE, Instance, instance, parse_options, resident, tree_seconds, write

CRANFIELD = DATA / "cranfield"
PROBE = "Latency probe number {}. " + "Wing flutter at transonic speed was observed. " * 42
SETTINGS = {"meaning": (1.0, 0.0), "words": (0.0, 1.0), "hybrid": (0.5, 0.5), "mostly meaning": (0.8, 0.2)}
"""Weights of the evaluation by name."""


def main() -> None:
    options = parse_options(__doc__, clients=8, texts=1398)
    if not CRANFIELD.is_dir():
        sys.exit(f"The Cranfield collection is not there: {CRANFIELD}")
    rows = [row for row in _lines("corpus.jsonl") if row["text"].strip()]
    documents = [(row["id"], f"{row['title']}\n\n{row['text']}".strip()) for row in rows]
    posted = documents[: options.texts]
    with instance() as running:
        service = Service(running)
        figures: dict[str, Any] = {"one_text_s": service.time_one_text(), "idle": service.measure_idle()}
        figures["first"] = service.ingest(posted, options.clients)
        figures["again"] = service.ingest(posted, options.clients)
        if len(posted) == len(documents):
            figures["evaluation"] = service.evaluate()
        print("the embedder alone …", flush=True)
        figures["embedder"] = embed_alone(posted, running.home)
    embedder, first, again = (figures[name] for name in ("embedder", "first", "again"))
    figures["ratios"] = {
        "again, times faster": round(first["ingest_s"] / again["ingest_s"], 2),
        "embedder's CPU over the service's": round(embedder["cpu_s"] / first["cpu_s"], 2),
        "embedder's time over the service's": round(embedder["clock_s"] / first["ingest_s"], 2),
    }
    for name, value in figures.items():
        print(f"{name:<12}{value}")
    write("ingest", figures)


class Service:
    """The API of the instance, and a namespace of our own in it."""

    def __init__(self, running: Instance) -> None:
        self.root, self.roles = running.root, running.roles
        self.client = running.client()
        self.namespace = self._post("/v1/namespaces", {"name": "cranfield", **NAMESPACE})["namespace"]["id"]

    def time_one_text(self, rounds: int = 9) -> dict[str, float]:
        """Seconds from sending one text of 2 kB to finding it, warm: median and worst."""
        seconds = []
        for number in range(rounds + 2):
            started = time.perf_counter()
            self.wait([self.post_text(f"probe {number}", PROBE.format(number))], pause=0.01)
            seconds.append(time.perf_counter() - started)
        where = {"documentIds": [], "documentExternalIds": [f"probe {n}" for n in range(40)], "documentTypes": []}
        body = {"namespaceId": self.namespace, "filterConfig": where}
        self.client.request("DELETE", "/v1/documents", json=body).raise_for_status()
        return {"median": round(statistics.median(seconds[2:]), 2), "worst": round(max(seconds[2:]), 2)}

    def measure_idle(self, seconds: float = 20) -> dict[str, float]:
        """What the whole service uses while nothing is asked of it, a few seconds after the last work."""
        time.sleep(5)
        before, began = tree_seconds(self.root), time.perf_counter()
        time.sleep(seconds)
        used = (tree_seconds(self.root) - before) / (time.perf_counter() - began)
        return {"percent_of_a_core": round(used * 100, 1), "megabytes": resident(self.root)}

    def ingest(self, documents: list[tuple[str, str]], clients: int) -> dict[str, Any]:
        """Post each text alone; seconds until the last answer, until the last one is searchable, and of processors."""
        print(f"{len(documents)} texts …", flush=True)
        started, before, each = time.perf_counter(), tree_seconds(self.root), self._role_seconds()
        with ThreadPoolExecutor(clients) as pool:
            runs = list(pool.map(lambda document: self.post_text(f"cranfield {document[0]}", document[1]), documents))
        accepted = time.perf_counter() - started
        self.wait(runs[::-1], pause=0.25)
        spent = time.perf_counter() - started
        return {
            "documents": len(documents),
            "accept_s": round(accepted, 1),
            "ingest_s": round(spent, 1),
            "documents_per_s": round(len(documents) / spent, 1),
            "cpu_s": round(tree_seconds(self.root) - before, 1),
            "cpu_s_of_roles": {name: round(cpu - each[name], 1) for name, cpu in self._role_seconds().items()},
        }

    def _role_seconds(self) -> dict[str, float]:
        return {name: tree_seconds(pid) for name, pid in self.roles.items()}

    def evaluate(self) -> dict[str, Any]:
        """Seconds of an evaluation of all questions under four settings, from the request to its result, the
        processor time of the whole service meanwhile, and the nDCG@10 that it tells."""
        grades: dict[str, list[dict[str, Any]]] = {}
        for row in csv.DictReader((CRANFIELD / "qrels.tsv").open(), delimiter="\t"):
            if int(row["grade"]) > 0:
                relevant = {"externalId": f"cranfield {row['doc']}", "grade": int(row["grade"])}
                grades.setdefault(row["query"], []).append(relevant)
        questions = [{"query": row["text"], "relevant": grades[row["id"]]} for row in _lines("queries.jsonl")]
        body = {"namespaceId": self.namespace, "name": "cranfield", "questions": questions}
        made = f"/v1/evaluations/{self._post('/v1/evaluations', body)['evaluation']['id']}/runs"
        settings = [{"name": name, "semanticWeight": s, "keywordWeight": k} for name, (s, k) in SETTINGS.items()]
        started, before = time.perf_counter(), tree_seconds(self.root)
        run = self._post(made, {"namespaceId": self.namespace, "settings": settings})["run"]
        while run["status"] in {"QUEUED", "RUNNING"}:
            time.sleep(0.25)
            query = {"namespaceId": self.namespace, "questionLimit": 0}
            run = self.client.get(f"{made}/{run['id']}", params=query).raise_for_status().json()["data"]["run"]
        if run["status"] != "COMPLETED":
            sys.exit(f"The evaluation failed: {run['error']}")
        return {
            "questions": len(questions),
            "seconds": round(time.perf_counter() - started, 1),
            "cpu_s": round(tree_seconds(self.root) - before, 1),
            "ndcg10": {row["name"]: round(row["metrics"]["ndcgAt10"]["value"], 4) for row in run["settings"]},
        }

    def post_text(self, name: str, text: str) -> str:
        """Accept one text; its job run's id."""
        source = {"source": "TEXT", "config": {"text": text, "name": name}}
        body = {"namespaceId": self.namespace, "ingestConfig": source}
        return str(self._post("/v1/ingest/text", body)["ingestJobRunId"])

    def wait(self, runs: list[str], *, pause: float) -> None:
        """Until all of them are COMPLETED, asked for by their ids, a hundred at once; the first to look at first."""
        for start in range(0, len(runs), 100):
            waiting = runs[start : start + 100]
            while waiting := self._open(waiting):
                time.sleep(pause)

    def _open(self, runs: list[str]) -> list[str]:
        """Those of at most a hundred that are not at their end. Ends where a document has failed."""
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


def embed_alone(documents: list[tuple[str, str]], home: Path) -> dict[str, float]:
    """Seconds by the clock and of processors that the model needs for the same chunks, alone in one process."""
    from connectors.embedders import local
    from retrieval.ingestion.chunking.splitter import effective_size, split_text
    from retrieval.ingestion.chunking.tokenizer import tokenizer_for
    from retrieval.ports import Parsed

    model = NAMESPACE["embeddingModelConfig"]["model"]
    embedder = local.load_model(model, home)
    size, overlap = effective_size(1000, 200, embedder.max_tokens)
    tokenizer = tokenizer_for("LOCAL", model)
    texts = [chunk.text for _, text in documents for chunk in split_text(Parsed(text), tokenizer, size, overlap)]
    texts.sort(key=len)
    embedder.embed(texts[:8], "document")
    started, cpu = time.perf_counter(), time.process_time()
    for start in range(0, len(texts), 256):
        embedder.embed(texts[start : start + 256], "document")
    clock = time.perf_counter() - started
    return {"clock_s": round(clock, 2), "cpu_s": round(time.process_time() - cpu, 2), "chunks": len(texts)}


def _lines(name: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (CRANFIELD / name).read_text().splitlines()]


if __name__ == "__main__":
    main()
