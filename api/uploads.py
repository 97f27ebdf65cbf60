"""Multipart forms: small fields in memory, the file on disk."""

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
from connectors import registry
from retrieval.errors import ErrorCode, ServiceError

FILE_FIELD = "file"
# Values that form libraries send for an unset JSON field.
UNSET_VALUES = frozenset({b"", b"undefined", b"null"})
_HEAD_BYTES = 4096
_CHUNK_BYTES = 256 * 1024
_MAX_FIELD_BYTES = 64 * 1024
# A part's header has the file's name in up to three forms.
_MAX_HEADER_BYTES = 64 * 1024
_MAX_PARTS = 50
# Fields and boundaries around the file.
_FORM_OVERHEAD_BYTES = 1024 * 1024
# Content-Transfer-Encoding (RFC 2045).
_TRANSFER_ENCODINGS = frozenset({"", "7bit", "8bit", "binary", "base64", "quoted-printable"})
# Uploads may take this multiple of a JSON body's time.
_UPLOAD_TIME_FACTOR = 10


@dataclass(slots=True)
class Form:
    """Multipart form; `spool` has the file's content."""

    spool: IO[bytes]
    fields: dict[str, bytes] = field(default_factory=dict)
    # Field names that occurred more than once.
    repeated: set[str] = field(default_factory=set)
    has_file: bool = False
    # Name of the file; "" without one.
    name: str = ""
    media_type: str = ""
    size: int = 0
    sha256: bytes = b""

    def require_file(self) -> None:
        """Raise INVALID_INGEST_CONFIG for a missing or empty file."""
        if not self.has_file:
            raise _invalid_form("The form has no part named file.", "missing", FILE_FIELD)
        if self.size == 0:
            raise _invalid_form("The file is empty.", "empty", FILE_FIELD)

    def require_single(self, names: Collection[str]) -> None:
        """Raise INVALID_INGEST_CONFIG for a repeated field."""
        for name in sorted(self.repeated.intersection(names)):
            raise _invalid_form(f"The form has {name} more than once; send it once.", "repeated", name)

    def find_identity(self) -> str:
        """Return the file's name, or the SHA-256 of the content so that unnamed files do not replace each other."""
        return self.name or self.sha256.hex()

    def canonical_content(self) -> bytes:
        """Return the same bytes for equal forms, regardless of boundary and field order."""
        pairs = sorted((name, value.hex()) for name, value in self.fields.items())
        return json.dumps([pairs, self.name, self.media_type, self.size, self.sha256.hex()]).encode()

    def may_need_recognition(self) -> bool:
        """Check for a file that OCR may read for minutes."""
        self.spool.seek(0)
        return registry.may_need_recognition(self.spool.read(_HEAD_BYTES), self.name, self.media_type, self.size)

    def iterate_chunks(self) -> Iterator[bytes]:
        self.spool.seek(0)
        return iter(lambda: self.spool.read(_CHUNK_BYTES), b"")


@asynccontextmanager
async def read_form(request: Request[Any, Any, Any], services: Services) -> AsyncIterator[Form]:
    """Read the whole form; its file is deleted when the block ends."""
    headers = list(request.scope["headers"])
    request_limits.require_media_type(headers, "multipart/form-data")
    folder = services.settings.home / "uploads"
    await services.run_in_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
    spool = await services.run_in_thread(lambda: tempfile.TemporaryFile(dir=folder))  # noqa: SIM115  (closed below)
    try:
        reader = _FormReader(Form(spool), _read_boundary(headers), services.settings.max_file_bytes)
        chunks = request_limits.read_chunks(
            request.receive,
            headers,
            cap=services.settings.max_file_bytes + _FORM_OVERHEAD_BYTES,
            seconds=services.settings.body_seconds * _UPLOAD_TIME_FACTOR,
            stall=services.settings.body_seconds,
        )
        async for chunk in chunks:
            reader.parse_chunk(chunk)
            if len(reader.waiting) >= _CHUNK_BYTES:
                await services.run_in_thread(reader.write_waiting)
        await services.run_in_thread(reader.write_waiting)
        yield reader.finish_parsing()
    finally:
        await services.run_in_thread(spool.close)


