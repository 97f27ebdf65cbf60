"""Multipart forms as they are received: small fields in memory, the file to disk."""

from __future__ import annotations

import binascii
import hashlib
import json
import re
import tempfile
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.errors import HeaderParseError
from email.header import decode_header
from typing import IO, Any
from urllib.parse import unquote_to_bytes

from litestar import Request
from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header

from api import request_limits
from api.services import Services
from retrieval.errors import ErrorCode, ServiceError

FILE = "file"
ABSENT = frozenset({b"", b"undefined", b"null"})
"""Values that form libraries send for an unset JSON field."""
_PIECE = 256 * 1024
_FIELD_BYTES = 64 * 1024
_HEADER_BYTES = 64 * 1024
"""Bytes of a header of a part, which holds the file's name in up to three forms."""
_PARTS = 50
_OVERHEAD = 1024 * 1024
"""What a request may take beside its file: the other fields and the boundaries."""

_ENCODINGS = frozenset({"", "7bit", "8bit", "binary", "base64", "quoted-printable"})
"""Values of `Content-Transfer-Encoding` (RFC 2045) that are read."""
_TIMES_LONGER = 10
"""A file may take so many times as long to arrive as a JSON body."""


@dataclass(slots=True)
class Form:
    """A multipart form. Its file, if one was sent, is in `spool`, read from its start."""

    spool: IO[bytes]
    fields: dict[str, bytes] = field(default_factory=dict)
    repeated: set[str] = field(default_factory=set)
    """Names of fields that were sent more than once."""
    has_file: bool = False
    name: str = ""
    """The file's own name, "" if the client gave it none."""
    media_type: str = ""
    size: int = 0
    sha256: bytes = b""

    def require_file(self) -> None:
        """Raise INVALID_INGEST_CONFIG without a file, or with an empty one."""
        if not self.has_file:
            raise _invalid("The form has no part named file.", "missing", FILE)
        if self.size == 0:
            raise _invalid("The file is empty.", "empty", FILE)

    def require_single(self, names: Collection[str]) -> None:
        """Raise INVALID_INGEST_CONFIG if one of these fields was sent more than once."""
        for name in sorted(self.repeated.intersection(names)):
            raise _invalid(f"The form has {name} more than once; send it once.", "repeated", name)

    def identity(self) -> str:
        """Return the name, or else the SHA-256 of the content, so that two unnamed files never replace each other."""
        return self.name or self.sha256.hex()

    def content(self) -> bytes:
        """Return the form's content, independent of its boundary and field order: equal for equal requests."""
        pairs = sorted((name, value.hex()) for name, value in self.fields.items())
        return json.dumps([pairs, self.name, self.media_type, self.size, self.sha256.hex()]).encode()

    def pieces(self) -> Iterator[bytes]:
        """The file's bytes, a piece at a time, from its start."""
        self.spool.seek(0)
        return iter(lambda: self.spool.read(_PIECE), b"")


@asynccontextmanager
async def read_form(request: Request[Any, Any, Any], services: Services) -> AsyncIterator[Form]:
    """Read the whole form, in any order of fields. The file is deleted from disk when the block ends."""
    headers = list(request.scope["headers"])
    request_limits.require_media_type(headers, "multipart/form-data")
    folder = services.settings.home / "uploads"
    await services.in_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
    spool = await services.in_thread(lambda: tempfile.TemporaryFile(dir=folder))  # noqa: SIM115  (closed below)
    try:
        reader = _Reader(Form(spool), _boundary(headers), services.settings.max_file_bytes)
        chunks = request_limits.body_chunks(
            request.receive,
            headers,
            cap=services.settings.max_file_bytes + _OVERHEAD,
            seconds=services.settings.body_seconds * _TIMES_LONGER,
            stall=services.settings.body_seconds,
        )
        async for chunk in chunks:
            reader.feed(chunk)
            if len(reader.waiting) >= _PIECE:
                await services.in_thread(reader.flush)
        await services.in_thread(reader.flush)
        yield reader.finish()
    finally:
        await services.in_thread(spool.close)


