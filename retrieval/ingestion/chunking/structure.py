"""Structure of a parsed text: tables with their headers, and records of JSON and JSON Lines, by character offset."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from retrieval.ingestion.chunking import row_values

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from retrieval.ports import Parsed, Tokenizer

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
ROWS: Final = 500_000
"""Rows of a text, or records, that are kept whole; the structure of a longer one is not read."""
_NOT_BREAKS: Final = re.compile(r"[^\s](?:[^\n]*[^\s])?")
_RECORD_CHARACTERS: Final = 1_000_000
"""A longer record has no fields."""
_TOKEN: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]')
"""Linear in the text: a string without an end is one token too."""


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
        return row_values.typed_rows(self.names, [row_cells(self.text[start:end]) for start, end in self.rows])

    def between(self, start: int, end: int) -> list[dict[str, Any]]:
        """Return the fields of the rows in this range, including partial rows."""
        return [self.values[index] for index in _overlapping(self.rows, start, end)]


@dataclass(frozen=True)
class Records:
    """Records of a JSON document, in order, by their ranges."""

    ranges: Sequence[Range] = ()
    text: str = field(default="", repr=False)

    def between(self, start: int, end: int) -> list[dict[str, Any]]:
        """Read the fields of the records in this range, including partial records."""
        fields = (self._fields(*self.ranges[index]) for index in _overlapping(self.ranges, start, end))
        return [row for row in fields if row is not None]

    def _fields(self, start: int, end: int) -> dict[str, Any] | None:
        if end - start > _RECORD_CHARACTERS:
            return None
        try:
            record = json.loads(self.text[start:end])
        except (ValueError, RecursionError):
            return None
        return row_values.flatten_record(record) if isinstance(record, dict) else None


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
        """Return the first table with rows in this range."""
        return next((table for table in self._tables(start, end) if start < table.end), None)

    def _tables(self, start: int, end: int) -> Sequence[Table]:
        first, end_index = bisect_right(self._starts, start) - 1, bisect_right(self._starts, end - 1)
        return self.tables[max(first, 0) : end_index]

    def is_tabular(self, position: int) -> bool:
        """Tell if the position is within or right after a row or a record, where chunks do not overlap."""
        if self.table_at(position) is not None or (position and self.table_at(position - 1) is not None):
            return True
        ranges = self.records.ranges
        return bool(ranges) and ranges[0][0] < position <= ranges[-1][1]

    def rows(self, start: int, end: int) -> list[dict[str, Any]]:
        """The typed fields of every row and record in this range."""
        rows = [row for table in self._tables(start, end) for row in table.between(start, end)]
        return rows + self.records.between(start, end)


def find_structure(text: str, media_type: str = "") -> Structure:
    """Find the structure of a text. `media_type` decides between JSON, JSON Lines and Markdown tables."""
    kind = media_type.partition(";")[0].strip().lower()
    if kind in LINES_TYPES:
        return Structure(records=_lines(text))
    if kind == JSON_TYPE:
        return Structure(records=_json(text))
    return Structure(tables=list(_tables(text))) if text.count("\n|") <= ROWS else Structure()


def row_cells(row: str) -> list[str]:
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
    names, body = row_cells(text[slice(*lines[0])]), lines[2:]
    title = ""
    if len(names) > 1 and len(body) > 1:
        second, third = (row_cells(text[slice(*line)]) for line in body[:2])
        has_names = len(second) == len(names) and not any(map(row_values.is_number, second))
        if has_names and sum(map(bool, names)) <= 1 and all(second):
            title, names, body = next(filter(None, names), ""), second, body[1:]
        elif has_names and sum(map(bool, names)) < sum(map(bool, second)) and any(map(row_values.is_number, third)):
            title = " | ".join(filter(None, names))
            names, body = [below or name for name, below in zip(names, second, strict=True)], body[1:]
    if any(names):
        header = " | ".join(names)[:_HEADER_CHARACTERS]
        yield Table(tuple(names), f"{title}\n{header}" if title else header, body, text)


def _lines(text: str) -> Records:
    spans = (match.span() for match in _NOT_BREAKS.finditer(text))
    lines = ((start, end) for start, end in spans if text[start] == "{" and text[end - 1] == "}")
    return _records(list(islice(lines, ROWS + 1)), text)


def _json(text: str) -> Records:
    scanner = _Scanner(text)
    try:
        scanner.scan(0, _DEPTH)
    except (ValueError, RecursionError, IndexError):
        return Records()
    return _records(scanner.ranges, text)


def _records(ranges: Sequence[Range], text: str) -> Records:
    return Records(ranges, text) if len(ranges) <= ROWS else Records()


class _Scanner:
    """Finds the objects in the outermost arrays of a JSON text, without reading what is in them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.ranges: list[Range] = []
        self._decoder = json.JSONDecoder()

    def scan(self, position: int, depth: int) -> int:
        """Read the value at this position; returns where it ends. ValueError or IndexError if it is no JSON."""
        position = self._skip_blanks(position)
        opening = self.text[position]
        if opening == "[":
            return self._array(position + 1)
        if opening == "{" and depth:
            return self._object(position + 1, depth)
        return self._skip_value(position)

    def _array(self, position: int) -> int:
        while self.text[position := self._skip_blanks(position)] != "]":
            end = self._skip_value(position)
            if self.text[position] == "{":
                if len(self.ranges) > ROWS:
                    return len(self.text)
                self.ranges.append((position, end))
            position = self._skip_comma(end)
        return position + 1

    def _object(self, position: int, depth: int) -> int:
        while self.text[position := self._skip_blanks(position)] != "}":
            position = self._skip_blanks(self._skip_value(position))
            position = self._skip_comma(self.scan(position + 1, depth - 1))
        return position + 1

    def _skip_value(self, position: int) -> int:
        if self.text[position] not in "[{":
            return self._decoder.raw_decode(self.text, position)[1]
        depth = 0
        for match in _TOKEN.finditer(self.text, position):
            if match[0] in ("[", "{"):
                depth += 1
            elif match[0] in ("]", "}"):
                depth -= 1
                if not depth:
                    return match.end()
            elif len(match[0]) == 1 or not match[0].endswith('"'):
                break
        raise ValueError("The value has no end.")

    def _skip_comma(self, position: int) -> int:
        position = self._skip_blanks(position)
        return position + 1 if self.text[position] == "," else position

    def _skip_blanks(self, position: int) -> int:
        match = _SPACE.match(self.text, position)
        return match.end() if match else position


