"""Cache of document vectors as 8-bit codes, for the comparison of filtered chunks without reading vectors."""

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

# Least recently used entries are dropped beyond this size.
CACHE_BYTES = 64 * 2**20
# Bytes of an entry without its chunks.
ENTRY_BYTES = 600
# One in four extra candidates makes up for the rounding of codes in the exact comparison.
SPARE_DIVISOR = 4
# Blocks of this size stay in the CPU cache.
_BLOCK_VALUES = 200_000
# Versions per statement.
_VERSIONS_PER_READ = 200


@dataclass(frozen=True, slots=True)
class _VersionEntry:
    """Vectors of a version's chunks: code times scale is the unit vector."""

    # A version never changes, so entries need no invalidation. Visibility comes from the database in every search.
    chunks: Numbers
    codes: Codes
    scales: Points
    dimensions: int

    @property
    def byte_size(self) -> int:
        return ENTRY_BYTES + self.chunks.nbytes + self.codes.nbytes + self.scales.nbytes


class DocumentVectors:
    """Thread-safe LRU cache of entries."""

    def __init__(self, cache_bytes: int = CACHE_BYTES) -> None:
        self._cache_bytes = cache_bytes
        self._size = 0
        self._entries: OrderedDict[str, _VersionEntry] = OrderedDict()
        self._lock = threading.Lock()

    def read(
        self, db: Database, partition_id: int, versions: Sequence[str], dimensions: int, max_chunks: int
    ) -> list[_VersionEntry] | None:
        """Return the entries of versions with chunks; None above `max_chunks`. With `dimensions` 0 vectors
        are skipped.
        """
        cached: list[_VersionEntry] = []
        missing: list[str] = []
        with self._lock:
            for version in versions:
                entry = self._entries.get(version)
                if entry is None or dimensions not in (0, entry.dimensions):
                    missing.append(version)
                else:
                    cached.append(entry)
                    self._entries.move_to_end(version)
        room = max_chunks - sum(len(entry.chunks) for entry in cached)
        if room < 0 or (missing and queries.count_chunks(db, missing, room + 1) > room):
            return None
        return cached + self._load(db, partition_id, missing, dimensions)

    def _load(self, db: Database, partition_id: int, versions: Sequence[str], dimensions: int) -> list[_VersionEntry]:
        entries: dict[str, _VersionEntry] = {}
        for start in range(0, len(versions), _VERSIONS_PER_READ):
            rows = queries.read_vectors(db, partition_id, versions[start : start + _VERSIONS_PER_READ], dimensions)
            entries |= _encode(rows, dimensions)
        with self._lock:
            for version, entry in entries.items():
                previous = self._entries.pop(version, None)
                self._size += entry.byte_size - (previous.byte_size if previous else 0)
                self._entries[version] = entry
            while self._size > self._cache_bytes and self._entries:
                self._size -= self._entries.popitem(last=False)[1].byte_size
        return list(entries.values())


_document_vectors: WeakKeyDictionary[Database, DocumentVectors] = WeakKeyDictionary()


def compare_versions(
    db: Database,
    partition_id: int,
    versions: Sequence[str],
    values: Sequence[float] | None,
    nearest: int,
    max_chunks: int,
) -> Matches | None:
    """Return the versions' chunks and the nearest to the query; None above `max_chunks`."""
    import numpy as np

    dimensions = 0 if values is None else len(values)
    entries = _document_vectors.setdefault(db, DocumentVectors()).read(
        db, partition_id, versions, dimensions, max_chunks
    )
    if entries is None:
        return None
    if not entries:
        return Matches([], [])
    chunks = np.concatenate([entry.chunks for entry in entries])
    if values is None:
        return Matches(chunks, [])
    best = chunks
    exact = nearest + nearest // SPARE_DIVISOR
    if len(chunks) > exact:
        codes = np.concatenate([entry.codes for entry in entries])
        query = np.asarray(values, np.float32)
        rows = max(1, _BLOCK_VALUES // len(query))
        products = [codes[start : start + rows].astype(np.float32) @ query for start in range(0, len(codes), rows)]
        scores = np.concatenate(products) * np.concatenate([entry.scales for entry in entries])
        best = chunks[np.argpartition(scores, len(scores) - exact)[-exact:]]
    return Matches(chunks, queries.sort_nearest(db, partition_id, best.tolist(), values, nearest))


def _encode(rows: Sequence[VersionVectors], dimensions: int) -> dict[str, _VersionEntry]:
    """Encode vectors as codes; other dimensions become zeros."""
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
        row.version: _VersionEntry(
            chunks[start:end].copy(), codes[start:end].copy(), scales[start:end].copy(), dimensions
        )
        for row, start, end in zip(rows, [0, *ends[:-1]], ends, strict=True)
    }
