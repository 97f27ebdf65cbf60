"""The attachments of a mail, as files of their own: EML by the standard library, MSG by olefile."""

from __future__ import annotations

import email
from email.header import decode_header, make_header
from email.message import Message
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.parsers.members import Folder

if TYPE_CHECKING:
    import olefile

_SEALS = frozenset(
    {"application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature", "application/ms-tnef"}
)
_DEEPEST = 50


def eml(path: Path, folder: Folder) -> None:
    """What is attached to the message; pictures that its HTML shows and signatures are no documents."""
    with path.open("rb") as file:
        _part(email.message_from_binary_file(file), folder, within="", depth=0)


def _part(part: Message, folder: Folder, *, within: str, depth: int) -> None:
    kind = part.get_content_type()
    if kind == "message/rfc822" and depth:
        _message(part, folder)
    elif part.is_multipart():
        for inner in part.get_payload() if depth < _DEEPEST else []:
            if isinstance(inner, Message):
                _part(inner, folder, within=kind, depth=depth + 1)
    elif depth and _attached(part, kind, within):
        data = part.get_payload(decode=True)
        if isinstance(data, bytes) and data:
            folder.add(_name(part) or f"attachment{_ending(kind)}", kind, [data])


def _message(part: Message, folder: Folder) -> None:
    """A message that was attached whole."""
    payload = part.get_payload()
    inner = payload[0] if isinstance(payload, list) and payload else None
    if isinstance(inner, Message):
        subject = _decoded(str(inner.get("subject") or "")) or "message"
        name = _name(part) or subject.replace("/", "-")
        name = name if name.lower().endswith(".eml") else f"{name}.eml"
        folder.add(name, "message/rfc822", [inner.as_bytes()])


def _attached(part: Message, kind: str, within: str) -> bool:
    if kind in _SEALS or within == "multipart/encrypted":
        return False
    if part.get_content_disposition() == "attachment":
        return True
    shown = within == "multipart/related" and part.get("content-id") is not None
    return bool(_name(part)) and not shown


def _name(part: Message) -> str:
    return _decoded(part.get_filename() or "")


def _decoded(text: str) -> str:
    try:
        return str(make_header(decode_header(text))).strip()
    except (ValueError, LookupError):
        return text.strip()


def _ending(kind: str) -> str:
    import mimetypes

    return mimetypes.guess_extension(kind) or ""


def msg(path: Path, folder: Folder) -> None:
    """What is attached to an Outlook message ([MS-OXMSG], 2.2.2: a storage for each attachment)."""
    import olefile

    try:
        with olefile.OleFileIO(str(path)) as file:
            storages = {entry[0] for entry in file.listdir(streams=True) if entry[0].startswith("__attach_version1.0_")}
            for storage in sorted(storages):
                _storage(file, storage, folder)
    except (OSError, olefile.OleFileError, ValueError, IndexError):
        return


def _storage(file: olefile.OleFileIO, storage: str, folder: Folder) -> None:
    name = _text(file, storage, "3707") or _text(file, storage, "3704") or "attachment"
    data = _stream(file, f"{storage}/__substg1.0_37010102")
    if data:
        folder.add(name, _text(file, storage, "370E"), [data])
    elif file.exists(f"{storage}/__substg1.0_3701000D"):
        folder.leave_out(name, "It is a message within a message. Save it as a file of its own and upload that.")


def _text(file: olefile.OleFileIO, storage: str, tag: str) -> str:
    wide = _stream(file, f"{storage}/__substg1.0_{tag}001F")
    narrow = _stream(file, f"{storage}/__substg1.0_{tag}001E")
    return (wide.decode("utf-16-le", "replace") or narrow.decode("cp1252", "replace")).strip("\0 ")


def _stream(file: Any, path: str) -> bytes:
    return bytes(file.openstream(path).read()) if file.exists(path) else b""
