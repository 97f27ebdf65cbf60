"""Export: one namespace of a running instance as it is at one moment, without secrets."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, LiteralString

from psycopg import Connection

from retrieval.access import lists
from retrieval.database.database import Database, Row
from retrieval.errors import Skippable
from retrieval.maintenance import copies
from retrieval.maintenance.moving import archive
from retrieval.maintenance.moving.frame import CARRIED
from retrieval.ports import FileStore

_PAGE = 500
_PART = 1 << 20
_SNAPSHOT: LiteralString = "set transaction isolation level repeatable read, read only"
_NAMESPACE: LiteralString = """
    select id, name, config - 'sentTo' as config, dimensions, keyword_language from namespaces
    where id = %(namespace)s and deleted_at is null
"""
_CHOSEN: LiteralString = """
    select d.* from documents d join partitions p on p.id = d.partition_id
    where p.namespace_id = %(namespace)s and d.deleted_at is null
      and (d.active_generation > 0 or d.status in ('FAILED', 'CANCELLED'))
"""
"""Documents that have something: those that wait for their first version come when they are ingested again."""
_LEFT_OUT: LiteralString = """
    select count(*) as documents from documents d join partitions p on p.id = d.partition_id
    where p.namespace_id = %(namespace)s and d.deleted_at is null
      and not (d.active_generation > 0 or d.status in ('FAILED', 'CANCELLED'))
"""
_MEMBERS: LiteralString = (
    """
    with d as ("""
    + _CHOSEN
    + """)
    select distinct on (d.id) to_jsonb(m) as row from d
    join run_documents m on m.document_id = d.id
     and case when d.active_generation > 0 then m.generation = d.active_generation else m.job_run_id = d.job_run_id end
    order by d.id, m.job_run_id
"""
)
TABLES: Mapping[str, LiteralString] = {
    "partitions": "select jsonb_build_object('id', id, 'tenant', tenant) as row from partitions"
    " where namespace_id = %(namespace)s order by id",
    "connections": "select to_jsonb(c) - array['credentials', 'cursor'] as row from connections c"
    " join partitions p on p.id = c.partition_id where p.namespace_id = %(namespace)s order by c.created_at, c.id",
    "jobs": "select to_jsonb(j) as row from jobs j join partitions p on p.id = j.partition_id"
    " where p.namespace_id = %(namespace)s and j.id in (select job_id from (" + _CHOSEN + ") d)"
    " order by j.created_at, j.id",
    "documents": "select (to_jsonb(d) - array['access_limit', 'allowed', 'denied'])"
    " || jsonb_build_object('access', " + lists.HELD + ") as row from (" + _CHOSEN + ") d order by d.created_at, d.id",
    "run_documents": _MEMBERS,
    "connection_documents": "select to_jsonb(h) as row from connection_documents h"
    " where h.document_id in (select id from (" + _CHOSEN + ") d) order by h.document_id, h.connection_id",
    "chunks": "select to_jsonb(c) as row from (" + _CHOSEN + ") d"
    " join chunks c on c.document_id = d.id and c.generation = d.active_generation order by c.id",
    **{table: carried.statement for table, carried in CARRIED.items()},
}
"""What each member holds, in the order in which it is imported."""
_EMBEDDINGS: LiteralString = (
    """
    select distinct on (e.key) e.key, e.values from ("""
    + _CHOSEN
    + """) d join chunks c on c.document_id = d.id and c.generation = d.active_generation
    join embeddings e on e.partition_id = c.partition_id and e.key = c.embedding_key order by e.key
