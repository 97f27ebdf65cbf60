"""Statements of the actions of garbage collection on a sweep's data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString

from retrieval.database.database import Database
from retrieval.database.rows import Executor
from retrieval.maintenance.queries_sweeps import Sweep

BULK_TABLES: tuple[LiteralString, ...] = (
    "postings",
    "posting_blocks",
    "posting_changes",
    "posting_packs",
    "term_counts",
    "chunks",
    "embeddings",
)
# Tables cleared with a deleted scope, each with a condition; foreign keys delete dependent rows.
ID_TABLES: tuple[tuple[LiteralString, LiteralString], ...] = (
    ("documents", "and deleted_at is null"),
    ("job_runs", ""),
    ("jobs", ""),
)


@dataclass(frozen=True, slots=True)
class OpenEntry:
    """Entry of a document in an unfinished job run. `in_hand`: in progress at a worker."""

    job_run_id: str
    in_hand: bool


def is_visible(db: Executor, sweep: Sweep) -> bool:
    """Check if the sweep's generation is visible."""
    statement: LiteralString = (
        "select exists (select from documents where id = %(document_id)s and active_generation = %(generation)s"
        " and deleted_at is null)"
    )
    return bool(db.fetch_one(bool, statement, sweep.params))


def is_generation_open(db: Executor, sweep: Sweep) -> bool:
    """Return whether a job run still writes the sweep's generation of the document."""
    statement: LiteralString = (
        "select exists (select from run_documents where document_id = %(document_id)s"
        " and generation = %(generation)s and status in ('QUEUED', 'PROCESSING'))"
    )
    return bool(db.fetch_one(bool, statement, sweep.params))


def list_generations(db: Executor, sweep: Sweep) -> list[int]:
    statement: LiteralString = "select distinct generation from chunks where document_id = %(document_id)s"
    return db.fetch(int, statement, sweep.params)


def list_indexes(db: Executor, sweep: Sweep, generation: int) -> list[int]:
    """List the chunk indexes of a generation."""
    statement: LiteralString = (
        "select index from chunks where document_id = %(document_id)s and generation = %(generation)s order by index"
    )
    return db.fetch(int, statement, {**sweep.params, "generation": generation})


def list_chunks(db: Executor, sweep: Sweep, generation: int, limit: int) -> list[int]:
    statement: LiteralString = (
        "select id from chunks where document_id = %(document_id)s and generation = %(generation)s limit %(page)s"
    )
    return db.fetch(int, statement, {**sweep.params, "generation": generation, "page": limit})


def count_chunks(db: Executor, sweep: Sweep) -> int:
    """Count the chunks of the sweep's partition."""
    statement: LiteralString = "select count(*) from chunks where partition_id = %(partition_id)s"
    return db.fetch_one(int, statement, sweep.params) or 0


def list_embeddings(db: Executor, sweep: Sweep, after: bytes, limit: int) -> list[bytes]:
    """List the embedding keys of the sweep's partition, in order."""
    statement: LiteralString = (
        "select key from embeddings where partition_id = %(partition_id)s and key > %(after)s"
        " order by key limit %(page)s"
    )
    return db.fetch(bytes, statement, {**sweep.params, "after": after, "page": limit})


def list_document_files(db: Executor, sweep: Sweep) -> list[str]:
    """List the file keys of all versions of a document."""
    statement: LiteralString = """
        select raw_key as key from run_documents where document_id = %(document_id)s and raw_key is not null
        union select parsed_key from run_documents where document_id = %(document_id)s and parsed_key is not null
    """
    return db.fetch(str, statement, sweep.params)


def list_partition_files(db: Executor, sweep: Sweep) -> list[str]:
    """List the file keys in rows of a partition."""
    statement: LiteralString = """
        with members as (
            select d.raw_key, d.parsed_key from run_documents d
            join job_runs r on r.id = d.job_run_id where r.partition_id = %(partition_id)s
        )
        select raw_key as key from members where raw_key is not null
        union select parsed_key from members where parsed_key is not null
        union select file_key from sweeps where partition_id = %(partition_id)s and file_key is not null
    """
    return db.fetch(str, statement, sweep.params)


def postpone_sweep(db: Executor, sweep: Sweep, seconds: float) -> None:
    """Postpone the sweep and reset its tries."""
    statement: LiteralString = (
        "update sweeps set tries = 0, due_at = now() + make_interval(secs => %(seconds)s) where id = %(id)s"
    )
    db.execute(statement, {**sweep.params, "seconds": seconds})


def delete_document(connection: Executor, sweep: Sweep) -> None:
    """Delete the row of a deleted document and its rows without a foreign key."""
    connection.execute("delete from inbox where document_id = %(document_id)s", sweep.params)
    connection.execute("delete from connection_documents where document_id = %(document_id)s", sweep.params)
    connection.execute("delete from documents where id = %(document_id)s and deleted_at is not null", sweep.params)


