"""Multipart forms as they are received: small fields in memory, the file to disk."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import IO, Any

from litestar import Request
from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header

from api import content_disposition, request_limits
from api.services import Services
from retrieval.errors import ErrorCode, ServiceError

FILE = "file"
ABSENT = frozenset({b"", b"undefined", b"null"})
"""What form libraries write into a JSON field that nobody set."""
_PIECE = 256 * 1024
_FIELD_BYTES = 64 * 1024
_PARTS = 50
_OVERHEAD = 1024 * 1024
"""What a request may take beside its file: the other fields and the boundaries."""

_TIMES_LONGER = 10
"""A file may take so many times as long to arrive as a JSON body."""


@dataclass(slots=True)
class Form:
    """A form whose file, if one was sent, lies in `spool`, read from its start."""

    spool: IO[bytes]
    fields: dict[str, bytes] = field(default_factory=dict)
    has_file: bool = False
    name: str = ""
    """The file's own name, "" if the client gave it none."""
    media_type: str = ""
    size: int = 0
    sha256: bytes = b""

    def require_file(self) -> None:
        """INVALID_INGEST_CONFIG without a file, or with an empty one."""
        if not self.has_file:
            raise _invalid("The form has no part named file.", "missing", FILE)
        if self.size == 0:
            raise _invalid("The file is empty.", "empty", FILE)

    def identity(self) -> str:
        """The name, or else the SHA-256 of the content, so that two unnamed files never replace each other."""
        return self.name or self.sha256.hex()

    def content(self) -> bytes:
        """What the form says, whatever its boundary and the order of its fields: equal for equal requests."""
        said = sorted((name, value.hex()) for name, value in self.fields.items())
        return json.dumps([said, self.name, self.media_type, self.size, self.sha256.hex()]).encode()

    def pieces(self) -> Iterator[bytes]:
        """The file's bytes, a piece at a time, from its start."""
        self.spool.seek(0)
        return iter(lambda: self.spool.read(_PIECE), b"")


@asynccontextmanager
async def read_form(request: Request[Any, Any, Any], services: Services) -> AsyncIterator[Form]:
    """The whole form, in any order of fields; the file is gone from disk when the block ends."""
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
            )
        except FormParserError as error:
            raise broken() from error

    def feed(self, chunk: bytes) -> None:
        try:
            self._parser.write(chunk)
        except FormParserError as error:
            raise broken() from error

    def flush(self) -> None:
        """Called in a thread: to the disk and into the hash with what waits."""
        self.form.spool.write(self.waiting)
        self._hash.update(self.waiting)
        self.waiting.clear()

    def finish(self) -> Form:
        if not self._ended:
            raise broken()
        self.form.sha256 = self._hash.digest()
        charset = self.form.fields.get("_charset_", b"").decode("latin-1").strip()
        self.form.name = content_disposition.file_name(self._disposition, charset)
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
        self._part = content_disposition.field_name(disposition)
        if self._part != FILE:
            return
        if self.form.has_file:
            raise _invalid("The form has more than one file: send one request for each.", "too_many_files", FILE)
        self.form.has_file = True
        self._disposition = disposition
        self.form.media_type = _media_type(self._headers.get("content-type", b""))

    def _on_data(self, data: bytes, start: int, end: int) -> None:
        if self._part == FILE:
            self.form.size += end - start
            if self.form.size > self._max:
                raise ServiceError(
                    ErrorCode.PAYLOAD_TOO_LARGE,
                    f"The file is larger than the {self._max:,} bytes allowed.",
                    field=FILE,
                    reason="file_too_large",
                )
            self.waiting += data[start:end]
        else:
            self._value += data[start:end]
            if len(self._value) > _FIELD_BYTES:
                raise _invalid(f"A form field is larger than {_FIELD_BYTES:,} bytes.", "field_too_large")

    def _end(self) -> None:
        if self._part != FILE:
            self.form.fields[self._part] = bytes(self._value)

    def _on_end(self) -> None:
        self._ended = True


def broken() -> ServiceError:
    return _invalid("The form is not complete multipart/form-data.", "invalid_form")


def _media_type(sent: bytes) -> str:
    """The content type of a part, lower case, with the charset as its only parameter."""
    media_type = request_limits.media_type([(b"content-type", sent)])
    charset = parse_options_header(sent)[1].get(b"charset", b"").decode("latin-1").lower()
    return f"{media_type}; charset={charset}" if charset else media_type


def _boundary(headers: list[tuple[bytes, bytes]]) -> bytes:
    sent = next((value for name, value in headers if name == b"content-type"), b"")
    boundary = parse_options_header(sent)[1].get(b"boundary", b"")
    if not boundary:
        raise _invalid("The Content-Type of the form names no boundary.", "invalid_form")
    return boundary


def _invalid(message: str, reason: str, at: str | None = None) -> ServiceError:
    return ServiceError(ErrorCode.INVALID_INGEST_CONFIG, message, field=at, reason=reason)
