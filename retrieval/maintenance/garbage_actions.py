"""The actions of garbage collection by kind, in short transactions and bounded pages; each can be repeated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import LiteralString

from retrieval import ids, settings
from retrieval.database.database import Database
from retrieval.documents import connection_documents, embeddings, receipts, vector_metadata
from retrieval.documents.receipts import Notes
from retrieval.errors import Retryable
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import DocumentKey
from retrieval.keywords import posting_blocks, postings
from retrieval.maintenance import verify_deletion
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
    is_visible = db.fetch_one(
        bool,
        "select exists (select from documents where id = %(document_id)s and active_generation = %(generation)s"
        " and deleted_at is null)",
        sweep.params,
    )
    if not is_visible and sweep.generation is not None:
        _vectors_and_chunks(db, stores, sweep, sweep.generation)


def _document(db: Database, stores: Stores, sweep: Sweep) -> None:
    """Delete a deleted document: every generation, every file, then the row itself.

    With a receipt, the deletion ends only after no worker can write to the document: data stored later would remain.
    """
    notes = Notes(db, sweep.id, sweep.deletion_id)
    in_hand = notes.wanted and _is_in_hand(db, sweep)
    statement: LiteralString = "select distinct generation from chunks where document_id = %(document_id)s"
    for generation in db.fetch(int, statement, sweep.params):
        _vectors_and_chunks(db, stores, sweep, generation, notes)
    if notes.wanted:
        verify_deletion.no_vectors(stores, sweep, notes)
    file_keys = db.fetch(
        str,
        """
        select raw_key as key from run_documents where document_id = %(document_id)s and raw_key is not null
        union select parsed_key from run_documents where document_id = %(document_id)s and parsed_key is not null
        """,
        sweep.params,
    )
    verify_deletion.delete_files(stores, sweep, notes, file_keys)
    if in_hand:
        db.execute(_AGAIN, {**sweep.params, "seconds": IN_HAND_SECONDS})
        raise Retryable("A job run is at work on the deleted document; it is cleared once more after that.")
    with db.transaction() as connection:
        connection.execute("delete from inbox where document_id = %(document_id)s", sweep.params)
        connection.execute("delete from connection_documents where document_id = %(document_id)s", sweep.params)
        connection.execute("delete from documents where id = %(document_id)s and deleted_at is not null", sweep.params)


def _is_in_hand(db: Database, sweep: Sweep) -> bool:
    """Tell whether a worker processes the document. Cancels its entries in job runs that have not reached it."""
    with db.transaction() as connection:
        entries = connection.fetch(OpenEntry, _OPEN_ENTRIES, sweep.params)
        left_out = [DocumentKey(entry.job_run_id, sweep.document) for entry in entries if not entry.in_hand]
        batches.close_documents(connection, dict.fromkeys(left_out), status=DocumentStatus.CANCELLED)
    return len(left_out) < len(entries)


@dataclass(frozen=True, slots=True)
class OpenEntry:
    """An entry of a document in an unfinished job run. `in_hand`: a worker processes it."""

    job_run_id: str
    in_hand: bool


IN_HAND_SECONDS = 5.0
"""After which it is looked again whether a worker has done with what was deleted."""
_AGAIN: LiteralString = (
    "update sweeps set tries = 0, due_at = now() + make_interval(secs => %(seconds)s) where id = %(id)s"
)
_OPEN_ENTRIES: LiteralString = """
    select m.job_run_id, m.status = 'PROCESSING' and b.lease_until is not null and b.finished_at is null as in_hand
    from run_documents m join job_runs r on r.id = m.job_run_id left join batches b on b.id = r.batch_id
    where m.document_id = %(document_id)s and m.status in ('QUEUED', 'PROCESSING') and r.finished_at is null
    order by m.job_run_id for update of m
