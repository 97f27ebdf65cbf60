"""Decode mail bodies, headers and file names, with tolerance for wrongly declared charsets."""

from __future__ import annotations

import re
from contextlib import suppress
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message

from connectors.charsets import decoding
from connectors.parsers import detect

_ENCODED_WORDS = re.compile(r"=\?[^?\s]{1,60}\?[bBqQ]\?[^?]*\?=(?:\s+=\?[^?\s]{1,60}\?[bBqQ]\?[^?]*\?=)*")


def decode_text(part: Message) -> str:
    """Decode a text part by the declared charset if valid, else by the likeliest."""
    raw = part.get_payload(decode=True)
    data, charset = raw if isinstance(raw, bytes) else b"", part.get_content_charset() or ""
    characters = decode_charset(data, charset, markup=part.get_content_subtype() == "html")
    return detect.make_storable(characters).replace("\r\n", "\n")


def decode_field(value: str) -> str:
    """Return a header value in one line of decoded words. `value`: from `Message.raw_items`."""
    words = str(value)
    if not words.isascii():
        words = decoding.decode_text(words.encode("utf-8", "surrogateescape"))
    return " ".join(detect.make_storable(_ENCODED_WORDS.sub(lambda match: decode_words(match[0]), words)).split())


def decode_words(words: str) -> str:
    """Decode encoded words; other text stays unchanged."""
    try:
        return "".join(
            part if isinstance(part, str) else decode_charset(part, charset or "")
            for part, charset in decode_header(words)
        )
    except (ValueError, LookupError, HeaderParseError):
        return words


def decode_charset(data: bytes, charset: str, *, markup: bool = False) -> str:
    """Decode bytes of a body, header or name, and correct charsets declared too narrow or wrong."""
    label = charset.lower().strip("\"' ")
    if label == "utf-7":
        return data.decode("utf-7", "replace")
    for family, codecs in _ESCAPE_CODECS.items():
        if label.startswith(family) and (b"\x1b" in data or b"~{" in data):
            for codec in codecs:
                with suppress(UnicodeError):
                    return data.decode(codec)
    return decoding.decode_text(data, charset, markup=markup)


# Charsets with escape sequences, and the codecs of their variants.
_ESCAPE_CODECS = {
    "iso-2022-jp": ("iso2022_jp", "iso2022_jp_ext", "iso2022_jp_2", "iso2022_jp_3"),
    "iso-2022-kr": ("iso2022_kr",),
    "hz": ("hz",),
}


def header_of(message: Message, name: str) -> str:
    """Return a decoded header; "" if absent."""
    return decode_field(_raw_header(message, name))


def _raw_header(message: Message, name: str) -> str:
    return next((str(value) for key, value in message.raw_items() if key.lower() == name), "")


def name_of(part: Message) -> str:
    """Return the file name of a part; "" if absent."""
    for header, parameter in (("content-disposition", "filename"), ("content-type", "name")):
        holder = Message()
        raw = _raw_header(part, header)
        if not raw.isascii():
            raw = decoding.decode_text(raw.encode("utf-8", "surrogateescape"))
        holder[header] = " ".join(raw.splitlines())
        name = holder.get_param(parameter, header=header)
        if isinstance(name, tuple):  # RFC 2231: charset, language and bytes as letters
            name = decode_charset(name[2].encode("latin-1", "replace"), name[0] or "")
        if isinstance(name, str) and name.strip():
            return " ".join(decode_words(detect.make_storable(name)).split())
    return ""
