"""Strict decoding of request bodies into structs (D06, D07), with errors that tell a client what to change."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec.structs import fields

from api import whole_numbers
from retrieval.errors import ErrorCode, ServiceError

T = TypeVar("T")

FIELD_CODES = {
    "chunkConfig": ErrorCode.INVALID_CHUNK_CONFIG,
    "scrapeOptions": ErrorCode.INVALID_SCRAPE_OPTIONS,
    "hybridConfig": ErrorCode.INVALID_HYBRID_CONFIG,
}
"""Parts of a body that have a code of their own, whichever body they stand in."""

_PLACE = re.compile(r" - at `(?:key in )?\$\.?([^`]*)`$")
_MISSING = re.compile(r"Object missing required field `([^`]+)`")
_GOT = re.compile(r"Expected `([^`]+)`, got `([^`]+)`")


def json_reader(kind: type[T], invalid: ErrorCode, *, at: str = "") -> Callable[[bytes], T]:
    """A strict decoder of JSON text. `at`: where the text itself stands, for the field named in an error."""
    decoder = msgspec.json.Decoder(kind, strict=True)

    def read(body: bytes) -> T:
        try:
            return whole_numbers.decode(decoder, body)
        except msgspec.ValidationError as error:
            raise complaint(str(error), invalid, at) from error
        except (msgspec.DecodeError, UnicodeError, RecursionError, ValueError) as error:
            raise ServiceError(
                FIELD_CODES.get(at, invalid), "The body is not valid JSON.", reason="invalid_json", field=at or None
            ) from error

    return read


def body_reader(kind: type[Any] | None, invalid: ErrorCode) -> Callable[[bytes], Any]:
    return json_reader(kind or msgspec.Raw, invalid)


def query_reader(kind: type[Any] | None, invalid: ErrorCode) -> Callable[[bytes], Any]:
    """A strict reader of a query string; an empty value of an optional parameter means absent (D07)."""
    if kind is None:
        return lambda _: None
    optional = {field.encode_name for field in fields(kind) if not field.required}

    def read(query: bytes) -> Any:
        try:
            pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100)
        except ValueError as error:
            raise ServiceError(invalid, "The query string is not valid.", reason="invalid_query") from error
        if any("\x00" in value for _, value in pairs):
            raise ServiceError(invalid, "The query string holds a NUL character; leave it out.", reason="nul")
        return convert({k: v for k, v in pairs if v or k not in optional}, kind, invalid, strict=False)

    return read


def convert(members: Any, kind: type[T], invalid: ErrorCode, *, strict: bool = True) -> T:
    """A struct from plain values; those of a query string, which are all text, need `strict=False`."""
    try:
        return msgspec.convert(members, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise complaint(str(error), invalid) from error


def complaint(text: str, invalid: ErrorCode, at: str = "") -> ServiceError:
    """The error for a decoder's message: where and what is wrong, never the submitted value."""
    place = _PLACE.search(text)
    path = ".".join(filter(None, (at, place.group(1) if place else "")))
    what = text[: place.start()] if place else text
    missing = _MISSING.match(what)
    if missing:
        path = ".".join(filter(None, (path, missing.group(1))))
        said, reason = "is required", "missing"
    elif _GOT.match(what):
        wanted, got = _GOT.match(what).groups()  # type: ignore[union-attr]
        said, reason = f"must be {_kind(wanted)}, not {_kind(got)}", "wrong_type"
    elif what.startswith("Expected `"):
        said, reason = "must be " + what.removeprefix("Expected ").replace("`", ""), "out_of_bounds"
    elif what.startswith("Invalid"):
        said, reason = "holds a value that is not one of those allowed", "not_allowed"
    else:
        said, reason = "cannot be read: " + what.replace("`", "").lower(), "invalid"
    code = next((FIELD_CODES[part] for part in re.split(r"[.\[]", path) if part in FIELD_CODES), invalid)
    return ServiceError(code, f"{path or 'The body'} {said}.", field=path or None, reason=reason)


def _kind(names: str) -> str:
    """`str | null` -> "a string or null"."""
    words = {
        "str": "a string",
        "int": "a whole number",
        "float": "a number",
        "bool": "true or false",
        "array": "an array",
        "object": "an object",
        "null": "null",
    }
    return " or ".join(words.get(name, name) for name in names.split(" | "))
