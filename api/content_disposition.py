"""File names in Content-Disposition: RFC 6266, 8187, 2231, 2047 and 7578, and what real clients send."""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.errors import HeaderParseError
from email.header import decode_header
from urllib.parse import unquote_to_bytes

_PARAMETER = re.compile(rb';\s*([^\s=;"]+)\s*=\s*("(?:[^"\\]|\\.)*"(?=\s*(?:;|$))|"[^;]*|[^;]*)', re.DOTALL)
_EXTENDED = re.compile(rb"([A-Za-z0-9!#$%&+^_`{}~.:-]*)'[^']*'(.*)", re.DOTALL)
_ENCODED_WORDS = re.compile(r"=\?[^?\s]+\?[bq]\?[^?]*\?=", re.IGNORECASE)
_PERCENT_ENCODED = re.compile(r"(?:[^%\s\x80-\U0010ffff]|%[0-9A-Fa-f]{2})+")
_LONGEST = 255
_PLACEHOLDERS = frozenset({"-", "blob", "file", "upload"})
"""Names that curl, browsers, requests, aiohttp and httpx give to content that has none."""


def parameters(header: bytes) -> dict[str, bytes]:
    """Parameters by lower-case name, quotes removed; the first of several with one name."""
    values: dict[str, bytes] = {}
    for name, value in _PARAMETER.findall(b";" + header.partition(b";")[2]):
        values.setdefault(name.decode("latin-1").lower(), _unquoted(value.strip()))
    return values


def field_name(header: bytes) -> str:
    """The name of a form's field, "" if it has none."""
    return parameters(header).get("name", b"").decode("utf-8", "replace")


def file_name(header: bytes, charset: str = "") -> str:
    """The file's own name, "" if there is none or only a placeholder.

    `filename*` goes before its continuations and these before `filename`, as RFC 6266 says. `charset`: the form's
    `_charset_` for raw bytes, which are UTF-8 otherwise, or Western European where they are not.
    """
    values = parameters(header)
    candidates = (
        _extended(values.get("filename*", b"")),
        _continued(values),
        _plain(values.get("filename", b""), charset),
    )
    return next((name for name in map(clean, candidates) if name), "")


def clean(name: str) -> str:
    """A name without folders, control and direction marks, at most 255 characters; "" for a placeholder."""
    last = name.replace("\\", "/").rstrip("/").rpartition("/")[2]
    kept = "".join(character for character in last if character.isprintable()).strip(". ")
    return "" if kept in _PLACEHOLDERS else kept[-_LONGEST:]


def _unquoted(value: bytes) -> bytes:
    if not value.startswith(b'"'):
        return value
    inner = value[1:-1] if len(value) > 1 and value.endswith(b'"') else value[1:]
    return re.sub(rb'\\(["\\])', rb"\1", inner)


def _extended(value: bytes) -> str:
    """RFC 8187: `charset'language'percent-encoded`; without the charset it is UTF-8."""
    match = _EXTENDED.fullmatch(value)
    charset, encoded = match.groups() if match else (b"", value)
    return _characters(unquote_to_bytes(encoded), charset.decode("latin-1"))


def _continued(values: Mapping[str, bytes]) -> str:
    """RFC 2231: `filename*0*=charset'language'…`, `filename*1=…` and so on, up to the first gap."""
    charset, joined, number = "", b"", 0
    while True:
        key = f"filename*{number}"
        if key + "*" in values:
            value = values[key + "*"]
            if number == 0 and (match := _EXTENDED.fullmatch(value)):
                charset, value = match[1].decode("latin-1"), match[2]
            joined += unquote_to_bytes(value)
        elif key in values:
            joined += values[key]
        else:
            return _characters(joined, charset)
        number += 1


def _plain(value: bytes, charset: str) -> str:
    name = _characters(value, charset)
    if _ENCODED_WORDS.search(name):
        return _decoded_words(name)
    if _PERCENT_ENCODED.fullmatch(name):
        try:
            return unquote_to_bytes(name).decode()
        except UnicodeDecodeError:
            pass
    return name.replace("%22", '"').replace("%0D", "").replace("%0A", "")


def _decoded_words(name: str) -> str:
    """RFC 2047: `=?charset?B?…?=`; a name that is not valid in this form stays as it is."""
    try:
        return "".join(
            part if isinstance(part, str) else _characters(part, charset or "") for part, charset in decode_header(name)
        )
    except (HeaderParseError, ValueError):
        return name


def _characters(data: bytes, charset: str) -> str:
    for encoding in (charset.partition("*")[0], "utf-8", "cp1252"):
        try:
            return data.decode(encoding or "utf-8")
        except (LookupError, ValueError):
            continue
    return data.decode("latin-1")
