"""Strict decoding of request bodies into structs, with errors that tell a client what to change."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec.structs import fields

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
_BOUND = re.compile(r"Expected `(\w+)`(?P<length> of length)? (?P<sign>[<>]=?) (?P<number>\S+)$")
_PATTERN = re.compile(r"Expected `str` matching regex '(.+)'$")
_STEP = re.compile(r"\.([^.\[`]+)|\[(?:\.\.\.|\d+)\]")
_BYTE = re.compile(r"\(byte (\d+)\)")
_SIGNS = {">=": "at least", ">": "more than", "<=": "at most", "<": "less than"}
_EXAMPLES = ("2026-11-20", "2026-11-20T12:00:00Z")
_PATTERNS = {"^[A-Za-z0-9_-]{1,64}$": "must have 1 to 64 letters, digits, hyphens and underscores, and nothing else"}
"""What the patterns of wire types ask for, in words."""
_PARTS = {"str": "characters", "array": "entries", "object": "keys"}


def json_reader(kind: type[T], invalid: ErrorCode, *, at: str = "") -> Callable[[bytes], T]:
    """Return a strict decoder of JSON text. `at`: the path of the text itself, for the field named in an error.

    A type that checks more than its fields has `check_sent`, which gets the text.
    """
    decoder = msgspec.json.Decoder(kind, strict=True)
    check_sent = getattr(kind, "check_sent", None)

    def read(body: bytes) -> T:
        try:
            decoded = _decode(decoder, body)
        except msgspec.ValidationError as error:
            raise decode_error(str(error), invalid, at, kind=kind) from error
        except (msgspec.DecodeError, UnicodeError, RecursionError, ValueError) as error:
            message = f"{at or 'The body'} {_broken(body, error)}."
            raise ServiceError(
                FIELD_CODES.get(at, invalid), message, reason="invalid_json", field=at or None
            ) from error
        if check_sent is not None:
            check_sent(body, invalid)
        return decoded

    return read


def query_reader(kind: type[Any] | None, invalid: ErrorCode) -> Callable[[bytes], Any]:
    """A strict reader of a query string; an empty value of an optional parameter means absent."""
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
        return convert_members({k: v for k, v in pairs if v or k not in optional}, kind, invalid, strict=False)

    return read


def convert_members(members: Any, kind: type[T], invalid: ErrorCode, *, strict: bool = True) -> T:
    """A struct from plain values; those of a query string, which are all text, need `strict=False`."""
    try:
        return msgspec.convert(members, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise decode_error(str(error), invalid, kind=kind) from error


def decode_error(text: str, invalid: ErrorCode, at: str = "", *, kind: Any = None) -> ServiceError:
    """The error for a decoder's message: where and what is wrong, never the submitted value. `kind`: what was decoded,
    for the values that are allowed."""
    location = _PLACE.search(text)
    path = ".".join(filter(None, (at, location.group(1) if location else "")))
    problem = text[: location.start()] if location else text
    missing = _MISSING.match(problem)
    if missing:
        path = ".".join(filter(None, (path, missing.group(1))))
        requirement, reason = "is required", "missing"
    elif _GOT.match(problem):
        expected, got = _GOT.match(problem).groups()  # type: ignore[union-attr]
        requirement, reason = f"must be {_kind(expected)}, not {_kind(got)}", "wrong_type"
    elif problem.startswith("Expected `"):
        requirement, reason = _bound(problem), "out_of_bounds"
    elif problem.startswith("Invalid RFC3339"):
        requirement, reason = (
            f"must be a {'moment' if 'datetime' in problem else 'day'}, such as {_EXAMPLES['datetime' in problem]}",
            "not_allowed",
        )
    elif problem.startswith("Invalid"):
        values = sorted(map(str, _allowed(msgspec.inspect.type_info(kind), location.group(0) if location else "")))
        requirement = (
            f"must be {'one of ' if len(values) > 1 else ''}{', '.join(values)}"
            if values
            else "holds a value that is not one of those allowed"
        )
        reason = "not_allowed"
    else:
        requirement, reason = "cannot be read: " + problem.replace("`", "").lower(), "invalid"
    code = next((FIELD_CODES[part] for part in re.split(r"[.\[]", path) if part in FIELD_CODES), invalid)
    return ServiceError(code, f"{path or 'The body'} {requirement}.", field=path or None, reason=reason)


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


def _bound(problem: str) -> str:
    """Return a decoder's message about a bound as a requirement for people."""
    if pattern := _PATTERN.match(problem):
        return _PATTERNS.get(pattern[1]) or f"must match {pattern[1]}"
    match = _BOUND.match(problem)
    if match is None:
        return "must be " + problem.removeprefix("Expected ").replace("`", "")
    number = match["number"].removesuffix(".0")
    if not match["length"]:
        return f"must be {_SIGNS[match['sign']]} {number}"
    parts = _PARTS.get(match[1], "characters")
    singular = {"entries": "entry"}.get(parts, parts.removesuffix("s"))
    return f"must have {_SIGNS[match['sign']]} {number} {singular if number == '1' else parts}"


