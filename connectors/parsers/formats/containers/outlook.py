"""Extract attachments of an Outlook message (MSG, [MS-OXMSG]) as files, and attached messages as e-mails."""

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

_ATTACHMENT_STORAGE = "__attach_version1.0_"
# Storage of a message or another object within a message.
_OBJECT_STORAGE = "__substg1.0_3701000D"
_DATA_STREAM = "__substg1.0_37010102"
_PROPERTIES_STREAM = "__properties_version1.0"
_SENT_PROPERTY = 0x00390040
# Code pages of the message's 8-bit texts, and of its HTML.
_TEXT_CODE_PAGE, _HTML_CODE_PAGE = 0x3FFD0003, 0x3FDE0003
_MAX_DEPTH = 8
_TOO_DEEP = f"It lies more than {_MAX_DEPTH} messages deep. Save the inner message by itself and upload that."
_LINK_ONLY = "The message holds only a link to it, no content. Upload the file itself."
_SIGNED_TYPE = "multipart/signed"


def find_parts(path: Path) -> Iterator[Part]:
    """Return the attachments of the message, one storage per file (2.2.2)."""
    import olefile

    with olefile.OleFileIO(str(path)) as file:
        for storage in _attachment_storages(file, ""):
            yield from _attachment_parts(file, storage)


def open_message(path: Path) -> Mail:
    """Convert the message to an e-mail."""
    import olefile

    with olefile.OleFileIO(str(path)) as file:
        message = _build_message(file, "", depth=1, too_deep=[])
    return Mail(message)


def _attachment_storages(file: olefile.OleFileIO, within: str) -> list[str]:
    """Return the attachment storages of the message in the storage `within`, in order."""
    depth = len(within.split("/")) if within else 0
    paths = ("/".join(entry[: depth + 1]) for entry in file.listdir() if len(entry) > depth + 1)
    return sorted(
        {
            path
            for path in paths
            if path.startswith(f"{within}/{_ATTACHMENT_STORAGE}" if within else _ATTACHMENT_STORAGE)
        }
    )


def _attachment_parts(file: olefile.OleFileIO, storage: str) -> Iterator[Part]:
    inner = f"{storage}/{_OBJECT_STORAGE}"
    if file.exists(f"{inner}/{_PROPERTIES_STREAM}"):
        subject = _read_text(file, inner, "0037") or _attachment_name(file, storage)
        name = f"{subject.replace('/', '-')}.eml"
        too_deep: list[Part] = []
        whole = _build_message(file, inner, depth=1, too_deep=too_deep)
        yield Part(name, "message/rfc822", content=lambda: [whole.as_bytes()])
        yield from too_deep
    else:
        yield _file_part(file, storage)


def _file_part(file: olefile.OleFileIO, storage: str) -> Part:
    """Return an attachment other than a message: a file, an embedded object, or a link to a file."""
    name, kind = _attachment_name(file, storage), _read_text(file, storage, "370E")
    if file.exists(f"{storage}/{_OBJECT_STORAGE}"):
        return office.files_within(file, f"{storage}/{_OBJECT_STORAGE}/", name)
    if not file.exists(f"{storage}/{_DATA_STREAM}"):
        linked = _read_text(file, storage, "370D") or _read_text(file, storage, "3708")
        return Part(name, error=_LINK_ONLY) if linked else Part(name, notice="empty attachments")
    data = _read_stream(file, f"{storage}/{_DATA_STREAM}")
    if kind.lower().startswith(_SIGNED_TYPE) or data[:200].lower().startswith(b"content-type: multipart/signed"):
        name, kind = f"{name}.eml", "message/rfc822"
    return Part(name, kind, content=lambda: [data]) if data else Part(name, notice="empty attachments")


