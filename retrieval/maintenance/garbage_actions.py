"""The actions of garbage collection by kind, in short transactions and bounded pages; each can be repeated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from retrieval import ids, settings
from retrieval.database.database import Database
from retrieval.documents import receipts, vector_metadata
from retrieval.documents.queries import connection_documents, embeddings
from retrieval.documents.receipts import Notes
from retrieval.errors import Retryable
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import DocumentKey
from retrieval.keywords import posting_blocks, postings
from retrieval.maintenance import queries_garbage, verify_deletion
from retrieval.maintenance.queries import Sweep
from retrieval.ports import FileStore, Scope, VectorStore
from retrieval.statuses import DocumentStatus

PAGE = 1000
CHUNKS = 200
"""Chunks whose words one transaction forgets."""
TRIES = 8
"""Tries, each after twice the time, in which a vector store that was left may become reachable: some four hours."""


@dataclass(frozen=True, slots=True)
class Stores:
    """Stores of a namespace. `end` wipes and ends the authorizations of a partition, by its number."""

    vectors: VectorStore
    files: FileStore
    end: Callable[[int], None]
    others: tuple[VectorStore, ...] = ()
    """Vector stores that hold or held vectors beside: the one that is being built, the one before."""


def _file(_db: Database, stores: Stores, sweep: Sweep) -> None:
    stores.files.delete([str(sweep.file_key)])


def _labels(db: Database, stores: Stores, sweep: Sweep) -> None:
    """A document whose metadata changed."""
    vector_metadata.update_labels(db, stores.vectors, sweep.scope, sweep.document)


def _generation(db: Database, stores: Stores, sweep: Sweep) -> None:
    """One generation of a document, unless it is the visible one."""
    if sweep.generation is not None and not queries_garbage.is_visible(db, sweep):
        _vectors_and_chunks(db, stores, sweep, sweep.generation)


def _document(db: Database, stores: Stores, sweep: Sweep) -> None:
    """Delete a deleted document: every generation, every file, then the row itself.

    With a receipt, the deletion ends only after no worker can write to the document: data stored later would remain.
    """
    notes = Notes(db, sweep.id, sweep.deletion_id)
    in_hand = notes.wanted and _is_in_hand(db, sweep)
    for generation in queries_garbage.list_generations(db, sweep):
        _vectors_and_chunks(db, stores, sweep, generation, notes)
    if notes.wanted:
        verify_deletion.no_vectors(stores, sweep, notes)
    verify_deletion.delete_files(stores, sweep, notes, queries_garbage.list_document_files(db, sweep))
    if in_hand:
        queries_garbage.postpone(db, sweep, IN_HAND_SECONDS)
        raise Retryable("A job run is at work on the deleted document; it is cleared once more after that.")
    with db.transaction() as connection:
        queries_garbage.delete_document(connection, sweep)


def _is_in_hand(db: Database, sweep: Sweep) -> bool:
    """Tell whether a worker processes the document. Cancels its entries in job runs that have not reached it."""
    with db.transaction() as connection:
        entries = queries_garbage.lock_open_entries(connection, sweep)
        left_out = [DocumentKey(entry.job_run_id, sweep.document) for entry in entries if not entry.in_hand]
        batches.close_documents(connection, dict.fromkeys(left_out), status=DocumentStatus.CANCELLED)
    return len(left_out) < len(entries)


IN_HAND_SECONDS = 5.0
"""After which it is looked again whether a worker has done with what was deleted."""


def _partition(db: Database, stores: Stores, sweep: Sweep) -> None:
    """Delete everything in the scope of a deleted namespace; its job runs have ended before.

    With a receipt, the deletion ends only after no worker can write: a request to a store may take minutes.
    """
    _after_its_documents(db, sweep)
    notes = Notes(db, sweep.id, sweep.deletion_id)
    in_hand = notes.wanted and queries_garbage.is_at_work(db, sweep)
    stores.end(sweep.partition_id)
    verify_deletion.drop_vectors(db, stores, sweep, notes)
    verify_deletion.delete_files(stores, sweep, notes, queries_garbage.list_partition_files(db, sweep))
    while queries_garbage.delete_pairs(db, sweep, 10 * PAGE):
        pass
    for table in queries_garbage.BULK:
        while queries_garbage.delete_slice(db, table, sweep, 10 * PAGE):
            pass
        if table == "postings":
            posting_blocks.wait_for_packing(db, sweep.partition_id)
    for table, condition in queries_garbage.ROWS:
        while queries_garbage.delete_rows(db, table, condition, sweep, PAGE):
            pass
    if in_hand:
        queries_garbage.postpone(db, sweep, IN_HAND_SECONDS)
        raise Retryable("A worker is still at work on the deleted namespace; it is cleared once more after that.")


def _after_its_documents(db: Database, sweep: Sweep) -> None:
    """Raise Retryable while deletions of single documents with receipts are pending in the scope."""
    if queries_garbage.waits_for_documents(db, sweep):
        raise Retryable("Documents that were deleted before are cleared first.")


def _vectors_and_chunks(
    db: Database, stores: Stores, sweep: Sweep, generation: int, notes: Notes | None = None
) -> None:
    indexes = queries_garbage.list_indexes(db, sweep, generation)
    prefix = ids.vector_prefix(sweep.document, generation)
    names = [ids.vector_id(sweep.document, generation, index) for index in indexes]
    if notes is not None and notes.wanted:
        notes.note(receipts.CHUNKS, receipts.DATABASE, str(generation), len(names))
        for name, store in verify_deletion.named(stores, sweep):
            found_there = sum(1 for _ in store.ids(sweep.scope, prefix))
            notes.note(receipts.VECTORS, name, str(generation), found_there)
    for store in (stores.vectors, *stores.others):
        _delete(store, sweep.scope, names, prefix)
    while chunks := queries_garbage.list_chunks(db, sweep, generation, CHUNKS):
        postings.forget_terms(db, sweep.partition_id, chunks, settings.load_settings().keyword_language)
        with db.transaction() as connection:
            embeddings.forget_chunks(connection, sweep.partition_id, chunks)


def _delete(store: VectorStore, scope: Scope, names: Sequence[str], prefix: str) -> None:
    for start in range(0, len(names), PAGE):
        store.delete(scope, names[start : start + PAGE])
    if remaining := list(store.ids(scope, prefix)):
        store.delete(scope, remaining)
        if any(store.ids(scope, prefix)):
            raise Retryable("The vector store still lists deleted vectors; it is checked again later.")


def _embeddings(db: Database, _stores: Stores, sweep: Sweep) -> None:
    """Embeddings whose last chunk went when its document was cut again."""
    keys = [b""]
    while keys := queries_garbage.list_embeddings(db, sweep, keys[-1], PAGE):
        with db.transaction() as connection:
            embeddings.forget_unused(connection, sweep.partition_id, keys)


def _other_stores(db: Database, _stores: Stores, sweep: Sweep) -> None:
    """Remove unused vector stores from the namespace once they are empty, or could not be emptied for some hours."""
    if sweep.tries < TRIES and queries_garbage.has_stored(db, sweep):
        raise Retryable("The former vector store is not empty yet.")
    queries_garbage.forget_stores(db, sweep)


def _connection(db: Database, _stores: Stores, sweep: Sweep) -> None:
    """Release the documents of a revoked connection that its request left over."""
    keep = sweep.kind == connection_documents.KINDS[True]
    if not connection_documents.release_documents(db, sweep.document, keep=keep, seconds=RELEASE):
        queries_garbage.postpone(db, sweep, 0)
        raise Retryable("A revoked connection has many documents; the others follow.")


RELEASE = 10.0
"""Seconds in which a revoked connection's documents are let go of before other things have their turn."""
ACTIONS: dict[str, Callable[[Database, Stores, Sweep], None]] = {
    "file": _file,
    "labels": _labels,
    "generation": _generation,
    "document": _document,
    "embeddings": _embeddings,
    "stores": _other_stores,
    "partition": _partition,
    **dict.fromkeys(connection_documents.KINDS.values(), _connection),
}
