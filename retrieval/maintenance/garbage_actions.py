"""Actions of garbage collection by kind of sweep, repeatable, in short transactions and bounded pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from retrieval import ids, settings
from retrieval.database.database import Database
from retrieval.documents import file_keys, receipts, vector_metadata
from retrieval.documents.queries import connection_documents, embeddings
from retrieval.documents.receipts import SweepCounter
from retrieval.errors import Fatal, Retryable
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import DocumentKey
from retrieval.keywords import posting_blocks, postings
from retrieval.maintenance import queries_garbage, verify_deletion
from retrieval.maintenance.fsck import queries_stores
from retrieval.maintenance.queries_sweeps import Sweep
from retrieval.maintenance.stores import Stores
from retrieval.ports import Scope, VectorStore
from retrieval.statuses import DocumentStatus

PAGE_ROWS = 1000
CHUNKS_PER_TRANSACTION = 200
# With doubling delays: about four hours.
MAX_FORMER_STORE_TRIES = 8
# While a worker may still write to the deleted document or scope.
BUSY_RETRY_SECONDS = 5.0
# Per sweep of a revoked connection.
RELEASE_SECONDS = 10.0


def _delete_file(_db: Database, stores: Stores, sweep: Sweep) -> None:
    stores.files.delete([str(sweep.file_key)])


def _update_labels(db: Database, stores: Stores, sweep: Sweep) -> None:
    vector_metadata.update_labels(db, stores.vectors, sweep.scope, sweep.document)


def _delete_generation(db: Database, stores: Stores, sweep: Sweep) -> None:
    """Delete a generation of a document unless visible."""
    if sweep.generation is not None and not queries_garbage.is_visible(db, sweep):
        _delete_vectors_and_chunks(db, stores, sweep, sweep.generation)
        _delete_unreferred_files(db, stores, sweep, sweep.generation)


def _delete_unreferred_files(db: Database, stores: Stores, sweep: Sweep, generation: int) -> None:
    """Delete files of a generation without a row: a worker may end between storing a file and recording its key."""
    # A retry may have stored files whose keys it has not recorded yet; its end queues another sweep.
    if queries_garbage.is_generation_open(db, sweep):
        return
    # Without permission to list, nothing can be found.
    with suppress(Fatal):
        keys = list(stores.files.keys(file_keys.generation_key(sweep.scope, sweep.document, generation)))
        stores.files.delete(queries_stores.list_unreferred(db, keys, [sweep.partition_id]) if keys else [])


def _delete_document(db: Database, stores: Stores, sweep: Sweep) -> None:
    """Delete every generation and file of a deleted document, then its row."""
    notes = SweepCounter(db, sweep.id, sweep.deletion_id)
    # A receipt is issued only when no worker can write to the document: data stored later would remain.
    is_in_hand = notes.has_receipt and _cancel_entries(db, sweep)
    for generation in queries_garbage.list_generations(db, sweep):
        _delete_vectors_and_chunks(db, stores, sweep, generation, notes)
    if notes.has_receipt:
        verify_deletion.delete_document_vectors(stores, sweep, notes)
    verify_deletion.delete_files(stores, sweep, notes, queries_garbage.list_document_files(db, sweep))
    if is_in_hand:
        queries_garbage.postpone_sweep(db, sweep, BUSY_RETRY_SECONDS)
        raise Retryable("A job run still processes the deleted document; it is cleared again afterwards.")
    with db.transaction() as connection:
        queries_garbage.delete_document(connection, sweep)


def _cancel_entries(db: Database, sweep: Sweep) -> bool:
    """Cancel the document's entries in job runs; return True if a worker still processes one."""
    with db.transaction() as connection:
        entries = queries_garbage.lock_open_entries(connection, sweep)
        cancelled = [DocumentKey(entry.job_run_id, sweep.document) for entry in entries if not entry.in_hand]
        batches.close_documents(connection, dict.fromkeys(cancelled), status=DocumentStatus.CANCELLED)
    return len(cancelled) < len(entries)


