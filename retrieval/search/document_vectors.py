"""Vectors of documents in memory, in bytes: what a filter leaves is compared without reading each vector again.

An entry is one version of a document, and a version never changes: nothing here needs to be invalidated. Which versions
a filter leaves, and a viewer may see, is read from the database by each search. Bytes choose more of the nearest than
are asked for, and the database compares these exactly.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from retrieval.database.database import Database
from retrieval.search import queries_vectors as queries
from retrieval.search.queries_filters import Matches
from retrieval.search.queries_vectors import VersionVectors

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from retrieval.keywords.bm25_scorer import Numbers, Points

    Codes = npt.NDArray[np.int8]

KEPT = 64 * 2**20
"""Bytes of the entries of one database, the latest used."""
ENTRY = 600
"""Bytes of an entry beside those of its chunks."""
SPARE = 4
"""With so many candidates, one more of them is compared exactly."""
_NUMBERS = 200_000
"""Numbers of the vectors that are multiplied at once: they stay in the cache, and one thread does it."""
_VERSIONS = 200
"""Versions that are read at once."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """Chunks of a version, and their vectors: a unit vector is its code times its scale."""

    chunks: Numbers
    codes: Codes
    scales: Points
    dimensions: int

    @property
    def size(self) -> int:
        return ENTRY + self.chunks.nbytes + self.codes.nbytes + self.scales.nbytes


class DocumentVectors:
    """Entries of the versions that were used last, for any number of threads. kept: bytes at most."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._size = 0
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._lock = threading.Lock()

    def read(
        self, db: Database, partition_id: int, versions: Sequence[str], dimensions: int, most: int
    ) -> list[_Entry] | None:
        """Return the entries of versions that have chunks; None if they have more than `most` chunks together.

        dimensions: 0 where the chunks alone are needed.
        """
        cached: list[_Entry] = []
        missing: list[str] = []
        with self._lock:
            for version in versions:
                entry = self._entries.get(version)
                if entry is None or dimensions not in (0, entry.dimensions):
                    missing.append(version)
                else:
                    cached.append(entry)
                    self._entries.move_to_end(version)
        room = most - sum(len(entry.chunks) for entry in cached)
        if room < 0 or (missing and queries.count_chunks(db, missing, room + 1) > room):
            return None
        return cached + self._load(db, partition_id, missing, dimensions)

    def _load(self, db: Database, partition_id: int, versions: Sequence[str], dimensions: int) -> list[_Entry]:
        entries: dict[str, _Entry] = {}
        for start in range(0, len(versions), _VERSIONS):
            rows = queries.read_vectors(db, partition_id, versions[start : start + _VERSIONS], dimensions)
            entries |= _encode(rows, dimensions)
        with self._lock:
            for version, entry in entries.items():
                former = self._entries.pop(version, None)
                self._size += entry.size - (former.size if former else 0)
                self._entries[version] = entry
            while self._size > self._kept and self._entries:
                self._size -= self._entries.popitem(last=False)[1].size
        return list(entries.values())


_vectors: WeakKeyDictionary[Database, DocumentVectors] = WeakKeyDictionary()


def compare_versions(
    db: Database, partition_id: int, versions: Sequence[str], values: Sequence[float] | None, nearest: int, most: int
) -> Matches | None:
    """Return the chunks of the versions and those nearest to the query; None if there are more chunks than `most`."""
    import numpy as np

    dimensions = 0 if values is None else len(values)
    entries = _vectors.setdefault(db, DocumentVectors()).read(db, partition_id, versions, dimensions, most)
    if entries is None:
        return None
    if not entries:
        return Matches([], [])
    chunks = np.concatenate([entry.chunks for entry in entries])
    if values is None:
        return Matches(chunks, [])
    best = chunks
    exact = nearest + nearest // SPARE
    if len(chunks) > exact:
        codes = np.concatenate([entry.codes for entry in entries])
        query = np.asarray(values, np.float32)
        rows = max(1, _NUMBERS // len(query))
        products = [codes[start : start + rows].astype(np.float32) @ query for start in range(0, len(codes), rows)]
        scores = np.concatenate(products) * np.concatenate([entry.scales for entry in entries])
        best = chunks[np.argpartition(scores, len(scores) - exact)[-exact:]]
    return Matches(chunks, queries.sort_nearest(db, partition_id, best.tolist(), values, nearest))


def _encode(rows: Sequence[VersionVectors], dimensions: int) -> dict[str, _Entry]:
    """Encode the vectors of versions, those of other dimensions as nothing."""
    import numpy as np

    if not rows:
        return {}
    chunks = np.frombuffer(b"".join(row.chunks for row in rows), ">i8").astype(np.int64)
    codes, scales = np.zeros((len(chunks), 0), np.int8), np.zeros(len(chunks))
    if dimensions:
        row_type = np.dtype([("head", "V4"), ("values", ">f2", (dimensions,))])
        packed = np.frombuffer(b"".join(row.vectors for row in rows), row_type)
        values = packed["values"].astype(np.float32)
        values[~np.isfinite(values)] = 0
        lengths = np.sqrt(np.einsum("ij,ij->i", values, values))
        greatest = np.maximum(values.max(axis=1), -values.min(axis=1))
        codes = np.rint(values * (127 / np.where(greatest > 0, greatest, 1))[:, None]).astype(np.int8)
        scales = (greatest / 127 / np.where(lengths > 0, lengths, 1)).astype(np.float64)
    ends = np.cumsum([len(row.chunks) // 8 for row in rows])
    return {
        row.version: _Entry(chunks[start:end].copy(), codes[start:end].copy(), scales[start:end].copy(), dimensions)
        for row, start, end in zip(rows, [0, *ends[:-1]], ends, strict=True)
    }