def delete_partition(connection: Executor, sweep: Sweep) -> None:
    connection.execute("delete from partitions where id = %(partition_id)s", sweep.params)


def lock_open_entries(connection: Executor, sweep: Sweep) -> list[OpenEntry]:
    """Lock the entries of a document in unfinished job runs."""
    return connection.fetch(
        OpenEntry,
        """
        select m.job_run_id, m.status = 'PROCESSING' and b.lease_until is not null and b.finished_at is null as in_hand
        from run_documents m join job_runs r on r.id = m.job_run_id left join batches b on b.id = r.batch_id
        where m.document_id = %(document_id)s and m.status in ('QUEUED', 'PROCESSING') and r.finished_at is null
        order by m.job_run_id for update of m
        """,
        sweep.params,
    )


def is_at_work(db: Executor, sweep: Sweep) -> bool:
    """Return whether a worker holds a batch of the partition."""
    statement: LiteralString = (
        "select exists (select from batches where partition_id = %(partition_id)s and lease_until > now())"
    )
    return bool(db.fetch_one(bool, statement, sweep.params))


def waits_for_documents(db: Executor, sweep: Sweep) -> bool:
    """Return whether deletions of single documents with receipts are pending in the partition."""
    statement: LiteralString = (
        "select exists (select from sweeps where partition_id = %(partition_id)s and id <> %(id)s"
        " and deletion_id is not null)"
    )
    return bool(db.fetch_one(bool, statement, sweep.params))


def delete_pairs(db: Database, sweep: Sweep, limit: int) -> int:
    """Delete some connection documents of the partition; return their number."""
    return db.execute(
        """
        delete from connection_documents where ctid = any(array(
            select h.ctid from connection_documents h join connections c on c.id = h.connection_id
            where c.partition_id = %(partition_id)s limit %(page)s
        ))
        """,
        {**sweep.params, "page": limit},
    )


def delete_slice(db: Database, table: LiteralString, sweep: Sweep, limit: int) -> int:
    """Delete some rows of a table of `BULK_TABLES`; return their number."""
    statement: LiteralString = f"""
        delete from {table} where ctid = any(array(
            select ctid from {table} where partition_id = %(partition_id)s limit %(page)s
        ))
    """
    return db.execute(statement, {**sweep.params, "page": limit})


def delete_rows(db: Database, table: LiteralString, condition: LiteralString, sweep: Sweep, limit: int) -> int:
    """Delete some rows of a table of `ID_TABLES`; return their number."""
    statement: LiteralString = f"""
        delete from {table} where id = any(array(
            select id from {table} where partition_id = %(partition_id)s {condition} limit %(page)s
        ))
    """
    return db.execute(statement, {**sweep.params, "page": limit})


def has_stored(db: Executor, sweep: Sweep) -> bool:
    """Return whether generations or documents of the namespace await clearing."""
    statement: LiteralString = (
        "select exists (select from sweeps s join partitions p on p.id = s.partition_id"
        " where p.namespace_id = %(namespace_id)s and s.kind in ('generation', 'document'))"
    )
    return bool(db.fetch_one(bool, statement, sweep.params))


def forget_stores(db: Executor, sweep: Sweep) -> None:
    """Remove unused vector stores from the namespace."""
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


# Of each table, per call of `delete_short_lived`.
ROWS_PER_CLEANUP = 10_000
# After two days the searches of a day are one row with bucket -1, without durations.
_SUM_SEARCHES_STATEMENT: LiteralString = """
    with old as (
        delete from search_times where hour < now() - interval '2 days'
            and (bucket >= 0 or hour < now() - interval '33 days') returning *
    )
    insert into search_times as s (namespace_id, tenant, hour, bucket, searches)
    select namespace_id, tenant, date_trunc('day', hour, 'UTC'), -1, sum(searches) from old
    where bucket >= 0 and hour > now() - interval '31 days' group by 1, 2, 3
    on conflict (namespace_id, tenant, hour, bucket) do update set searches = s.searches + excluded.searches
"""


def delete_short_lived(db: Executor) -> None:
    """Delete idempotent answers and deleted places after a day, rates after a minute, search times after 31 days."""
    db.execute(
        "delete from idempotent_answers where ctid = any(array("
        "select ctid from idempotent_answers where created_at < now() - interval '1 day' limit %(page)s))",
        {"page": ROWS_PER_CLEANUP},
    )
    db.execute(
        "delete from deleted_places where ctid = any(array("
        "select ctid from deleted_places where deleted_at < now() - interval '1 day' limit %(page)s))",
        {"page": ROWS_PER_CLEANUP},
    )
    db.execute(
        "delete from rate_windows where caller like 'address:%%'"
        " and minute < floor(extract(epoch from now()) / 60)::bigint - 1",
        {},
    )
    db.execute(_SUM_SEARCHES_STATEMENT, {})