class _Reader:
    """Callbacks of the parser; they only collect, so that the event loop never waits for a disk."""

    def __init__(self, form: Form, boundary: bytes, max_file_bytes: int) -> None:
        self.form = form
        self.waiting = bytearray()
        self._max = max_file_bytes
        self._hash = hashlib.sha256()
        self._parts = 0
        self._ended = False
        self._headers: dict[str, bytes] = {}
        self._header_name = b""
        self._header_value = b""
        self._disposition = b""
        self._part = ""
        self._value = bytearray()
        self._decoder = TransferDecoder()
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._begin,
                    "on_header_field": self._on_name,
                    "on_header_value": self._on_value,
                    "on_header_end": self._on_header,
                    "on_headers_finished": self._on_headers,
                    "on_part_data": self._on_data,
                    "on_part_end": self._end,
                    "on_end": self._on_end,
                },
                max_header_size=_HEADER_BYTES,
            )
        except FormParserError as error:
            raise broken_upload() from error

    def feed(self, chunk: bytes) -> None:
        try:
            self._parser.write(chunk)
        except FormParserError as error:
            raise broken_upload() from error

    def flush(self) -> None:
        """Called in a thread: to the disk and into the hash with what waits."""
        self.form.spool.write(self.waiting)
        self._hash.update(self.waiting)
        self.waiting.clear()

    def finish(self) -> Form:
        if not self._ended:
            raise broken_upload()
        self.form.sha256 = self._hash.digest()
        charset = self.form.fields.get("_charset_", b"").decode("latin-1").strip()
        self.form.name = file_name(self._disposition, charset)
        return self.form

    def _begin(self) -> None:
        self._parts += 1
        if self._parts > _PARTS:
            raise _invalid(f"The form has more than {_PARTS} parts.", "too_many_parts")
        self._headers = {}
        self._value = bytearray()

    def _on_name(self, data: bytes, start: int, end: int) -> None:
        self._header_name += data[start:end]

    def _on_value(self, data: bytes, start: int, end: int) -> None:
        self._header_value += data[start:end]

    def _on_header(self) -> None:
        self._headers[self._header_name.decode("latin-1").lower()] = self._header_value
        self._header_name = self._header_value = b""

    def _on_headers(self) -> None:
        disposition = self._headers.get("content-disposition", b"")
        self._part = field_name(disposition)
        self._decoder = TransferDecoder(self._headers.get("content-transfer-encoding", b""), self._part)
        if self._part != FILE:
            return
        if self.form.has_file:
            raise _invalid("The form has more than one file: send one request for each.", "too_many_files", FILE)
        self.form.has_file = True
        self._disposition = disposition
        self.form.media_type = _media_type(self._headers.get("content-type", b""))

    def _on_data(self, data: bytes, start: int, end: int) -> None:
        self._keep(self._decoder.decode(data[start:end]))

    def _keep(self, data: bytes) -> None:
        if self._part == FILE:
            self.form.size += len(data)
            if self.form.size > self._max:
                raise ServiceError(
                    ErrorCode.PAYLOAD_TOO_LARGE,
                    f"The file is larger than the {self._max:,} bytes allowed.",
                    field=FILE,
                    reason="file_too_large",
                )
            self.waiting += data
        else:
            self._value += data
            if len(self._value) > _FIELD_BYTES:
                raise _invalid(f"A form field is larger than {_FIELD_BYTES:,} bytes.", "field_too_large")

    def _end(self) -> None:
        self._keep(self._decoder.finish())
        if self._part != FILE:
            if self._part in self.form.fields:
                self.form.repeated.add(self._part)
            self.form.fields[self._part] = bytes(self._value)

    def _on_end(self) -> None:
        self._ended = True


