"""Conditions on documents: `all`, `any`, `not`, and leaves of field, operator and value."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, LiteralString, Protocol

# Nesting of `all`, `any` and `not`.
MAX_DEPTH = 5
MAX_LEAVES = 100
# Values in all lists of one condition.
MAX_LIST_VALUES = 1_000

ORDER_OPERATORS: Mapping[str, LiteralString] = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
CONDITION_OPERATORS = ("eq", "ne", "in", "nin", *ORDER_OPERATORS, "exists", "contains", "startsWith", "endsWith")

DATE_FIELDS = ("createdAt", "updatedAt", "modifiedAt")
# Column by field name.
TEXT_COLUMNS: Mapping[str, LiteralString] = {"name": "name", "source": "source", "type": "document_type"}
# Fields from `documents.properties`.
PROPERTY_FIELDS = ("path", "language", "mimeType", "fileSize", "pageCount", "textQuality")
# Derived from the error of a failed document.
FAILURE_FIELD = "failureCause"
DOCUMENT_FIELDS = (*DATE_FIELDS, *TEXT_COLUMNS, *PROPERTY_FIELDS, FAILURE_FIELD)
# Property and metadata key of a packed document: its path in the archive, shown as `path` if it has no other.
PACKED_PATH_PROPERTY = "archivePath"


class DescribedDocument(Protocol):
    """Document fields for conditions; null counts as absent."""

    @property
    def name(self) -> str | None: ...
    @property
    def source(self) -> str | None: ...
    @property
    def document_type(self) -> str | None: ...
    @property
    def error(self) -> str | None: ...
    @property
    def metadata(self) -> Mapping[str, Any]: ...
    @property
    def properties(self) -> Mapping[str, Any]: ...
    @property
    def created_at(self) -> datetime | None: ...
    @property
    def updated_at(self) -> datetime | None: ...


@dataclass(frozen=True, slots=True, order=True)
class Instant:
    """Point in time: milliseconds since 0001-01-01 UTC, and its text for PostgreSQL."""

    milliseconds: int
    text: str = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Instant) and self.milliseconds == other.milliseconds

    def __hash__(self) -> int:
        return hash(self.milliseconds)


Value = str | int | float | bool | Instant


@dataclass(frozen=True, slots=True)
class Field:
    """Document field: a metadata key, one of `DOCUMENT_FIELDS`, or a column of a table row."""

    name: str
    is_metadata: bool = False
    is_row: bool = False

    @property
    def is_free(self) -> bool:
        """Return True for fields with values of any type."""
        return self.is_metadata or self.is_row

    @property
    def is_date(self) -> bool:
        return not self.is_free and self.name in DATE_FIELDS


@dataclass(frozen=True, slots=True)
class Leaf:
    """Condition on a field. `values` has a single entry except for `in` and `nin`."""

    field: Field
    op: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class AllOf:
    """Conjunction of the parts."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Disjunction of the parts."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Negation of the part."""

    part: Condition


Condition = AllOf | AnyOf | Not | Leaf

_DAY_PATTERN = (
    "(?!0000)[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))"
    "|(?!0000)(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29"
)
_TIME_PATTERN = r"[Tt ](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,9})?)?"
OFFSET_PATTERN = "(?:[Zz]|[+-](?:0[0-9]|1[0-4]):?[0-5][0-9])"
# For Python and PostgreSQL: a day (midnight UTC) or a day with a time, UTC without offset.
# Matches only existing calendar days.
DATE_PATTERN = f"(?:{_DAY_PATTERN})(?:{_TIME_PATTERN}{OFFSET_PATTERN}?)?"
_DATE_PARTS = re.compile(
    rf"(?P<day>{_DAY_PATTERN})(?:[Tt ](?P<hour>..):(?P<minute>..)(?::(?P<second>..)(?:\.(?P<fraction>[0-9]+))?)?"
    rf"(?P<offset>{OFFSET_PATTERN})?)?"
)
_WHOLE_DATE = re.compile(DATE_PATTERN)


def parse_instant(text: str) -> Instant | None:
    """Parse a date to the millisecond; None for other text."""
    match = _DATE_PARTS.fullmatch(text) if _WHOLE_DATE.fullmatch(text) else None
    if match is None:
        return None
    offset = match["offset"] or "Z"
    minutes = 0
    if offset not in "Zz":
        minutes = int(offset[1:3]) * 60 + int(offset[-2:])
        minutes = -minutes if offset[0] == "-" else minutes
    fraction = (match["fraction"] or "")[:3].ljust(3, "0")
    hour, minute, second = (int(match[name] or 0) for name in ("hour", "minute", "second"))
    days = datetime.fromisoformat(match["day"]).toordinal()
    seconds = ((days * 24 + hour) * 60 + minute - minutes) * 60 + second
    return Instant(
        seconds * 1000 + int(fraction), f"{match['day']}T{hour:02}:{minute:02}:{second:02}.{fraction}{offset}"
    )


def instant_of(at: datetime) -> Instant:
    """Return the instant of an aware datetime."""
    return parse_instant(at.isoformat()) or Instant(0)


def equal_values(left: object, right: object) -> bool:
    """Compare JSON values: 1 equals 1.0; 1, "1" and true differ."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return Decimal(repr(left)) == Decimal(repr(right))
    return type(left) is type(right) and left == right


def normalize_key(key: str) -> str:
    """Return a metadata key in the composed form of Unicode (NFC)."""
    # macOS writes é as two characters, most programs as one.
    return unicodedata.normalize("NFC", key)


def is_storable(text: str) -> bool:
    """Return True if PostgreSQL can store the text: no NUL, no lone surrogate."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


# 64-bit integers: exact in databases and clients.
INTEGER_RANGE: Final = range(-(2**63), 2**63)
INTEGER_RANGE_MESSAGE: Final = (
    f"A whole number is at least {INTEGER_RANGE.start} and at most {INTEGER_RANGE.stop - 1}. Send larger ones as text."
)


def exceeds_integer_range(value: object) -> bool:
    """Return True for an integer outside INTEGER_RANGE, also nested in lists and objects."""
    if isinstance(value, Mapping):
        return any(map(exceeds_integer_range, value.values()))
    if isinstance(value, list | tuple):
        return any(map(exceeds_integer_range, value))
    return isinstance(value, int) and value not in INTEGER_RANGE
