"""Answers in long texts: the share of answer characters in the best five chunks, ours against a plain fixed window.

    .venv/bin/python bench/longdocs.py [--model all-MiniLM-L6-v2] [--sizes 64,128,254] [--starts 8]

Semantic search by exact cosine in this process, so that only the chunking differs; each question is asked within all
texts. A fixed window cuts after every so many tokens, wherever that is; size and overlap are the same. Where cuts fall
is chance, so both ways are measured from several starting places in the texts and averaged over them for each
question; `as used` is ours from the beginning of the text. `difference` is ours less window, paired by question, with
the 95 % interval of a bootstrap over the questions. A size above what the model reads is lowered to that: what it cuts
off would count as found and never be seen. Also: the processor time of chunking against the tokenizer's alone.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from bench import report  # noqa: E402

DATA = report.data() / "longdocs"
TOP = 5
DRAWS = 10_000

Range = tuple[int, int]
Way = Callable[[str, Any, int, int], list[Range]]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--model", default="wordllama-l2-supercat-256")
    options.add_argument("--sizes", default="64,128,256,512,1000")
    options.add_argument("--starts", type=int, default=8)
    chosen = options.parse_args()
    report.end_in_order()
    documents = {row["id"]: row["text"] for row in lines("documents.jsonl")}
    embedder, tokenizer = ports(chosen.model)
    sizes = sorted({min(int(size), embedder.max_tokens) for size in chosen.sizes.split(",")})
    bench = Bench(documents, lines("questions.jsonl"), embedder, tokenizer)
    print(f"{chosen.model}: {len(bench.questions)} questions, share of answer characters in the best {TOP} chunks,")
    print(f"mean over {chosen.starts} starting places; the model reads at most {embedder.max_tokens} tokens")
    print(f"{'size':>6}{'overlap':>9}{'as used':>9}{'ours':>9}{'window':>9}{'chunks':>8}{'windows':>9}  difference")
    gains = [bench.compare(size, overlap, chosen.starts) for size in sizes for overlap in (0, size // 5)]
    print(f"{'all together':>59}  {interval(sum(gains) / len(gains))}")
    report.write("longdocs", {"model": chosen.model, "gain": float((sum(gains) / len(gains)).mean())})
    cost(documents, tokenizer)


class Bench:
    """Texts and questions, with what embeds them."""

    def __init__(self, documents: dict[str, str], questions: list[dict[str, Any]], embedder: Any, tokenizer: Any):
        self.documents, self.questions, self.embedder, self.tokenizer = documents, questions, embedder, tokenizer
        self.asked = embedder.embed([question["text"] for question in questions], "query")

    def compare(self, size: int, overlap: int, starts: int) -> Any:
        """Print a row; how much better ours is, by question."""
        mine, (chunks, first) = self.mean(ours, size, overlap, starts)
        plain, (windows, _) = self.mean(window, size, overlap, starts)
        told = f"{first:>9.4f}{mine.mean():>9.4f}{plain.mean():>9.4f}{chunks:>8.0f}{windows:>9.0f}"
        print(f"{size:>6}{overlap:>9}{told}  {interval(mine - plain)}", flush=True)
        return mine - plain

    def mean(self, way: Way, size: int, overlap: int, starts: int) -> tuple[Any, tuple[float, float]]:
        """The share of each question, averaged over starting places; number of chunks, and share from the beginning."""
        import numpy as np

        shares, counts = [], []
        for number in range(starts):
            places = [
                (name, start, end)
                for name, text in self.documents.items()
                for start, end in shifted(way, text, self.tokenizer, size, overlap, number * (size - overlap) // starts)
            ]
            counts.append(len(places))
            shares.append(self.shares(places))
        return np.mean(shares, axis=0), (float(np.mean(counts)), float(np.mean(shares[0])))

    def shares(self, places: list[tuple[str, int, int]]) -> list[float]:
        """The share of answer characters that each question finds."""
        import numpy as np

        vectors = self.embedder.embed([self.documents[name][start:end] for name, start, end in places], "document")
        best = np.argsort(-(self.asked @ vectors.T), axis=1)[:, :TOP]
        found = []
        for question, row in zip(self.questions, best, strict=True):
            wanted = {at for span in question["spans"] for at in range(span["start"], span["end"])}
            held = [(start, end) for name, start, end in (places[place] for place in row) if name == question["doc"]]
            found.append(sum(any(start <= at < end for start, end in held) for at in wanted) / len(wanted))
        return found


def shifted(way: Way, text: str, tokenizer: Any, size: int, overlap: int, skipped: int) -> list[Range]:
    """The text cut as if it began at the next word after so many tokens; what is before is cut by itself."""
    at = tokenizer.spans([text[: 40 * size]])[0][skipped][0] if skipped else 0
    while at and not text[at - 1].isspace():
        at += 1
    head = way(text[:at], tokenizer, size, overlap) if text[:at].strip() else []
    return [*head, *((at + start, at + end) for start, end in way(text[at:], tokenizer, size, overlap))]


def ours(text: str, tokenizer: Any, size: int, overlap: int) -> list[Range]:
    from retrieval.ingestion.chunking.split import split
    from retrieval.ports import Parsed

    return [(chunk.start, chunk.end) for chunk in split(Parsed(text), tokenizer, size, overlap)]


def window(text: str, tokenizer: Any, size: int, overlap: int) -> list[Range]:
    (spans,) = tokenizer.spans([text])
    starts = range(0, max(len(spans) - overlap, 1), size - overlap)
    return [(spans[start][0], spans[min(start + size, len(spans)) - 1][1]) for start in starts]


def interval(gains: Any) -> str:
    """The mean, and the middle 95 % of means of as many questions drawn with replacement."""
    import numpy as np

    drawn = np.random.default_rng(0).integers(0, len(gains), (DRAWS, len(gains)))
    low, high = np.quantile(gains[drawn].mean(axis=1), (0.025, 0.975))
    return f"{gains.mean():+.4f} [{low:+.4f}, {high:+.4f}]"


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text().splitlines()]


def ports(model: str) -> tuple[Any, Any]:
    from connectors.embedders import local
    from retrieval import settings
    from retrieval.ingestion.chunking.tokenizer import tokenizer_for

    return local.load(model, settings.load().home), tokenizer_for("LOCAL", model)


def cost(documents: dict[str, str], tokenizer: Any) -> None:
    """The best of several measurements of each, in turn."""
    from retrieval.ingestion.chunking import units
    from retrieval.ingestion.chunking.split import split
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
