"""Upsert step: write vectors to the store, read them back and activate the new generation."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from retrieval.database.database import Database
from retrieval.documents import vector_metadata
from retrieval.documents.metadata import merge_changes
from retrieval.errors import Retryable
from retrieval.ids import vector_id, vector_prefix_of
from retrieval.ingestion.items import Item
from retrieval.ingestion.queries import activation, run_documents
from retrieval.ingestion.queries.activation import LabelledDocument
from retrieval.jobs.queries.batches import DocumentKey, Lease
from retrieval.ports import Scope, Vector, VectorStore
from retrieval.statuses import Stage

# Vectors in memory at once.
VECTOR_PAGE_SIZE = 1000
# Between two reads of written vectors.
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.1, 5.0


def upsert_documents(
    db: Database,
    lease: Lease,
    window: Sequence[DocumentKey],
    store: VectorStore,
    language: str,
    *,
    timeout: float = 60.0,
    epoch: int | None = None,
) -> None:
    """Write and activate the window's documents; those unreadable in the store after `timeout` seconds fail."""
    written, metadata = _store_vectors(db, lease, window, store, timeout)
    activation.activate_generations(db, lease, written, language, metadata if store.stores_labels else None, epoch)


def upsert_inactive(
    db: Database, lease: Lease, window: Sequence[DocumentKey], store: VectorStore, *, timeout: float = 60.0
) -> None:
    """Write the vectors of the window's documents without activating their generation."""
    written, _ = _store_vectors(db, lease, window, store, timeout)
    run_documents.advance_items(db, lease, [(item, {}) for item in written], Stage.UPSERTED)


def _store_vectors(
    db: Database, lease: Lease, window: Sequence[DocumentKey], store: VectorStore, timeout: float
) -> tuple[list[Item], Mapping[str, LabelledDocument]]:
    """Return the items with readable vectors in the store, and the metadata of their labels."""
    items = run_documents.items_at_stage(db, lease, window, Stage.EMBEDDED)
    metadata = _label_metadata(db, items) if store.stores_labels else {}
    written = _write_vectors(db, lease.scope, items, store, metadata)
    missing = _wait_until_readable(store, lease.scope, written, timeout)
    run_documents.fail_items(
        db,
        lease,
        {item.key: _missing_reason(missing, item, timeout) for item in items if item.vector_prefix in missing},
    )
    return [item for item in items if item.vector_prefix not in missing], metadata


def _write_vectors(
    db: Database, scope: Scope, items: Sequence[Item], store: VectorStore, metadata: Mapping[str, LabelledDocument]
) -> list[str]:
    """Write the vectors page by page; return the ids of vectors with a direction."""
    # Stores do not return zero vectors.
    vectors = (vector for group in _group_items(items) for vector in _read_vectors(db, group, metadata))
    written: list[str] = []
    while page := list(islice(vectors, VECTOR_PAGE_SIZE)):
        store.upsert(scope, page)
        written += [vector.id for vector in page if any(vector.values)]
    return written


def _group_items(items: Sequence[Item]) -> Iterator[list[Item]]:
    """Yield items in groups of about a page of vectors."""
    group: list[Item] = []
    remaining = VECTOR_PAGE_SIZE
    for item in items:
        vectors = int(item.properties.get("embeddingCount") or VECTOR_PAGE_SIZE)
        if group and vectors > remaining:
            yield group
            group, remaining = [], VECTOR_PAGE_SIZE
        group.append(item)
        remaining -= vectors
    if group:
        yield group


def _read_vectors(db: Database, group: Sequence[Item], metadata: Mapping[str, LabelledDocument]) -> Iterator[Vector]:
    """Yield vectors in the order of documents and chunks, read page by page."""
    documents = [item.key.document_id for item in group]
    generations = [item.generation for item in group]
    labels = {
        document_id: vector_metadata.document_labels(document_id, document.type, document.source, document.metadata)
        for document_id, document in metadata.items()
    }
    position, last_index = 0, -1
    while True:
        rows = db.fetch(
            _StoredVector,
            """
            select w.place, c.index, e.values::text as values
            from unnest(%(documents)s::text[], %(generations)s::bigint[]) with ordinality
                 as w (document, generation, place)
            join chunks c on c.document_id = w.document and c.generation = w.generation
                 and c.index > case when w.place = %(place)s then %(after)s else -1 end
            left join embeddings e on e.partition_id = c.partition_id and e.key = c.embedding_key
            where w.place >= %(place)s order by w.place, c.index limit %(page)s
            """,
            {
                "documents": documents,
                "generations": generations,
                "place": position,
                "after": last_index,
                "page": VECTOR_PAGE_SIZE,
            },
        )
        for row in rows:
            if row.values is None:
                raise Retryable("A stored vector is missing; it is created again.")
            item = group[row.place - 1]
            document = item.key.document_id
            name = vector_id(document, item.generation, row.index)
            yield Vector(name, document, json.loads(row.values), labels=labels.get(document, {}))
        if len(rows) < VECTOR_PAGE_SIZE:
            return
        position, last_index = rows[-1].place, rows[-1].index


@dataclass(frozen=True, slots=True)
class _StoredVector:
    place: int
    index: int
    values: str | None


def _label_metadata(db: Database, items: Sequence[Item]) -> dict[str, LabelledDocument]:
    """Return the documents with the metadata of their new version."""
    documents = db.fetch(
        LabelledDocument,
        "select id, document_type as type, source, metadata, changes, metadata_at"
        " from documents"
        " where id = any(%(ids)s)",
        {"ids": [item.key.document_id for item in items]},
    )
    labelled = {document.id: document for document in documents}
    for item in items:
        document = labelled.get(item.key.document_id)
        if document is not None:
            merged = merge_changes(item.metadata, item.accepted_at, document.changes, document.metadata_at)
            labelled[document.id] = document if merged is None else replace(document, metadata=merged)
    return labelled


def _wait_until_readable(store: VectorStore, scope: Scope, written: Sequence[str], timeout: float) -> dict[str, int]:
    """Wait until the store returns all vectors; return the missing number by generation."""
    deadline, pause = time.monotonic() + timeout, FIRST_PAUSE_SECONDS
    missing = store.list_unsettled(scope, written) if written else []
    while missing and time.monotonic() < deadline:
        time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
        pause = min(pause * 2, MAX_PAUSE_SECONDS)
        missing = store.list_unsettled(scope, missing)
    missing_counts: dict[str, int] = {}
    for missing_id in missing:
        generation = vector_prefix_of(missing_id)
        missing_counts[generation] = missing_counts.get(generation, 0) + 1
    return missing_counts


def _missing_reason(missing: Mapping[str, int], item: Item, timeout: float) -> str:
    count = missing[item.vector_prefix]
    return (
        f"upsert: the vector store took the vectors, but {count} of them could not be read back within"
        f" {timeout:g} seconds. Retry later; until then the version before stays visible."
    )
