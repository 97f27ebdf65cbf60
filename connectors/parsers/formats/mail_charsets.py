"""Headers and texts of e-mails as characters, whichever charset they declare, or none."""

from __future__ import annotations

import re
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message

from connectors.charsets import decoding
from connectors.parsers.detect import plain

_ENCODED = re.compile(r"=\?[^?\s]{1,60}\?[bBqQ]\?[^?]*\?=(?:\s+=\?[^?\s]{1,60}\?[bBqQ]\?[^?]*\?=)*")


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
    words = str(value)
    if not words.isascii():
        words = decoding.decode(words.encode("utf-8", "surrogateescape"))
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
