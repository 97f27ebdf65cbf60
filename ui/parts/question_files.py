"""Judged questions from files: JSON lines as the API has them, or BEIR's queries.jsonl with its qrels.tsv."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from typing import Any

from ui.client import Json

GRADES = range(1, 5)
EXAMPLE = """{"query": "How do I open the cover?", "relevant": [{"externalId": "manual-a7", "grade": 2}]}
{"query": "Which oil does it need?", "relevant": [{"externalId": "manual-a7"}, {"externalId": "parts-list"}]}"""

Grades = dict[str, dict[str, int]]


class Unreadable(ValueError):
    """Which file and line is wrong, and how it should look."""


def read(files: Mapping[str, bytes]) -> tuple[list[Json], int]:
    """Questions as the API takes them, and how many were left out for want of a judgement. `files`: content by name.

    A name that ends in `.tsv` or `.txt` holds judgements, any other questions.
    """
    grades: Grades = {}
    for name, content in files.items():
        if is_judgements(name):
            for query, judged in _judgements(name, _text(name, content)).items():
                grades.setdefault(query, {}).update(judged)
    found = [
        _question(row, grades, f"{name}, line {number}")
        for name, content in files.items()
        if not is_judgements(name)
        for number, row in _lines(name, _text(name, content))
    ]
    kept = [question for question in found if question["relevant"]]
    return kept, len(found) - len(kept)


def is_judgements(name: str) -> bool:
    """Whether a file holds judgements, by its name."""
    return name.lower().endswith((".tsv", ".txt", ".qrels"))


def typed(text: str) -> list[Json]:
    """Questions of a text field: a line each, as in a file."""
    return [_question(row, {}, f"line {number}") for number, row in _lines("", text)]


def _text(name: str, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(f"{name} is not text in UTF-8.") from error


def _lines(name: str, text: str) -> Iterator[tuple[int, Json]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row: Any = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            at = f"{name}, line {number}" if name else f"Line {number}"
            raise Unreadable(f"{at} is not a JSON object, such as {EXAMPLE.splitlines()[0]}")
        yield number, row


def _question(row: Json, grades: Grades, at: str) -> Json:
    query = row.get("query", row.get("text"))
    if not isinstance(query, str) or not query.strip():
        raise Unreadable(f'{at}: a question needs its text under "query" (or "text", as BEIR has it).')
    relevant = row.get("relevant", grades.get(str(row.get("_id"))))
    if isinstance(relevant, dict):
        relevant = [
            {"externalId": document, "grade": min(grade, GRADES[-1])}
            for document, grade in relevant.items()
            if isinstance(grade, int) and grade >= GRADES[0]
        ]
    if relevant is not None and not isinstance(relevant, list):
        raise Unreadable(f'{at}: "relevant" is a list of documents, or grades by external id.')
    narrow = {"filter": row["filter"]} if isinstance(row.get("filter"), dict) else {}
    return {"query": query, "relevant": relevant or [], **narrow}


def _judgements(name: str, text: str) -> Grades:
    """By query and document: three columns between tabs, or four as trec_eval has them; a first line may be titles."""
    found: Grades = {}
    rows = [row for row in csv.reader(text.splitlines(), delimiter="\t") if row]
    for number, row in enumerate(rows, 1):
        parts = row if len(row) > 1 else row[0].split()
        grade = parts[-1].strip().lstrip("-")
        if number == 1 and not grade.isdecimal():
            continue
        if len(parts) not in {3, 4} or not grade.isdecimal():
            raise Unreadable(f"{name}, line {number}: not the ids of query and document and a grade between tabs.")
        found.setdefault(parts[0], {})[parts[-2]] = int(parts[-1])
    return found
