"""Typed fields of table rows and records, for metadata filters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from retrieval.conditions.model import is_storable

MAX_COLUMNS: Final = 64
# Longer values are text for search, not for filters.
MAX_VALUE_CHARACTERS: Final = 500
_NUMBER_PATTERN: Final = re.compile(
    r"[-+\u2212(]?\s*(?:[$€£¥]|[A-Z]{3}\b)?\s*[-+\u2212]?(?P<digits>\d[\d.,'\u00a0\u202f ]{0,40})"
    r"\s*(?:[$€£¥%]|[A-Z]{3}\b)?\s*\)?"
)
_YEAR_PATTERN: Final = re.compile(r"(?:19|20)\d\d")
_LEADING_ZERO_PATTERN: Final = re.compile(r"[-+]?0\d")
_GROUPED_DIGITS: Final = re.compile(r"\d{1,3}(?:[.,]\d{3})+")
_TWO_MARKS_PATTERN: Final = re.compile(r"\d+[.,]\d*[.,]")
# Grouped digits with an optional decimal mark; excludes versions like 3.11.7.
_GROUPED_NUMERAL: Final = re.compile(r"\d{1,3}(?:\.\d{3})+(?:,\d*)?|\d{1,3}(?:,\d{2,3})+(?:\.\d*)?")


def is_number(cell: str) -> bool:
    """Return whether a cell is a number, with or without a currency or percent sign."""
    return _NUMBER_PATTERN.fullmatch(cell) is not None


def is_count(cell: str) -> bool:
    """Return whether a cell is a number other than a year, because years name columns."""
    return is_number(cell) and not _YEAR_PATTERN.fullmatch(cell)


def typed_rows(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """Return rows as objects by normalized column name, without blank cells."""
    keys = _column_keys(names)
    fields: list[dict[str, Any]] = [{} for _ in rows]
    for column, key in enumerate(keys):
        cells = [row[column] if column < len(row) else "" for row in rows]
        for row, value in zip(fields, _typed_column(cells), strict=True):
            if value is not None:
                row[key] = value
    return fields


def flatten_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scalar fields of a record, nested ones as `outer.inner`."""
    fields: dict[str, Any] = {}
    for key, value in _scalar_fields(record, ""):
        if len(fields) == MAX_COLUMNS:
            break
        fields[key] = value
    return fields


def normalize_column(name: str) -> str:
    """Return a column name as filters spell it: `Amount (EUR)` becomes `amount_eur`."""
    return re.sub(r"[^\w.]+", "_", unicodedata.normalize("NFC", name).lower()).strip("_.")


def _scalar_fields(value: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, member in value.items():
        key = f"{prefix}{normalize_column(str(name))}"
        if not is_storable(key):
            continue
        if isinstance(member, Mapping):
            yield from _scalar_fields(member, f"{key}.")
        elif _is_scalar(member) or (
            isinstance(member, list) and member and len(member) <= MAX_COLUMNS and all(map(_is_scalar, member))
        ):
            yield key, member


def _is_scalar(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_VALUE_CHARACTERS and is_storable(value)
    if isinstance(value, float):
        return value - value == 0
    return isinstance(value, bool | int) and abs(value) < 2**63


def _column_keys(names: Sequence[str]) -> list[str]:
    keys: list[str] = []
    for number, name in enumerate(names[:MAX_COLUMNS], 1):
        key = base = normalize_column(name) or f"column_{number}"
        repeat = 1
        while key in keys:
            repeat += 1
            key = f"{base}_{repeat}"
        keys.append(key)
    return keys


def _typed_column(cells: Sequence[str]) -> list[Any]:
    non_blank = [cell for cell in cells if cell]
    texts = [cell if cell and len(cell) <= MAX_VALUE_CHARACTERS else None for cell in cells]
    matches = [_NUMBER_PATTERN.fullmatch(cell) for cell in non_blank]
    # A column is numeric if every cell is a number and none is a code with leading zeros.
    if not non_blank or not all(matches) or any(_LEADING_ZERO_PATTERN.match(cell) for cell in non_blank):
        return texts
    digits = [re.sub(r"[' \u00a0\u202f]", "", match["digits"]).rstrip(".,") for match in matches if match]
    if any(_TWO_MARKS_PATTERN.match(part) and not _GROUPED_NUMERAL.fullmatch(part) for part in digits):
        return texts
    mark = _decimal_mark(digits)
    numbers = iter([_parse_number(cell, part, mark) for cell, part in zip(non_blank, digits, strict=True)])
    return [next(numbers) if cell else None for cell in cells]


def _decimal_mark(digits: Sequence[str]) -> str:
    """Return the decimal separator of a column."""
    for part in digits:
        dot, comma = part.rfind("."), part.rfind(",")
        if dot >= 0 and comma >= 0:
            return "." if dot > comma else ","
    if any(part.count(".") > 1 for part in digits):
        return ","
    for mark in ",.":
        marked = [part for part in digits if mark in part]
        if marked and all(part.count(mark) == 1 for part in marked):
            # A single comma before three digits separates thousands.
            grouped = all(_GROUPED_DIGITS.fullmatch(part) for part in marked)
            if mark == "." or not grouped:
                return mark
    return "."


def _parse_number(cell: str, digits: str, mark: str) -> int | float:
    plain = digits.replace("," if mark == "." else ".", "").replace(mark, ".")
    value = float(plain) if "." in plain else int(plain)
    if abs(value) >= 2**63:
        value = float(value)
    return -value if cell.lstrip().startswith(("-", "\u2212", "(")) or re.match(r"\D*[-\u2212]\d", cell) else value
