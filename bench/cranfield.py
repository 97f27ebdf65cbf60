"""The Cranfield collection through the running service: quality, rate of ingestion, latency. A table and a JSON file.

    .venv/bin/python bench/cranfield.py [--model all-MiniLM-L6-v2] [--clients 8] [--texts 1398]

Starts an instance of its own in a temporary home. Every text is posted alone, by `clients` at once, and all of them
once more, unchanged. The baseline of the ingestion is the embedder alone, in this process, on the same chunks, right
after. Quality is nDCG@10 with the grades of qrels.tsv as gains; an evaluation of the service then asks the same
questions under four settings, from the request to its result.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from bench import report  # noqa: E402
from bench.instance import NAMESPACE, Instance, instance  # noqa: E402
from bench.processes import cpu_of_tree, resident  # noqa: E402

CRANFIELD = report.data() / "cranfield"
PROBE = "Latency probe number {}. " + "Wing flutter at transonic speed was observed. " * 42
WAYS = {"semantic": None, "keyword": (0.0, 1.0), "hybrid": (0.5, 0.5)}
SETTINGS = {"meaning": (1.0, 0.0), "words": (0.0, 1.0), "hybrid": (0.5, 0.5), "mostly meaning": (0.8, 0.2)}
"""Of the evaluation: weights by name."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--model", default="all-MiniLM-L6-v2")
    options.add_argument("--clients", type=int, default=8)
    options.add_argument("--texts", type=int, default=0, help="so many are measured one by one; the others follow")
    options.add_argument("--quick", action="store_true", help="without the others, and so without quality")
    chosen = options.parse_args()
    report.end_in_order()
    if not CRANFIELD.is_dir():
        sys.exit(f"The Cranfield collection is not there: {CRANFIELD}")
    documents = [
        (row["id"], f"{row['title']}\n\n{row['text']}".strip()) for row in _lines("corpus.jsonl") if row["text"].strip()
    ]
    found: dict[str, Any] = {"model": chosen.model, "documents": len(documents)}
    with instance() as place:
        service = Service(place, chosen.model)
        found["one_text_s"] = service.one_text()
        found["idle"] = service.idle()
        single = documents[: chosen.texts or None]
        found["single"] = service.ingest(single, chosen.clients)
        found["again"] = service.ingest(single, chosen.clients)
        found["again_times_faster"] = round(found["single"]["ingest_s"] / found["again"]["ingest_s"], 2)
        found["again_times_less_cpu"] = round(found["single"]["cpu_s"] / max(found["again"]["cpu_s"], 0.01), 2)
        if not chosen.quick:
            found |= _quality(service, documents[len(single) :], chosen.clients)
        _say("the embedder alone")
        found["embedder"] = _embedder_alone(chosen.model, single, place.home)
        probe = _embedder_alone(chosen.model, [("probe", PROBE.format(0))], place.home)
        one = found["one_text_s"]
        one["embedding"] = probe["clock_s"]
        one["beyond_embedding"] = round(one["median"] - probe["clock_s"], 2)
    embedder, first = found["embedder"], found["single"]
    found["cpu"] = {"embedder_over_service": round(embedder["cpu_s"] / first["cpu_s"], 2)}
    found["ratio_to_embedder"] = round(embedder["clock_s"] / first["ingest_s"], 2)
    report.write("cranfield", found)
    _show(found)


def _quality(service: Service, others: list[tuple[str, str]], clients: int) -> dict[str, Any]:
    """nDCG@10 and latency of each way, once all texts are there."""
    if others:
        service.ingest(others, clients)
    found: dict[str, Any] = {}
    for way, weights in WAYS.items():
        _say(f"{way}: {len(service.queries)} queries")
        found[way] = service.judge(weights)
    found["weights_1_0_equal_semantic"] = service.same_as_semantic()
    found["evaluation"] = service.evaluate()
    return found


def _say(what: str) -> None:
    print(f"{what} …", flush=True)


