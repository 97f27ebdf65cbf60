"""Convert mails, calendars and contact cards to Markdown."""

from __future__ import annotations

import quopri
import re
from collections.abc import Iterator
from email.message import Message
from pathlib import Path

from connectors.parsers import detect, document
from connectors.parsers.detect import Kind
from connectors.parsers.document import Document
from connectors.parsers.formats import html_text
from connectors.parsers.formats.containers import ledger, mail, mail_decoding, outlook
from connectors.parsers.formats.containers.mail import Mail, PartRole
from connectors.parsers.messages import Task

_FOLD_PATTERN = re.compile(r"\n[ \t]")
_LINE_PATTERN = re.compile(r"(?:[\w-]+\.)?([A-Za-z][\w-]*)((?:;[^:;\"]*(?:\"[^\"]*\"[^:;\"]*)*)*):(.*)")
_MACHINE_FIELDS = frozenset({
    "BEGIN", "END", "VERSION", "PRODID", "UID", "CALSCALE", "METHOD", "SEQUENCE", "DTSTAMP", "CREATED", "LAST-MODIFIED",
    "TRANSP", "CLASS", "PRIORITY", "ACTION", "TRIGGER", "REV", "PHOTO", "LOGO", "SOUND", "KEY",
})  # fmt: skip
_FIELD_LABELS = {
    "SUMMARY": "Summary", "DTSTART": "Start", "DTEND": "End", "DUE": "Due", "LOCATION": "Location",
    "DESCRIPTION": "Description", "ORGANIZER": "Organizer", "ATTENDEE": "Attendee", "RRULE": "Repeats",
    "STATUS": "Status", "FN": "Name", "N": "Name", "ORG": "Organization", "TITLE": "Title", "TEL": "Phone",
    "EMAIL": "E-mail", "ADR": "Address", "NOTE": "Note", "BDAY": "Birthday",
}  # fmt: skip
_BLOCK_LABELS = {
    "VEVENT": "Event",
    "VTODO": "Task",
    "VJOURNAL": "Journal",
    "VCARD": "Contact",
    "VFREEBUSY": "Availability",
}
_MOMENT_PATTERN = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)\d\d(Z?))?$")


def read_calendar(text: str) -> str:
    """Return a heading per event or card and a line per field."""
    lines: list[str] = []
    zone = False
    for name, parameters, value in _read_fields(detect.make_storable(text).replace("\r\n", "\n")):
        if name in ("BEGIN", "END") and value.upper() == "VTIMEZONE":
            zone = name == "BEGIN"
        elif zone:
            continue
        elif name == "BEGIN" and value.upper() in _BLOCK_LABELS:
            lines += ["", f"## {_BLOCK_LABELS[value.upper()]}", ""]
        elif name in _MACHINE_FIELDS or name.startswith("X-") or "BASE64" in parameters.upper():
            continue
        elif line_text := _format_value(parameters, value):
            lines.append(f"- {_FIELD_LABELS.get(name, name.capitalize())}: {line_text}")
    return "\n".join(lines).strip() + "\n"


