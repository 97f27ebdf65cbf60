"""Strict decoding of requests into structs, with actionable errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec.structs import fields

from retrieval.errors import ErrorCode, ServiceError

StructT = TypeVar("StructT")

# Fields with their own error code, in any body.
FIELD_CODES = {
    "chunkConfig": ErrorCode.INVALID_CHUNK_CONFIG,
    "scrapeOptions": ErrorCode.INVALID_SCRAPE_OPTIONS,
    "hybridConfig": ErrorCode.INVALID_HYBRID_CONFIG,
}

_PATH_PATTERN = re.compile(r" - at `(?:key in )?\$\.?([^`]*)`$")
_MISSING_PATTERN = re.compile(r"Object missing required field `([^`]+)`")
_TYPE_PATTERN = re.compile(r"Expected `([^`]+)`, got `([^`]+)`")
_BOUND_PATTERN = re.compile(r"Expected `(\w+)`(?P<length> of length)? (?P<sign>[<>]=?) (?P<number>\S+)$")
_REGEX_PATTERN = re.compile(r"Expected `str` matching regex '(.+)'$")
_STEP_PATTERN = re.compile(r"\.([^.\[`]+)|\[(?:\.\.\.|\d+)\]")
_BYTE_PATTERN = re.compile(r"\(byte (\d+)\)")
_SIGN_WORDS = {">=": "at least", ">": "more than", "<=": "at most", "<": "less than"}
_DATE_EXAMPLES = ("2026-11-20", "2026-11-20T12:00:00Z")
_REGEX_MESSAGES = {
    "^[A-Za-z0-9_-]{1,64}$": "must have 1 to 64 letters, digits, hyphens and underscores, and nothing else"
}
_LENGTH_UNITS = {"str": "characters", "array": "entries", "object": "keys"}


def make_json_reader(kind: type[StructT], invalid: ErrorCode, *, at: str = "") -> Callable[[bytes], StructT]:
    """Return a strict decoder of JSON; `at` is the path of the text in error messages."""
    # A type with checks beyond its fields has `check_sent`, which receives the text.
    decoder = msgspec.json.Decoder(kind, strict=True)
    check_sent = getattr(kind, "check_sent", None)

    def read_json(body: bytes) -> StructT:
        try:
            decoded = _decode_leniently(decoder, body)
        except msgspec.ValidationError as error:
            raise decode_error(str(error), invalid, at, kind=kind) from error
        except (msgspec.DecodeError, UnicodeError, RecursionError, ValueError) as error:
            message = f"{at or 'The body'} {_describe_syntax_error(body, error)}."
            raise ServiceError(
                FIELD_CODES.get(at, invalid), message, reason="invalid_json", field=at or None
            ) from error
        if check_sent is not None:
            check_sent(body, invalid)
        return decoded

    return read_json


def make_query_reader(kind: type[Any] | None, invalid: ErrorCode) -> Callable[[bytes], Any]:
    """Return a strict reader of query strings; an empty optional parameter counts as absent."""
    if kind is None:
        return lambda _: None
    optional = {field.encode_name for field in fields(kind) if not field.required}

    def read_query(query: bytes) -> Any:
        try:
            pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100)
        except ValueError as error:
            raise ServiceError(invalid, "The query string is not valid.", reason="invalid_query") from error
        if any("\x00" in value for _, value in pairs):
            raise ServiceError(invalid, "The query string holds a NUL character; leave it out.", reason="nul")
        return convert_members({k: v for k, v in pairs if v or k not in optional}, kind, invalid, strict=False)

    return read_query


def convert_members(members: Any, kind: type[StructT], invalid: ErrorCode, *, strict: bool = True) -> StructT:
    """Convert plain values to a struct; text values of a query string need `strict=False`."""
    try:
        return msgspec.convert(members, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise decode_error(str(error), invalid, kind=kind) from error


def decode_error(text: str, invalid: ErrorCode, at: str = "", *, kind: Any = None) -> ServiceError:
    """Return the error with path and problem, without the value; `kind` supplies allowed values."""
    location = _PATH_PATTERN.search(text)
    path = ".".join(filter(None, (at, location.group(1) if location else "")))
    problem = text[: location.start()] if location else text
    missing = _MISSING_PATTERN.match(problem)
    if missing:
        path = ".".join(filter(None, (path, missing.group(1))))
        requirement, reason = "is required", "missing"
    elif _TYPE_PATTERN.match(problem):
        expected, got = _TYPE_PATTERN.match(problem).groups()  # type: ignore[union-attr]
        requirement, reason = f"must be {_describe_types(expected)}, not {_describe_types(got)}", "wrong_type"
    elif problem.startswith("Expected `"):
        requirement, reason = _describe_bound(problem), "out_of_bounds"
    elif problem.startswith("Invalid RFC3339"):
        is_moment = "datetime" in problem
        example = _DATE_EXAMPLES[is_moment]
        requirement, reason = f"must be a {'moment' if is_moment else 'day'}, such as {example}", "not_allowed"
    elif problem.startswith("Invalid"):
        values = sorted(
            map(str, _allowed_values(msgspec.inspect.type_info(kind), location.group(0) if location else ""))
        )
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


def _describe_types(names: str) -> str:
    """Return "a string or null" for `str | null`."""
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


def _describe_bound(problem: str) -> str:
    """Describe a violated bound as a requirement."""
    if pattern := _REGEX_PATTERN.match(problem):
        return _REGEX_MESSAGES.get(pattern[1]) or f"must match {pattern[1]}"
    match = _BOUND_PATTERN.match(problem)
    if match is None:
        return "must be " + problem.removeprefix("Expected ").replace("`", "")
    number = match["number"].removesuffix(".0")
    if not match["length"]:
        return f"must be {_SIGN_WORDS[match['sign']]} {number}"
    parts = _LENGTH_UNITS.get(match[1], "characters")
    singular = {"entries": "entry"}.get(parts, parts.removesuffix("s"))
    return f"must have {_SIGN_WORDS[match['sign']]} {number} {singular if number == '1' else parts}"


def _describe_syntax_error(body: bytes, error: Exception) -> str:
    """Describe the reason and position of invalid JSON."""
    if not body.strip():
        return "is empty; send JSON"
    at = _BYTE_PATTERN.search(str(error))
    if at is None:
        return "is not valid JSON"
    cause = "half a surrogate pair" if "surrogate" in str(error) else "look"
    return f"is not valid JSON: {cause} at byte {at[1]}"


def _allowed_values(kind: msgspec.inspect.Type, location: str) -> Iterator[Any]:
    """Yield the values of an enum or literal at a path such as ` - at `$.config.source``."""
    kinds: list[Any] = [kind]
    for name in _STEP_PATTERN.findall(location):
        below: list[Any] = []
        for inner in _flatten_types(kinds):
            if name and hasattr(inner, "fields"):
                below += [field.type for field in inner.fields if field.encode_name == name]
            elif not name:
                below += [getattr(inner, "item_type", None) or getattr(inner, "value_type", None)]
        kinds = [inner for inner in below if inner is not None]
    for inner in _flatten_types(kinds):
        if isinstance(inner, msgspec.inspect.EnumType):
            yield from (member.value for member in inner.cls)
        elif isinstance(inner, msgspec.inspect.LiteralType):
            yield from inner.values


def _flatten_types(kinds: list[Any]) -> Iterator[Any]:
    """Yield members of unions and types within constraints."""
    for kind in kinds:
        if isinstance(kind, msgspec.inspect.UnionType):
            yield from _flatten_types(list(kind.types))
        elif isinstance(kind, msgspec.inspect.Metadata):
            yield from _flatten_types([kind.type])
        else:
            yield kind


_INT_NOT_FLOAT = re.compile(r"Expected `[^`]*\bint\b[^`]*`, got `float`(?: - at `\$(?P<place>[^`]*)`)?$")
_PATH_STEP = re.compile(r"\.([^.\[]+)|\[(\.\.\.|\d+)\]")
# Integers up to here are exact as doubles.
_MAX_EXACT_INTEGER = 2**53


def _decode_leniently(decoder: msgspec.json.Decoder[StructT], body: bytes) -> StructT:
    """Decode `body`; accept 2.0 for an integer."""
    # Only values that the decoder refuses are converted, so free-form numbers stay as sent.
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
    """Convert whole floats at the path to integers; return whether any was converted."""
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
        if isinstance(value[key], float) and value[key].is_integer() and abs(value[key]) <= _MAX_EXACT_INTEGER
    ]
    for key in whole:
        value[key] = int(value[key])
    return bool(whole)
