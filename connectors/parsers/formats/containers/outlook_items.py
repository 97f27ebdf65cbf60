"""Render properties of Outlook appointments, contacts, tasks and journals as lines ([MS-OXPROPS])."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

_APPOINTMENT_SET: Final = uuid.UUID("00062002-0000-0000-C000-000000000046")
_TASK_SET: Final = uuid.UUID("00062003-0000-0000-C000-000000000046")
_ADDRESS_SET: Final = uuid.UUID("00062004-0000-0000-C000-000000000046")
_COMMON_SET: Final = uuid.UUID("00062008-0000-0000-C000-000000000046")
_LOG_SET: Final = uuid.UUID("0006200A-0000-0000-C000-000000000046")
_TEXT_VALUE, _TIME_VALUE, _SHARE_VALUE, _CHOICE_VALUE = "text", "time", "share", "choice"
_TASK_STATES: Final = ("Not started", "In progress", "Completed", "Waiting", "Deferred")


@dataclass(frozen=True, slots=True)
class _Field:
    """Property of an item. `key`: its number, or the number within a set of named properties."""

    label: str
    key: int
    names: uuid.UUID | None = None
    form: str = _TEXT_VALUE
    date_only: bool = False


_ITEM_FIELDS: Final[dict[str, tuple[_Field, ...]]] = {
    "IPM.Appointment": (
        _Field("Start", 0x820D, _APPOINTMENT_SET, _TIME_VALUE),
        _Field("End", 0x820E, _APPOINTMENT_SET, _TIME_VALUE),
        _Field("Location", 0x8208, _APPOINTMENT_SET),
        _Field("Repeats", 0x8232, _APPOINTMENT_SET),
        _Field("Attendees", 0x8238, _APPOINTMENT_SET),
    ),
    "IPM.Contact": (
        _Field("Name", 0x3001),
        _Field("Organization", 0x3A16),
        _Field("Department", 0x3A18),
        _Field("Title", 0x3A17),
        _Field("E-mail", 0x8083, _ADDRESS_SET),
        _Field("E-mail 2", 0x8093, _ADDRESS_SET),
        _Field("E-mail 3", 0x80A3, _ADDRESS_SET),
        _Field("Business phone", 0x3A08),
        _Field("Business phone 2", 0x3A1B),
        _Field("Mobile phone", 0x3A1C),
        _Field("Home phone", 0x3A09),
        _Field("Primary phone", 0x3A1A),
        _Field("Other phone", 0x3A1F),
        _Field("Fax", 0x3A24),
        _Field("Business address", 0x801B, _ADDRESS_SET),
        _Field("Home address", 0x801A, _ADDRESS_SET),
        _Field("Other address", 0x801C, _ADDRESS_SET),
        _Field("Postal address", 0x3A15),
        _Field("Street", 0x3A29),
        _Field("Postal code", 0x3A2A),
        _Field("City", 0x3A27),
        _Field("Country", 0x3A26),
        _Field("Website", 0x802B, _ADDRESS_SET),
        _Field("Website", 0x3A51),
        _Field("Instant messaging", 0x8062, _ADDRESS_SET),
        _Field("Birthday", 0x3A42, form=_TIME_VALUE, date_only=True),
    ),
    "IPM.Task": (
        _Field("Start", 0x8104, _TASK_SET, _TIME_VALUE, date_only=True),
        _Field("Due", 0x8105, _TASK_SET, _TIME_VALUE, date_only=True),
        _Field("Status", 0x8101, _TASK_SET, _CHOICE_VALUE),
        _Field("Complete", 0x8102, _TASK_SET, _SHARE_VALUE),
        _Field("Completed", 0x810F, _TASK_SET, _TIME_VALUE, date_only=True),
        _Field("Owner", 0x811F, _TASK_SET),
    ),
    "IPM.Activity": (
        _Field("Type", 0x8700, _LOG_SET),
        _Field("Start", 0x8706, _LOG_SET, _TIME_VALUE),
        _Field("End", 0x8708, _LOG_SET, _TIME_VALUE),
    ),
}
_MEETING_FIELDS: Final = _ITEM_FIELDS["IPM.Appointment"]
_COMMON_FIELDS: Final = (_Field("Companies", 0x8539, _COMMON_SET), _Field("Contacts", 0x853A, _COMMON_SET))


@dataclass(frozen=True, slots=True)
class Storage:
    """Property access of one message. `fixed`: value by property number and type, or None."""

    text: Callable[[int], str]
    fixed: Callable[[int, int], int | None]
    numbers: dict[tuple[uuid.UUID, int], int]


def item_lines(message_class: str, storage: Storage) -> list[str]:
    """Return lines of the properties displayed to a reader of the item; [] for a plain mail."""
    fields = next((fields for name, fields in _ITEM_FIELDS.items() if message_class.startswith(name)), ())
    if message_class.startswith("IPM.Schedule.Meeting"):
        fields = _MEETING_FIELDS
    lines = []
    for field in (*fields, *_COMMON_FIELDS):
        number = field.key if field.names is None else storage.numbers.get((field.names, field.key))
        value = "" if number is None else _format_value(field, number, storage)
        if value:
            lines.append(f"- {field.label}: {value}")
    return list(dict.fromkeys(lines))


def _format_value(field: _Field, number: int, storage: Storage) -> str:
    if field.form == _TEXT_VALUE:
        return "\n  ".join(line.strip() for line in storage.text(number).splitlines() if line.strip())
    if field.form == _TIME_VALUE:
        ticks = storage.fixed(number, 0x0040)
        return _format_time(ticks, date_only=field.date_only) if ticks else ""
    if field.form == _SHARE_VALUE:
        bits = storage.fixed(number, 0x0005)
        return "" if bits is None else f"{struct.unpack('<d', struct.pack('<Q', bits))[0]:.0%}"
    state = storage.fixed(number, 0x0003)
    return _TASK_STATES[state & 0xFFFF] if state is not None and state & 0xFFFF < len(_TASK_STATES) else ""


def _format_time(ticks: int, *, date_only: bool) -> str:
    try:
        moment = datetime(1601, 1, 1, tzinfo=UTC) + timedelta(microseconds=ticks // 10)
    except OverflowError:
        return ""
    if moment.year >= 4500:  # [MS-OXOCAL] has 4501 for no date
        return ""
    return f"{moment:%Y-%m-%d}" if date_only else f"{moment:%Y-%m-%d %H:%M} UTC"


def named_properties(entries: bytes, sets: bytes) -> dict[tuple[uuid.UUID, int], int]:
    """Return numbers of named properties by set and name, from the streams of [MS-OXMSG] 2.2.3.1."""
    return dict(_read_named_properties(entries, sets))


def _read_named_properties(entries: bytes, sets: bytes) -> Iterator[tuple[tuple[uuid.UUID, int], int]]:
    whole = len(entries) // 8 * 8
    for name, kind, index in struct.iter_unpack("<IHH", entries[:whole]):
        guid = sets[((kind >> 1) - 3) * 16 :][:16]
        if kind >> 1 >= 3 and not kind & 1 and len(guid) == 16:
            yield (uuid.UUID(bytes_le=guid), name), 0x8000 + index
