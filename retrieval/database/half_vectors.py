"""Vectors as parameters, in half precision and PostgreSQL's binary form: a tenth of the time of its text."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, LiteralString

import psycopg
from psycopg.adapt import Buffer, Dumper
from psycopg.pq import Format

if TYPE_CHECKING:
    from retrieval.ports import Embeddings

KIND: LiteralString = "select 'halfvec'::regtype::oid as kind"
_HEAD: Final = 20
"""Bytes of an array before its first element."""
_TOO_LARGE: Final = "A vector has a value that half precision cannot hold."


class HalfVector:
    """Rounded as pgvector rounds a text: to single, then to half precision. DataError if that cannot hold it."""

    __slots__ = ("packed",)

    def __init__(self, values: Sequence[float]) -> None:
        try:
            self.packed = struct.pack(f">hh{len(values)}e", len(values), 0, *array("f", values))
        except (OverflowError, struct.error) as error:
            raise psycopg.DataError(_TOO_LARGE) from error


class HalfVectors:
    """Several vectors of one length, as an array, rounded in the same way. `kind`: the OID of halfvec there."""

    __slots__ = ("count", "packed")

    def __init__(self, vectors: Embeddings, kind: int) -> None:
        import numpy as np

        self.count, size = vectors.shape
        with np.errstate(over="ignore"):
            halves = vectors.astype(np.float32, copy=False).astype(">f2")
        if not np.isfinite(halves).all():
            raise psycopg.DataError(_TOO_LARGE)
        row = np.dtype([("bytes", ">i4"), ("size", ">i2"), ("unused", ">i2"), ("values", ">f2", (size,))])
        rows = np.zeros(self.count, row)
        rows["bytes"], rows["size"], rows["values"] = 4 + 2 * size, size, halves
        self.packed = struct.pack(">iiIii", 1, 0, kind, self.count, 1) + rows.tobytes()


class _Text(Dumper):
    """For statements that are shown or explained."""

    def dump(self, obj: HalfVector) -> Buffer | None:
        (size,) = struct.unpack_from(">h", obj.packed)
        values = struct.unpack_from(f">{size}e", obj.packed, 4)
        return ("[" + ",".join(map(repr, values)) + "]").encode()


class _Binary(Dumper):
    """Binary form without a type OID: the cast in the statement sets the type."""

    format = Format.BINARY

    def dump(self, obj: HalfVector) -> Buffer | None:
        return obj.packed


class _TextArray(Dumper):
    """For statements that are shown or explained."""

    def dump(self, obj: HalfVectors) -> Buffer | None:
        length = (len(obj.packed) - _HEAD) // obj.count
        vectors = (obj.packed[start : start + length] for start in range(_HEAD, len(obj.packed), length))
        texts = (",".join(map(repr, struct.unpack(f">{(length - 8) // 2}e", vector[8:]))) for vector in vectors)
        return ("{" + ",".join(f'"[{text}]"' for text in texts) + "}").encode()


class _BinaryArray(Dumper):
    """Binary form of an array without a type OID: the cast in the statement sets the type."""

    format = Format.BINARY

    def dump(self, obj: HalfVectors) -> Buffer | None:
        return obj.packed


def register_adapters() -> None:
    """For connections that are made from now on: an open one keeps the dumpers that it began with."""
    psycopg.adapters.register_dumper(HalfVector, _Text)
    psycopg.adapters.register_dumper(HalfVector, _Binary)
    psycopg.adapters.register_dumper(HalfVectors, _TextArray)
    psycopg.adapters.register_dumper(HalfVectors, _BinaryArray)
