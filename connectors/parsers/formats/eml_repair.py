"""Repairs e-mails of older or undeclared charsets: headers and texts are UTF-8 before the library reads them."""

from __future__ import annotations

import email
import email.policy
import re
from email.errors import HeaderParseError
from email.header import Header, decode_header
from email.message import Message

from connectors.charsets import decoding
from connectors.parsers.detect import plain

_ENCODED = re.compile(r"=\?[^?\s]{1,60}\?[bBqQ]\?[^?]*\?=(?:\s+=\?[^?\s]{1,60}\?[bBqQ]\?[^?]*\?=)*")
_KNOWN = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})


def readable(data: bytes) -> bytes:
    """The message, each of its texts in UTF-8: by the charset that it declares if that is valid, else the likeliest."""
    message = email.message_from_bytes(data, policy=email.policy.compat32)
    foreign = [(name, value) for name, value in message.raw_items() if _is_foreign_name(value)]
    for name, value in foreign:
        del message[name]
        message[name] = _ENCODED.sub(
            lambda found: Header(decoded(found[0]), "utf-8", maxlinelen=10_000).encode(), value
        )
    texts = [part for part in message.walk() if _is_foreign(part)]
    for part in texts:
        characters = text(part)
        del part["Content-Transfer-Encoding"]
        part.set_payload(characters, "utf-8")
    return message.as_bytes() if texts or foreign else data


def text(part: Message) -> str:
    """The characters of a text, by the charset that it declares if that is valid, else the likeliest."""
    raw = part.get_payload(decode=True)
    data, charset = raw if isinstance(raw, bytes) else b"", part.get_content_charset() or ""
    if charset == "utf-7":
        characters = data.decode(charset, "replace")
    else:
        characters = decoding.decode(data, charset, markup=part.get_content_subtype() == "html")
    return plain.storable(characters).replace("\r\n", "\n")


def header(value: str) -> str:
    """A header's words in one line, as a reader sees them. `value`: as `Message.raw_items` gives it."""
    words = decoding.decode(str(value).encode("ascii", "surrogateescape")) if not str(value).isascii() else str(value)
    return " ".join(plain.storable(_ENCODED.sub(lambda found: decoded(found[0]), words)).split())


def decoded(words: str) -> str:
    """Encoded words as characters; what is none stays as it is."""
    try:
        return "".join(
            part if isinstance(part, str) else part.decode(charset or "latin-1", "replace")
            for part, charset in decode_header(words)
        )
    except (ValueError, LookupError, HeaderParseError):
        return words


def _is_foreign_name(value: object) -> bool:
    """What the library does not decode: it knows what every mail program writes, and no Japanese."""
    return bool(
        re.search(r"=\?(?!utf-?8|us-ascii|iso-8859|windows-125)[^?\s]{1,60}\?[bq]\?", str(value), re.IGNORECASE)
    )


def _is_foreign(part: Message) -> bool:
    if part.is_multipart() or part.get_content_maintype() != "text":
        return False
    charset = (part.get_content_charset() or "us-ascii").lower()
    raw = part.get_payload(decode=True)
    return charset not in _KNOWN or (isinstance(raw, bytes) and not raw.isascii() and charset not in ("utf-8", "utf8"))
