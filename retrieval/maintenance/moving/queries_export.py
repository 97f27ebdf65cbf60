"""Statements of an export, in the snapshot of its transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, LiteralString, NamedTuple

from retrieval.access.queries import lists
from retrieval.database.rows import Executor, row_factory
from retrieval.database.sessions import ThreadConnection

_FETCH_ROWS = 500
# Documents with a version or a final error; others are exported after their ingestion.
_EXPORTED_DOCUMENTS: LiteralString = """
    select d.* from documents d join partitions p on p.id = d.partition_id
    where p.namespace_id = %(namespace)s and d.deleted_at is null
      and (d.active_generation > 0 or d.status in ('FAILED', 'CANCELLED'))
"""
_RUN_DOCUMENTS_QUERY: LiteralString = (
    """
    with d as ("""
    + _EXPORTED_DOCUMENTS
    + """)
    select distinct on (d.id) to_jsonb(m) as record from d
    join run_documents m on m.document_id = d.id
     and case when d.active_generation > 0 then m.generation = d.active_generation else m.job_run_id = d.job_run_id end
    order by d.id, m.job_run_id
"""
)
_NAMESPACE_CONDITION: LiteralString = " join partitions p on p.id = e.partition_id where p.namespace_id = %(namespace)s"
# Records as JSON by table, in the order of import, without unfinished runs.
TABLE_QUERIES: Mapping[str, LiteralString] = {
    "partitions": "select jsonb_build_object('id', id, 'tenant', tenant) as record from partitions"
    " where namespace_id = %(namespace)s order by id",
    "connections": "select to_jsonb(c) - array['credentials', 'cursor'] as record from connections c"
    " join partitions p on p.id = c.partition_id where p.namespace_id = %(namespace)s order by c.created_at, c.id",
    "jobs": "select to_jsonb(j) as record from jobs j join partitions p on p.id = j.partition_id"
    " where p.namespace_id = %(namespace)s and j.id in (select job_id from (" + _EXPORTED_DOCUMENTS + ") d)"
    " order by j.created_at, j.id",
    "documents": "select (to_jsonb(d) - array['access_limit', 'allowed', 'denied']) || jsonb_build_object('access', "
    + lists.CURRENT_ACCESS
    + ") as record from ("
    + _EXPORTED_DOCUMENTS
    + ") d order by d.created_at, d.id",
    "run_documents": _RUN_DOCUMENTS_QUERY,
    "connection_documents": "select to_jsonb(h) as record from connection_documents h"
    " where h.document_id in (select id from (" + _EXPORTED_DOCUMENTS + ") d) order by h.document_id, h.connection_id",
    "chunks": "select to_jsonb(c) as record from (" + _EXPORTED_DOCUMENTS + ") d"
    " join chunks c on c.document_id = d.id and c.generation = d.active_generation order by c.id",
    "evaluations": "select to_jsonb(e) as record from evaluations e"
    + _NAMESPACE_CONDITION
    + " order by e.created_at, e.id",
    "evaluation_questions": "select to_jsonb(q) as record from evaluation_questions q"
    " join evaluations e on e.id = q.evaluation_id" + _NAMESPACE_CONDITION + " order by q.evaluation_id, q.number",
    "evaluation_runs": "select to_jsonb(r) as record from evaluation_runs r"
    " join evaluations e on e.id = r.evaluation_id"
    + _NAMESPACE_CONDITION
    + " and r.finished_at is not null order by r.created_at, r.id",
    "access_groups": "select to_jsonb(e) as record from access_groups e"
    + _NAMESPACE_CONDITION
    + " order by e.partition_id, e.id",
    "group_members": "select to_jsonb(e) as record from group_members e"
    + _NAMESPACE_CONDITION
    + " order by e.partition_id, e.group_id, e.member",
    "directory_resources": "select to_jsonb(e) as record from directory_resources e"
    + _NAMESPACE_CONDITION
    + " order by e.partition_id, e.id",
}


class NamespaceContent(NamedTuple):
    """Content of `namespace.json`."""

    id: str
    name: str
    config: dict[str, Any]
    dimensions: int | None
    keyword_language: str | None


class ExportedEmbedding(NamedTuple):
    """Embedding; `values` in the binary form of a halfvec."""

    key: bytes
    values: bytes


def list_namespaces(db: Executor, name: str) -> list[str]:
    """Return the ids of namespaces with this id or name, the id first."""
    statement: LiteralString = (
        "select id from namespaces where deleted_at is null and (id = %(name)s or name = %(name)s)"
        " order by id = %(name)s desc"
    )
    return db.fetch(str, statement, {"name": name})


def begin_snapshot(connection: Executor) -> None:
    connection.execute("set transaction isolation level repeatable read, read only")


def find_namespace(connection: Executor, namespace: str) -> NamespaceContent | None:
    return connection.fetch_one(
        NamespaceContent,
        """
        select id, name, config - 'sentTo' as config, dimensions, keyword_language from namespaces
        where id = %(namespace)s and deleted_at is null
        """,
        {"namespace": namespace},
    )


def count_left_out(connection: Executor, namespace: str) -> int:
    """Count the documents absent from the export."""
    statement: LiteralString = """
        select count(*) from documents d join partitions p on p.id = d.partition_id
        where p.namespace_id = %(namespace)s and d.deleted_at is null
          and not (d.active_generation > 0 or d.status in ('FAILED', 'CANCELLED'))
    """
    return connection.fetch_one(int, statement, {"namespace": namespace}) or 0


def list_file_keys(connection: Executor, namespace: str) -> list[str]:
    statement: LiteralString = (
        "select distinct k.key from ("
        + _EXPORTED_DOCUMENTS
        + ") d cross join lateral (values (d.raw_key), (d.parsed_key)) k (key)"
        " where k.key is not null order by k.key"
    )
    return connection.fetch(str, statement, {"namespace": namespace})


def iterate_records(connection: ThreadConnection, table: str, namespace: str) -> Iterator[dict[str, Any]]:
    with connection.cursor("export", row_factory=row_factory(dict)) as cursor:
        cursor.itersize = _FETCH_ROWS
        yield from cursor.execute(TABLE_QUERIES[table], {"namespace": namespace})


def iterate_embeddings(connection: ThreadConnection, namespace: str) -> Iterator[ExportedEmbedding]:
    statement: LiteralString = (
        """
        select distinct on (e.key) e.key, e.values from ("""
        + _EXPORTED_DOCUMENTS
        + """) d join chunks c on c.document_id = d.id and c.generation = d.active_generation
        join embeddings e on e.partition_id = c.partition_id and e.key = c.embedding_key order by e.key
        """
    )
    with connection.cursor("export", binary=True, row_factory=row_factory(ExportedEmbedding)) as cursor:
        cursor.itersize = _FETCH_ROWS
        yield from cursor.execute(statement, {"namespace": namespace})
