"""Measurements of `retrieval prove`, with plain values for JSON."""

from __future__ import annotations

import json
import math
import signal
import statistics
import time
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np

from local import LocalError, instance, machine
from local.machine import measure_disk, sum_tree_seconds
from local.processes import Process
from local.prove.documents import DocumentSet, ProofBench, find_external_id, share_within
from local.prove.drawings import Drawing, draw_files, draw_price_list
from retrieval_client import RetrievalError

BENCH_V0 = Path(__file__).parent / "collections" / "bench-v0"
# System, score, recall, precision and p50 in ms, as published by the authors of bench-v0 (README.md).
HOSTED_RESULTS = (
    ("Azure AI Search", 84.0, 0.909, 0.678, 408),
    ("Vertex AI RAG Engine", 82.6, 0.945, 0.547, 358),
    ("Bedrock knowledge base", 82.5, 0.879, 0.701, 408),
    ("OpenAI File Search", 78.5, 0.893, 0.534, 1358),
)
BOOTSTRAP_SAMPLES = 2000
_RERANK_OPTIONS: dict[str, Any] = {"rerank_config": {"provider": "LOCAL"}, "rerank": {"budgetMs": 10_000}}
_KILL_SECONDS = 240.0


def measure_bench_v0(bench: ProofBench) -> dict[str, Any]:
    """Measure search on bench-v0, default and reranked, and the cost of ingestion."""
    questions = [json.loads(line) for line in (BENCH_V0 / "questions.jsonl").read_text().splitlines()]
    files = sorted((BENCH_V0 / "corpus").iterdir())
    if bench.is_quick:
        questions, files = _sample_bench(questions, files)
    document_set, root = DocumentSet(bench, "bench-v0"), _find_root(bench)
    warm = DocumentSet(bench, "warm")
    warm.add_text("warm", "The first text loads the model.")
    warm.wait_for_runs()
    cpu_seconds, began = sum_tree_seconds(root), time.monotonic()
    disk = measure_disk(bench.scratch.home, excluded=("logs", "pg_wal"))
    for file in files:
        document_set.add_file(file.name, file)
    document_set.wait_for_runs()
    cost = {
        "documents": len(files),
        "bytes": sum(file.stat().st_size for file in files),
        "cpuSeconds": sum_tree_seconds(root) - cpu_seconds,
        "seconds": time.monotonic() - began,
        "diskBytes": measure_disk(bench.scratch.home, excluded=("logs", "pg_wal")) - disk,
    }
    if document_set.failures:
        raise LocalError(f"Documents of bench-v0 were not ingested: {document_set.failures}")
    bench.report(f"bench-v0: {len(files)} documents ingested; asking {len(questions)} questions")
    return {
        "questions": len(questions),
        **_ask_questions(document_set, questions),
        "reranked": _ask_questions(document_set, questions, **_RERANK_OPTIONS),
        "cost": cost,
    }


def _ask_questions(document_set: DocumentSet, questions: Sequence[Any], **options: Any) -> dict[str, Any]:
    """Return the score and median time; {} if a search was not reranked in time."""
    recalls, precisions, milliseconds = [], [], []
    for question in questions:
        start = time.perf_counter()
        hits = document_set.search(question["question"], **options)
        if options and not hits.data.reranked:
            return {}
        names = {find_external_id(hit) for hit in hits}
        milliseconds.append(1000 * (time.perf_counter() - start))
        cited = {name.rpartition("/")[2] for name in question["ground_truth_citations"]}
        recalls.append(len(names & cited) / len(cited) if cited else math.nan)
        precisions.append(len(names & cited) / max(len(names), 1))
    return {**_score_answers(recalls, precisions), "p50Milliseconds": round(statistics.median(milliseconds), 1)}


def _sample_bench(questions: list[Any], files: list[Path]) -> tuple[list[Any], list[Path]]:
    """Return six questions and their cited files."""
    questions = questions[:6]
    cited = {name.rpartition("/")[2] for question in questions for name in question["ground_truth_citations"]}
    return questions, [file for file in files if file.name in cited]


