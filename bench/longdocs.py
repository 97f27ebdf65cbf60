"""Answers in long texts: the share of answer characters in the best five chunks, ours against a plain fixed window.

    .venv/bin/python bench/longdocs.py [--model wordllama-l2-supercat-256] [--sizes 64,128,256,512,1000]

Semantic search by exact cosine in this process, so that only the chunking differs. A fixed window cuts after every so
many tokens, wherever that is. `window` has the same size and overlap; `even` has windows of the mean length of our
chunks, which end at boundaries and so are shorter than their size. With 220 questions the standard error of a share is
about 0.03, so only the mean over many sizes and overlaps tells ways apart that are as close as these. Also: the
processor time of chunking against that of the tokenizer alone on the same text.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))
DATA = PROJECT.parent / "shared" / "data" / "longdocs"
TOP = 5

Range = tuple[int, int]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--model", default="wordllama-l2-supercat-256")
    options.add_argument("--sizes", default="64,96,128,192,256,384,512,768,1000")
    chosen = options.parse_args()
    documents = {row["id"]: row["text"] for row in lines("documents.jsonl")}
    questions = lines("questions.jsonl")
    embedder, tokenizer = ports(chosen.model)
    asked = embedder.embed([question["text"] for question in questions], "query")
    print(f"{chosen.model}: {len(questions)} questions, share of answer characters in the best {TOP} chunks")
    print(f"{'size':>6} {'overlap':>8} {'ours':>8} {'window':>8} {'even':>8} {'chunks':>8} {'windows':>8}")
    told_shares = []
    for size in map(int, chosen.sizes.split(",")):
        for overlap in (0, size // 8, size // 4):
            ways = [ours(documents, tokenizer, size, overlap), windows(documents, tokenizer, size, overlap)]
            even = round(size * length(ways[0]) / length(ways[1]))
            ways.append(windows(documents, tokenizer, even, overlap * even // size))
            shares = [share(documents, questions, asked, embedder, found) for found in ways]
            counts = [sum(map(len, found.values())) for found in ways]
            told_shares.append([*shares, *counts[:2]])
            print(f"{size:>6} {overlap:>8}", row(shares), f"{counts[0]:>8} {counts[1]:>8}")
    means = [sum(column) / len(told_shares) for column in zip(*told_shares, strict=True)]
    print(f"{'mean':>15}", row(means[:3]), f"{means[3]:>8.0f} {means[4]:>8.0f}")
    cost(documents, tokenizer)


def row(shares: list[float]) -> str:
    return " ".join(f"{value:>8.4f}" for value in shares)


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text().splitlines()]


def ports(model: str) -> tuple[Any, Any]:
    from connectors.embedders import local
    from retrieval import settings
    from retrieval.tokens import tokenizer_for

    return local.load(model, settings.load().home), tokenizer_for("LOCAL", model)


def ours(documents: dict[str, str], tokenizer: Any, size: int, overlap: int) -> dict[str, list[Range]]:
    from retrieval.chunking.split import split
    from retrieval.ports import Parsed

    return {
        name: [(chunk.start, chunk.end) for chunk in split(Parsed(text), tokenizer, size, overlap)]
        for name, text in documents.items()
    }


def windows(documents: dict[str, str], tokenizer: Any, size: int, overlap: int) -> dict[str, list[Range]]:
    found: dict[str, list[Range]] = {}
    for name, text in documents.items():
        (spans,) = tokenizer.spans([text])
        starts = range(0, max(len(spans) - overlap, 1), size - overlap)
        found[name] = [(spans[start][0], spans[min(start + size, len(spans)) - 1][1]) for start in starts]
    return found


def length(found: dict[str, list[Range]]) -> float:
    """The mean number of characters."""
    return sum(end - start for ranges in found.values() for start, end in ranges) / sum(map(len, found.values()))


def share(
    documents: dict[str, str], questions: list[dict[str, Any]], asked: Any, embedder: Any, found: dict[str, list[Range]]
) -> float:
    """The mean over all questions; each is asked within all documents."""
    import numpy as np

    places = [(name, start, end) for name, ranges in found.items() for start, end in ranges]
    vectors = embedder.embed([documents[name][start:end] for name, start, end in places], "document")
    best = np.argsort(-(asked @ vectors.T), axis=1)[:, :TOP]
    shares = []
    for question, row in zip(questions, best, strict=True):
        chosen = [places[place] for place in row]
        wanted = {at for span in question["spans"] for at in range(span["start"], span["end"])}
        held = {at for name, start, end in chosen if name == question["doc"] for at in wanted if start <= at < end}
        shares.append(len(held) / len(wanted))
    return float(np.mean(shares))


def cost(documents: dict[str, str], tokenizer: Any) -> None:
    """The best of several measurements of each, in turn."""
    from retrieval.chunking import units
    from retrieval.chunking.split import split
    from retrieval.ports import Parsed

    text = "\n\n".join(documents.values())
    pieces = [text[start : start + units.PIECE] for start in range(0, len(text), units.PIECE)]
    bare, whole = [], []
    for _ in range(7):
        bare.append(seconds(lambda: tokenizer.spans(pieces)))
        whole.append(seconds(lambda: split(Parsed(text), tokenizer, 512, 64)))
    print(f"chunking {len(text):,} characters takes {min(whole) / min(bare):.2f} times the tokenizer's processor time")


def seconds(call: Any) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


if __name__ == "__main__":
    main()
