"""Headings and table rows in the Markdown of a search result."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

ROWS = 3
"""Rows of a table that a result shows."""
_HEADING = re.compile(r" {0,3}(#{1,6}) +(.+?) *#*")
_SEPARATOR = re.compile(r"[\s|:-]*-[\s|:-]*")
_BAR = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True, slots=True)
class Passage:
    """A result's text: the headings that it begins with, its table, and the rest of it."""

    headings: Sequence[str]
    names: Sequence[str]
    rows: Sequence[Sequence[str]]
    text: str


def read_passage(content: str, header: str = "") -> Passage:
    """Split Markdown into headings, a table and text. `header`: the table's column names if its rows follow alone."""
    headings: dict[int, str] = {}
    table: list[list[str]] = []
    text: list[str] = []
    names = [name.strip() for name in header.rpartition("\n")[2].split(" | ")] if header else []
    for line in content.splitlines():
        stripped = line.strip()
        heading = _HEADING.fullmatch(line)
        if heading and not text and not table:
            level = len(heading[1])
            headings = {number: title for number, title in headings.items() if number < level} | {level: heading[2]}
        elif stripped.startswith("|") and _SEPARATOR.fullmatch(stripped):
            names = table.pop() if table and not names else names
        elif stripped.startswith("|"):
            table.append([cell.strip().replace(r"\|", "|") for cell in _BAR.split(stripped.strip("|"))])
        elif stripped:
            text.append(line)
    return Passage(list(headings.values()), names, [row for row in table if row != names], "\n".join(text))


def build_table(passage: Passage, mark: Callable[[str], str]) -> str:
    """Return the rows with the most marked words as an HTML table with its header; "" if no row has one beside text.

    `mark` escapes a cell and marks the words of the query in it.
    """
    marked = [[mark(cell) for cell in row] for row in passage.rows]
    counts = [sum(cell.count("<mark>") for cell in row) for row in marked]
    if not marked or (passage.text and not any(counts)):
        return ""
    best = sorted(range(len(marked)), key=lambda number: -counts[number])[:ROWS]
    body = "".join(_build_row("td", marked[number]) for number in sorted(best))
    header = _build_row("th", [mark(name) for name in passage.names]) if passage.names else ""
    return f"<table>{header}{body}</table>"


def _build_row(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>"