def _score_answers(recalls: Sequence[float], precisions: Sequence[float]) -> dict[str, Any]:
    """Return the score of bench-v0 by the README, with a 95 % bootstrap interval."""
    pairs = np.array([recalls, precisions])
    drawn = pairs[:, np.random.default_rng(1).integers(0, len(recalls), (BOOTSTRAP_SAMPLES, len(recalls)))]
    scores = 100 * (0.7 * np.nanmean(drawn[0], axis=1) + 0.3 * drawn[1].mean(axis=1))
    recall, precision = float(np.nanmean(pairs[0])), float(pairs[1].mean())
    low, high = (round(float(bound), 1) for bound in np.percentile(scores, [2.5, 97.5]))
    return {
        "score": round(100 * (0.7 * recall + 0.3 * precision), 1),
        "low": low,
        "high": high,
        "recall": round(recall, 3),
        "precision": round(precision, 3),
    }


def measure_cost(bench: ProofBench, cost: dict[str, float]) -> dict[str, Any]:
    """Return the cost of 1,000 such documents, and the memory of the instance."""
    factor = 1000 / cost["documents"]
    return {
        "documentBytes": round(cost["bytes"] / cost["documents"]),
        "cpuSeconds": round(cost["cpuSeconds"] * factor),
        "seconds": round(cost["seconds"] * factor),
        "diskMegabytes": round(cost["diskBytes"] * factor / 1e6),
        "memoryMegabytes": machine.measure_memory(_find_root(bench)),
    }


def measure_reading(bench: ProofBench) -> dict[str, Any]:
    """Measure table rows and words read from generated PDFs in order."""
    drawings = draw_files(1 if bench.is_quick else 6)
    document_set = DocumentSet(bench, "reading")
    for drawing in drawings:
        document_set.add_file(drawing.name, drawing.data)
    document_set.wait_for_runs()
    texts = document_set.read_texts()
    kinds = dict.fromkeys(drawing.kind for drawing in drawings)
    shares = {
        kind: [_score_reading(drawing, texts.get(drawing.name, "")) for drawing in drawings if drawing.kind == kind]
        for kind in kinds
    }
    return {"files": len(drawings), **{kind: round(statistics.mean(values), 4) for kind, values in shares.items()}}