class _FormReader:
    """Parser callbacks without disk access, for the event loop."""

    def __init__(self, form: Form, boundary: bytes, max_file_bytes: int) -> None:
        self.form = form
        self.waiting = bytearray()
        self._max_file_bytes = max_file_bytes
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
                    "on_part_begin": self._on_part_begin,
                    "on_header_field": self._on_name,
                    "on_header_value": self._on_value,
                    "on_header_end": self._on_header,
                    "on_headers_finished": self._on_headers,
                    "on_part_data": self._on_data,
                    "on_part_end": self._on_part_end,
                    "on_end": self._on_end,
                },
                max_header_size=_MAX_HEADER_BYTES,
            )
        except FormParserError as error:
            raise broken_upload() from error

    def parse_chunk(self, chunk: bytes) -> None:
        try:
            self._parser.write(chunk)
        except FormParserError as error:
            raise broken_upload() from error

    def write_waiting(self) -> None:
        """Write and hash collected bytes; runs in a thread."""
        self.form.spool.write(self.waiting)
        self._hash.update(self.waiting)
        self.waiting.clear()

    def finish_parsing(self) -> Form:
        if not self._ended:
            raise broken_upload()
        self.form.sha256 = self._hash.digest()
        charset = self.form.fields.get("_charset_", b"").decode("latin-1").strip()
        self.form.name = file_name(self._disposition, charset)
        return self.form

    def _on_part_begin(self) -> None:
        self._parts += 1
        if self._parts > _MAX_PARTS:
            raise _invalid_form(f"The form has more than {_MAX_PARTS} parts.", "too_many_parts")
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
        if self._part != FILE_FIELD:
            return
        if self.form.has_file:
            raise _invalid_form(
                "The form has more than one file: send one request for each.", "too_many_files", FILE_FIELD
            )
        self.form.has_file = True
        self._disposition = disposition
        self.form.media_type = _media_type(self._headers.get("content-type", b""))

    def _on_data(self, data: bytes, start: int, end: int) -> None:
        self._append_data(self._decoder.decode_chunk(data[start:end]))

    def _append_data(self, data: bytes) -> None:
        if self._part == FILE_FIELD:
            self.form.size += len(data)
            if self.form.size > self._max_file_bytes:
                raise ServiceError(
                    ErrorCode.PAYLOAD_TOO_LARGE,
                    f"The file is larger than the {self._max_file_bytes:,} bytes allowed.",
                    field=FILE_FIELD,
                    reason="file_too_large",
                )
            self.waiting += data
        else:
            self._value += data
            if len(self._value) > _MAX_FIELD_BYTES:
                raise _invalid_form(f"A form field is larger than {_MAX_FIELD_BYTES:,} bytes.", "field_too_large")

    def _on_part_end(self) -> None:
        self._append_data(self._decoder.decode_rest())
        if self._part != FILE_FIELD:
            if self._part in self.form.fields:
                self.form.repeated.add(self._part)
            self.form.fields[self._part] = bytes(self._value)

    def _on_end(self) -> None:
        self._ended = True


class TransferDecoder:
    """Incremental decoder of a part's Content-Transfer-Encoding."""

    def __init__(self, header: bytes = b"", part: str = "") -> None:
        self._encoding = header.decode("latin-1").strip().lower()
        self._part = part
        self._tail = b""
        if self._encoding not in _TRANSFER_ENCODINGS:
            names = ", ".join(sorted(filter(None, _TRANSFER_ENCODINGS)))
            message = f"The Content-Transfer-Encoding {self._encoding[:40]} of {part[:40]} is not one of {names}."
            raise _invalid_form(message, "unknown_encoding", part or None)

    def decode_chunk(self, data: bytes) -> bytes:
        """Decode a chunk; an incomplete end waits for the next."""
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

    def decode_rest(self) -> bytes:
        """Decode the end; raise INVALID_INGEST_CONFIG for truncated base64."""
        tail, self._tail = self._tail, b""
        return self._decode_base64(tail) if self._encoding == "base64" else binascii.a2b_qp(tail)

    def _decode_base64(self, text: bytes) -> bytes:
        try:
            return binascii.a2b_base64(text, strict_mode=True)
        except binascii.Error as error:
            message = f"{self._part} is not valid base64, as its Content-Transfer-Encoding says."
            raise _invalid_form(message, "invalid_encoding", self._part or None) from error


def broken_upload() -> ServiceError:
    return _invalid_form("The form is not complete multipart/form-data.", "invalid_form")


def _media_type(header: bytes) -> str:
    """Return the part's content type in lower case, with the charset only."""
    media_type = request_limits.read_media_type([(b"content-type", header)])
    charset = parse_options_header(header)[1].get(b"charset", b"").decode("latin-1").lower()
    return f"{media_type}; charset={charset}" if charset else media_type


def _read_boundary(headers: list[tuple[bytes, bytes]]) -> bytes:
    content_type = next((value for name, value in headers if name == b"content-type"), b"")
    boundary = parse_options_header(content_type)[1].get(b"boundary", b"")
    if not boundary:
        raise _invalid_form("The Content-Type of the form names no boundary.", "invalid_form")
    return boundary


def _invalid_form(message: str, reason: str, at: str | None = None) -> ServiceError:
    return ServiceError(ErrorCode.INVALID_INGEST_CONFIG, message, field=at, reason=reason)