def _build_message(file: olefile.OleFileIO, storage: str, *, depth: int, too_deep: list[Part]) -> EmailMessage:
    """Build the e-mail of the message in `storage`, with attachments; add messages nested too deep to `too_deep`."""
    mail = EmailMessage()
    sender, address = _read_text(file, storage, "0C1A"), _read_text(file, storage, "0C1F")
    headers = {
        "Subject": _read_text(file, storage, "0037"),
        "From": f"{sender} <{address}>" if "@" in address else sender,
    }
    headers |= {
        "To": _read_text(file, storage, "0E04"),
        "Cc": _read_text(file, storage, "0E03"),
        "Date": _sent_date(file, storage),
    }
    for name, value in headers.items():
        if line := " ".join(value.split()):
            mail[name] = line
    data = _read_stream(file, f"{storage}/__substg1.0_10130102".lstrip("/"))
    page = decoding.decode_text(data, _read_charset(file, storage, _HTML_CODE_PAGE), markup=True) or _read_text(
        file, storage, "1013"
    )
    text = _read_text(file, storage, "1000")
    if not text and not page and (packed := _read_stream(file, f"{storage}/__substg1.0_10090102".lstrip("/"))):
        text = rtf.rtf_to_markdown(tnef.decompress_rtf(packed))
    lines = _item_lines(file, storage)
    if lines:
        mail.set_content("\n".join(lines))
        mail.add_attachment(text or page, subtype="plain" if text or not page else "html", disposition="inline")
    else:
        mail.set_content(text or page, subtype="plain" if text or not page else "html")
    for attachment in _attachment_storages(file, storage):
        inner = f"{attachment}/{_OBJECT_STORAGE}"
        if not file.exists(f"{inner}/{_PROPERTIES_STREAM}"):
            _attach_part(mail, _file_part(file, attachment), too_deep)
        elif depth >= _MAX_DEPTH:
            too_deep.append(
                Part(_read_text(file, inner, "0037") or _attachment_name(file, attachment), error=_TOO_DEEP)
            )
        else:
            mail.add_attachment(_build_message(file, inner, depth=depth + 1, too_deep=too_deep))
    return mail


def _item_lines(file: olefile.OleFileIO, storage: str) -> list[str]:
    """Return the properties of an appointment, contact, task or journal as lines."""
    folder = "__nameid_version1.0"  # of the outermost message, for all
    numbers = outlook_items.named_properties(
        _read_stream(file, f"{folder}/__substg1.0_00030102"), _read_stream(file, f"{folder}/__substg1.0_00020102")
    )
    properties = outlook_items.Storage(
        lambda number: _read_text(file, storage, f"{number:04X}"),
        lambda number, kind: _fixed_property(file, storage, number << 16 | kind),
        numbers,
    )
    return outlook_items.item_lines(_read_text(file, storage, "001A"), properties)


def _sent_date(file: olefile.OleFileIO, storage: str) -> str:
    """Return the date of sending."""
    if ticks := _read_number(file, storage, _SENT_PROPERTY):
        return format_datetime(datetime(1601, 1, 1, tzinfo=UTC) + timedelta(microseconds=ticks // 10))
    return ""


def _read_charset(file: olefile.OleFileIO, storage: str, name: int) -> str:
    """Return the charset of a code page property; "" if absent."""
    number = _read_number(file, storage, name) & 0xFFFFFFFF
    return decoding.code_page(number) if number else ""


def _read_number(file: olefile.OleFileIO, storage: str, name: int) -> int:
    return _fixed_property(file, storage, name) or 0


def _fixed_property(file: olefile.OleFileIO, storage: str, name: int) -> int | None:
    """Return a property of fixed size; None if absent (2.4)."""
    # Entries have 16 bytes, after a header that is longer in the outermost message.
    entries = _read_stream(file, f"{storage}/{_PROPERTIES_STREAM}".lstrip("/"))[24 if storage else 32 :]
    values = (
        value for kind, _, value in struct.iter_unpack("<IIQ", entries[: len(entries) // 16 * 16]) if kind == name
    )
    return next(values, None)


def _attach_part(mail: EmailMessage, part: Part, reported: list[Part]) -> None:
    """Attach a file to the mail, or add an unreadable attachment to `reported`."""
    if part.content is None:
        reported.append(part)
        return
    name = " ".join(part.name.split())
    mail.add_attachment(b"".join(part.content()), "application", "octet-stream", filename=name)


def _attachment_name(file: olefile.OleFileIO, storage: str) -> str:
    return (
        _read_text(file, storage, "3707")
        or _read_text(file, storage, "3704")
        or _read_text(file, storage, "3001")
        or "attachment"
    )


def _read_text(file: olefile.OleFileIO, storage: str, tag: str) -> str:
    wide = _read_stream(file, f"{storage}/__substg1.0_{tag}001F".lstrip("/"))
    narrow = _read_stream(file, f"{storage}/__substg1.0_{tag}001E".lstrip("/"))
    if wide or not narrow:
        return wide.decode("utf-16-le", "replace").strip("\0 ")
    return decoding.decode_text(
        narrow.strip(b"\0 "), _read_charset(file, _message_storage(storage), _TEXT_CODE_PAGE)
    ).strip()


def _message_storage(storage: str) -> str:
    """Return the message storage around an attachment or recipient storage."""
    folder, _, last = storage.rpartition("/")
    return folder if last.startswith(("__attach", "__recip")) else storage


def _read_stream(file: Any, path: str) -> bytes:
    return bytes(file.openstream(path).read()) if file.exists(path) else b""
