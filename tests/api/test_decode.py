"""Error messages for unreadable bodies."""

from __future__ import annotations

from datetime import date, datetime
from enum import StrEnum
from typing import Annotated, Literal

import msgspec
import pytest

from api.decode import make_json_reader, make_query_reader
from api.wire.admin import TenantId
from retrieval.errors import ErrorCode, ServiceError

INVALID = ErrorCode.INVALID_REQUEST


class Kind(StrEnum):
    OWL = "OWL"
    SEAL = "SEAL"


class Part(msgspec.Struct, rename="camel"):
    one_kind: Kind | None = None
    kinds: Annotated[list[Kind], msgspec.Meta(max_length=2)] | None = None
    by_name: dict[str, Kind] | None = None
    source: Literal["TEXT"] | None = None
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=3)] | None = None
    weight: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1
    count: Annotated[int, msgspec.Meta(ge=1)] = 1
    day: date | None = None
    moment: datetime | None = None


class Body(msgspec.Struct):
    part: Part | None = None
    parts: list[Part] | None = None


class Query(msgspec.Struct, rename="camel"):
    kind: Kind | None = None
    page_size: Annotated[int, msgspec.Meta(le=100)] = 20


def refusal_of(read, text):
    with pytest.raises(ServiceError) as refused:
        read(text)
    return refused.value.message, refused.value.reason


@pytest.mark.parametrize(
    ("body", "message", "reason"),
    [
        (b'{"part": {"oneKind": "BAT"}}', "part.oneKind must be one of OWL, SEAL.", "not_allowed"),
        (b'{"parts": [{}, {"kinds": ["BAT"]}]}', "parts[1].kinds[0] must be one of OWL, SEAL.", "not_allowed"),
        (b'{"part": {"byName": {"x": "BAT"}}}', "part.byName[...] must be one of OWL, SEAL.", "not_allowed"),
        (b'{"part": {"source": "FILE"}}', "part.source must be TEXT.", "not_allowed"),
        (b'{"part": {"day": "soon"}}', "part.day must be a day, such as 2026-11-20.", "not_allowed"),
        (b'{"part": {"moment": "soon"}}', "part.moment must be a moment, such as 2026-11-20T12:00:00Z.", "not_allowed"),
        (b'{"part": {"name": ""}}', "part.name must have at least 1 character.", "out_of_bounds"),
        (b'{"part": {"name": "four"}}', "part.name must have at most 3 characters.", "out_of_bounds"),
        (b'{"part": {"kinds": ["OWL", "OWL", "OWL"]}}', "part.kinds must have at most 2 entries.", "out_of_bounds"),
        (b'{"part": {"weight": 0}}', "part.weight must be more than 0.", "out_of_bounds"),
        (b'{"part": {"weight": 1.5}}', "part.weight must be at most 1.", "out_of_bounds"),
        (b'{"part": {"count": 0}}', "part.count must be at least 1.", "out_of_bounds"),
        (b" ", "The body is empty; send JSON.", "invalid_json"),
        (b'{"part": NaN}', "The body is not valid JSON: look at byte 9.", "invalid_json"),
    ],
)
def test_a_refusal_says_in_words_what_would_be_taken(body, message, reason):
    assert refusal_of(make_json_reader(Body, INVALID), body) == (message, reason)


def test_a_pattern_of_a_wire_type_is_told_in_words():
    said_of = refusal_of(make_json_reader(TenantId, INVALID), b'"a b"')
    words = "The body must have 1 to 64 letters, digits, hyphens and underscores, and nothing else."
    assert said_of == (words, "out_of_bounds")


def test_a_field_of_a_form_and_a_query_string_are_named_likewise():
    assert refusal_of(make_json_reader(Part, INVALID, at="metadata"), b"{")[0] == "metadata is not valid JSON."
    assert refusal_of(make_json_reader(Part, INVALID, at="ocrConfig"), b'{"oneKind": 5}')[0].startswith(
        "ocrConfig.oneKind must be"
    )
    assert refusal_of(make_query_reader(Query, INVALID), b"kind=BAT")[0] == "kind must be one of OWL, SEAL."
    assert refusal_of(make_query_reader(Query, INVALID), b"pageSize=101")[0] == "pageSize must be at most 100."