def _overlapping(ranges: Sequence[Range], start: int, end: int) -> range:
    """Indexes of the sorted ranges that share a character with [start, end)."""
    first = bisect_right(ranges, start, key=lambda span: span[1])
    end_index = bisect_right(ranges, end - 1, key=lambda span: span[0])
    return range(first, end_index)


HEADER_SHARE: Final = 4
"""One part in so many of a chunk's size may be its table's header; a longer one is cut."""
_HEADER_LINE_END: Final = 2
"""Tokens that the end of the header's line may take in any tokenizer."""


@dataclass(frozen=True)
class Headers:
    """The headers of one text's tables, and the tokens that they cost."""

    structure: Structure
    _tokenizer: Tokenizer
    _most: int
    _known: dict[str, tuple[str, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, parsed: Parsed, tokenizer: Tokenizer, size: int) -> Headers:
        """The headers of a parsed document. `size`: the tokens of a chunk."""
        return cls(
            find_structure(parsed.text, str(parsed.properties.get("mimeType", ""))), tokenizer, size // HEADER_SHARE
        )

    def of_chunk(self, start: int, end: int) -> str:
        """Return the header of the first table with rows in this range, "" without one."""
        table = self.structure.first_table(start, end)
        return "" if table is None else self._cut(table)[0]

    def cost(self, position: int) -> int:
        """Tokens that the header adds to a chunk that begins here, within a table's body."""
        table = self.structure.table_at(position)
        return 0 if table is None else self._cut(table)[1]

    def _cut(self, table: Table) -> tuple[str, int]:
        if table.header not in self._known:
            (spans,) = self._tokenizer.spans([table.header])
            header = table.header
            if len(spans) > self._most:
                header = header[: spans[self._most][0]].rpartition(" | ")[0]
            self._known[table.header] = header, min(len(spans), self._most) + _HEADER_LINE_END if header else 0
        return self._known[table.header]
