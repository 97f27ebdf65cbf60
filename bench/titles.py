"""Does a document's title help where it stands before each chunk in what is embedded? nDCG@10 on Cranfield, semantic.

    .venv/bin/python bench/titles.py [--model all-MiniLM-L6-v2] [--sizes 64,128,254]

The text begins with its title, as a file does. A document counts by its best chunk, by exact cosine in this process.
`without`: the chunk alone, so that only the first one holds the title. `with`: as the service embeds it, the title on
a line of its own before each chunk that does not begin with it. `error`: the standard error of the gain. The texts of
../shared/data/longdocs have no titles and so can say nothing here.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from bench.cranfield import CRANFIELD, _ndcg  # noqa: E402
from bench.longdocs import ports  # noqa: E402
from retrieval.ingestion.chunking.split import split  # noqa: E402
from retrieval.ingestion.chunking.titles import embedded_text, usable  # noqa: E402
from retrieval.ports import Parsed  # noqa: E402


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--model", default="all-MiniLM-L6-v2")
    options.add_argument("--sizes", default="64,128,254")
    chosen = options.parse_args()
    embedder, tokenizer = ports(chosen.model)
    documents = [row for row in lines("corpus.jsonl") if row["text"].strip()]
    queries = lines("queries.jsonl")
    asked = embedder.embed([row["text"] for row in queries], "query")
    print(f"{chosen.model}: {len(documents)} texts, {len(queries)} questions, nDCG@10")
    print(f"{'size':>6} {'chunks':>8} {'without':>9} {'with':>9} {'gain':>9} {'error':>9}")
    for size in map(int, chosen.sizes.split(",")):
        pieces = [(row["id"], row["title"], chunk.text) for row in documents for chunk in cut(row, tokenizer, size)]
        names = [name for name, _, _ in pieces]
        plain = judge(asked, embed(embedder, [text for _, _, text in pieces]), names, queries)
        texts = [embedded_text(usable(title, tokenizer), "", text) for _, title, text in pieces]
        title = judge(asked, embed(embedder, texts), names, queries)
        gain = [after - before for before, after in zip(plain, title, strict=True)]
        error = (sum((one - mean(gain)) ** 2 for one in gain) / len(gain)) ** 0.5 / len(gain) ** 0.5
        print(f"{size:>6} {len(pieces):>8} {mean(plain):>9.4f} {mean(title):>9.4f} {mean(gain):>+9.4f} {error:>9.4f}")


def cut(row: dict[str, str], tokenizer: Any, size: int) -> list[Any]:
    return split(Parsed(f"{row['title']}\n\n{row['text']}"), tokenizer, size, size // 5)


def embed(embedder: Any, texts: list[str]) -> Any:
    import numpy as np

    order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
    vectors = [embedder.embed([texts[i] for i in order[at : at + 256]], "document") for at in range(0, len(order), 256)]
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return np.concatenate(vectors)[back]


def judge(asked: Any, vectors: Any, names: list[str], queries: list[dict[str, str]]) -> list[float]:
    """nDCG@10 of each question."""
    import numpy as np

    grades: dict[str, dict[str, int]] = {}
    for row in csv.DictReader((CRANFIELD / "qrels.tsv").open(), delimiter="\t"):
        grades.setdefault(row["query"], {})[row["doc"]] = int(row["grade"])
    best = np.argsort(-(asked @ vectors.T), axis=1)
    scores = []
    for query, row in zip(queries, best, strict=True):
        wanted = grades.get(query["id"], {})
        found = list(dict.fromkeys(names[place] for place in row[:200]))[:10]
        scores.append(_ndcg([wanted.get(name, 0) for name in found], wanted))
    return scores


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def lines(name: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (CRANFIELD / name).read_text().splitlines()]


if __name__ == "__main__":
    main()
