"""A condition on documents: all, any, not, and leaves of a field, an operator and a value."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, LiteralString, Protocol

DEPTH = 5
"""How deep `all`, `any` and `not` may stand in one another; leaves are no depth."""
LEAVES = 100
VALUES = 1_000
"""Values that the lists of one condition may hold, all together."""

ORDERS: Mapping[str, LiteralString] = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
OPS = ("eq", "ne", "in", "nin", *ORDERS, "exists", "contains", "startsWith", "endsWith")

DATES = ("createdAt", "updatedAt", "modifiedAt")
TEXTS: Mapping[str, LiteralString] = {"name": "name", "source": "source", "type": "document_type"}
"""Fields that are columns of text."""
PROPERTIES = ("path", "language", "mimeType", "fileSize", "pageCount", "textQuality")
"""Fields that the pipeline found out, with their names in `properties`."""
FAILURE = "failureCause"
"""Field that is read from the error of a failed document."""
FIELDS = (*DATES, *TEXTS, *PROPERTIES, FAILURE)
PACKED_PATH = "archivePath"
"""The property that is shown as `path` where a document has none of its own: its place in what it was packed into."""


class Described(Protocol):
    """Fields that a condition looks at; null counts as absent."""

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
    """A moment: milliseconds since 0001-01-01 in UTC, and how PostgreSQL reads it."""

    milliseconds: int
    text: str = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Instant) and self.milliseconds == other.milliseconds

    def __hash__(self) -> int:
        return hash(self.milliseconds)


Value = str | int | float | bool | Instant


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a document: a metadata key, one of `FIELDS`, or a column of a table row or a field of a record."""

    name: str
    is_metadata: bool = False
    is_row: bool = False

    @property
    def is_free(self) -> bool:
        """Tell whether the values may be of any type."""
        return self.is_metadata or self.is_row

    @property
    def is_date(self) -> bool:
        return not self.is_free and self.name in DATES


@dataclass(frozen=True, slots=True)
class Leaf:
    """Condition on one field. `values` has one entry except for `in` and `nin`."""

    field: Field
    op: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class All:
    """Every one of the parts holds."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """One of the parts holds at least."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold."""

    part: Condition


Condition = All | AnyOf | Not | Leaf

_DAY = (
    "(?!0000)[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))"
    "|(?!0000)(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29"
)
_TIME = r"[Tt ](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,9})?)?"
OFFSET = "(?:[Zz]|[+-](?:0[0-9]|1[0-4]):?[0-5][0-9])"
DATE = f"(?:{_DAY})(?:{_TIME}{OFFSET}?)?"
"""A date as text, for Python and PostgreSQL alike: a day, which is its midnight in UTC, or a day and a time, in UTC
where it has no offset. Days that no calendar has do not match."""
_DATE = re.compile(
    rf"(?P<day>{_DAY})(?:[Tt ](?P<hour>..):(?P<minute>..)(?::(?P<second>..)(?:\.(?P<fraction>[0-9]+))?)?"
    rf"(?P<offset>{OFFSET})?)?"
)
_WHOLE = re.compile(DATE)


def parse_instant(text: str) -> Instant | None:
    """The moment that a text names, to the millisecond; None if it is no date."""
    match = _DATE.fullmatch(text) if _WHOLE.fullmatch(text) else None
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
    """Parse a point in time that has a zone."""
    return parse_instant(at.isoformat()) or Instant(0)


def equal_values(left: object, right: object) -> bool:
    """Equal as JSON values: 1 and 1.0 are one number; 1, "1" and true are three values."""
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
    """Tell whether PostgreSQL can store the text: no NUL, no half of a surrogate pair."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


WHOLE: Final = range(-(2**63), 2**63)
"""The whole numbers of metadata and of what it is compared with: 64 bits, which databases and clients hold exactly."""
WHOLE_WORDS: Final = f"A whole number is at least {WHOLE.start} and at most {WHOLE.stop - 1}. Send larger ones as text."


def is_beyond(value: object) -> bool:
    """A whole number outside of `WHOLE`, alone or anywhere in lists and objects."""
    if isinstance(value, Mapping):
        return any(map(is_beyond, value.values()))
    if isinstance(value, list | tuple):
        return any(map(is_beyond, value))
    return isinstance(value, int) and value not in WHOLE
