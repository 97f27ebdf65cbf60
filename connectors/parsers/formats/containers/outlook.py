"""Attachments of an Outlook message (MSG) as files ([MS-OXMSG]); attached messages as e-mails."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.utils import format_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.charsets import decoding
from connectors.parsers.formats import rtf
from connectors.parsers.formats.containers import office, outlook_items, tnef
from connectors.parsers.formats.containers.ledger import Part
from connectors.parsers.formats.containers.mail import Mail

if TYPE_CHECKING:
    import olefile

_ATTACHMENT = "__attach_version1.0_"
# Storage of an embedded message or object.
_WITHIN = "__substg1.0_3701000D"
_DATA = "__substg1.0_37010102"
_PROPERTIES = "__properties_version1.0"
_SENT = 0x00390040
# Code pages of the message's 8-bit texts, and of its HTML.
_CHARSET, _PAGE_CHARSET = 0x3FFD0003, 0x3FDE0003
_DEEPEST = 8
_TOO_DEEP = f"It lies more than {_DEEPEST} messages deep. Save the inner message by itself and upload that."
_REFERENCE = "The message holds only a link to it, no content. Upload the file itself."
_SIGNED = "multipart/signed"


def find_parts(path: Path) -> Iterator[Part]:
    """Yield the attached files of a message, one storage each (2.2.2)."""
    import olefile

    with olefile.OleFileIO(str(path)) as file:
        for storage in _attachments(file, ""):
            yield from _parts(file, storage)


def open_message(path: Path) -> Mail:
    """Convert the message to an e-mail."""
    import olefile

    with olefile.OleFileIO(str(path)) as file:
        message = _message(file, "", depth=1, too_deep=[])
    return Mail(message)


def _attachments(file: olefile.OleFileIO, within: str) -> list[str]:
    """Return the storages of the attachments in the storage `within`, in order."""
    depth = len(within.split("/")) if within else 0
    paths = ("/".join(entry[: depth + 1]) for entry in file.listdir() if len(entry) > depth + 1)
    return sorted({path for path in paths if path.startswith(f"{within}/{_ATTACHMENT}" if within else _ATTACHMENT)})


def _parts(file: olefile.OleFileIO, storage: str) -> Iterator[Part]:
    inner = f"{storage}/{_WITHIN}"
    if file.exists(f"{inner}/{_PROPERTIES}"):
        subject = _text(file, inner, "0037") or _name(file, storage)
        name = f"{subject.replace('/', '-')}.eml"
        too_deep: list[Part] = []
        whole = _message(file, inner, depth=1, too_deep=too_deep)
        yield Part(name, "message/rfc822", content=lambda: [whole.as_bytes()])
        yield from too_deep
    else:
        yield _file(file, storage)


def _file(file: olefile.OleFileIO, storage: str) -> Part:
    """Return an attached file, foreign object or link."""
    name, kind = _name(file, storage), _text(file, storage, "370E")
    if file.exists(f"{storage}/{_WITHIN}"):
        return office.files_within(file, f"{storage}/{_WITHIN}/", name)
    if not file.exists(f"{storage}/{_DATA}"):
        linked = _text(file, storage, "370D") or _text(file, storage, "3708")
        return Part(name, error=_REFERENCE) if linked else Part(name, notice="empty attachments")
    data = _stream(file, f"{storage}/{_DATA}")
    if kind.lower().startswith(_SIGNED) or data[:200].lower().startswith(b"content-type: multipart/signed"):
        name, kind = f"{name}.eml", "message/rfc822"
    return Part(name, kind, content=lambda: [data]) if data else Part(name, notice="empty attachments")


def _message(file: olefile.OleFileIO, storage: str, *, depth: int, too_deep: list[Part]) -> EmailMessage:
    """Return the message in `storage` as an e-mail, with its own attachments; `too_deep` gets those nested too deep."""
    mail = EmailMessage()
    sender, address = _text(file, storage, "0C1A"), _text(file, storage, "0C1F")
    headers = {"Subject": _text(file, storage, "0037"), "From": f"{sender} <{address}>" if "@" in address else sender}
    headers |= {"To": _text(file, storage, "0E04"), "Cc": _text(file, storage, "0E03"), "Date": _sent(file, storage)}
    for name, value in headers.items():
        if line := " ".join(value.split()):
            mail[name] = line
    data = _stream(file, f"{storage}/__substg1.0_10130102".lstrip("/"))
    page = decoding.decode_text(data, _charset(file, storage, _PAGE_CHARSET), markup=True) or _text(
        file, storage, "1013"
    )
    text = _text(file, storage, "1000")
    if not text and not page and (packed := _stream(file, f"{storage}/__substg1.0_10090102".lstrip("/"))):
        text = rtf.rtf_to_markdown(tnef.decompress_rtf(packed))
    lines = _item_lines(file, storage)
    if lines:
        mail.set_content("\n".join(lines))
        mail.add_attachment(text or page, subtype="plain" if text or not page else "html", disposition="inline")
    else:
        mail.set_content(text or page, subtype="plain" if text or not page else "html")
    for attachment in _attachments(file, storage):
        inner = f"{attachment}/{_WITHIN}"
        if not file.exists(f"{inner}/{_PROPERTIES}"):
            _attach(mail, _file(file, attachment), too_deep)
        elif depth >= _DEEPEST:
            too_deep.append(Part(_text(file, inner, "0037") or _name(file, attachment), error=_TOO_DEEP))
        else:
            mail.add_attachment(_message(file, inner, depth=depth + 1, too_deep=too_deep))
    return mail


def _item_lines(file: olefile.OleFileIO, storage: str) -> list[str]:
    """Return the properties of an appointment, contact, task or journal."""
    folder = "__nameid_version1.0"  # of the outermost message, for all
    numbers = outlook_items.named_properties(
        _stream(file, f"{folder}/__substg1.0_00030102"), _stream(file, f"{folder}/__substg1.0_00020102")
    )
    properties = outlook_items.Storage(
        lambda number: _text(file, storage, f"{number:04X}"),
        lambda number, kind: _fixed(file, storage, number << 16 | kind),
        numbers,
    )
    return outlook_items.item_lines(_text(file, storage, "001A"), properties)


def _sent(file: olefile.OleFileIO, storage: str) -> str:
    """When the message was sent: entries of 16 bytes, behind a head that is longer in the outermost message."""
    if ticks := _number(file, storage, _SENT):
        return format_datetime(datetime(1601, 1, 1, tzinfo=UTC) + timedelta(microseconds=ticks // 10))
    return ""


def _charset(file: olefile.OleFileIO, storage: str, name: int) -> str:
    """Return the charset of a message's code page, or ""."""
    number = _number(file, storage, name) & 0xFFFFFFFF
    return decoding.code_page(number) if number else ""


