"""Upsert: write the vectors to the store, read them back, activate the new generation."""

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
from retrieval.ingestion.queries.activation import Labelled
from retrieval.jobs.queries.batches import DocumentKey, Lease
from retrieval.ports import Scope, Vector, VectorStore
from retrieval.statuses import Stage

PAGE = 1000
"""Vectors in memory at once."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds between two looks for what was written."""


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
    """After this the window's documents are found, whole, in their new version and no other.

    timeout: seconds that the store may take to show what was written; a document of which it still lacks some fails.
    """
    written, metadata = _stored(db, lease, window, store, timeout)
    activation.activate(db, lease, written, language, metadata if store.labelled else None, epoch)


def upsert_shadow(
    db: Database, lease: Lease, window: Sequence[DocumentKey], store: VectorStore, *, timeout: float = 60.0
) -> None:
    """Put the vectors into a store that is not searched yet; nothing becomes visible."""
    written, _ = _stored(db, lease, window, store, timeout)
    run_documents.advance_items(db, lease, [(item, {}) for item in written], Stage.UPSERTED)


def _stored(
    db: Database, lease: Lease, window: Sequence[DocumentKey], store: VectorStore, timeout: float
) -> tuple[list[Item], Mapping[str, Labelled]]:
    """Those whose vectors are in the store and are seen there, and what their labels were made of."""
    work = run_documents.at_stage(db, lease, window, Stage.EMBEDDED)
    metadata = _metadata(db, work) if store.labelled else {}
    written = _write(db, lease.scope, work, store, metadata)
    lacking = _wait(store, lease.scope, written, timeout)
    run_documents.fail_items(
        db, lease, {item.key: _lack(lacking, item, timeout) for item in work if item.vectors in lacking}
    )
    return [item for item in work if item.vectors not in lacking], metadata


def _write(
    db: Database, scope: Scope, work: Sequence[Item], store: VectorStore, metadata: Mapping[str, Labelled]
) -> list[str]:
    """Put the vectors of all documents into the store, a page at a time; the ids of those that have a direction."""
    vectors = (vector for group in _groups(work) for vector in _vectors(db, group, metadata))
    written: list[str] = []
    while page := list(islice(vectors, PAGE)):
        store.upsert(scope, page)
        written += [vector.id for vector in page if any(vector.values)]
    return written


def _groups(work: Sequence[Item]) -> Iterator[list[Item]]:
    """The documents in their order, in groups of about a page of vectors; one that has more is alone."""
    group: list[Item] = []
    room = PAGE
    for item in work:
        vectors = int(item.properties.get("embeddingCount") or PAGE)
        if group and vectors > room:
            yield group
            group, room = [], PAGE
        group.append(item)
        room -= vectors
    if group:
        yield group


def _vectors(db: Database, group: Sequence[Item], metadata: Mapping[str, Labelled]) -> Iterator[Vector]:
    """In the order of the documents and their chunks, a page at a time."""
    documents = [item.key.document_id for item in group]
    generations = [item.generation for item in group]
    marks = {
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
            {"documents": documents, "generations": generations, "place": position, "after": last_index, "page": PAGE},
        )
        for row in rows:
            if row.values is None:
                raise Retryable("A stored vector is missing; it is created again.")
            item = group[row.place - 1]
            document = item.key.document_id
            name = vector_id(document, item.generation, row.index)
            yield Vector(name, document, json.loads(row.values), labels=marks.get(document, {}))
        if len(rows) < PAGE:
            return
        position, last_index = rows[-1].place, rows[-1].index


@dataclass(frozen=True, slots=True)
class _StoredVector:
    place: int
    index: int
    values: str | None


def _metadata(db: Database, work: Sequence[Item]) -> dict[str, Labelled]:
    """Return the documents with the metadata that they will have once they are visible, as known now."""
    documents = db.fetch(
        Labelled,
        "select id, document_type as type, source, metadata, changes, metadata_at"
        " from documents"
        " where id = any(%(ids)s)",
        {"ids": [item.key.document_id for item in work]},
    )
    labelled = {document.id: document for document in documents}
    for item in work:
        document = labelled.get(item.key.document_id)
        if document is not None:
            merged = merge_changes(item.metadata, item.accepted, document.changes, document.metadata_at)
            labelled[document.id] = document if merged is None else replace(document, metadata=merged)
    return labelled


def _wait(store: VectorStore, scope: Scope, written: Sequence[str], timeout: float) -> dict[str, int]:
    """Until the store shows all of them; by generation, how many it lacks when the time is over."""
    end, pause = time.monotonic() + timeout, FIRST_PAUSE
    missing = store.list_unsettled(scope, written) if written else []
    while missing and time.monotonic() < end:
        time.sleep(min(pause, max(0.0, end - time.monotonic())))
        pause = min(pause * 2, LONGEST_PAUSE)
        missing = store.list_unsettled(scope, missing)
    lacking: dict[str, int] = {}
    for missing_id in missing:
        generation = vector_prefix_of(missing_id)
        lacking[generation] = lacking.get(generation, 0) + 1
    return lacking


def _lack(lacking: Mapping[str, int], item: Item, timeout: float) -> str:
    count = lacking[item.vectors]
    return (
        f"upsert: the vector store took the vectors, but {count} of them could not be read back within"
        f" {timeout:g} seconds. Retry later; until then the version before stays visible."
    )
