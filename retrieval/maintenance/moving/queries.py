"""Statements of an import."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString, NamedTuple

from psycopg import sql
from psycopg.types.json import Jsonb

from retrieval.database.rows import Executor, Params, row_factory
from retrieval.database.sessions import ThreadConnection

# Garbage collection clears an incomplete import after this time without a renewal.
LEASE_MINUTES = 15


class ImportedRun(NamedTuple):
    """Run of an imported job."""

    job_id: str
    number: int


class InsertedChunk(NamedTuple):
    """Inserted chunk."""

    id: int
    partition_id: int


@dataclass(frozen=True, slots=True)
class StoredVector:
    """Chunk with its embedding as text (None if missing) and the fields of its labels."""

    id: int
    document_id: str
    generation: int
    index: int
    values: str | None
    document_type: str
    source: str
    metadata: Mapping[str, Any]


def hide_namespace(connection: Executor, namespace: str) -> None:
    """Mark the namespace as deleted."""
    connection.execute("update namespaces set deleted_at = now() where id = %(id)s", {"id": namespace})


def insert_partition(connection: Executor, namespace: str, tenant: str) -> int:
    statement: LiteralString = "insert into partitions (namespace_id, tenant) values (%(id)s, %(tenant)s) returning id"
    return connection.fetch(int, statement, {"id": namespace, "tenant": tenant})[0]


def insert_leases(connection: Executor, partitions: Sequence[int]) -> None:
    """Insert the sweeps that clear the partitions without timely renewal."""
    connection.execute(
        "insert into sweeps (partition_id, kind, due_at) select p, 'partition',"
        " now() + make_interval(mins => %(minutes)s) from unnest(%(partitions)s::int[]) p",
        {"minutes": LEASE_MINUTES, "partitions": list(partitions)},
    )


def renew_leases(db: Executor, partitions: Sequence[int]) -> list[int]:
    """Postpone the sweeps; return their ids."""
    statement: LiteralString = (
        "update sweeps set due_at = now() + make_interval(mins => %(minutes)s)"
        " where partition_id = any(%(partitions)s) and kind = 'partition' returning id"
    )
    return db.fetch(int, statement, {"minutes": LEASE_MINUTES, "partitions": list(partitions)})


def end_leases(db: Executor, partitions: Sequence[int]) -> None:
    """Make the sweeps of the partitions due now."""
    statement: LiteralString = (
        "update sweeps set due_at = now() where partition_id = any(%(partitions)s) and kind = 'partition'"
    )
    db.execute(statement, {"partitions": list(partitions)})


def show_namespace(
    connection: Executor, namespace: str, organization: str, partitions: Sequence[int], leases: Sequence[int]
) -> None:
    """Make the namespace visible, register its tenants, and delete the import's leases."""
    values = {"id": namespace, "organization": organization, "partitions": list(partitions), "leases": list(leases)}
    connection.execute("delete from sweeps where id = any(%(leases)s)", values)
    connection.execute("update namespaces set deleted_at = null, updated_at = now() where id = %(id)s", values)
    connection.execute(
        """
        insert into tenants (organization_id, id)
        select %(organization)s, tenant from partitions where id = any(%(partitions)s) and tenant <> ''
        on conflict do nothing
        """,
        values,
    )


def list_columns(db: Executor, table: str) -> list[str]:
    """List the columns of a table without identity columns."""
    statement: LiteralString = (
        "select column_name from information_schema.columns where table_schema = current_schema()"
        " and table_name = %(table)s and is_identity = 'NO'"
    )
    return db.fetch(str, statement, {"table": table})


def insert_records(connection: ThreadConnection, table: str, records: Sequence[Mapping[str, Any]]) -> None:
    """Insert the columns of the records that exist in the table."""
    if records:
        connection.execute(_insert_statement(connection, table, records[0]), {"records": Jsonb(records)})


def insert_chunks(connection: ThreadConnection, records: Sequence[Mapping[str, Any]]) -> list[InsertedChunk]:
    statement = _insert_statement(connection, "chunks", records[0]) + sql.SQL(" returning id, partition_id")
    with connection.cursor(row_factory=row_factory(InsertedChunk)) as cursor:
        return cursor.execute(statement, {"records": Jsonb(records)}).fetchall()


