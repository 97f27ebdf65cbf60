"""Structure of a parsed text: tables with their headers, and records of JSON and JSON Lines, by character offset."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from retrieval.ingestion.chunking import row_values

Range = tuple[int, int]
"""Start and end, as offsets of characters."""

JSON_TYPE: Final = "application/json"
LINES_TYPES: Final = frozenset({"application/x-ndjson", "application/jsonl", "application/json-lines"})
_LINE: Final = re.compile(r"^ {0,3}\|[^\n]*", re.MULTILINE)
_DELIMITER: Final = re.compile(r" {0,3}\|(?:[ \t]*:?-+:?[ \t]*\|)+[ \t]*")
_CELL_END: Final = re.compile(r"(?<!\\)\|")
_SPACE: Final = re.compile(r"\s*")
_HEADER_CHARACTERS: Final = 2_000
_DEPTH: Final = 4
"""Levels of objects below which no records are looked for."""


@dataclass(frozen=True)
class Table:
    """A table: its column names, its header as one line, below a title if it has one, and the range of each row."""

    names: Sequence[str]
    header: str
    rows: Sequence[Range]
    text: str = field(repr=False)

    @property
    def start(self) -> int:
        return self.rows[0][0]

    @property
    def end(self) -> int:
        return self.rows[-1][1]

    @cached_property
    def values(self) -> list[dict[str, Any]]:
        """The typed fields of each row."""
        return row_values.typed(self.names, [cells(self.text[start:end]) for start, end in self.rows])

    def between(self, start: int, end: int) -> list[dict[str, Any]]:
        """Fields of the rows that lie in this range, torn ones included."""
        return [self.values[index] for index in _overlapping(self.rows, start, end)]


@dataclass(frozen=True)
class Records:
    """Records of a JSON document, in order; each has its range and its fields."""

    ranges: Sequence[Range] = ()
    values: Sequence[Mapping[str, Any]] = ()

    def between(self, start: int, end: int) -> list[dict[str, Any]]:
        """Fields of the records that lie in this range, torn ones included."""
        return [row_values.flattened(self.values[index]) for index in _overlapping(self.ranges, start, end)]


@dataclass(frozen=True)
class Structure:
    """The tables and records of one text, in order."""

    tables: Sequence[Table] = ()
    records: Records = field(default_factory=Records)

    @cached_property
    def _starts(self) -> list[int]:
        return [table.start for table in self.tables]

    def table_at(self, position: int) -> Table | None:
        """The table whose body holds this position."""
        index = bisect_right(self._starts, position) - 1
        if index >= 0 and position < self.tables[index].end:
            return self.tables[index]
        return None

    def first_table(self, start: int, end: int) -> Table | None:
        """The first table of which rows lie in this range."""
        return next((table for table in self._tables(start, end) if start < table.end), None)

    def _tables(self, start: int, end: int) -> Sequence[Table]:
        first, after = bisect_right(self._starts, start) - 1, bisect_right(self._starts, end - 1)
        return self.tables[max(first, 0) : after]

    def is_tabular(self, position: int) -> bool:
        """Whether the position lies within or right behind a row or a record, where chunks do not overlap."""
        if self.table_at(position) is not None or (position and self.table_at(position - 1) is not None):
            return True
        ranges = self.records.ranges
        return bool(ranges) and ranges[0][0] < position <= ranges[-1][1]

    def rows(self, start: int, end: int) -> list[dict[str, Any]]:
        """The typed fields of every row and record in this range."""
        rows = [row for table in self._tables(start, end) for row in table.between(start, end)]
        return rows + self.records.between(start, end)


def find(text: str, media_type: str = "") -> Structure:
    """The structure of a text. `media_type` says whether it is JSON, JSON Lines, or may hold Markdown tables."""
    kind = media_type.partition(";")[0].strip().lower()
    if kind in LINES_TYPES:
        return Structure(records=_lines(text))
    if kind == JSON_TYPE:
        return Structure(records=_json(text))
    return Structure(tables=list(_tables(text)))


def cells(row: str) -> list[str]:
    """The cells of a Markdown table row, unescaped."""
    line = row.strip().removeprefix("|")
    if line.endswith("|") and not line.endswith("\\|"):
        line = line[:-1]
    return [" ".join(cell.replace("\\|", "|").replace("<br>", " ").split()) for cell in _CELL_END.split(line)]


def _tables(text: str) -> Iterator[Table]:
    block: list[Range] = []
    for match in _LINE.finditer(text):
        if block and match.start() != block[-1][1] + 1:
            yield from _table(text, block)
            block = []
        block.append(match.span())
    if block:
        yield from _table(text, block)


def _table(text: str, lines: Sequence[Range]) -> Iterator[Table]:
    """The table of adjacent lines, if its second one is a delimiter row and rows follow."""
    if len(lines) < 3 or not _DELIMITER.fullmatch(text[slice(*lines[1])].rstrip()):
        return
    names, body = cells(text[slice(*lines[0])]), lines[2:]
    title = ""
    if len(names) > 1 and sum(map(bool, names)) <= 1 and len(body) > 1:
        candidate = cells(text[slice(*body[0])])
        if all(candidate) and not any(map(row_values.is_number, candidate)):
            title, names, body = next(filter(None, names), ""), candidate, body[1:]
    if any(names):
        header = " | ".join(names)[:_HEADER_CHARACTERS]
        yield Table(tuple(names), f"{title}\n{header}" if title else header, body, text)


def _lines(text: str) -> Records:
    ranges, values = [], []
    for match in re.finditer(r"[^\n]+", text):
        try:
            value = json.loads(match[0])
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            ranges.append(match.span())
            values.append(value)
    return Records(ranges, values)


def _json(text: str) -> Records:
    scanner = _Scanner(text)
    try:
        scanner.scan(0, _DEPTH)
    except (ValueError, RecursionError, IndexError):
        return Records()
    return Records(scanner.ranges, scanner.values)


class _Scanner:
    """Finds the objects in the outermost arrays of a JSON text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.ranges: list[Range] = []
        self.values: list[Mapping[str, Any]] = []
        self._decoder = json.JSONDecoder()

    def scan(self, position: int, depth: int) -> int:
        """Read the value at this position; returns where it ends."""
        position = self._skip(position)
        opening = self.text[position]
        if opening == "[":
            return self._array(position + 1)
        if opening == "{" and depth:
            return self._object(position + 1, depth)
        return self._decoder.raw_decode(self.text, position)[1]

    def _array(self, position: int) -> int:
        while self.text[position := self._skip(position)] != "]":
            value, end = self._decoder.raw_decode(self.text, position)
            if isinstance(value, dict):
                self.ranges.append((position, end))
                self.values.append(value)
            position = self._comma(end)
        return position + 1

    def _object(self, position: int, depth: int) -> int:
        while self.text[position := self._skip(position)] != "}":
            position = self._skip(self._decoder.raw_decode(self.text, position)[1])
            position = self._comma(self.scan(position + 1, depth - 1))
        return position + 1

    def _comma(self, position: int) -> int:
        position = self._skip(position)
        return position + 1 if self.text[position] == "," else position

    def _skip(self, position: int) -> int:
        match = _SPACE.match(self.text, position)
        return match.end() if match else position


def _overlapping(ranges: Sequence[Range], start: int, end: int) -> range:
    """Indexes of the sorted ranges that share a character with [start, end)."""
    first = bisect_right(ranges, start, key=lambda span: span[1])
    after = bisect_right(ranges, end - 1, key=lambda span: span[0])
    return range(first, after)
