"""Integers accept 5.0 as 5 and refuse 5.5 and "5", for every field of the description."""

from __future__ import annotations

import json
import time
from typing import Any

import msgspec
import pytest

from api import decode
from api.app import ROUTE_HANDLERS
from api.wire.documents import Pagination
from api.wire.ingest import ChunkConfig
from api.wire.search import SearchRequest
from retrieval.errors import ErrorCode, ServiceError

INVALID = ErrorCode.INVALID_REQUEST


def structs(kind: Any) -> list[type]:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return [kind]
    return [struct for part in getattr(kind, "__args__", ()) for struct in structs(part)]


def all_structs(kind: Any, collected: set[type]) -> set[type]:
    for struct in structs(kind):
        if struct not in collected:
            collected.add(struct)
            for field in msgspec.structs.fields(struct):
                all_structs(field.type, collected)
    return collected


def integers() -> list[tuple[type, str]]:
    """Return every integer of request bodies as pairs of struct and wire name."""
    structs_read: set[type] = set()
    for handler in ROUTE_HANDLERS:
        about = handler.opt.get("operation")
        if about and about.body:
            all_structs(about.body, structs_read)
        if about and about.form:
            all_structs(about.form, structs_read)
    return sorted(
        {
            (struct, field.encode_name)
            for struct in structs_read
            for field in msgspec.structs.fields(struct)
            if is_integer(field.type)
        },
        key=str,
    )


def is_integer(kind: Any) -> bool:
    return kind is int or any(map(is_integer, (*getattr(kind, "__args__", ()), *_origin(kind))))


def _origin(kind: Any) -> tuple[Any, ...]:
    """Return the type inside `Annotated`."""
    return (kind.__origin__,) if hasattr(kind, "__metadata__") else ()


INTEGERS = integers()


def test_there_are_integers():
    assert {(ChunkConfig, "chunkSize"), (Pagination, "pageSize"), (SearchRequest, "topK")} <= set(INTEGERS)


@pytest.mark.parametrize(("kind", "name"), INTEGERS, ids=str)
def test_a_whole_number_is_an_integer(kind, name):
    # All other required members are missing: only the complaint about the number counts.
    read = decode.make_json_reader(kind, INVALID)

    def complaint_of(value: str) -> str | None:
        required = {
            field.encode_name: OTHERS.get(field.encode_name, "a")
            for field in msgspec.structs.fields(kind)
            if field.required
        }
        body = json.dumps({**required, name: "$"}).replace('"$"', value).encode()
        try:
            read(body)
        except ServiceError as error:
            return error.message
        return None

    for whole in ("5.0", "5.00", "5e0", "0.5e1"):
        assert complaint_of(whole) == complaint_of("5")
    for literal in ("5.5", '"5"', '"5.0"', "true", "5.0000000001"):
        assert complaint_of(literal) is not None


OTHERS = {"chunkSize": 10, "chunkOverlap": 1, "hybridConfig": {"semanticWeight": 1, "keywordWeight": 0}}


class Deep(msgspec.Struct):
    """Numbers in arrays and objects."""

    many: list[dict[str, int]] = []
    any: dict[str, Any] = {}


def test_floats_stay_floats_in_other_fields():
    read = decode.make_json_reader(Deep, INVALID)
    decoded = read(b'{"many": [{"a": 1, "b": 2.0}, {"c": 3e2}], "any": {"score": 5.0}}')
    assert decoded.many == [{"a": 1, "b": 2}, {"c": 300}]
    assert isinstance(decoded.any["score"], float)
    for bad in (b'{"many": [{"a": 1.5}]}', b'{"many": [{"a": 1e300}]}', b'{"many": [{"a": 2.0}, {"b": 0.1}]}', b"5.0"):
        with pytest.raises(ServiceError):
            read(bad)


def test_many_integers_are_read_in_linear_time():
    body = json.dumps({"many": [{"a": 1.0, "b": 2.0}] * 100_000}).encode()
    started = time.monotonic()
    assert len(decode.make_json_reader(Deep, INVALID)(body).many) == 100_000
    assert time.monotonic() - started < 20