"""


def _partition(db: Database, stores: Stores, sweep: Sweep) -> None:
    """Delete everything in the scope of a deleted namespace; its job runs have ended before.

    With a receipt, the deletion ends only after no worker can write: a request to a store may take minutes.
    """
    _after_its_documents(db, sweep)
    notes = Notes(db, sweep.id, sweep.deletion_id)
    in_hand = notes.wanted and bool(db.fetch_one(bool, _AT_WORK, sweep.params))
    stores.end(sweep.partition_id)
    verify_deletion.drop_vectors(db, stores, sweep, notes)
    file_keys = db.fetch(
        str,
        """
        with members as (
            select d.raw_key, d.parsed_key from run_documents d
            join job_runs r on r.id = d.job_run_id where r.partition_id = %(partition_id)s
        )
        select raw_key as key from members where raw_key is not null
        union select parsed_key from members where parsed_key is not null
        union select file_key from sweeps where partition_id = %(partition_id)s and file_key is not null
        """,
        sweep.params,
    )
    verify_deletion.delete_files(stores, sweep, notes, file_keys)
    while db.execute(_SLICE_OF_PAIRS, {**sweep.params, "page": 10 * PAGE}):
        pass
    for table in _BULK:
        while db.execute(_delete_slice(table), {**sweep.params, "page": 10 * PAGE}):
            pass
        if table == "postings":
            posting_blocks.wait_for_packing(db, sweep.partition_id)
    for table, condition in _ROWS:
        statement = _delete_rows(table, condition)
        while db.execute(statement, {**sweep.params, "page": PAGE}):
            pass
    if in_hand:
        db.execute(_AGAIN, {**sweep.params, "seconds": IN_HAND_SECONDS})
        raise Retryable("A worker is still at work on the deleted namespace; it is cleared once more after that.")


_AT_WORK: LiteralString = (
    "select exists (select from batches where partition_id = %(partition_id)s and lease_until > now())"
)


def _after_its_documents(db: Database, sweep: Sweep) -> None:
    """Raise Retryable while deletions of single documents with receipts are pending in the scope."""
    is_waiting = db.fetch_one(
        bool,
        "select exists (select from sweeps where partition_id = %(partition_id)s and id <> %(id)s"
        " and deletion_id is not null)",
        sweep.params,
    )
    if is_waiting:
        raise Retryable("Documents that were deleted before are cleared first.")


_BULK: tuple[LiteralString, ...] = (
    "postings",
    "posting_blocks",
    "posting_changes",
    "posting_packs",
    "term_counts",
    "chunks",
    "embeddings",
)


def _delete_slice(table: LiteralString) -> LiteralString:
    """Return the statement that deletes some rows of a partition from a table."""
    return f"""
    delete from {table} where ctid = any(array(
        select ctid from {table} where partition_id = %(partition_id)s limit %(page)s
    ))
"""


_SLICE_OF_PAIRS: LiteralString = """
    delete from connection_documents where ctid = any(array(
        select h.ctid from connection_documents h join connections c on c.id = h.connection_id
        where c.partition_id = %(partition_id)s limit %(page)s
    ))
"""
_ROWS: tuple[tuple[LiteralString, LiteralString], ...] = (
    ("documents", "and deleted_at is null"),
    ("job_runs", ""),
    ("jobs", ""),
)


def _delete_rows(table: LiteralString, condition: LiteralString) -> LiteralString:
    """Return the same for a table with ids. These and the partition, in the end, take with them what refers to them."""
    return f"""
    delete from {table} where id = any(array(
        select id from {table} where partition_id = %(partition_id)s {condition} limit %(page)s
    ))
"""


def _vectors_and_chunks(
    db: Database, stores: Stores, sweep: Sweep, generation: int, notes: Notes | None = None
) -> None:
    values = {**sweep.params, "generation": generation}
    indexes = db.fetch(
        int,
        "select index from chunks where document_id = %(document_id)s and generation = %(generation)s order by index",
        values,
    )
    prefix = ids.vector_prefix(sweep.document, generation)
    names = [ids.vector_id(sweep.document, generation, index) for index in indexes]
    if notes is not None and notes.wanted:
        notes.note(receipts.CHUNKS, receipts.DATABASE, str(generation), len(names))
        for name, store in verify_deletion.named(stores, sweep):
            found_there = sum(1 for _ in store.ids(sweep.scope, prefix))
            notes.note(receipts.VECTORS, name, str(generation), found_there)
    for store in (stores.vectors, *stores.others):
        _delete(store, sweep.scope, names, prefix)
    chunks_of: LiteralString = (
        "select id from chunks where document_id = %(document_id)s and generation = %(generation)s limit %(page)s"
    )
    while chunks := db.fetch(int, chunks_of, {**values, "page": CHUNKS}):
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
    while keys := db.fetch(
        bytes,
        "select key from embeddings where partition_id = %(partition_id)s and key > %(after)s"
        " order by key limit %(page)s",
        {**sweep.params, "after": keys[-1], "page": PAGE},
    ):
        with db.transaction() as connection:
            embeddings.forget_unused(connection, sweep.partition_id, keys)


def _other_stores(db: Database, _stores: Stores, sweep: Sweep) -> None:
    """Remove unused vector stores from the namespace once they are empty, or could not be emptied for some hours."""
    is_filled = db.fetch_one(
        bool,
        "select exists (select from sweeps s join partitions p on p.id = s.partition_id"
        " where p.namespace_id = %(namespace_id)s and s.kind in ('generation', 'document'))",
        sweep.params,
    )
    if is_filled and sweep.tries < TRIES:
        raise Retryable("The former vector store is not empty yet.")
    db.execute(
        """
        update namespaces n
        set retired = case when n.epoch = %(generation)s then null else n.retired end,
            pending = case when run.id is null then null else n.pending end,
            pending_run = case when run.id is null then null else n.pending_run end
        from (select 1) one left join job_runs run
          on run.finished_at is null and run.id = (select pending_run from namespaces where id = %(namespace_id)s)
        where n.id = %(namespace_id)s
        """,
        sweep.params,
    )


def _connection(db: Database, _stores: Stores, sweep: Sweep) -> None:
    """Release the documents of a revoked connection that its request left over."""
    keep = sweep.kind == connection_documents.KINDS[True]
    if not connection_documents.release_documents(db, sweep.document, keep=keep, seconds=RELEASE):
        db.execute("update sweeps set tries = 0, due_at = now() where id = %(id)s", sweep.params)
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
