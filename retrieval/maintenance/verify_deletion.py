"""Deletions from stores that are verified by listing the store afterwards, with notes for receipts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from retrieval import ids
from retrieval.database.database import Database
from retrieval.documents import file_keys, receipts
from retrieval.documents.receipts import Notes
from retrieval.errors import Fatal, Retryable
from retrieval.maintenance import queries_garbage
from retrieval.maintenance.queries import Sweep
from retrieval.ports import VectorStore

if TYPE_CHECKING:
    from retrieval.maintenance.garbage_actions import Stores

_FORMER = "FORMER_VECTOR_STORE"
"""In receipts: a store that a namespace has left, or is about to move to."""


def named(stores: Stores, sweep: Sweep) -> Iterator[tuple[str, VectorStore]]:
    """Yield each vector store of the sweep's namespace with its name in receipts."""
    yield str(sweep.vector_store), stores.vectors
    for number, store in enumerate(stores.others, 1):
        yield f"{_FORMER}_{number}", store


def no_vectors(stores: Stores, sweep: Sweep, notes: Notes) -> None:
    """Delete every vector of the sweep's document, of any generation; Retryable while a store lists one."""
    scope, prefix = sweep.scope, ids.vector_prefix_of_document(sweep.document)
    for name, store in named(stores, sweep):
        remaining = list(store.ids(scope, prefix))
        notes.note(receipts.VECTORS, name, "left", len(remaining))
        if remaining:
            store.delete(scope, remaining)
        if remaining and any(True for _ in store.ids(scope, prefix)):
            raise Retryable("The vector store still lists deleted vectors; it is checked again later.")


def drop_vectors(db: Database, stores: Stores, sweep: Sweep, notes: Notes) -> None:
    """Everything of the sweep's scope leaves its vector stores; Retryable while one of them still lists something.

    Vectors of a store elsewhere are counted by our rows: asking for millions of ids would take longer than the rest.
    """
    scope = sweep.scope
    chunks = queries_garbage.count_chunks(db, sweep)
    notes.note(receipts.CHUNKS, receipts.DATABASE, "all", chunks)
    for name, store in named(stores, sweep):
        if notes.wanted:
            count = chunks if store.labelled else sum(1 for _ in store.ids(scope, ""))
            notes.note(receipts.VECTORS, name, "all", count)
        store.drop(scope)
        if notes.wanted and any(True for _ in store.ids(scope, "")):
            raise Retryable("The vector store still lists deleted vectors; it is checked again later.")


def delete_files(stores: Stores, sweep: Sweep, notes: Notes, known: Sequence[str]) -> None:
    """Delete these files and, for a receipt, all others in the folder of the document or scope.

    Retryable while one of them is listed. A store without permission to list is emptied all the same; the receipt
    states that this could not be verified.
    """
    if not notes.wanted:
        stores.files.delete(known)
        if sweep.document_id is None:  # an import that broke off may have left files that no row names
            with suppress(Fatal):
                stores.files.delete(list(stores.files.keys(file_keys.folder_key(sweep.scope))))
        return
    store = str(sweep.file_store)
    try:
        stored_keys = _there(stores, sweep, known)
    except Fatal:
        stores.files.delete(known)
        notes.note(receipts.FILES, store, "all", len(known))
        notes.note(receipts.UNREAD, store, "all", 1)
        return
    notes.note(receipts.FILES, store, "all", len(stored_keys))
    stores.files.delete(sorted({*known, *stored_keys}))
    if _there(stores, sweep, known):
        raise Retryable("The file store still lists deleted files; it is checked again later.")


def _there(stores: Stores, sweep: Sweep, known: Sequence[str]) -> set[str]:
    """Return the stored keys among these, and those in the folder of the document or scope."""
    folder = file_keys.folder_key(sweep.scope, sweep.document_id or "")
    keys = set(stores.files.keys(folder))
    for key in known:
        if not key.startswith(folder):
            keys.update(stored for stored in stores.files.keys(key) if stored == key)
    return keys
