"""halfvec parameters in PostgreSQL's binary form: ten times as fast as text."""

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

HALFVEC_OID: LiteralString = "select 'halfvec'::regtype::oid as kind"
# Header bytes of an array.
_HEADER_BYTES: Final = 20
_OVERFLOW_MESSAGE: Final = "A vector has a value that half precision cannot hold."


class HalfVector:
    """Vector rounded to single, then half precision, as pgvector does. Raises DataError for overflow."""

    __slots__ = ("packed",)

    def __init__(self, values: Sequence[float]) -> None:
        try:
            self.packed = struct.pack(f">hh{len(values)}e", len(values), 0, *array("f", values))
        except (OverflowError, struct.error) as error:
            raise psycopg.DataError(_OVERFLOW_MESSAGE) from error


class HalfVectors:
    """Array of vectors of one length, rounded in the same way. `kind` is the OID of halfvec."""

    __slots__ = ("count", "packed")

    def __init__(self, vectors: Embeddings, kind: int) -> None:
        import numpy as np

        self.count, size = vectors.shape
        with np.errstate(over="ignore"):
            halves = vectors.astype(np.float32, copy=False).astype(">f2")
        if not np.isfinite(halves).all():
            raise psycopg.DataError(_OVERFLOW_MESSAGE)
        row = np.dtype([("bytes", ">i4"), ("size", ">i2"), ("unused", ">i2"), ("values", ">f2", (size,))])
        rows = np.zeros(self.count, row)
        rows["bytes"], rows["size"], rows["values"] = 4 + 2 * size, size, halves
        self.packed = struct.pack(">iiIii", 1, 0, kind, self.count, 1) + rows.tobytes()


class _TextDumper(Dumper):
    """Text form for EXPLAIN and logs."""

    def dump(self, obj: HalfVector) -> Buffer | None:
        (size,) = struct.unpack_from(">h", obj.packed)
        values = struct.unpack_from(f">{size}e", obj.packed, 4)
        return ("[" + ",".join(map(repr, values)) + "]").encode()


class _BinaryDumper(Dumper):
    """Binary form without type OID: the statement casts."""

    format = Format.BINARY

    def dump(self, obj: HalfVector) -> Buffer | None:
        return obj.packed


class _TextArrayDumper(Dumper):
    """Text form for EXPLAIN and logs."""

    def dump(self, obj: HalfVectors) -> Buffer | None:
        length = (len(obj.packed) - _HEADER_BYTES) // obj.count
        vectors = (obj.packed[start : start + length] for start in range(_HEADER_BYTES, len(obj.packed), length))
        texts = (",".join(map(repr, struct.unpack(f">{(length - 8) // 2}e", vector[8:]))) for vector in vectors)
        return ("{" + ",".join(f'"[{text}]"' for text in texts) + "}").encode()


class _BinaryArrayDumper(Dumper):
    """Binary form without type OID: the statement casts."""

    format = Format.BINARY

    def dump(self, obj: HalfVectors) -> Buffer | None:
        return obj.packed


def register_adapters() -> None:
    """Register dumpers for new connections."""
    psycopg.adapters.register_dumper(HalfVector, _TextDumper)
    psycopg.adapters.register_dumper(HalfVector, _BinaryDumper)
    psycopg.adapters.register_dumper(HalfVectors, _TextArrayDumper)
    psycopg.adapters.register_dumper(HalfVectors, _BinaryArrayDumper)
