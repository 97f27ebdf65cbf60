"""Metadata of vectors in external stores: a few bounded fields of each document, for their filters.

    {"document": "doc_…", "type": "URL", "source": "SITEMAP", "marks": ['["team","red"]', …]}

A mark is a metadata key with one of its values as JSON, so that 1, "1" and true stay three values and lists and nulls
need no rule of their own. Whatever a store lets through is filtered again by our own tables: labels may say too much,
never too little. A document with too many marks bears `ANY`, which every filter lets through.
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
from retrieval.namespaces.namespaces import EMBEDDED, VECTOR_STORAGE
from retrieval.ports import Scope, VectorStore

ANY = "*"
MOST = 200
"""Marks of one document; with `MARK_BYTES` half of what the narrowest store takes, 40 KB."""
MARK_BYTES = 100
"""A longer mark is replaced by its hash."""
ROUNDS = 5

_DUE: LiteralString = """
    insert into sweeps (partition_id, kind, document_id)
    select d.partition_id, 'labels', d.id from documents d
    join partitions p on p.id = d.partition_id join namespaces n on n.id = p.namespace_id
    where d.id = any(%(ids)s) and n.config #>> '{vectorStorageConfig,provider}' is distinct from %(own)s
"""
_DOCUMENT: LiteralString = """
    select id, document_type, source, metadata, active_generation from documents
    where id = %(id)s and deleted_at is null and active_generation > 0
"""


@dataclass(frozen=True, slots=True)
class Labelled:
    """Source of a document's labels."""

    id: str
    document_type: str
    source: str
    metadata: Mapping[str, Any]
    active_generation: int


def document_labels(document_id: str, document_type: str, source: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The labels of all vectors of a document."""
    marks = dict.fromkeys(metadata_mark(key, value) for key, values in metadata.items() for value in _scalars(values))
    labels = list(marks) if len(marks) <= MOST else [ANY]
    return {"document": document_id, "type": document_type, "source": source, "marks": labels}


def metadata_mark(key: str, value: Any) -> str:
    """A metadata key with one value, for filters. Numbers are distinguished with the precision of a 64-bit float."""
    text = json.dumps([key, _plain(value)], ensure_ascii=False, separators=(",", ":"))
    data = text.encode()
    return text if len(data) <= MARK_BYTES else "#" + hashlib.blake2b(data, digest_size=16).hexdigest()


def schedule_update(document_ids: Sequence[str]) -> tuple[LiteralString, dict[str, Any]]:
    """The statement that schedules an update of these documents' metadata in their vector store.

    It is carried out in the background, with retries. Run it in the transaction that changed them. The embedded store
    needs none: it reads our tables.
    """
    return _DUE, {"ids": list(document_ids), "own": EMBEDDED[VECTOR_STORAGE]["provider"]}


def update_labels(db: Database, store: VectorStore, scope: Scope, document_id: str) -> None:
    """Bring a document's labels in the store up to date, and once more if they changed on the way."""
    row_labels = None
    for _ in range(ROUNDS if store.labelled else 0):
        row = db.fetch_one(Labelled, _DOCUMENT, {"id": document_id})
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
