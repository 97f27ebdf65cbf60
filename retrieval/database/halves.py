"""A vector as a parameter, in half precision and PostgreSQL's binary form: a tenth of the time of its text."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence

import psycopg
from psycopg.adapt import Buffer, Dumper
from psycopg.pq import Format


class HalfVector:
    """Rounded as pgvector rounds a text: to single, then to half precision. DataError if that cannot hold it."""

    __slots__ = ("packed",)

    def __init__(self, values: Sequence[float]) -> None:
        try:
            self.packed = struct.pack(f">hh{len(values)}e", len(values), 0, *array("f", values))
        except (OverflowError, struct.error) as error:
            raise psycopg.DataError("A vector has a value that half precision cannot hold.") from error


class _Text(Dumper):
    """For statements that are shown or explained."""

    def dump(self, obj: HalfVector) -> Buffer | None:
        (size,) = struct.unpack_from(">h", obj.packed)
        values = struct.unpack_from(f">{size}e", obj.packed, 4)
        return ("[" + ",".join(map(repr, values)) + "]").encode()


class _Binary(Dumper):
    """Without a type: the statement's cast says which it is."""

    format = Format.BINARY

    def dump(self, obj: HalfVector) -> Buffer | None:
        return obj.packed


def register() -> None:
    """For connections that are made from now on: an open one keeps the dumpers that it began with."""
    psycopg.adapters.register_dumper(HalfVector, _Text)
    psycopg.adapters.register_dumper(HalfVector, _Binary)