"""
)


class NoSuchNamespace(Exception):
    """There is no namespace of this id or name, or several of this name."""


@dataclass(frozen=True, slots=True)
class Exported:
    """Totals of an export. `left_out`: documents without a version; `missing`: files that the store has lost."""

    namespace: str
    documents: int
    chunks: int
    files: int
    left_out: int
    missing: int


def find_namespace(db: Database, name: str) -> str:
    """The id of the namespace of this id, or of the only one of this name."""
    rows = db.rows(
        "select id from namespaces where deleted_at is null and (id = %(name)s or name = %(name)s)"
        " order by id = %(name)s desc",
        {"name": name},
    )
    if not rows or (len(rows) > 1 and rows[0]["id"] != name):
        raise NoSuchNamespace(
            f"There is no namespace {name}." if not rows else f"Several namespaces are called {name}: give the id."
        )
    return str(rows[0]["id"])


def export_namespace(db: Database, namespace: str, files: Callable[[], FileStore], target: Path) -> Exported:
    """Write the namespace to `target`, which appears when it is whole."""
    aside = target.with_name(f".{target.name}.{os.getpid()}.part")
    writer = archive.Writer(aside)
    try:
        with copies.keep_files(db.url, namespace) as connection, connection.transaction():
            connection.execute(_SNAPSHOT)
            exported = _write(connection, namespace, files(), writer)
        aside.chmod(0o600)
        with aside.open("rb+") as whole:
            os.fsync(whole.fileno())
        aside.replace(target)
    finally:
        with suppress(Exception):
            writer.give_up()
        aside.unlink(missing_ok=True)
    return exported


def _write(connection: Connection[Row], namespace: str, files: FileStore, writer: archive.Writer) -> Exported:
    of = {"namespace": namespace}
    row = connection.execute(_NAMESPACE, of).fetchone()
    if row is None:
        raise NoSuchNamespace(f"There is no namespace {namespace}.")
    writer.add(archive.NAMESPACE, [json.dumps(row).encode()])
    counts: dict[str, int] = {}
    for table, statement in TABLES.items():
        writer.rows(table, _counted(table, _rows(connection, statement, of), counts))
    writer.add(archive.EMBEDDINGS, _embeddings(connection, of))
    left_out = connection.execute(_LEFT_OUT, of).fetchone()
    stored, missing = _files(connection, of, files, writer)
    exported = Exported(
        namespace,
        counts.get("documents", 0),
        counts.get("chunks", 0),
        stored,
        int(left_out["documents"]) if left_out else 0,
        missing,
    )
    writer.close(
        {
            "createdAt": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "namespace": {"id": namespace, "name": row["name"]},
            "counts": {"documents": exported.documents, "chunks": exported.chunks, "files": stored},
            "leftOut": exported.left_out,
            "missingFiles": missing,
        }
    )
    return exported


def _files(
    connection: Connection[Row], of: dict[str, str], files: FileStore, writer: archive.Writer
) -> tuple[int, int]:
    """Write stored files; count missing ones. A document with a missing file is exported without it."""
    keys = connection.execute(
        "select distinct k.key from (" + _CHOSEN + ") d cross join lateral (values (d.raw_key), (d.parsed_key)) k (key)"
        " where k.key is not null order by k.key",
        of,
    ).fetchall()
    stored = missing = 0
    for row in keys:
        below = str(row["key"]).partition("/")[2]
        try:
            with files.open(row["key"]) as stream:
                writer.add(archive.FILES + below, iter(lambda: stream.read(_PART), b""))
            stored += 1
        except Skippable:
            missing += 1
    return stored, missing


def _rows(connection: Connection[Row], statement: LiteralString, of: dict[str, str]) -> Iterator[Any]:
    with connection.cursor("export") as cursor:
        cursor.itersize = _PAGE
        cursor.execute(statement, of)
        yield from (row["row"] for row in cursor)


def _embeddings(connection: Connection[Row], of: dict[str, str]) -> Iterator[bytes]:
    with connection.cursor("export", binary=True) as cursor:
        cursor.itersize = _PAGE
        cursor.execute(_EMBEDDINGS, of)
        yield from (archive.pack_embedding(bytes(row["key"]), bytes(row["values"])) for row in cursor)


def _counted(table: str, rows: Iterator[Any], counts: dict[str, int]) -> Iterator[Any]:
    for row in rows:
        counts[table] = counts.get(table, 0) + 1
        yield row
