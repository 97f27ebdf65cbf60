"""Fields of table rows and records: normalized names, values typed by column."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from retrieval.conditions.model import is_storable

COLUMNS: Final = 64
"""Columns of a table, or fields of a record, that can be filtered by."""
VALUE_CHARACTERS: Final = 500
"""Longer values are left out: they are text to search, not values to filter by."""
_NUMBER: Final = re.compile(
    r"[-+\u2212(]?\s*(?:[$€£¥]|[A-Z]{3}\b)?\s*[-+\u2212]?(?P<digits>\d[\d.,'\u00a0\u202f ]{0,40})"
    r"\s*(?:[$€£¥%]|[A-Z]{3}\b)?\s*\)?"
)
_LEADING_ZERO: Final = re.compile(r"[-+]?0\d")
_GROUPED: Final = re.compile(r"\d{1,3}(?:[.,]\d{3})+")
_MARKED_TWICE: Final = re.compile(r"\d+[.,]\d*[.,]")
_NUMERAL: Final = re.compile(r"\d{1,3}(?:\.\d{3})+(?:,\d*)?|\d{1,3}(?:,\d{2,3})+(?:\.\d*)?")
"""Digits in groups, with a decimal mark or without: a version, such as 3.11.7, is none."""


def is_number(cell: str) -> bool:
    """Tell if a cell holds a number, with or without a currency or percent sign."""
    return _NUMBER.fullmatch(cell) is not None


def typed_rows(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """The rows as objects, by normalized column name; blank cells are absent.

    A column is numeric if each of its cells is a number and none is a code with leading zeros.
    """
    keys = _keys(names)
    fields: list[dict[str, Any]] = [{} for _ in rows]
    for column, key in enumerate(keys):
        cells = [row[column] if column < len(row) else "" for row in rows]
        for row, value in zip(fields, _column(cells), strict=True):
            if value is not None:
                row[key] = value
    return fields


def flatten_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """The scalar fields of a record, nested ones as `outer.inner`, lists of scalars as they are."""
    fields: dict[str, Any] = {}
    for key, value in _leaves(record, ""):
        if len(fields) == COLUMNS:
            break
        fields[key] = value
    return fields


def normalize_column(name: str) -> str:
    """A column's name as filters spell it: `Amount (EUR)` is `amount_eur`."""
    return re.sub(r"[^\w.]+", "_", unicodedata.normalize("NFC", name).lower()).strip("_.")


def _leaves(value: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, member in value.items():
        key = f"{prefix}{normalize_column(str(name))}"
        if not is_storable(key):
            continue
        if isinstance(member, Mapping):
            yield from _leaves(member, f"{key}.")
        elif _is_scalar(member) or (
            isinstance(member, list) and member and len(member) <= COLUMNS and all(map(_is_scalar, member))
        ):
            yield key, member


def _is_scalar(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= VALUE_CHARACTERS and is_storable(value)
    if isinstance(value, float):
        return value - value == 0
    return isinstance(value, bool | int) and abs(value) < 2**63


def _keys(names: Sequence[str]) -> list[str]:
    keys: list[str] = []
    for number, name in enumerate(names[:COLUMNS], 1):
        key = base = normalize_column(name) or f"column_{number}"
        repeat = 1
        while key in keys:
            repeat += 1
            key = f"{base}_{repeat}"
        keys.append(key)
    return keys


def _column(cells: Sequence[str]) -> list[Any]:
    written = [cell for cell in cells if cell]
    texts = [cell if cell and len(cell) <= VALUE_CHARACTERS else None for cell in cells]
    matches = [_NUMBER.fullmatch(cell) for cell in written]
    if not written or not all(matches) or any(_LEADING_ZERO.match(cell) for cell in written):
        return texts
    digits = [re.sub(r"[' \u00a0\u202f]", "", match["digits"]).rstrip(".,") for match in matches if match]
    if any(_MARKED_TWICE.match(part) and not _NUMERAL.fullmatch(part) for part in digits):
        return texts
    mark = _decimal_mark(digits)
    numbers = iter([_number(cell, part, mark) for cell, part in zip(written, digits, strict=True)])
    return [next(numbers) if cell else None for cell in cells]


def _decimal_mark(digits: Sequence[str]) -> str:
    """The decimal separator of a column: the last one where both occur, else a single one not before three digits."""
    for part in digits:
        dot, comma = part.rfind("."), part.rfind(",")
        if dot >= 0 and comma >= 0:
            return "." if dot > comma else ","
    if any(part.count(".") > 1 for part in digits):
        return ","
    for mark in ",.":
        marked = [part for part in digits if mark in part]
        if marked and all(part.count(mark) == 1 for part in marked):
            grouped = all(_GROUPED.fullmatch(part) for part in marked)
            if mark == "." or not grouped:
                return mark
    return "."


def _number(cell: str, digits: str, mark: str) -> int | float:
    plain = digits.replace("," if mark == "." else ".", "").replace(mark, ".")
    value = float(plain) if "." in plain else int(plain)
    if abs(value) >= 2**63:
        value = float(value)
    return -value if cell.lstrip().startswith(("-", "\u2212", "(")) or re.match(r"\D*[-\u2212]\d", cell) else value
