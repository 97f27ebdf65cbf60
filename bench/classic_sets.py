"""Convert classic public test collections for `bench.quality`: corpus.jsonl, queries.jsonl, qrels.tsv.

    python -m bench.classic_sets FOLDER

FOLDER holds the distributed files: `MED.ALL`, `MED.QRY`, `MED.REL`; `TIME.ALL`, `TIME.QUE`, `TIME.REL`; `CISI.ALL`,
`CISI.QRY`, `CISI.REL`; `cacm.all`, `query.text`, `qrels.text`; `xquad.en.json`. Collections go to BENCH_DATA.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable
from pathlib import Path

from bench.harness import DATA_FOLDER

# Id, title, text.
Documents = list[tuple[str, str, str]]
Queries = list[tuple[str, str]]
Judged = Iterable[tuple[str, str]]
# The first and the last.
QUESTIONS_PER_PARAGRAPH = 2


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path)
    folder: Path = options.parse_args().folder
    for name, (first_file, read) in {
        "med": ("MED.ALL", read_med),
        "time": ("TIME.ALL", read_time),
        "cisi": ("CISI.ALL", read_cisi),
        "cacm": ("cacm.all", read_cacm),
        "xquad": ("xquad.en.json", read_xquad),
    }.items():
        if (folder / first_file).exists():
            write_collection(DATA_FOLDER / name, *read(folder))


def write_collection(folder: Path, documents: Documents, queries: Queries, judged: Judged) -> None:
    """Write a collection; every judged document has grade 1."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [{"id": name, "title": title, "text": text} for name, title, text in documents]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    questions = [{"id": name, "text": text} for name, text in queries]
    (folder / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in questions))
    lines = ["query\tdocument\tgrade", *(f"{query}\t{document}\t1" for query, document in dict.fromkeys(judged))]
    (folder / "qrels.tsv").write_text("\n".join(lines) + "\n")


def read_med(folder: Path) -> tuple[Documents, Queries, Judged]:
    judged = [tuple(line.split()) for line in (folder / "MED.REL").read_text().splitlines() if line.strip()]
    documents = [(name, "", parts["W"]) for name, parts in _read_records(folder / "MED.ALL")]
    queries = [(name, parts["W"]) for name, parts in _read_records(folder / "MED.QRY")]
    return documents, queries, [(row[0], row[2]) for row in judged]


def read_cisi(folder: Path) -> tuple[Documents, Queries, Judged]:
    judged = [line.split() for line in (folder / "CISI.REL").read_text().splitlines() if line.strip()]
    documents = [(name, parts.get("T", ""), parts["W"]) for name, parts in _read_records(folder / "CISI.ALL")]
    names = {row[0] for row in judged}
    queries = [(name, parts["W"]) for name, parts in _read_records(folder / "CISI.QRY") if name in names]
    return documents, queries, [(row[0], row[1]) for row in judged]


def read_cacm(folder: Path) -> tuple[Documents, Queries, Judged]:
    """Read documents with an abstract: titles answer no question."""
    rows = [line.split() for line in (folder / "qrels.text").read_text().splitlines() if line.strip()]
    documents = [
        (name, parts.get("T", ""), parts["W"]) for name, parts in _read_records(folder / "cacm.all") if parts.get("W")
    ]
    queries = [(name, parts["W"]) for name, parts in _read_records(folder / "query.text") if parts.get("W")]
    names = {name for name, _, _ in documents}
    judged = [(str(int(row[0])), str(int(row[1]))) for row in rows]
    # A query answered only by a title would count as answerable.
    unanswerable = {query for query, document in judged if document not in names}
    unanswerable -= {query for query, document in judged if document in names}
    queries = [(name, text) for name, text in queries if name not in unanswerable]
    return documents, queries, [(query, document) for query, document in judged if document in names]


def read_time(folder: Path) -> tuple[Documents, Queries, Judged]:
    """Read texts in lower case: the analyzer reads capitals as names."""
    texts = re.split(r"^\*TEXT .*$", (folder / "TIME.ALL").read_text(errors="replace"), flags=re.MULTILINE)[1:]
    documents = [(str(number), "", _join_words(text.split("*STOP")[0]).lower()) for number, text in enumerate(texts, 1)]
    query_parts = re.split(r"^\*FIND\s+(\d+)$", (folder / "TIME.QUE").read_text().split("*STOP")[0], flags=re.MULTILINE)
    queries = [
        (name, _join_words(text).lower()) for name, text in zip(query_parts[1::2], query_parts[2::2], strict=True)
    ]
    rows = [line.split() for line in (folder / "TIME.REL").read_text().splitlines() if line.strip()]
    return documents, queries, [(row[0], document) for row in rows for document in row[1:]]


def read_xquad(folder: Path) -> tuple[Documents, Queries, Judged]:
    """Read the first and last question of each paragraph."""
    documents: Documents = []
    queries: Queries = []
    judged = []
    for article in json.loads((folder / "xquad.en.json").read_text())["data"]:
        for paragraph in article["paragraphs"]:
            name = str(len(documents))
            documents.append((name, article["title"].replace("_", " "), paragraph["context"]))
            for question in (paragraph["qas"][0], paragraph["qas"][-1])[:QUESTIONS_PER_PARAGRAPH]:
                queries.append((question["id"], question["question"]))
                judged.append((question["id"], name))
    return documents, queries, judged


def _read_records(file: Path) -> list[tuple[str, dict[str, str]]]:
    """Read the records of a SMART file: number and sections by letter."""
    records = re.split(r"^\.I (\d+)\s*$", file.read_text(errors="replace"), flags=re.MULTILINE)[1:]
    return [
        (
            number,
            {part[0]: _join_words(part[1:]) for part in re.split(r"^\.(?=[A-Z]\s*$)", body, flags=re.MULTILINE)[1:]},
        )
        for number, body in zip(records[::2], records[1::2], strict=True)
    ]


def _join_words(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    main()