_PARAMETER_PATTERN = re.compile(rb';\s*([^\s=;"]+)\s*=\s*("(?:[^"\\]|\\.)*"(?=\s*(?:;|$))|"[^;]*|[^;]*)', re.DOTALL)
_EXTENDED_PATTERN = re.compile(rb"([A-Za-z0-9!#$%&+^_`{}~.:-]*)'[^']*'(.*)", re.DOTALL)
_ENCODED_WORDS = re.compile(r"=\?[^?\s]+\?[bq]\?[^?]*\?=", re.IGNORECASE)
_PERCENT_ENCODED = re.compile(r"(?:[^%\s\x80-\U0010ffff]|%[0-9A-Fa-f]{2})+")
_MAX_NAME_LENGTH = 255
# Names that curl, browsers, requests, aiohttp and httpx give to unnamed content.
_PLACEHOLDER_NAMES = frozenset({"-", "blob", "file", "upload"})


def parse_parameters(header: bytes) -> dict[str, bytes]:
    """Return parameters by lower-case name, unquoted; the first of repeated names."""
    values: dict[str, bytes] = {}
    for name, value in _PARAMETER_PATTERN.findall(b";" + header.partition(b";")[2]):
        values.setdefault(name.decode("latin-1").lower(), _unquote(value.strip()))
    return values


def field_name(header: bytes) -> str:
    """Return the form field's name; "" if absent."""
    return parse_parameters(header).get("name", b"").decode("utf-8", "replace")


def file_name(header: bytes, charset: str = "") -> str:
    """Return the file's name; "" if absent or for a placeholder."""
    # Order of RFC 6266: `filename*`, its continuations, `filename`. Raw bytes are in the form's `_charset_`, UTF-8 or
    # Western European.
    values = parse_parameters(header)
    candidates = (
        _decode_extended(values.get("filename*", b"")),
        _join_continuations(values),
        _decode_plain(values.get("filename", b""), charset),
    )
    return next((name for name in map(clean_name, candidates) if name), "")


def clean_name(name: str) -> str:
    """Return the name without folders, control and direction marks; "" for a placeholder."""
    last = name.replace("\\", "/").rstrip("/").rpartition("/")[2]
    printable = "".join(character for character in last if character.isprintable()).strip(". ")
    return "" if printable in _PLACEHOLDER_NAMES else printable[-_MAX_NAME_LENGTH:]


def _unquote(value: bytes) -> bytes:
    if not value.startswith(b'"'):
        return value
    inner = value[1:-1] if len(value) > 1 and value.endswith(b'"') else value[1:]
    return re.sub(rb'\\(["\\])', rb"\1", inner)


def _decode_extended(value: bytes) -> str:
    """Decode `charset'language'percent-encoded` (RFC 8187), by default in UTF-8."""
    match = _EXTENDED_PATTERN.fullmatch(value)
    charset, encoded = match.groups() if match else (b"", value)
    return _decode_characters(unquote_to_bytes(encoded), charset.decode("latin-1"))


def _join_continuations(values: Mapping[str, bytes]) -> str:
    """Join `filename*0*=charset'language'…`, `filename*1=…` up to the first gap (RFC 2231)."""
    charset, joined, number = "", b"", 0
    while True:
        key = f"filename*{number}"
        if key + "*" in values:
            value = values[key + "*"]
            if number == 0 and (match := _EXTENDED_PATTERN.fullmatch(value)):
                charset, value = match[1].decode("latin-1"), match[2]
            joined += unquote_to_bytes(value)
        elif key in values:
            joined += values[key]
        else:
            return _decode_characters(joined, charset)
        number += 1


def _decode_plain(value: bytes, charset: str) -> str:
    name = _decode_characters(value, charset)
    if _ENCODED_WORDS.search(name):
        return _decode_words(name)
    if _PERCENT_ENCODED.fullmatch(name):
        try:
            return unquote_to_bytes(name).decode()
        except UnicodeDecodeError:
            pass
    return name.replace("%22", '"').replace("%0D", "").replace("%0A", "")


def _decode_words(name: str) -> str:
    """Decode `=?charset?B?…?=` (RFC 2047); return an invalid name unchanged."""
    try:
        return "".join(
            part if isinstance(part, str) else _decode_characters(part, charset or "")
            for part, charset in decode_header(name)
        )
    except (HeaderParseError, ValueError):
        return name


def _decode_characters(data: bytes, charset: str) -> str:
    for encoding in (charset.partition("*")[0], "utf-8", "cp1252"):
        try:
            return data.decode(encoding or "utf-8")
        except (LookupError, ValueError):
            continue
    return data.decode("latin-1")
