"""Cache of document vectors as 8-bit codes, for the comparison of filtered chunks without reading vectors."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
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
# Stacked vectors of the sets that filters and users selected last.
SELECTION_CACHE_BYTES = 32 * 2**20
# Smaller sets are stacked faster than they are looked up.
MIN_SELECTION_CHUNKS = 1_000
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


class _EntryCache:
    """LRU cache of entries; not thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._size = 0
        self._entries: OrderedDict[str, _VersionEntry] = OrderedDict()

    def get(self, name: str, dimensions: int) -> _VersionEntry | None:
        """Return an entry with vectors of these dimensions; 0 is any."""
        entry = self._entries.get(name)
        if entry is None or dimensions not in (0, entry.dimensions):
            return None
        self._entries.move_to_end(name)
        return entry

    def put(self, name: str, entry: _VersionEntry) -> None:
        previous = self._entries.pop(name, None)
        self._size += entry.byte_size - (previous.byte_size if previous else 0)
        self._entries[name] = entry
        while self._size > self._max_bytes and self._entries:
            self._size -= self._entries.popitem(last=False)[1].byte_size


class DocumentVectors:
    """Thread-safe cache of versions, and of stacked sets of versions."""

    def __init__(self, cache_bytes: int = CACHE_BYTES, selection_bytes: int = SELECTION_CACHE_BYTES) -> None:
        self._versions = _EntryCache(cache_bytes)
        self._selections = _EntryCache(selection_bytes)
        self._lock = threading.Lock()

    def read_stacked(
        self, db: Database, partition_id: int, versions: Sequence[str], dimensions: int, max_chunks: int
    ) -> _VersionEntry | None:
        """Return the chunks of versions as one entry; None above `max_chunks`."""
        name = blake2b(",".join(versions).encode(), digest_size=16).hexdigest()
        with self._lock:
            stacked = self._selections.get(name, dimensions)
        if stacked is None:
            entries = self.read(db, partition_id, versions, dimensions, max_chunks)
            if entries is None:
                return None
            stacked = _stack(entries, dimensions)
            if dimensions and len(stacked.chunks) >= MIN_SELECTION_CHUNKS:
                with self._lock:
                    self._selections.put(name, stacked)
        return stacked if len(stacked.chunks) <= max_chunks else None

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
                entry = self._versions.get(version, dimensions)
                if entry is None:
                    missing.append(version)
                else:
                    cached.append(entry)
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
                self._versions.put(version, entry)
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
    stacked = _document_vectors.setdefault(db, DocumentVectors()).read_stacked(
        db, partition_id, versions, dimensions, max_chunks
    )
    if stacked is None:
        return None
    chunks = stacked.chunks
    if values is None or not len(chunks):
        return Matches(chunks, [])
    best = chunks
    exact = nearest + nearest // SPARE_DIVISOR
    if len(chunks) > exact:
        scores = _multiply(stacked.codes, np.asarray(values, np.float32)) * stacked.scales
        best = chunks[np.argpartition(scores, len(scores) - exact)[-exact:]]
    return Matches(chunks, queries.sort_nearest(db, partition_id, best.tolist(), values, nearest))


def _multiply(codes: Codes, query: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the products of codes and the query."""
    import numpy as np

    rows = max(1, _BLOCK_VALUES // len(query))
    products = np.empty(len(codes), np.float32)
    # One buffer for all blocks: fresh memory costs more than the products.
    buffer = np.empty((min(rows, len(codes)), len(query)), np.float32)
    for start in range(0, len(codes), rows):
        block = codes[start : start + rows]
        np.copyto(buffer[: len(block)], block)
        np.dot(buffer[: len(block)], query, out=products[start : start + rows])
    return products


def _stack(entries: Sequence[_VersionEntry], dimensions: int) -> _VersionEntry:
    """Stack entries; their codes are left out with `dimensions` 0."""
    import numpy as np

    if not entries:
        return _VersionEntry(np.zeros(0, np.int64), np.zeros((0, dimensions), np.int8), np.zeros(0), dimensions)
    chunks = np.concatenate([entry.chunks for entry in entries])
    if not dimensions:
        return _VersionEntry(chunks, np.zeros((len(chunks), 0), np.int8), np.zeros(len(chunks)), 0)
    codes, scales = (np.concatenate([getattr(entry, name) for entry in entries]) for name in ("codes", "scales"))
    return _VersionEntry(chunks, codes, scales, dimensions)


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
