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
class Passage:
    """Text of a result with its leading headings and its table."""

    headings: Sequence[str]
    names: Sequence[str]
    rows: Sequence[Sequence[str]]
    text: str


def read_passage(content: str, header: str = "") -> Passage:
    """Split Markdown into headings, table and text; `header` has column names outside of the text."""
    headings: dict[int, str] = {}
    table: list[list[str]] = []
    text: list[str] = []
    names = [name.strip() for name in header.rpartition("\n")[2].split(" | ")] if header else []
    for line in content.splitlines():
        stripped = line.strip()
        heading = _HEADING_PATTERN.fullmatch(line)
        if heading and not text and not table:
            level = len(heading[1])
            headings = {number: title for number, title in headings.items() if number < level} | {level: heading[2]}
        elif stripped.startswith("|") and _SEPARATOR_PATTERN.fullmatch(stripped):
            names = table.pop() if table and not names else names
        elif stripped.startswith("|"):
            table.append([cell.strip().replace(r"\|", "|") for cell in _BAR_PATTERN.split(stripped.strip("|"))])
        elif stripped:
            text.append(line)
    return Passage(list(headings.values()), names, [row for row in table if row != names], "\n".join(text))


def build_table(passage: Passage, mark: Callable[[str], str]) -> str:
    """Return the rows with most marked words as an HTML table; "" if no row has one in addition to text."""
    # `mark` escapes a cell and marks the query's words.
    marked = [[mark(cell) for cell in row] for row in passage.rows]
    counts = [sum(cell.count("<mark>") for cell in row) for row in marked]
    if not marked or (passage.text and not any(counts)):
        return ""
    best = sorted(range(len(marked)), key=lambda number: -counts[number])[:MAX_TABLE_ROWS]
    body = "".join(_build_row("td", marked[number]) for number in sorted(best))
    header = _build_row("th", [mark(name) for name in passage.names]) if passage.names else ""
    return f"<table>{header}{body}</table>"


def _build_row(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" if cell else "<td></td>" for cell in cells) + "</tr>"
