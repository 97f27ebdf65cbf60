"""Limits of request bodies in size, duration and form."""

from __future__ import annotations

import asyncio
import codecs
import json
import re
from collections.abc import AsyncIterator
from typing import cast

from litestar.types import HTTPReceiveMessage, Receive

from retrieval.errors import ErrorCode, ServiceError

MAX_JSON_DEPTH = 32
# Characters of a client's key in an error message.
MAX_SHOWN_KEY_LENGTH = 64
_STRING_PATTERN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_NUL_PATTERN = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_BRACKET_BYTES = b"[]{}"
_NO_BRACKETS = bytes(c for c in range(256) if c not in _BRACKET_BYTES)
_SAME_BRACKETS = bytes.maketrans(b"{}", b"[]")


class Disconnected(Exception):
    """Disconnect of the client before the end of the body."""


def read_media_type(headers: list[tuple[bytes, bytes]]) -> str:
    """Return the content type in lower case without parameters; "" if absent."""
    for name, value in headers:
        if name == b"content-type":
            return value.decode("latin-1").partition(";")[0].strip().lower()
    return ""


def require_media_type(headers: list[tuple[bytes, bytes]], expected: str) -> None:
    """Raise UNSUPPORTED_MEDIA_TYPE for another or a compressed body; JSON may omit its type."""
    got = read_media_type(headers)
    if got == "application/scim+json":
        got = "application/json"
    if got != expected and (got or expected != "application/json"):
        raise ServiceError(ErrorCode.UNSUPPORTED_MEDIA_TYPE, f"Send this body as Content-Type: {expected}.")
    for name, value in headers:
        if name == b"content-encoding" and value.strip().lower() not in {b"", b"identity"}:
            raise ServiceError(ErrorCode.UNSUPPORTED_MEDIA_TYPE, "Send the body without a Content-Encoding.")


async def read_chunks(
    receive: Receive, headers: list[tuple[bytes, bytes]], *, cap: int, seconds: float, stall: float | None = None
) -> AsyncIterator[bytes]:
    """Yield the body as it arrives; raise 413 above `cap` bytes, 408 after `seconds`, or `stall` seconds without a
    byte."""
    announced = next((value for name, value in headers if name == b"content-length"), b"0")
    if announced.isdigit() and int(announced) > cap:
        raise _too_large_error(cap)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    total = 0
    has_more = True
    while has_more:
        message = await _receive_message(receive, min(deadline, loop.time() + (stall or seconds)))
        if message["type"] == "http.disconnect":
            raise Disconnected
        chunk = message.get("body", b"")
        total += len(chunk)
        if total > cap:
            raise _too_large_error(cap)
        yield chunk
        has_more = message.get("more_body", False)


async def read_json(
    receive: Receive,
    headers: list[tuple[bytes, bytes]],
    *,
    cap: int,
    seconds: float,
    invalid: ErrorCode,
    checks_whole_body: bool = True,
) -> bytes:
    """Read and check a JSON body; `invalid` is the error code."""
    require_media_type(headers, "application/json")
    chunks = [chunk async for chunk in read_chunks(receive, headers, cap=cap, seconds=seconds)]
    body = (chunks[0] if len(chunks) == 1 else b"".join(chunks)).removeprefix(codecs.BOM_UTF8)
    check_json(body, invalid, checks_whole_body=checks_whole_body)
    return body


def check_json(body: bytes, invalid: ErrorCode, field: str | None = None, *, checks_whole_body: bool = True) -> None:
    """Refuse NUL characters, invalid UTF-8, deep nesting and repeated keys in JSON text."""
    # Without `checks_whole_body`, the caller checks the parts one by one: an invalid part does not refuse the others.
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ServiceError(invalid, "The JSON is not valid UTF-8.", reason="invalid_utf8", field=field) from error
    if b"\x00" in body or (checks_whole_body and b"\\u0000" in body and _NUL_PATTERN.search(body)):
        raise ServiceError(invalid, "The JSON contains a NUL character; remove it.", reason="nul", field=field)
    if not checks_whole_body:
        return
    if body.count(b"[") + body.count(b"{") > MAX_JSON_DEPTH and _is_deeper_than(body, MAX_JSON_DEPTH):
        raise ServiceError(
            invalid, f"The JSON is nested deeper than {MAX_JSON_DEPTH} levels.", reason="too_deep", field=field
        )
    if (key := find_repeated_key(body)) is not None:
        message = f"The key {key[:MAX_SHOWN_KEY_LENGTH]} is sent twice in one object; send it once."
        raise ServiceError(invalid, message, reason="repeated", field=field or key[:MAX_SHOWN_KEY_LENGTH])


def find_repeated_key(body: bytes) -> str | None:
    """Return the first repeated key of an object; None for invalid JSON."""
    repeated: list[str] = []

    def check_pairs(pairs: list[tuple[str, None]]) -> None:
        if len(dict(pairs)) < len(pairs):
            keys = [key for key, _ in pairs]
            repeated.append(next(key for at, key in enumerate(keys) if key in keys[:at]))

    try:
        # Numbers stay text: a decoder of the struct reads them.
        json.loads(body, object_pairs_hook=check_pairs, parse_int=str, parse_float=str, parse_constant=str)
    except ValueError:
        return None
    return repeated[0] if repeated else None


def _is_deeper_than(body: bytes, levels: int) -> bool:
    """Return whether brackets nest deeper than `levels`."""
    # Removes one level at a time, at the speed of `replace`. The decoder reports unbalanced text.
    brackets = _STRING_PATTERN.sub(b"", body).translate(_SAME_BRACKETS, _NO_BRACKETS)
    for _ in range(levels):
        shorter = brackets.replace(b"[]", b"")
        if len(shorter) == len(brackets):
            break
        brackets = shorter
    return b"[]" in brackets or b"[" * (levels + 1) in brackets


async def _receive_message(receive: Receive, deadline: float) -> HTTPReceiveMessage:
    try:
        async with asyncio.timeout_at(deadline):
            return cast("HTTPReceiveMessage", await receive())
    except TimeoutError as error:
        raise ServiceError(
            ErrorCode.REQUEST_TIMEOUT, "The request body took too long to arrive.", headers={"Connection": "close"}
        ) from error


def _too_large_error(cap: int) -> ServiceError:
    return ServiceError(ErrorCode.PAYLOAD_TOO_LARGE, f"The body is larger than the {cap:,} bytes allowed here.")
