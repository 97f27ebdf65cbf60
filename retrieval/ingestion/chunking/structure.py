"""Structure of a parsed text: tables with headers, and records of JSON and JSON Lines, by character offset."""

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

# Start and end, in characters.
Range = tuple[int, int]

JSON_TYPE: Final = "application/json"
LINES_TYPES: Final = frozenset({"application/x-ndjson", "application/jsonl", "application/json-lines"})
_TABLE_LINE: Final = re.compile(r"^ {0,3}\|[^\n]*", re.MULTILINE)
_DELIMITER_ROW: Final = re.compile(r" {0,3}\|(?:[ \t]*:?-+:?[ \t]*\|)+[ \t]*")
_CELL_END: Final = re.compile(r"(?<!\\)\|")
_BLANKS: Final = re.compile(r"\s*")
_MAX_HEADER_CHARACTERS: Final = 2_000
# Nesting depth of the JSON objects searched for records.
_MAX_RECORD_DEPTH: Final = 4
# The structure of a text with more rows or records is not read.
MAX_ROWS: Final = 500_000
_NON_BLANK_LINE: Final = re.compile(r"[^\s](?:[^\n]*[^\s])?")
# The fields of a longer record are not read.
_MAX_RECORD_CHARACTERS: Final = 1_000_000
# Linear in the text: an unterminated string is one token.
_JSON_TOKEN: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]')


@dataclass(frozen=True)
class Table:
    """Table of a text: column names, header line (below an optional title) and row ranges."""

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
        """Return the typed fields of each row."""
        return row_values.typed_rows(self.names, [row_cells(self.text[start:end]) for start, end in self.rows])

    def fields_between(self, start: int, end: int) -> list[dict[str, Any]]:
        """Return the fields of the rows in this range, including partial rows."""
        return [self.values[index] for index in _overlapping_indexes(self.rows, start, end)]


@dataclass(frozen=True)
class Records:
    """Ranges of the records of a JSON document."""

    ranges: Sequence[Range] = ()
    text: str = field(default="", repr=False)

    def fields_between(self, start: int, end: int) -> list[dict[str, Any]]:
        """Return the fields of the records in this range, including partial records."""
        fields = (self._fields(*self.ranges[index]) for index in _overlapping_indexes(self.ranges, start, end))
        return [row for row in fields if row is not None]

    def _fields(self, start: int, end: int) -> dict[str, Any] | None:
        if end - start > _MAX_RECORD_CHARACTERS:
            return None
        try:
            record = json.loads(self.text[start:end])
        except (ValueError, RecursionError):
            return None
        return row_values.flatten_record(record) if isinstance(record, dict) else None


@dataclass(frozen=True)
class Structure:
    """Tables and records of one text, in order."""

    tables: Sequence[Table] = ()
    records: Records = field(default_factory=Records)

    @cached_property
    def _starts(self) -> list[int]:
        return [table.start for table in self.tables]

    def table_at(self, position: int) -> Table | None:
        """Return the table with this position in a row."""
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
        """Return whether chunks at this position do not overlap: inside or right after a row or record."""
        if self.table_at(position) is not None or (position and self.table_at(position - 1) is not None):
            return True
        ranges = self.records.ranges
        return bool(ranges) and ranges[0][0] < position <= ranges[-1][1]

    def rows(self, start: int, end: int) -> list[dict[str, Any]]:
        """Return the typed fields of the rows and records in this range."""
        rows = [row for table in self._tables(start, end) for row in table.fields_between(start, end)]
        return rows + self.records.fields_between(start, end)


def find_structure(text: str, media_type: str = "") -> Structure:
    """Find the structure of a text; the media type selects JSON, JSON Lines or Markdown tables."""
    kind = media_type.partition(";")[0].strip().lower()
    if kind in LINES_TYPES:
        return Structure(records=_find_json_lines(text))
    if kind == JSON_TYPE:
        return Structure(records=_find_json_records(text))
    return Structure(tables=list(_find_tables(text))) if text.count("\n|") <= MAX_ROWS else Structure()


def row_cells(row: str) -> list[str]:
    """Return the unescaped cells of a Markdown table row."""
    line = row.strip().removeprefix("|")
    if line.endswith("|") and not line.endswith("\\|"):
        line = line[:-1]
    return [" ".join(cell.replace("\\|", "|").replace("<br>", " ").split()) for cell in _CELL_END.split(line)]


def _find_tables(text: str) -> Iterator[Table]:
    block: list[Range] = []
    for match in _TABLE_LINE.finditer(text):
        if block and match.start() != block[-1][1] + 1:
            yield from _parse_table(text, block)
            block = []
        block.append(match.span())
    if block:
        yield from _parse_table(text, block)


