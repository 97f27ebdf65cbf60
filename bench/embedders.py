"""How fast the local models embed chunks of about 200 tokens, and what 8-bit weights cost: a table and a JSON file.

.venv/bin/python bench/embedders.py [texts] [rounds]
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from connectors.embedders import local  # noqa: E402
from retrieval.ingestion.chunking.split import split  # noqa: E402
from retrieval.ingestion.chunking.tokenizer import MINILM, tokenizer_for  # noqa: E402
from retrieval.ports import Embedder, Parsed  # noqa: E402

CRANFIELD = PROJECT.parent / "shared" / "data" / "cranfield" / "corpus.jsonl"
BATCHES = (8, 16, 32, 64)


def main(count: int = 64, rounds: int = 5) -> None:
    """Rounds go over all variants in turn, so that a noisy minute hits them alike; medians are shown."""
    texts = chunks(count)
    with tempfile.TemporaryDirectory() as home:
        variants = make(Path(home))
        vectors = {name: embedder.embed(texts, "document") for name, embedder in variants.items()}
        measured: dict[str, list[tuple[float, float]]] = {name: [] for name in variants}
        for _ in range(rounds):
            for name, embedder in variants.items():
                measured[name].append(clock(embedder, texts))
    rows = [row(name, measured[name], vectors) for name in variants]
    for line in rows:
        print(f"{line['variant']:32} {line['perCpuSecond']:9.1f} /CPU s {line['perSecond']:9.1f} /s  {line['cosine']}")
    out = PROJECT / "bench" / "results" / "embedders.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"texts": len(texts), "rounds": rounds, "rows": rows}, indent=1))


def chunks(count: int) -> list[str]:
    """Cranfield's abstracts in a row, or else the project's own sources, cut at 200 tokens."""
    if CRANFIELD.is_file():
        text = "\n\n".join(json.loads(line)["text"] for line in CRANFIELD.read_text().splitlines())
    else:
        text = "\n\n".join(path.read_text() for path in sorted((PROJECT / "retrieval").rglob("*.py")))
    return [c.text for c in split(Parsed(text[: count * 1400]), tokenizer_for("LOCAL", MINILM), 200, 0)][:count]


def make(home: Path) -> dict[str, Embedder]:
    found: dict[str, Embedder] = {}
    for threads in (1, 2):
        for batch in BATCHES:
            found[f"minilm fp32, {threads} thr, batch {batch}"] = local.MiniLM(home, threads=threads, batch=batch)
        found[f"minilm int8, {threads} thr, batch 8"] = local.MiniLM(home, precision="int8", threads=threads)
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
    reference = vectors["minilm fp32, 1 thr, batch 8"]
    cosine = np.sum(vectors[name] * reference, axis=1) if vectors[name].shape == reference.shape else None
    told = "" if cosine is None else f"cosine to fp32: mean {cosine.mean():.5f}, least {cosine.min():.5f}"
    return {"variant": name, "perCpuSecond": rate(0), "perSecond": rate(1), "cosine": told}


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