def _insert_statement(connection: Executor, table: str, record: Mapping[str, Any]) -> sql.Composed:
    names = [name for name in list_columns(connection, table) if name in record]
    return sql.SQL(
        "insert into {table} ({columns}) select {columns} from jsonb_populate_recordset(null::{table}, %(records)s)"
    ).format(table=sql.Identifier(table), columns=sql.SQL(", ").join(map(sql.Identifier, names)))


def insert_runs(db: Executor, columns: Params) -> list[ImportedRun]:
    """Insert a completed run for each job. `columns`: `runs`, `jobs`, `partitions` and `sources`."""
    return db.fetch(
        ImportedRun,
        """
        insert into job_runs (id, job_id, partition_id, source, status, created_at, started_at, finished_at)
        select w.run, w.job, w.partition, w.source, 'COMPLETED', j.created_at, now(), now()
        from unnest(%(runs)s::text[], %(jobs)s::text[], %(partitions)s::int[], %(sources)s::text[])
            with ordinality as w (run, job, partition, source, position)
        join jobs j on j.id = w.job order by w.position returning job_id, number
        """,
        columns,
    )


def has_any(db: Executor, table: LiteralString, ids: Sequence[str]) -> bool:
    """Check for a row with any of the ids."""
    statement: LiteralString = f"select exists (select from {table} where id = any(%(ids)s))"
    return bool(db.fetch_one(bool, statement, {"ids": list(ids)}))


def set_files(db: Executor, document_id: str, raw_key: str | None, parsed_key: str | None) -> None:
    statement: LiteralString = "update documents set raw_key = %(raw)s, parsed_key = %(parsed)s where id = %(id)s"
    db.execute(statement, {"id": document_id, "raw": raw_key, "parsed": parsed_key})


def set_archive_hashes(db: Executor, document_ids: Sequence[str], name: str) -> None:
    """Set the property `name` of archive members to the digest of their archive."""
    db.execute(
        """
        update documents d
        set properties = d.properties || jsonb_build_object(%(name)s::text, encode(m.raw_hash, 'hex'))
        from documents a join run_documents m on m.document_id = a.id and m.generation = a.active_generation
        where d.id = any(%(ids)s) and a.id = d.archive_id and m.raw_hash is not null
        """,
        {"ids": list(document_ids), "name": name},
    )


def set_inheritance(db: Executor, partitions: Sequence[int]) -> None:
    """Let members inherit their access list if equal to the archive's."""
    db.execute(
        """
        update documents m set inherits_access = m.access is not distinct from a.access
        from documents a where m.partition_id = any(%(partitions)s) and a.id = m.archive_id
        """,
        {"partitions": list(partitions)},
    )


def insert_embeddings(db: Executor, keys: Sequence[bytes], vectors: Sequence[str], partitions: Sequence[int]) -> None:
    """Insert the embeddings used by chunks of the partitions."""
    db.execute(
        """
        insert into embeddings (partition_id, key, values)
        select distinct on (c.partition_id, w.key) c.partition_id, w.key, w.value::halfvec
        from unnest(%(keys)s::bytea[], %(values)s::text[]) as w (key, value)
        join chunks c on c.partition_id = any(%(partitions)s) and c.embedding_key = w.key on conflict do nothing
        """,
        {"keys": list(keys), "values": list(vectors), "partitions": list(partitions)},
    )


def list_vectors(db: Executor, partition: int, after: int, limit: int) -> list[StoredVector]:
    return db.fetch(
        StoredVector,
        """
        select c.id, c.document_id, c.generation, c.index, e.values::text as values, d.document_type, d.source,
               d.metadata
        from chunks c join documents d on d.id = c.document_id
        left join embeddings e on e.partition_id = c.partition_id and e.key = c.embedding_key
        where c.partition_id = %(partition)s and c.id > %(after)s order by c.id limit %(page)s
        """,
        {"partition": partition, "after": after, "page": limit},
    )
