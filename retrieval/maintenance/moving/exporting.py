"""Export of a namespace from a single snapshot, without secrets."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from retrieval.database.database import Database
from retrieval.database.sessions import ThreadConnection
from retrieval.errors import Skippable
from retrieval.maintenance import copies
from retrieval.maintenance.moving import archive, queries_export
from retrieval.ports import FileStore

_READ_BYTES = 1 << 20


class NoSuchNamespace(Exception):
    """No or several namespaces with this id or name."""


@dataclass(frozen=True, slots=True)
class ExportTotals:
    """Totals of an export. `left_out`: documents without a version; `missing`: files absent from the store."""

    namespace: str
    documents: int
    chunks: int
    files: int
    left_out: int
    missing: int


def find_namespace(db: Database, name: str) -> str:
    """Return the id of the namespace with this id or unique name; NoSuchNamespace otherwise."""
    namespaces = queries_export.list_namespaces(db, name)
    if not namespaces or (len(namespaces) > 1 and namespaces[0] != name):
        raise NoSuchNamespace(
            f"There is no namespace {name}: `retrieval namespaces` lists them."
            if not namespaces
            else f"Several namespaces are called {name}: give the id."
        )
    return namespaces[0]


def export_namespace(db: Database, namespace: str, files: Callable[[], FileStore], target: Path) -> ExportTotals:
    """Write the namespace to `target`; the file appears when complete."""
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    writer = archive.ArchiveWriter(part)
    try:
        with copies.keep_files(db.url, namespace) as connection, connection.transaction():
            queries_export.begin_snapshot(connection)
            exported = _write_members(connection, namespace, files(), writer)
        part.chmod(0o600)
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        part.replace(target)
    finally:
        with suppress(Exception):
            writer.abort()
        part.unlink(missing_ok=True)
    return exported


def _write_members(
    connection: ThreadConnection, namespace: str, files: FileStore, writer: archive.ArchiveWriter
) -> ExportTotals:
    content = queries_export.find_namespace(connection, namespace)
    if content is None:
        raise NoSuchNamespace(f"There is no namespace {namespace}.")
    writer.add_member(archive.NAMESPACE_NAME, [json.dumps(content._asdict()).encode()])
    counts: dict[str, int] = {}
    for table in queries_export.TABLE_QUERIES:
        records = queries_export.iterate_records(connection, table, namespace)
        writer.add_records(table, _count_records(table, records, counts))
    embeddings = queries_export.iterate_embeddings(connection, namespace)
    writer.add_member(
        archive.EMBEDDINGS_NAME, (archive.pack_embedding(bytes(key), bytes(values)) for key, values in embeddings)
    )
    left_out = queries_export.count_left_out(connection, namespace)
    stored, missing = _write_files(connection, namespace, files, writer)
    exported = ExportTotals(
        namespace,
        counts.get("documents", 0),
        counts.get("chunks", 0),
        stored,
        left_out,
        missing,
    )
    writer.close(
        {
            "createdAt": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "namespace": {"id": namespace, "name": content.name},
            "counts": {"documents": exported.documents, "chunks": exported.chunks, "files": stored},
            "leftOut": exported.left_out,
            "missingFiles": missing,
        }
    )
    return exported


def _write_files(
    connection: ThreadConnection, namespace: str, files: FileStore, writer: archive.ArchiveWriter
) -> tuple[int, int]:
    """Write the stored files; return the numbers of written and missing files."""
    stored = missing = 0
    for key in queries_export.list_file_keys(connection, namespace):
        try:
            with files.open(key) as stream:
                writer.add_member(
                    archive.FILES_PREFIX + key.partition("/")[2], iter(lambda: stream.read(_READ_BYTES), b"")
                )
            stored += 1
        except Skippable:
            missing += 1
    return stored, missing


def _count_records(table: str, records: Iterator[Any], counts: dict[str, int]) -> Iterator[Any]:
    for record in records:
        counts[table] = counts.get(table, 0) + 1
        yield record
