"""How fast the local models embed chunks of about 200 tokens, what each runtime costs, and whether quality stays.

Rates go by the CPU second and by the second; beside them stand the cosine to fp32 on ONNX Runtime, what loading takes
in seconds and memory (each in a process of its own), and nDCG@10 on Cranfield where the collection is there.

.venv/bin/python bench/embedders.py [texts] [rounds] [--quick: without nDCG@10, which takes minutes]
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from bench import report  # noqa: E402
from connectors.embedders import local, minilm_runtime  # noqa: E402
from retrieval.ingestion.chunking.split import split  # noqa: E402
from retrieval.ingestion.chunking.tokenizer import MINILM, tokenizer_for  # noqa: E402
from retrieval.ports import Embedder, Parsed  # noqa: E402

CRANFIELD = report.data() / "cranfield"
REFERENCE = "onnxruntime fp32, 1 thread"


def main(count: int = 64, rounds: int = 5, *, quick: bool = False) -> None:
    """Rounds go over all variants in turn, so that a noisy minute hits them alike; medians are shown."""
    report.end_in_order()
    texts = chunks(count)
    with tempfile.TemporaryDirectory() as home:
        variants = make(Path(home))
        vectors = {name: embedder.embed(texts, "document") for name, embedder in variants.items()}
        measured: dict[str, list[tuple[float, float]]] = {name: [] for name in variants}
        for number in range(rounds):
            for name, embedder in variants.items():
                measured[name].append(clock(embedder, texts))
            print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
        rows = [row(name, measured[name], vectors) for name in variants]
        runtimes = ["onnxruntime", minilm_runtime.choose("auto")]
        loads = {runtime: first_use(Path(home), runtime) for runtime in dict.fromkeys(runtimes)}
        judged = names() if (CRANFIELD / "qrels.tsv").is_file() and not quick else []
        quality = {name: ndcg(variants[f"{name}, 1 thread"]) for name in judged}
    for line in rows:
        print(f"{line['variant']:30} {line['perCpuSecond']:8.1f} /CPU s {line['perSecond']:8.1f} /s  {line['cosine']}")
    for runtime, figures in loads.items():
        print(f"{runtime:30} first vector after {figures['seconds']:.1f} s, {figures['megabytes']:.0f} MB resident")
    for name, value in quality.items():
        print(f"{name:30} nDCG@10 on Cranfield's abstracts, semantic: {value:.4f}")
    found = {"texts": len(texts), "rounds": rounds, "rows": rows, "firstUse": loads, "ndcgAt10": quality}
    report.write("embedders", found)


def chunks(count: int) -> list[str]:
    """Cranfield's abstracts in a row, or else the project's own sources, cut at 200 tokens."""
    if CRANFIELD.is_dir():
        text = "\n\n".join(entry["text"] for entry in lines("corpus.jsonl"))
    else:
        text = "\n\n".join(path.read_text() for path in sorted((PROJECT / "retrieval").rglob("*.py")))
    return [c.text for c in split(Parsed(text[: count * 1400]), tokenizer_for("LOCAL", MINILM), 200, 0)][:count]


def names() -> list[str]:
    chosen = minilm_runtime.choose("auto")
    return list(dict.fromkeys(["onnxruntime fp32", f"{chosen} {'bf16' if chosen == 'openvino' else 'fp32'}"]))


def make(home: Path) -> dict[str, Embedder]:
    """Every runtime that runs here; 8-bit weights and static vectors beside them."""
    found: dict[str, Embedder] = {}
    for threads in (1, 2):
        label = "1 thread" if threads == 1 else f"{threads} threads"
        for name in names():
            runtime: minilm_runtime.Runtime = "openvino" if name.startswith("openvino") else "onnxruntime"
            found[f"{name}, {label}"] = local.MiniLM(home, runtime=runtime, threads=threads)
        found[f"onnxruntime int8, {label}"] = local.MiniLM(home, precision="int8", threads=threads)
    found["wordllama"] = local.WordLlama()
    return found


def clock(embedder: Embedder, texts: list[str]) -> tuple[float, float]:
    """CPU and wall seconds of one pass."""
    cpu, wall = time.process_time(), time.perf_counter()
    embedder.embed(texts, "document")
    return time.process_time() - cpu, time.perf_counter() - wall


def row(name: str, seconds: list[tuple[float, float]], vectors: dict[str, Any]) -> dict[str, Any]:
    count = len(vectors[name])
    rate: Callable[[int], float] = lambda column: count / statistics.median(pair[column] for pair in seconds)  # noqa: E731
    reference = vectors[REFERENCE]
    cosine = np.sum(vectors[name] * reference, axis=1) if vectors[name].shape == reference.shape else None
    told = "" if cosine is None else f"cosine to fp32: mean {cosine.mean():.5f}, least {cosine.min():.5f}"
    return {"variant": name, "perCpuSecond": rate(0), "perSecond": rate(1), "cosine": told}


def first_use(home: Path, runtime: str) -> dict[str, float]:
    """Seconds to the first vector and resident megabytes after 64 texts of several lengths, in a fresh process."""
    code = (
        "import json, sys, time; started = time.perf_counter(); from pathlib import Path\n"
        "from connectors.embedders import local\n"
        "model = local.MiniLM(Path(sys.argv[1]), runtime=sys.argv[2], threads=1)\n"
        "model.embed(['one'], 'query'); seconds = time.perf_counter() - started\n"
        "model.embed(['wing ' * (3 * number) for number in range(1, 65)], 'document')\n"
        "pages = int(Path('/proc/self/statm').read_text().split()[1])\n"
        "print(json.dumps({'seconds': seconds, 'megabytes': pages * 4096 / 2**20}))"
    )
    command = [sys.executable, "-c", code, str(home), runtime]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True, timeout=120)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def ndcg(embedder: Embedder) -> float:
    """Mean nDCG@10 over the judged queries, whole abstracts by their cosine."""
    corpus, queries = lines("corpus.jsonl"), lines("queries.jsonl")
    documents = embedder.embed([f"{entry.get('title', '')} {entry['text']}" for entry in corpus], "document")
    asked = embedder.embed([entry["text"] for entry in queries], "query")
    grades: dict[str, dict[str, int]] = {}
    for line in (CRANFIELD / "qrels.tsv").read_text().splitlines()[1:]:
        query, document, grade = line.split("\t")
        grades.setdefault(query, {})[document] = int(grade)
    values = []
    for entry, scores in zip(queries, asked @ documents.T, strict=True):
        judged = grades.get(entry["id"], {})
        best = [corpus[place]["id"] for place in np.argsort(-scores)[:10]]
        ideal = discounted(sorted(judged.values(), reverse=True)[:10])
        values.append(discounted([judged.get(document, 0) for document in best]) / ideal if ideal else 0.0)
    return statistics.fmean(values)


def discounted(found: list[int]) -> float:
    return sum(grade / math.log2(rank + 2) for rank, grade in enumerate(found))


def lines(name: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (CRANFIELD / name).read_text().splitlines()]


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:] if word.isdigit()), quick="--quick" in sys.argv)
