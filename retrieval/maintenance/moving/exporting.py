"""Export: one namespace of a running instance as it is at one moment, without secrets."""

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

_PART = 1 << 20


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
    namespaces = queries_export.list_namespaces(db, name)
    if not namespaces or (len(namespaces) > 1 and namespaces[0] != name):
        raise NoSuchNamespace(
            f"There is no namespace {name}."
            if not namespaces
            else f"Several namespaces are called {name}: give the id."
        )
    return namespaces[0]


def export_namespace(db: Database, namespace: str, files: Callable[[], FileStore], target: Path) -> Exported:
    """Write the namespace to `target`, which appears when it is whole."""
    aside = target.with_name(f".{target.name}.{os.getpid()}.part")
    writer = archive.Writer(aside)
    try:
        with copies.keep_files(db.url, namespace) as connection, connection.transaction():
            queries_export.begin_snapshot(connection)
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


def _write(connection: ThreadConnection, namespace: str, files: FileStore, writer: archive.Writer) -> Exported:
    content = queries_export.find_namespace(connection, namespace)
    if content is None:
        raise NoSuchNamespace(f"There is no namespace {namespace}.")
    writer.add(archive.NAMESPACE, [json.dumps(content._asdict()).encode()])
    counts: dict[str, int] = {}
    for table in queries_export.TABLES:
        records = queries_export.iterate_records(connection, table, namespace)
        writer.add_records(table, _count(table, records, counts))
    embeddings = queries_export.iterate_embeddings(connection, namespace)
    writer.add(archive.EMBEDDINGS, (archive.pack_embedding(bytes(key), bytes(values)) for key, values in embeddings))
    left_out = queries_export.count_left_out(connection, namespace)
    stored, missing = _files(connection, namespace, files, writer)
    exported = Exported(
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


def _files(connection: ThreadConnection, namespace: str, files: FileStore, writer: archive.Writer) -> tuple[int, int]:
    """Write stored files; count missing ones. A document with a missing file is exported without it."""
    stored = missing = 0
    for key in queries_export.list_file_keys(connection, namespace):
        try:
            with files.open(key) as stream:
                writer.add(archive.FILES + key.partition("/")[2], iter(lambda: stream.read(_PART), b""))
            stored += 1
        except Skippable:
            missing += 1
    return stored, missing


def _count(table: str, records: Iterator[Any], counts: dict[str, int]) -> Iterator[Any]:
    for record in records:
        counts[table] = counts.get(table, 0) + 1
        yield record
