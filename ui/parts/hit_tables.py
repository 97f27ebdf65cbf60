"""Headings and tables in the Markdown of a search result."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

MAX_TABLE_ROWS = 3
_HEADING_PATTERN = re.compile(r" {0,3}(#{1,6}) +(.+?) *#*")
_SEPARATOR_PATTERN = re.compile(r"[\s|:-]*-[\s|:-]*")
_BAR_PATTERN = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True, slots=True)
class Table:
    names: list[str]
    rows: list[list[str]]


@dataclass(frozen=True, slots=True)
class Passage:
    """Text of a result with leading headings and tables."""

    headings: Sequence[str]
    tables: Sequence[Table]
    text: str


def read_passage(content: str, header: str = "") -> Passage:
    """Split Markdown into headings, tables and text; `header`: column names of a table begun before."""
    headings: dict[int, str] = {}
    tables = [Table([name.strip() for name in header.rpartition("\n")[2].split(" | ")] if header else [], [])]
    text: list[str] = []
    for line in content.splitlines():
        stripped = line.strip()
        heading = _HEADING_PATTERN.fullmatch(line)
        if heading and not text and not tables[-1].rows:
            level = len(heading[1])
            headings = {number: title for number, title in headings.items() if number < level} | {level: heading[2]}
        elif stripped.startswith("|") and _SEPARATOR_PATTERN.fullmatch(stripped):
            tables.append(Table(tables[-1].rows.pop() if tables[-1].rows else tables[-1].names, []))
        elif stripped.startswith("|"):
            tables[-1].rows.append(
                [cell.strip().replace(r"\|", "|") for cell in _BAR_PATTERN.split(stripped.strip("|"))]
            )
        elif stripped:
            text.append(line)
    return Passage(list(headings.values()), [table for table in tables if table.rows], "\n".join(text))


def build_table(passage: Passage, mark: Callable[[str], str]) -> str:
    """Return the rows with most marked words of a table as HTML; "" if only the text has marked words."""
    # `mark` escapes a cell and marks the query's words.
    most_marks, html_table = -1, ""
    for table in passage.tables:
        marked = [[mark(cell) for cell in row] for row in table.rows if row != table.names]
        counts = [sum(cell.count("<mark>") for cell in row) for row in marked]
        best = sorted(range(len(marked)), key=lambda number: -counts[number])[:MAX_TABLE_ROWS]
        if marked and (marks := sum(counts[number] for number in best)) > most_marks:
            header = _build_row("th", [mark(name) for name in table.names]) if table.names else ""
            body = "".join(_build_row("td", marked[number]) for number in sorted(best))
            most_marks, html_table = marks, f"<table>{header}{body}</table>"
    return html_table if most_marks > 0 or not passage.text else ""


def _build_row(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" if cell else "<td></td>" for cell in cells) + "</tr>"
