"""Build the vector metadata of external stores: bounded document fields for their filters.

{"document": "doc_…", "type": "URL", "source": "SITEMAP", "marks": ['["team","red"]', …]}

A mark is a metadata key with one value as JSON, so 1, "1" and true stay distinct. Results are filtered again by the
database: marks may match too much, never too little.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

from retrieval import ids
from retrieval.database.database import Database
from retrieval.errors import Retryable
from retrieval.namespaces.namespaces import EMBEDDED_CONFIGS, VECTOR_STORAGE
from retrieval.ports import Scope, VectorStore

# Matches every filter; replaces the marks of a document with too many.
ANY_MARK = "*"
# MAX_MARKS * MARK_BYTES is half of the narrowest store's limit of 40 KB.
MAX_MARKS = 200
# Longer marks are replaced by their hash.
MARK_BYTES = 100
MAX_UPDATE_ROUNDS = 5

_SCHEDULE_UPDATE: LiteralString = """
    insert into sweeps (partition_id, kind, document_id)
    select d.partition_id, 'labels', d.id from documents d
    join partitions p on p.id = d.partition_id join namespaces n on n.id = p.namespace_id
    where d.id = any(%(ids)s) and n.config #>> '{vectorStorageConfig,provider}' is distinct from %(own)s
"""
_FIND_DOCUMENT: LiteralString = """
    select id, document_type, source, metadata, active_generation from documents
    where id = %(id)s and deleted_at is null and active_generation > 0
"""


@dataclass(frozen=True, slots=True)
class LabelSource:
    """Source of a document's labels."""

    id: str
    document_type: str
    source: str
    metadata: Mapping[str, Any]
    active_generation: int


def document_labels(document_id: str, document_type: str, source: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the labels shared by all vectors of a document."""
    marks = dict.fromkeys(metadata_mark(key, value) for key, values in metadata.items() for value in _scalars(values))
    labels = list(marks) if len(marks) <= MAX_MARKS else [ANY_MARK]
    return {"document": document_id, "type": document_type, "source": source, "marks": labels}


def metadata_mark(key: str, value: Any) -> str:
    """Return the mark of a metadata key and value, numbers with the precision of a 64-bit float."""
    text = json.dumps([key, _plain(value)], ensure_ascii=False, separators=(",", ":"))
    data = text.encode()
    return text if len(data) <= MARK_BYTES else "#" + hashlib.blake2b(data, digest_size=16).hexdigest()


def schedule_update(document_ids: Sequence[str]) -> tuple[LiteralString, dict[str, Any]]:
    """Return the statement that schedules a label update, for the transaction of the change."""
    # The embedded store reads the tables directly and needs no update.
    return _SCHEDULE_UPDATE, {"ids": list(document_ids), "own": EMBEDDED_CONFIGS[VECTOR_STORAGE]["provider"]}


def update_labels(db: Database, store: VectorStore, scope: Scope, document_id: str) -> None:
    """Update a document's labels in the store. Raises Retryable if they keep changing."""
    row_labels = None
    for _ in range(MAX_UPDATE_ROUNDS if store.stores_labels else 0):
        row = db.fetch_one(LabelSource, _FIND_DOCUMENT, {"id": document_id})
        if row is None:
            return
        labels = document_labels(row.id, row.document_type, row.source, row.metadata)
        if labels == row_labels:
            return
        indexes = db.fetch(
            int,
            "select index from chunks where document_id = %(id)s and generation = %(generation)s",
            {"id": document_id, "generation": row.active_generation},
        )
        names = [ids.vector_id(document_id, row.active_generation, index) for index in indexes]
        store.relabel(scope, document_id, names, labels)
        row_labels = labels
    if row_labels is not None:
        raise Retryable("The document's metadata keeps changing.")


def _scalars(value: Any) -> list[Any]:
    values = value if isinstance(value, list) else [value]
    return [scalar for scalar in values if not isinstance(scalar, list | dict)]


def _plain(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    try:
        return float(value) + 0.0
    except OverflowError:
        return float("inf")
