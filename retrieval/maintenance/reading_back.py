"""Deletions from stores that are verified by listing the store afterwards, with notes for receipts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from retrieval import ids
from retrieval.database.database import Database, Row
from retrieval.documents import file_keys, receipts
from retrieval.documents.receipts import Notes
from retrieval.errors import Fatal, Retryable
from retrieval.ports import Scope, VectorStore

if TYPE_CHECKING:
    from retrieval.maintenance.garbage_actions import Stores

_FORMER = "FORMER_VECTOR_STORE"
"""In receipts: a store that a namespace has left, or is about to move to."""


def named(stores: Stores, row: Row) -> Iterator[tuple[str, VectorStore]]:
    """Yield each vector store of the sweep's namespace with its name in receipts."""
    yield str(row["vector_store"]), stores.vectors
    for number, store in enumerate(stores.others, 1):
        yield f"{_FORMER}_{number}", store


def no_vectors(stores: Stores, row: Row, notes: Notes) -> None:
    """Delete every vector of the sweep's document, of any generation; Retryable while a store lists one."""
    scope, prefix = _scope(row), ids.vector_prefix_of_document(row["document_id"])
    for name, store in named(stores, row):
        remaining = list(store.ids(scope, prefix))
        notes.note(receipts.VECTORS, name, "left", len(remaining))
        if remaining:
            store.delete(scope, remaining)
        if remaining and any(True for _ in store.ids(scope, prefix)):
            raise Retryable("The vector store still lists deleted vectors; it is checked again later.")


def drop_vectors(db: Database, stores: Stores, row: Row, notes: Notes) -> None:
    """Everything of the sweep's scope leaves its vector stores; Retryable while one of them still lists something.

    Vectors of a store elsewhere are counted by our rows: asking for millions of ids would take longer than the rest.
    """
    scope = _scope(row)
    counted = db.row("select count(*) as chunks from chunks where partition_id = %(partition_id)s", row)
    chunks = int(counted["chunks"]) if counted else 0
    notes.note(receipts.CHUNKS, receipts.DATABASE, "all", chunks)
    for name, store in named(stores, row):
        if notes.wanted:
            count = chunks if store.labelled else sum(1 for _ in store.ids(scope, ""))
            notes.note(receipts.VECTORS, name, "all", count)
        store.drop(scope)
        if notes.wanted and any(True for _ in store.ids(scope, "")):
            raise Retryable("The vector store still lists deleted vectors; it is checked again later.")


def delete_files(stores: Stores, row: Row, notes: Notes, known: Sequence[str]) -> None:
    """Delete these files and, for a receipt, all others in the folder of the document or scope.

    Retryable while one of them is listed. A store without permission to list is emptied all the same; the receipt
    states that this could not be verified.
    """
    if not notes.wanted:
        stores.files.delete(known)
        if row["document_id"] is None:  # an import that broke off may have left files that no row names
            with suppress(Fatal):
                stores.files.delete(list(stores.files.keys(file_keys.folder(_scope(row)))))
        return
    store = str(row["file_store"])
    try:
        stored_keys = _there(stores, row, known)
    except Fatal:
        stores.files.delete(known)
        notes.note(receipts.FILES, store, "all", len(known))
        notes.note(receipts.UNREAD, store, "all", 1)
        return
    notes.note(receipts.FILES, store, "all", len(stored_keys))
    stores.files.delete(sorted({*known, *stored_keys}))
    if _there(stores, row, known):
        raise Retryable("The file store still lists deleted files; it is checked again later.")


def _there(stores: Stores, row: Row, known: Sequence[str]) -> set[str]:
    """Return the stored keys among these, and those in the folder of the document or scope."""
    folder = file_keys.folder(_scope(row), row["document_id"] or "")
    keys = set(stores.files.keys(folder))
    for key in known:
        if not key.startswith(folder):
            keys.update(stored for stored in stores.files.keys(key) if stored == key)
    return keys


def _scope(row: Row) -> Scope:
    return Scope(row["organization_id"], row["namespace_id"], row["tenant"])
