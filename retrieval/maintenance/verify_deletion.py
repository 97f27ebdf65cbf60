"""Deletion from stores, verified by a listing, with notes for receipts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from retrieval import ids
from retrieval.database.database import Database
from retrieval.documents import file_keys, receipts
from retrieval.documents.receipts import SweepCounter
from retrieval.errors import Fatal, Retryable
from retrieval.maintenance import queries_garbage
from retrieval.maintenance.queries_sweeps import Sweep
from retrieval.maintenance.stores import Stores
from retrieval.ports import VectorStore

# Receipt name of a former or future store.
_FORMER_STORE_NAME = "FORMER_VECTOR_STORE"


def name_stores(stores: Stores, sweep: Sweep) -> Iterator[tuple[str, VectorStore]]:
    """Yield each vector store of the sweep's namespace with its receipt name."""
    yield str(sweep.vector_store), stores.vectors
    for number, store in enumerate(stores.others, 1):
        yield f"{_FORMER_STORE_NAME}_{number}", store


def delete_document_vectors(stores: Stores, sweep: Sweep, notes: SweepCounter) -> None:
    """Delete every vector of the document; Retryable while a store lists one."""
    scope, prefix = sweep.scope, ids.vector_prefix_of_document(sweep.document)
    for name, store in name_stores(stores, sweep):
        remaining = list(store.ids(scope, prefix))
        notes.note(receipts.VECTORS_KIND, name, "left", len(remaining))
        if remaining:
            store.delete(scope, remaining)
        if remaining and any(True for _ in store.ids(scope, prefix)):
            raise Retryable("The vector store still lists deleted vectors; it is checked again later.")


def drop_vectors(db: Database, stores: Stores, sweep: Sweep, notes: SweepCounter) -> None:
    """Delete every vector of the sweep's scope; Retryable while a store lists one."""
    scope = sweep.scope
    chunks = queries_garbage.count_chunks(db, sweep)
    notes.note(receipts.CHUNKS_KIND, receipts.DATABASE_STORE, "all", chunks)
    for name, store in name_stores(stores, sweep):
        if notes.has_receipt:
            # Listing millions of ids of a remote store takes longer than the deletion: the count of rows stands for it.
            count = chunks if store.stores_labels else sum(1 for _ in store.ids(scope, ""))
            notes.note(receipts.VECTORS_KIND, name, "all", count)
        store.drop(scope)
        if notes.has_receipt and any(True for _ in store.ids(scope, "")):
            raise Retryable("The vector store still lists deleted vectors; it is checked again later.")


def delete_files(stores: Stores, sweep: Sweep, notes: SweepCounter, keys: Sequence[str]) -> None:
    """Delete these files and, for a receipt, all others in the folder; Retryable while one is listed."""
    if not notes.has_receipt:
        stores.files.delete(keys)
        if sweep.document_id is None:  # an import that broke off may have left files that no row names
            with suppress(Fatal):
                stores.files.delete(list(stores.files.keys(file_keys.folder_key(sweep.scope))))
        return
    store = str(sweep.file_store)
    try:
        stored_keys = _list_stored(stores, sweep, keys)
    except Fatal:  # no permission to list: the receipt states that the deletion was not verified
        stores.files.delete(keys)
        notes.note(receipts.FILES_KIND, store, "all", len(keys))
        notes.note(receipts.UNREAD_KIND, store, "all", 1)
        return
    notes.note(receipts.FILES_KIND, store, "all", len(stored_keys))
    stores.files.delete(sorted({*keys, *stored_keys}))
    if _list_stored(stores, sweep, keys):
        raise Retryable("The file store still lists deleted files; it is checked again later.")


def _list_stored(stores: Stores, sweep: Sweep, keys: Sequence[str]) -> set[str]:
    """Return the stored keys among these, and those in the folder of the document or scope."""
    folder = file_keys.folder_key(sweep.scope, sweep.document_id or "")
    stored_keys = set(stores.files.keys(folder))
    for key in keys:
        if not key.startswith(folder):
            stored_keys.update(stored for stored in stores.files.keys(key) if stored == key)
    return stored_keys