def _read_fields(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield names, parameters and values of unfolded, decoded lines."""
    unfolded = _FOLD_PATTERN.sub("", text)
    if "QUOTED-PRINTABLE" in unfolded.upper():
        unfolded = unfolded.replace("=\n", "")
    for line in unfolded.split("\n"):
        if match := _LINE_PATTERN.fullmatch(line.strip()):
            name, parameters, value = match.groups()
            if "QUOTED-PRINTABLE" in parameters.upper():
                value = quopri.decodestring(value).decode("utf-8", "replace")
            yield name.upper(), parameters, value


def _format_value(parameters: str, value: str) -> str:
    if moment := _MOMENT_PATTERN.match(value):
        year, month, day, hour, minute, zone = moment.groups()
        zoned = re.search(r"TZID=\"?([^;:\"]+)", parameters)
        zone_note = " UTC" if zone else f" {zoned[1]}" if zoned else ""
        return f"{year}-{month}-{day}" + (f" {hour}:{minute}{zone_note}" if hour else "")
    words = re.sub(r"\\([nN])", "\n", value)
    words = re.sub(r"\\(.)", r"\1", re.sub(r"(?<!\\);", ", ", words))
    name_match = re.search(r"CN=\"?([^;:\"]+)", parameters)
    words = re.sub(r"^mailto:", "", words, flags=re.IGNORECASE)
    words = f"{name_match[1]} <{words}>" if name_match else words
    return "\n  ".join(line.strip() for line in words.split("\n") if line.strip(" ,"))


_HEADER_LABELS = {"subject": "Subject", "from": "From", "to": "To", "cc": "CC", "date": "Date"}
# A longer plain text is more than a hint to programs without HTML.
_MAX_HINT_LETTERS = 300
_HTML_LENGTH_FACTOR = 4


def read_mail(kind: Kind, path: Path, task: Task) -> Document:
    """Read an e-mail or Outlook message. Attached messages are separate members if members are kept."""
    try:
        opened = outlook.open_message(path) if kind is detect.MSG else mail.open_wrappers(path.read_bytes())
    except ledger.DAMAGE_ERRORS as error:
        raise document.damaged_file(kind) from error
    headers = _header_lines(opened.message)
    return Document(
        detect.make_storable(_message_blocks(opened, opened.message, whole=task.unpack is None, depth=0)),
        title=headers.get("subject", ""),
        author=headers.get("from", ""),
        created_at=headers.get("date", ""),
    )


def _header_lines(message: Message) -> dict[str, str]:
    return {name.lower(): mail_decoding.decode_field(value) for name, value in reversed(list(message.raw_items()))}


def _message_blocks(opened: Mail, message: Message, *, whole: bool, depth: int) -> str:
    headers = _header_lines(message)
    lines = [f"**{label}**: {headers[name]}" for name, label in _HEADER_LABELS.items() if headers.get(name)]
    texts_within = _body_blocks(opened, message, whole=whole, within="", depth=depth)
    bodies = [part.strip("\n") for part in texts_within if part.strip()]
    return "\n\n".join(["\n".join(lines), *bodies]) + "\n"


def _body_blocks(opened: Mail, part: Message, *, whole: bool, within: str, depth: int) -> Iterator[str]:
    kind, payload = part.get_content_type(), part.get_payload()
    if depth > mail.MAX_MAIL_DEPTH or part in opened.errors:
        return
    if kind == "message/rfc822" and depth:
        if whole and isinstance(payload, list) and payload and isinstance(payload[0], Message):
            yield _message_blocks(opened, payload[0], whole=whole, depth=depth + 1)
    elif kind.startswith("multipart/") and isinstance(payload, list):
        inner = [inner_message for inner_message in payload if isinstance(inner_message, Message)]
        texts = [
            "\n\n".join(_body_blocks(opened, inner_message, whole=whole, within=kind, depth=depth + 1))
            for inner_message in inner
        ]
        yield from _choose_bodies(inner, texts) if kind == "multipart/alternative" else texts
    elif mail.role_of_part(part, within, depth) is PartRole.TEXT:
        text = mail.text_of(part)
        is_flowed = str(part.get_param("format", "")).lower() == "flowed"
        yield _unwrap_flowed(text, str(part.get_param("delsp", ""))) if is_flowed else _render_body(kind, text)


def _unwrap_flowed(text: str, deleted: str) -> str:
    """Join lines wrapped by RFC 3676: a trailing space continues the paragraph."""
    lines: list[tuple[str, str]] = []
    is_open = False
    for line in text.split("\n"):
        quoted = line[: len(line) - len(line.lstrip(">"))]
        words = line[len(quoted) :].removeprefix(" ")
        if is_open and words != "-- " and lines[-1][0] == quoted:
            previous = lines[-1][1]
            lines[-1] = quoted, (previous[:-1] if deleted.lower() == "yes" else previous) + words
        else:
            lines.append((quoted, words))
        is_open = words.endswith(" ") and words != "-- "
    return "\n".join(f"{quoted} {words}" if quoted else words for quoted, words in lines)


def _render_body(kind: str, text: str) -> str:
    if kind == "text/html":
        return html_text.page_markdown(text).text
    if kind == "text/calendar":
        return read_calendar(text)
    return re.sub(r"<[^>\n]{1,60}>", "", text) if kind in ("text/enriched", "text/richtext") else text


def _choose_bodies(parts: list[Message], texts: list[str]) -> list[str]:
    """Return the plain text version, unless others hold far more, and the invitations."""
    invitations = [text for part, text in zip(parts, texts, strict=True) if part.get_content_type() == "text/calendar"]
    versions = [
        version for version in zip(parts, texts, strict=True) if version[0].get_content_type() != "text/calendar"
    ]
    plain = next((text for part, text in versions if _is_plain_text(part) and text.strip()), "")
    longest = max((text for _, text in versions), key=len, default="")
    excuse = not plain or (len(plain) < _MAX_HINT_LETTERS and len(longest) > _HTML_LENGTH_FACTOR * len(plain))
    return [longest if excuse else plain, *invitations]


def _is_plain_text(part: Message) -> bool:
    return bool(re.fullmatch(r"text/(?:plain|markdown)", part.get_content_type()))