def _score_reading(drawing: Drawing, text: str) -> float:
    if drawing.rows:
        lines = [line.strip().strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
        rows = [tuple(cell.strip() for cell in line) for line in lines]
        return sum(row in rows for row in drawing.rows) / len(drawing.rows)
    truth, words = drawing.words.split(), text.split()
    blocks = SequenceMatcher(None, truth, words, autojunk=False).get_matching_blocks()
    return sum(block.size for block in blocks) / max(len(truth), len(words))


def measure_rows(bench: ProofBench) -> dict[str, Any]:
    """Measure questions for a row of a large price list."""
    header, *rows = draw_price_list(60 if bench.is_quick else 400)
    document_set = DocumentSet(bench, "rows")
    document_set.add_file("prices.csv", "\n".join(",".join(row) for row in (header, *rows)).encode())
    document_set.wait_for_runs()
    chosen = rows[:: max(len(rows) // 40, 1)]
    questions = [f"What does the {row[2]} {row[1].lower()} {row[0]} cost?" for row in chosen]

    def holds_row(number: int, hit: Any) -> bool:
        return any(all(cell in line for cell in chosen[number]) for line in hit.content.splitlines())

    ranks = document_set.rank_answers(questions, holds_row)
    figures = {f"first{limit}": share_within(ranks, limit) for limit in (1, 3, 5)}
    return {"rows": len(rows), "questions": len(questions), **figures}


def measure_isolation(bench: ProofBench) -> dict[str, Any]:
    """Compare a user's answers before and after others add documents."""
    texts = [(file.name, file.read_text()[:3000]) for file in sorted((BENCH_V0 / "corpus").iterdir())]
    count = 4 if bench.is_quick else 12
    visible, hidden, foreign = (texts[start : start + count] for start in (0, count, 2 * count))
    queries = [" ".join(text.split()[8:20]) for _, text in (*visible, *hidden, *foreign)]
    north, south = bench.connect(tenant="north"), bench.connect(tenant="south")
    ada = bench.connect(tenant="north", on_behalf_of="ada@example.com")
    document_set = DocumentSet(bench, "isolation", north)
    for name, text in visible:
        document_set.add_text(name, text, access={"users": ["ada@example.com"]})
    document_set.wait_for_runs()
    answers = [_list_answers(document_set, ada, queries)]
    for name, text in hidden:
        document_set.add_text(name, text, access={"users": ["bob@example.com"]})
    document_set.wait_for_runs()
    foreign_documents = DocumentSet(bench, "", south, namespace=document_set.namespace)
    for name, text in foreign:
        foreign_documents.add_text(name, text)
    foreign_documents.wait_for_runs()
    answers.append(_list_answers(document_set, ada, queries))
    differing = sum(before != after for before, after in zip(*answers, strict=True))
    return {"answers": len(answers[0]), "differing": differing, "hidden": len(hidden) + len(foreign)}


def _list_answers(document_set: DocumentSet, client: Any, queries: Sequence[str]) -> list[Any]:
    answers: list[Any] = [sorted(document.external_id for document in client.documents.list(document_set.namespace))]
    answers.append(client.documents.facets(document_set.namespace, ["document.language"]))
    for query in queries:
        for hybrid in (False, True):
            hits = client.search(document_set.namespace, query, top_k=10, hybrid=hybrid)
            answers.append([(find_external_id(hit), hit.content, round(hit.score, 6)) for hit in hits])
    return answers


def measure_kills(bench: ProofBench) -> dict[str, Any]:
    """Kill worker and API during ingestion; count lost and duplicate documents."""
    count = 9 if bench.is_quick else 60
    document_set = DocumentSet(bench, "kills")
    for number in range(count):
        if number == count // 3:
            _kill_role(bench, "worker")
        if number == 2 * count // 3:
            _kill_role(bench, "api")
        _send_until_accepted(document_set, number)
    _retry_after_kill(document_set.wait_for_runs)
    documents = list(document_set.client.documents.list(document_set.namespace, statuses=["SUCCESS"]))
    names = [document.external_id for document in documents]
    missing = 0
    for number in range(count):
        hits = document_set.client.search(document_set.namespace, f"mark{number}x", top_k=3, hybrid=0.0)
        missing += {find_external_id(hit) for hit in hits} != {f"text {number}"}
    findings = ""
    try:
        bench.scratch.run_command("fsck")
    except LocalError as error:
        findings = str(error)
    return {
        "documents": count,
        "killed": ["worker", "api"],
        "lost": count - len(set(names)),
        "doubled": len(names) - len(set(names)),
        "notFoundOnce": missing,
        "findings": findings,
    }


def _send_until_accepted(document_set: DocumentSet, number: int) -> None:
    """Send a text with one Idempotency-Key until accepted."""
    text = f"Text number {number} of the kill round has the mark mark{number}x. " * 20
    _retry_after_kill(lambda: document_set.add_text(f"text {number}", text, idempotency_key=f"kill-round-{number}"))


def _retry_after_kill(act: Callable[[], None]) -> None:
    """Retry while the service restarts."""
    deadline = time.monotonic() + _KILL_SECONDS
    while True:
        try:
            return act()
        except RetrievalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def _kill_role(bench: ProofBench, name: str) -> None:
    """Send SIGKILL to a role of the instance."""
    record = instance.find_running(bench.scratch.home)
    role = next((role for role in record.roles if role.name == name), None) if record else None
    if role is None or role.pid is None or role.started is None:
        raise LocalError(f"The {name} of {bench.scratch.home} does not run.")
    Process(role.pid, role.started).send_signal(signal.SIGKILL)
    bench.report(f"killed the {name} (process {role.pid})")


def _find_root(bench: ProofBench) -> int:
    record = instance.find_running(bench.scratch.home)
    if record is None:
        raise LocalError(f"Nothing runs in {bench.scratch.home}.")
    return record.pid
