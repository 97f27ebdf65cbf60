"""Error messages for unreadable bodies."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

import msgspec
import pytest

from api.decode import make_json_reader
from retrieval.errors import ErrorCode, ServiceError

INVALID = ErrorCode.INVALID_REQUEST


class Kind(StrEnum):
    OWL = "OWL"
    SEAL = "SEAL"


class Part(msgspec.Struct):
    kinds: Annotated[list[Kind], msgspec.Meta(max_length=2)] | None = None
    source: Literal["TEXT"] | None = None
    weight: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1
    moment: datetime | None = None


class Body(msgspec.Struct):
    part: Part | None = None
    parts: list[Part] | None = None


def refusal_of(read, text):
    with pytest.raises(ServiceError) as refused:
        read(text)
    return refused.value.message, refused.value.reason


@pytest.mark.parametrize(
    ("body", "message", "reason"),
    [
        (b'{"parts": [{}, {"kinds": ["BAT"]}]}', "parts[1].kinds[0] must be one of OWL, SEAL.", "not_allowed"),
        (b'{"part": {"source": "FILE"}}', "part.source must be TEXT.", "not_allowed"),
        (b'{"part": {"moment": "soon"}}', "part.moment must be a moment, such as 2026-11-20T12:00:00Z.", "not_allowed"),
        (b'{"part": {"kinds": ["OWL", "OWL", "OWL"]}}', "part.kinds must have at most 2 entries.", "out_of_bounds"),
        (b'{"part": {"weight": 0}}', "part.weight must be more than 0.", "out_of_bounds"),
        (b'{"part": {"weight": 1.5}}', "part.weight must be at most 1.", "out_of_bounds"),
        (b" ", "The body is empty; send JSON.", "invalid_json"),
        (b'{"part": NaN}', "The body is not valid JSON: look at byte 9.", "invalid_json"),
    ],
)
def test_a_refusal_says_in_words_what_would_be_taken(body, message, reason):
    assert refusal_of(make_json_reader(Body, INVALID), body) == (message, reason)
