"""Calendars (iCalendar, RFC 5545) and address cards (vCard) as lines that people can read."""

from __future__ import annotations

import quopri
import re
from collections.abc import Iterator

from connectors.parsers.detect import plain

_FOLD = re.compile(r"\n[ \t]")
_LINE = re.compile(r"(?:[\w-]+\.)?([A-Za-z][\w-]*)((?:;[^:;\"]*(?:\"[^\"]*\"[^:;\"]*)*)*):(.*)")
_MACHINES = frozenset({
    "BEGIN", "END", "VERSION", "PRODID", "UID", "CALSCALE", "METHOD", "SEQUENCE", "DTSTAMP", "CREATED", "LAST-MODIFIED",
    "TRANSP", "CLASS", "PRIORITY", "ACTION", "TRIGGER", "REV", "PHOTO", "LOGO", "SOUND", "KEY",
})  # fmt: skip
_LABELS = {
    "SUMMARY": "Summary", "DTSTART": "Start", "DTEND": "End", "DUE": "Due", "LOCATION": "Location",
    "DESCRIPTION": "Description", "ORGANIZER": "Organizer", "ATTENDEE": "Attendee", "RRULE": "Repeats",
    "STATUS": "Status", "FN": "Name", "N": "Name", "ORG": "Organization", "TITLE": "Title", "TEL": "Phone",
    "EMAIL": "E-mail", "ADR": "Address", "NOTE": "Note", "BDAY": "Birthday",
}  # fmt: skip
_BLOCKS = {"VEVENT": "Event", "VTODO": "Task", "VJOURNAL": "Journal", "VCARD": "Contact", "VFREEBUSY": "Availability"}
_MOMENT = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)\d\d(Z?))?$")


def read(text: str) -> str:
    """As Markdown: a heading for each event or card, a line for each of its fields."""
    lines: list[str] = []
    zone = False
    for name, parameters, value in _fields(plain.storable(text).replace("\r\n", "\n")):
        if name in ("BEGIN", "END") and value.upper() == "VTIMEZONE":
            zone = name == "BEGIN"
        elif zone:
            continue
        elif name == "BEGIN" and value.upper() in _BLOCKS:
            lines += ["", f"## {_BLOCKS[value.upper()]}", ""]
        elif name in _MACHINES or name.startswith("X-") or "BASE64" in parameters.upper():
            continue
        elif shown := _shown(parameters, value):
            lines.append(f"- {_LABELS.get(name, name.capitalize())}: {shown}")
    return "\n".join(lines).strip() + "\n"


def _fields(text: str) -> Iterator[tuple[str, str, str]]:
    """Names, parameters and values of the lines, unfolded and decoded."""
    unfolded = _FOLD.sub("", text)
    if "QUOTED-PRINTABLE" in unfolded.upper():
        unfolded = unfolded.replace("=\n", "")
    for line in unfolded.split("\n"):
        if found := _LINE.fullmatch(line.strip()):
            name, parameters, value = found.groups()
            if "QUOTED-PRINTABLE" in parameters.upper():
                value = quopri.decodestring(value).decode("utf-8", "replace")
            yield name.upper(), parameters, value


def _shown(parameters: str, value: str) -> str:
    if moment := _MOMENT.match(value):
        year, month, day, hour, minute, zone = moment.groups()
        zoned = re.search(r"TZID=\"?([^;:\"]+)", parameters)
        where = " UTC" if zone else f" {zoned[1]}" if zoned else ""
        return f"{year}-{month}-{day}" + (f" {hour}:{minute}{where}" if hour else "")
    words = re.sub(r"\\([nN])", "\n", value)
    words = re.sub(r"\\(.)", r"\1", re.sub(r"(?<!\\);", ", ", words))
    named = re.search(r"CN=\"?([^;:\"]+)", parameters)
    words = re.sub(r"^mailto:", "", words, flags=re.IGNORECASE)
    words = f"{named[1]} <{words}>" if named else words
    return "\n  ".join(line.strip() for line in words.split("\n") if line.strip(" ,"))