def _number(file: olefile.OleFileIO, storage: str, name: int) -> int:
    return _fixed(file, storage, name) or 0


def _fixed(file: olefile.OleFileIO, storage: str, name: int) -> int | None:
    """Return a fixed-size property of the message, or None (2.4)."""
    entries = _stream(file, f"{storage}/{_PROPERTIES}".lstrip("/"))[24 if storage else 32 :]
    values = (
        value for kind, _, value in struct.iter_unpack("<IIQ", entries[: len(entries) // 16 * 16]) if kind == name
    )
    return next(values, None)


def _attach(mail: EmailMessage, part: Part, reported: list[Part]) -> None:
    """Attach a file; failures are reported next to the mail."""
    if part.content is None:
        reported.append(part)
        return
    name = " ".join(part.name.split())
    mail.add_attachment(b"".join(part.content()), "application", "octet-stream", filename=name)


def _name(file: olefile.OleFileIO, storage: str) -> str:
    return _text(file, storage, "3707") or _text(file, storage, "3704") or _text(file, storage, "3001") or "attachment"


def _text(file: olefile.OleFileIO, storage: str, tag: str) -> str:
    wide = _stream(file, f"{storage}/__substg1.0_{tag}001F".lstrip("/"))
    narrow = _stream(file, f"{storage}/__substg1.0_{tag}001E".lstrip("/"))
    if wide or not narrow:
        return wide.decode("utf-16-le", "replace").strip("\0 ")
    return decoding.decode_text(narrow.strip(b"\0 "), _charset(file, _message_of(storage), _CHARSET)).strip()


def _message_of(storage: str) -> str:
    """Return the message storage of an attachment's or recipient's storage."""
    folder, _, last = storage.rpartition("/")
    return folder if last.startswith(("__attach", "__recip")) else storage


def _stream(file: Any, path: str) -> bytes:
    return bytes(file.openstream(path).read()) if file.exists(path) else b""