def _broken(body: bytes, error: Exception) -> str:
    """Return the reason why a text is no JSON, and the position."""
    if not body.strip():
        return "is empty; send JSON"
    at = _BYTE.search(str(error))
    if at is None:
        return "is not valid JSON"
    cause = "half a surrogate pair" if "surrogate" in str(error) else "look"
    return f"is not valid JSON: {cause} at byte {at[1]}"


def _allowed(kind: msgspec.inspect.Type, location: str) -> Iterator[Any]:
    """The values of the enum or literal at a decoder's place, as ` - at `$.config.source``; none for other types."""
    kinds: list[Any] = [kind]
    for name in _STEP.findall(location):
        below: list[Any] = []
        for inner in _plain(kinds):
            if name and hasattr(inner, "fields"):
                below += [field.type for field in inner.fields if field.encode_name == name]
            elif not name:
                below += [getattr(inner, "item_type", None) or getattr(inner, "value_type", None)]
        kinds = [inner for inner in below if inner is not None]
    for inner in _plain(kinds):
        if isinstance(inner, msgspec.inspect.EnumType):
            yield from (member.value for member in inner.cls)
        elif isinstance(inner, msgspec.inspect.LiteralType):
            yield from inner.values


def _plain(kinds: list[Any]) -> Iterator[Any]:
    """Yield the members of unions, and the types within constraints."""
    for kind in kinds:
        if isinstance(kind, msgspec.inspect.UnionType):
            yield from _plain(list(kind.types))
        elif isinstance(kind, msgspec.inspect.Metadata):
            yield from _plain([kind.type])
        else:
            yield kind


_INT_NOT_FLOAT = re.compile(r"Expected `[^`]*\bint\b[^`]*`, got `float`(?: - at `\$(?P<place>[^`]*)`)?$")
_PATH_STEP = re.compile(r"\.([^.\[]+)|\[(\.\.\.|\d+)\]")
_LARGEST_EXACT = 2**53
"""Up to here every whole number has a double of its own."""


def _decode(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """Decode `body`. A whole number with a fraction of zero is accepted where an integer is required.

    Only values that the decoder refuses are changed: a value that may be any number stays as sent.
    """
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        complaint = error
    plain: Any = None
    while (mismatch := _INT_NOT_FLOAT.match(str(complaint))) is not None:
        plain = msgspec.json.decode(body) if plain is None else plain
        steps = [name or index for name, index in _PATH_STEP.findall(mismatch["place"] or "")]
        if not steps or not _make_whole(plain, steps):
            break
        try:
            return decoder.decode(msgspec.json.encode(plain))
        except msgspec.ValidationError as error:
            complaint = error
    raise complaint


def _make_whole(value: Any, steps: Sequence[str]) -> bool:
    """Change whole floats at the place into integers, in all elements of an array. Return True if there was one."""
    first, *remaining = steps
    if isinstance(value, list):
        keys: Sequence[Any] = range(len(value))
    elif isinstance(value, dict):
        keys = list(value) if first == "..." else [first] if first in value else []
    else:
        return False
    if remaining:
        changed = [_make_whole(value[key], remaining) for key in keys]
        return any(changed)
    whole = [
        key
        for key in keys
        if isinstance(value[key], float) and value[key].is_integer() and abs(value[key]) <= _LARGEST_EXACT
    ]
    for key in whole:
        value[key] = int(value[key])
    return bool(whole)
