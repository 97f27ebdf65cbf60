"""The attachments of an e-mail (EML), as files of their own."""

from __future__ import annotations

import email
from email.message import Message
from pathlib import Path

from connectors.parsers.formats import eml_repair
from connectors.parsers.formats.archives import Folder

_SEALS = frozenset(
    {"application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature", "application/ms-tnef"}
)
DEEPEST = 50


def eml(path: Path, folder: Folder) -> None:
    """What is attached to the message; pictures that its HTML shows and signatures are no documents."""
    with path.open("rb") as file:
        _part(email.message_from_binary_file(file), folder, within="", depth=0)


def _part(part: Message, folder: Folder, *, within: str, depth: int) -> None:
    kind = part.get_content_type()
    if kind == "message/rfc822" and depth:
        _message(part, folder)
    elif part.is_multipart():
        for inner in part.get_payload() if depth < DEEPEST else []:
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
        subject = eml_repair.decoded(str(inner.get("subject") or "")).strip() or "message"
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


def attached(part: Message) -> bool:
    """Whether it is a file beside the text, and not a part of that."""
    return part.get_content_disposition() == "attachment" or bool(_name(part))


def _name(part: Message) -> str:
    return eml_repair.decoded(part.get_filename() or "").strip()


def _ending(kind: str) -> str:
    import mimetypes

    return mimetypes.guess_extension(kind) or ""