def _delete_partition(db: Database, stores: Stores, sweep: Sweep) -> None:
    """Delete everything in the scope of a deleted namespace, whose job runs have ended."""
    if queries_garbage.waits_for_documents(db, sweep):
        raise Retryable("Documents that were deleted earlier with a receipt are cleared first.")
    notes = SweepCounter(db, sweep.id, sweep.deletion_id)
    # A receipt is issued only when no worker can write: a request to a store may take minutes.
    is_busy = notes.has_receipt and queries_garbage.is_at_work(db, sweep)
    stores.end_authorizations(sweep.partition_id)
    verify_deletion.drop_vectors(db, stores, sweep, notes)
    verify_deletion.delete_files(stores, sweep, notes, queries_garbage.list_partition_files(db, sweep))
    while queries_garbage.delete_pairs(db, sweep, 10 * PAGE_ROWS):
        pass
    for table in queries_garbage.BULK_TABLES:
        while queries_garbage.delete_slice(db, table, sweep, 10 * PAGE_ROWS):
            pass
        if table == "postings":
            posting_blocks.wait_for_packing(db, sweep.partition_id)
    for table, condition in queries_garbage.ID_TABLES:
        while queries_garbage.delete_rows(db, table, condition, sweep, PAGE_ROWS):
            pass
    if is_busy:
        queries_garbage.postpone_sweep(db, sweep, BUSY_RETRY_SECONDS)
        raise Retryable("A worker still processes the deleted namespace; it is cleared again afterwards.")


def _delete_vectors_and_chunks(
    db: Database, stores: Stores, sweep: Sweep, generation: int, notes: SweepCounter | None = None
) -> None:
    indexes = queries_garbage.list_indexes(db, sweep, generation)
    prefix = ids.vector_prefix(sweep.document, generation)
    names = [ids.vector_id(sweep.document, generation, index) for index in indexes]
    if notes is not None and notes.has_receipt:
        notes.note(receipts.CHUNKS_KIND, receipts.DATABASE_STORE, str(generation), len(names))
        for name, store in verify_deletion.name_stores(stores, sweep):
            vectors = sum(1 for _ in store.ids(sweep.scope, prefix))
            notes.note(receipts.VECTORS_KIND, name, str(generation), vectors)
    for store in (stores.vectors, *stores.others):
        _delete_vectors(store, sweep.scope, names, prefix)
    while chunks := queries_garbage.list_chunks(db, sweep, generation, CHUNKS_PER_TRANSACTION):
        postings.forget_terms(db, sweep.partition_id, chunks, settings.load_settings().keyword_language)
        with db.transaction() as connection:
            embeddings.delete_chunks(connection, sweep.partition_id, chunks)


def _delete_vectors(store: VectorStore, scope: Scope, names: Sequence[str], prefix: str) -> None:
    for start in range(0, len(names), PAGE_ROWS):
        store.delete(scope, names[start : start + PAGE_ROWS])
    if remaining := list(store.ids(scope, prefix)):
        store.delete(scope, remaining)
        if any(store.ids(scope, prefix)):
            raise Retryable("The vector store still lists deleted vectors; it is checked again later.")


def _delete_unused_embeddings(db: Database, _stores: Stores, sweep: Sweep) -> None:
    """Delete embeddings without a chunk."""
    keys = [b""]
    while keys := queries_garbage.list_embeddings(db, sweep, keys[-1], PAGE_ROWS):
        with db.transaction() as connection:
            embeddings.delete_unused_embeddings(connection, sweep.partition_id, keys)


def _forget_former_stores(db: Database, _stores: Stores, sweep: Sweep) -> None:
    """Remove unused vector stores from the namespace once empty, or after the last try."""
    if sweep.tries < MAX_FORMER_STORE_TRIES and queries_garbage.has_stored(db, sweep):
        raise Retryable("The former vector store is not empty yet.")
    queries_garbage.forget_stores(db, sweep)


def _release_connection(db: Database, _stores: Stores, sweep: Sweep) -> None:
    """Release the remaining documents of a revoked connection."""
    keep = sweep.kind == connection_documents.RELEASE_SWEEP_KINDS[True]
    if not connection_documents.release_documents(db, sweep.document, keep=keep, seconds=RELEASE_SECONDS):
        queries_garbage.postpone_sweep(db, sweep, 0)
        raise Retryable("A revoked connection has many documents; the others follow.")


SWEEP_ACTIONS: dict[str, Callable[[Database, Stores, Sweep], None]] = {
    "file": _delete_file,
    "labels": _update_labels,
    "generation": _delete_generation,
    "document": _delete_document,
    "embeddings": _delete_unused_embeddings,
    "stores": _forget_former_stores,
    "partition": _delete_partition,
    **dict.fromkeys(connection_documents.RELEASE_SWEEP_KINDS.values(), _release_connection),
}