def _parse_table(text: str, lines: Sequence[Range]) -> Iterator[Table]:
    """Yield the table of adjacent lines: header, delimiter and at least one row."""
    if len(lines) < 3 or not _DELIMITER_ROW.fullmatch(text[slice(*lines[1])].rstrip()):
        return
    names, body = row_cells(text[slice(*lines[0])]), lines[2:]
    title = ""
    if len(names) > 1 and len(body) > 1:
        second, third = (row_cells(text[slice(*line)]) for line in body[:2])
        has_names = len(second) == len(names) and not any(map(row_values.is_number, second))
        if groups := _join_groups(names, second, third):
            names, body = groups, body[1:]
        elif has_names and sum(map(bool, names)) <= 1 and all(second):
            title, names, body = next(filter(None, names), ""), second, body[1:]
        elif has_names and sum(map(bool, names)) < sum(map(bool, second)) and any(map(row_values.is_number, third)):
            title = " | ".join(filter(None, names))
            names, body = [below or name for name, below in zip(names, second, strict=True)], body[1:]
    if any(names):
        header = " | ".join(names)[:_MAX_HEADER_CHARACTERS]
        yield Table(tuple(names), f"{title}\n{header}" if title else header, body, text)


def _join_groups(names: Sequence[str], second: Sequence[str], third: Sequence[str]) -> list[str]:
    """Return names of columns with the name of their group before them; [] without groups of several columns."""
    # A group stands at its first column; a name without a group has no name below.
    if len(second) != len(names) or any(map(row_values.is_count, second)) or not any(map(row_values.is_count, third)):
        return []
    joined: list[str] = []
    group, group_count = "", 0
    for at, (name, below) in enumerate(zip(names, second, strict=True)):
        is_wide = bool(name and below and second[at + 1 : at + 2] != [""] and names[at + 1 : at + 2] == [""])
        group_count += is_wide
        group = name if name or not below else group
        joined.append(f"{group} \u2013 {below}" if group and below and (is_wide or not name) else below or name)
    is_complete = all(below or name for name, below in zip(names, second, strict=True) if name or below)
    return joined if group_count > 1 and is_complete and all(joined[1:]) else []


def _find_json_lines(text: str) -> Records:
    spans = (match.span() for match in _NON_BLANK_LINE.finditer(text))
    lines = ((start, end) for start, end in spans if text[start] == "{" and text[end - 1] == "}")
    return _limit_records(list(islice(lines, MAX_ROWS + 1)), text)


def _find_json_records(text: str) -> Records:
    scanner = _JsonScanner(text)
    try:
        scanner.scan(0, _MAX_RECORD_DEPTH)
    except (ValueError, RecursionError, IndexError):
        return Records()
    return _limit_records(scanner.ranges, text)


def _limit_records(ranges: Sequence[Range], text: str) -> Records:
    return Records(ranges, text) if len(ranges) <= MAX_ROWS else Records()


class _JsonScanner:
    """Scanner for the objects in the outermost arrays of a JSON text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.ranges: list[Range] = []
        self._decoder = json.JSONDecoder()

    def scan(self, position: int, depth: int) -> int:
        """Scan the value at this position and return its end. ValueError or IndexError for invalid JSON."""
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
                if len(self.ranges) > MAX_ROWS:
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
        for match in _JSON_TOKEN.finditer(self.text, position):
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
        match = _BLANKS.match(self.text, position)
        return match.end() if match else position


def _overlapping_indexes(ranges: Sequence[Range], start: int, end: int) -> range:
    """Return the indexes of sorted ranges that overlap [start, end)."""
    first = bisect_right(ranges, start, key=lambda span: span[1])
    end_index = bisect_right(ranges, end - 1, key=lambda span: span[0])
    return range(first, end_index)


# A table header takes at most a quarter of the chunk size.
HEADER_SHARE_DIVISOR: Final = 4
# Upper bound of the tokens of a line end in any tokenizer.
LINE_END_TOKENS: Final = 2


@dataclass(frozen=True)
class Headers:
    """Headers of the tables of one text, with their token cost."""

    structure: Structure
    _tokenizer: Tokenizer
    _max_tokens: int
    _shortened: dict[str, tuple[str, int]] = field(default_factory=dict)

    @classmethod
    def for_document(cls, parsed: Parsed, tokenizer: Tokenizer, size: int) -> Headers:
        """Create the headers of a parsed document for chunks of `size` tokens."""
        return cls(
            find_structure(parsed.text, str(parsed.properties.get("mimeType", ""))),
            tokenizer,
            size // HEADER_SHARE_DIVISOR,
        )

    def chunk_header(self, start: int, end: int) -> str:
        """Return the header of the first table with rows in this range, or ""."""
        table = self.structure.first_table(start, end)
        return "" if table is None else self._shorten(table)[0]

    def token_cost(self, position: int) -> int:
        """Return the tokens that a table header adds to a chunk from this position."""
        table = self.structure.table_at(position)
        return 0 if table is None else self._shorten(table)[1]

    def _shorten(self, table: Table) -> tuple[str, int]:
        if table.header not in self._shortened:
            (spans,) = self._tokenizer.spans([table.header])
            header = table.header
            if len(spans) > self._max_tokens:
                header = header[: spans[self._max_tokens][0]].rpartition(" | ")[0]
            self._shortened[table.header] = (
                header,
                min(len(spans), self._max_tokens) + LINE_END_TOKENS if header else 0,
            )
        return self._shortened[table.header]