class Service:
    """The API of the instance, and a namespace of our own in it."""

    def __init__(self, place: Instance, model: str) -> None:
        self.root, self.roles = place.root, place.roles
        self.client = place.client()
        body = {"name": "cranfield", **NAMESPACE, "embeddingModelConfig": {"provider": "LOCAL", "model": model}}
        self.namespace = self._post("/v1/namespaces", body)["namespace"]["id"]

    @cached_property
    def queries(self) -> list[tuple[str, str]]:
        return [(row["id"], row["text"]) for row in _lines("queries.jsonl")]

    @cached_property
    def grades(self) -> dict[str, dict[str, int]]:
        """Of each question, by document."""
        found: dict[str, dict[str, int]] = {}
        for row in csv.DictReader((CRANFIELD / "qrels.tsv").open(), delimiter="\t"):
            found.setdefault(row["query"], {})[row["doc"]] = int(row["grade"])
        return found

    def one_text(self, rounds: int = 9) -> dict[str, float]:
        """Seconds from sending one text of 2 kB to finding it, warm: median and worst."""
        _say("one text at a time")
        seconds = []
        for number in range(rounds + 2):
            text = PROBE.format(number)
            started = time.perf_counter()
            run = self.text(f"probe {number}", text, {})
            self.wait([run], pause=0.01)
            seconds.append(time.perf_counter() - started)
        warm = seconds[2:]
        self._delete_probes()
        return {"median": round(statistics.median(warm), 2), "worst": round(max(warm), 2)}

    def idle(self, seconds: float = 20) -> dict[str, float]:
        """What the whole service uses while nothing is asked of it, a few seconds after the last work."""
        _say(f"idle for {seconds + 5:.0f} s")
        time.sleep(5)
        before, began = cpu_of_tree(self.root), time.perf_counter()
        time.sleep(seconds)
        used = (cpu_of_tree(self.root) - before) / (time.perf_counter() - began)
        return {"percent_of_a_core": round(used * 100, 1), "megabytes": resident(self.root)}

    def ingest(self, documents: list[tuple[str, str]], clients: int) -> dict[str, Any]:
        """Post each text alone; seconds until the last answer, until the last one is searchable, and of processors."""
        _say(f"{len(documents)} texts")
        started, before, each = time.perf_counter(), cpu_of_tree(self.root), self._roles()
        with ThreadPoolExecutor(clients) as pool:
            runs = list(pool.map(lambda d: self.text(f"cranfield {d[0]}", d[1], {"cranfield": d[0]}), documents))
        accepted = time.perf_counter() - started
        self.wait(runs[::-1], pause=0.25)
        took = time.perf_counter() - started
        return {
            "documents": len(documents),
            "accept_s": round(accepted, 1),
            "ingest_s": round(took, 1),
            "documents_per_s": round(len(documents) / took, 1),
            "cpu_s": round(cpu_of_tree(self.root) - before, 1),
            "cpu_s_of_roles": {name: round(spent - each[name], 1) for name, spent in self._roles().items()},
        }

    def _roles(self) -> dict[str, float]:
        return {name: cpu_of_tree(pid) for name, pid in self.roles.items()}

    def judge(self, weights: tuple[float, float] | None) -> dict[str, float]:
        """nDCG@10 over all queries, and the latency of the answers."""
        scores, seconds = [], []
        for number, text in self.queries:
            started = time.perf_counter()
            hits = self._search(text, weights)
            seconds.append(time.perf_counter() - started)
            found = list(dict.fromkeys(hit["metadata"].get("cranfield") for hit in hits))[:10]
            grades = self.grades.get(number, {})
            scores.append(_ndcg([grades.get(name, 0) for name in found], grades))
        return {
            "ndcg10": round(statistics.mean(scores), 4),
            "p50_ms": round(statistics.median(seconds) * 1000, 1),
            "p95_ms": round(statistics.quantiles(seconds, n=20)[-1] * 1000, 1),
        }

    def evaluate(self) -> dict[str, Any]:
        """Seconds of an evaluation of all questions under four settings, from the request to its result, the
        processor time of the whole service meanwhile, and the nDCG@10 that it tells."""
        questions = [
            {
                "query": text,
                "relevant": [
                    {"externalId": f"cranfield {name}", "grade": grade}
                    for name, grade in self.grades[number].items()
                    if grade > 0
                ],
            }
            for number, text in self.queries
        ]
        _say(f"an evaluation: {len(questions)} questions under {len(SETTINGS)} settings")
        body = {"namespaceId": self.namespace, "name": "cranfield", "questions": questions}
        made = f"/v1/evaluations/{self._post('/v1/evaluations', body)['evaluation']['id']}/runs"
        settings = [{"name": name, "semanticWeight": s, "keywordWeight": k} for name, (s, k) in SETTINGS.items()]
        started, before = time.perf_counter(), cpu_of_tree(self.root)
        run = self._post(made, {"namespaceId": self.namespace, "settings": settings})["run"]
        while run["status"] in {"QUEUED", "RUNNING"}:
            time.sleep(0.25)
            path = f"{made}/{run['id']}"
            answer = self.client.get(path, params={"namespaceId": self.namespace, "questionLimit": 0})
            run = answer.raise_for_status().json()["data"]["run"]
        if run["status"] != "COMPLETED":
            sys.exit(f"The evaluation failed: {run['error']}")
        return {
            "questions": len(questions),
            "settings": len(settings),
            "seconds": round(time.perf_counter() - started, 1),
            "cpu_s": round(cpu_of_tree(self.root) - before, 1),
            "ndcg10": {one["name"]: round(one["metrics"]["ndcgAt10"]["value"], 4) for one in run["settings"]},
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

    def text(self, name: str, text: str, metadata: dict[str, Any]) -> str:
        config = {"text": text, "name": name, "metadata": metadata}
        body = {"namespaceId": self.namespace, "ingestConfig": {"source": "TEXT", "config": config}}
        return str(self._post("/v1/ingest/text", body)["ingestJobRunId"])

    def wait(self, runs: list[str], *, pause: float) -> None:
        """Until all of them are COMPLETED, asked for by their ids, a hundred at once; the first to look at first."""
        for start in range(0, len(runs), 100):
            left = runs[start : start + 100]
            while left := self._open(left):
                time.sleep(pause)

    def _open(self, runs: list[str]) -> list[str]:
        """Those of at most a hundred that are not at their end. Ends where a document has failed."""
        asked = {"namespaceId": self.namespace, "ids": ",".join(runs), "pageSize": str(len(runs))}
        answer = self.client.get("/v1/ingest-job-runs", params=asked)
        if answer.status_code == 429:
            time.sleep(1)
            return runs
        told = {run["id"]: run for run in answer.raise_for_status().json()["data"]["ingestJobRuns"]}
        if failed := [run["name"] for run in told.values() if run["outcome"] not in {None, "SUCCEEDED"}]:
            sys.exit(f"Documents failed: {failed[:3]}")
        return [run for run in runs if told[run]["status"] != "COMPLETED"]

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


def _embedder_alone(model: str, documents: list[tuple[str, str]], home: Path) -> dict[str, float]:
    """Seconds by the clock and of processors that the model needs for the same chunks, alone in one process."""
    from connectors.embedders import local
    from retrieval.ingestion.chunking.splitter import effective_size, split
    from retrieval.ingestion.chunking.tokenizer import tokenizer_for
    from retrieval.ports import Parsed

    embedder = local.load_model(model, home)
    size, overlap = effective_size(1000, 200, embedder.max_tokens)
    tokenizer = tokenizer_for("LOCAL", model)
    texts = [chunk.text for _, text in documents for chunk in split(Parsed(text), tokenizer, size, overlap)]
    texts.sort(key=len)
    embedder.embed(texts[:8], "document")
    started, cpu = time.perf_counter(), time.process_time()
    for start in range(0, len(texts), 256):
        embedder.embed(texts[start : start + 256], "document")
    return {
        "clock_s": round(time.perf_counter() - started, 2),
        "cpu_s": round(time.process_time() - cpu, 2),
        "chunks": len(texts),
    }


def _ndcg(found: list[int], judged: dict[str, int]) -> float:
    def gain(grades: list[int]) -> float:
        return sum(grade / math.log2(rank + 2) for rank, grade in enumerate(grades[:10]))

    best = gain(sorted(judged.values(), reverse=True))
    return gain(found) / best if best else 0.0


def _lines(name: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (CRANFIELD / name).read_text().splitlines()]


def _show(found: dict[str, Any]) -> None:
    one, first, again, embedder = (found[name] for name in ("one_text_s", "single", "again", "embedder"))
    print(f"\n{found['documents']} texts, model {found['model']}")
    print(f"one text of 2 kB, sent -> searchable: {one['median']} s median, its embedding alone {one['embedding']} s")
    print(f"idle: {found['idle']['percent_of_a_core']} % of a core, {found['idle']['megabytes']} MB")
    for name, row in (("single texts", first), ("the same again", again)):
        told = f"accepted in {row['accept_s']} s, searchable in {row['ingest_s']} s, {row['cpu_s']} s of processors"
        print(f"{row['documents']} {name}: {told}")
    print(f"again: {found['again_times_faster']} times faster, {found['again_times_less_cpu']} times less CPU")
    print(f"the embedder alone: {embedder['clock_s']} s, {embedder['cpu_s']} s of processors:", end=" ")
    print(f"{found['cpu']['embedder_over_service']} of the service's, {found['ratio_to_embedder']} by the clock")
    if "semantic" not in found:
        return
    print(f"\n{'':<10}{'nDCG@10':>9}{'p50 ms':>9}{'p95 ms':>9}")
    for way in WAYS:
        row = found[way]
        print(f"{way:<10}{row['ndcg10']:>9.4f}{row['p50_ms']:>9}{row['p95_ms']:>9}")
    print(f"weights 1/0 answer as /v1/search: {found['weights_1_0_equal_semantic']}")
    asked = found["evaluation"]
    told = f"{asked['seconds']} s, {asked['cpu_s']} s of processors, nDCG@10 {asked['ndcg10']}"
    print(f"{asked['questions']} questions under {asked['settings']} settings: {told}")


if __name__ == "__main__":
    main()
