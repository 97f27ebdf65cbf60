"""Repairs e-mails without a declared charset: their texts are converted to UTF-8 before they are parsed."""

from __future__ import annotations

import email
import email.policy
from email.message import Message

from connectors.parsers.detect import plain

_KNOWN = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})


def readable(data: bytes) -> bytes:
    """The message, each of its texts in UTF-8: by the charset that it declares if that is valid, else the likeliest."""
    message = email.message_from_bytes(data, policy=email.policy.compat32)
    texts = [part for part in message.walk() if _is_foreign(part)]
    for part in texts:
        raw = part.get_payload(decode=True)
        text = _text(raw if isinstance(raw, bytes) else b"", part.get_content_charset())
        del part["Content-Transfer-Encoding"]
        part.set_payload(text, "utf-8")
    return message.as_bytes() if texts else data


def _is_foreign(part: Message) -> bool:
    if part.is_multipart() or part.get_content_maintype() != "text":
        return False
    charset = (part.get_content_charset() or "us-ascii").lower()
    raw = part.get_payload(decode=True)
    return charset not in _KNOWN or (isinstance(raw, bytes) and not raw.isascii() and charset not in ("utf-8", "utf8"))


def _text(raw: bytes, charset: str | None) -> str:
    try:
        return raw.decode(charset or "utf-8")
    except (LookupError, UnicodeDecodeError):
        return plain.decode(raw)