class TransferDecoder:
    """Decoder of the `Content-Transfer-Encoding` of a part, in pieces."""

    def __init__(self, header: bytes = b"", part: str = "") -> None:
        self._encoding = header.decode("latin-1").strip().lower()
        self._part = part
        self._tail = b""
        if self._encoding not in _ENCODINGS:
            names = ", ".join(sorted(filter(None, _ENCODINGS)))
            message = f"The Content-Transfer-Encoding {self._encoding[:40]} of {part[:40]} is not one of {names}."
            raise _invalid(message, "unknown_encoding", part or None)

    def decode(self, data: bytes) -> bytes:
        """Decode a piece; what may belong to the next one is kept."""
        if self._encoding == "base64":
            text = self._tail + data.translate(None, b" \t\r\n")
            whole = len(text) - len(text) % 4
            self._tail = text[whole:]
            return self._decode_base64(text[:whole])
        if self._encoding == "quoted-printable":
            text = self._tail + data
            escape = text.rfind(b"=", max(len(text) - 2, 0))
            whole = len(text) if escape < 0 else escape
            self._tail = text[whole:]
            return binascii.a2b_qp(text[:whole])
        return data

    def finish(self) -> bytes:
        """Decode what was kept. Raises INVALID_INGEST_CONFIG for base64 that is cut off."""
        tail, self._tail = self._tail, b""
        return self._decode_base64(tail) if self._encoding == "base64" else binascii.a2b_qp(tail)

    def _decode_base64(self, text: bytes) -> bytes:
        try:
            return binascii.a2b_base64(text, strict_mode=True)
        except binascii.Error as error:
            message = f"{self._part} is not valid base64, as its Content-Transfer-Encoding says."
            raise _invalid(message, "invalid_encoding", self._part or None) from error


def broken_upload() -> ServiceError:
    return _invalid("The form is not complete multipart/form-data.", "invalid_form")


def _media_type(header: bytes) -> str:
    """The content type of a part, lower case, with the charset as its only parameter."""
    media_type = request_limits.media_type([(b"content-type", header)])
    charset = parse_options_header(header)[1].get(b"charset", b"").decode("latin-1").lower()
    return f"{media_type}; charset={charset}" if charset else media_type


def _boundary(headers: list[tuple[bytes, bytes]]) -> bytes:
    content_type = next((value for name, value in headers if name == b"content-type"), b"")
    boundary = parse_options_header(content_type)[1].get(b"boundary", b"")
    if not boundary:
        raise _invalid("The Content-Type of the form names no boundary.", "invalid_form")
    return boundary


def _invalid(message: str, reason: str, at: str | None = None) -> ServiceError:
    return ServiceError(ErrorCode.INVALID_INGEST_CONFIG, message, field=at, reason=reason)


_PARAMETER = re.compile(rb';\s*([^\s=;"]+)\s*=\s*("(?:[^"\\]|\\.)*"(?=\s*(?:;|$))|"[^;]*|[^;]*)', re.DOTALL)
_EXTENDED = re.compile(rb"([A-Za-z0-9!#$%&+^_`{}~.:-]*)'[^']*'(.*)", re.DOTALL)
_ENCODED_WORDS = re.compile(r"=\?[^?\s]+\?[bq]\?[^?]*\?=", re.IGNORECASE)
_PERCENT_ENCODED = re.compile(r"(?:[^%\s\x80-\U0010ffff]|%[0-9A-Fa-f]{2})+")
_LONGEST = 255
_PLACEHOLDERS = frozenset({"-", "blob", "file", "upload"})
"""Names that curl, browsers, requests, aiohttp and httpx give to content that has none."""


def parse_parameters(header: bytes) -> dict[str, bytes]:
    """Parameters by lower-case name, quotes removed; the first of several with one name."""
    values: dict[str, bytes] = {}
    for name, value in _PARAMETER.findall(b";" + header.partition(b";")[2]):
        values.setdefault(name.decode("latin-1").lower(), _unquoted(value.strip()))
    return values


def field_name(header: bytes) -> str:
    """The name of a form's field, "" if it has none."""
    return parse_parameters(header).get("name", b"").decode("utf-8", "replace")


def file_name(header: bytes, charset: str = "") -> str:
    """Return the file's own name, "" if there is none or only a placeholder.

    The order is `filename*`, its continuations, `filename`, as in RFC 6266. `charset`: the form's `_charset_` for raw
    bytes, which are UTF-8 otherwise, or Western European if they are not.
    """
    values = parse_parameters(header)
    candidates = (
        _extended(values.get("filename*", b"")),
        _continued(values),
        _plain(values.get("filename", b""), charset),
    )
    return next((name for name in map(clean_name, candidates) if name), "")


def clean_name(name: str) -> str:
    """A name without folders, control and direction marks, at most 255 characters; "" for a placeholder."""
    last = name.replace("\\", "/").rstrip("/").rpartition("/")[2]
    printable = "".join(character for character in last if character.isprintable()).strip(". ")
    return "" if printable in _PLACEHOLDERS else printable[-_LONGEST:]


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
