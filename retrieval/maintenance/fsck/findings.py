"""Findings of the check, and the instance and partitions that it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, LiteralString

from retrieval.database.database import Database
from retrieval.maintenance.queries import Sweep
from retrieval.maintenance.stores import Stores
from retrieval.ports import FileStore, Scope


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that should not be so. `namespace` and `document` are null where it belongs to none."""

    kind: str
    namespace: str | None
    document: str | None
    detail: str
    data: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """What the repair needs to know."""

    def sweep(self, kind: str) -> Sweep:
        """Return the sweep that clears what was found."""
        columns = {column.name: self.data[column.name] for column in fields(Sweep) if column.name in self.data}
        return Sweep(**{"tenant": "", "organization_id": "", **columns, "kind": kind})


@dataclass(frozen=True, slots=True)
class Place:
    """A partition that is in use."""

    partition_id: int
    organization_id: str
    namespace_id: str
    tenant: str

    @property
    def scope(self) -> Scope:
        return Scope(self.organization_id, self.namespace_id, self.tenant)


@dataclass(frozen=True, slots=True)
class Instance:
    """Installation that is checked: the database, each namespace's stores, and the folder of LOCAL files (None:
    unused)."""

    db: Database
    stores: Callable[[str], Stores]
    language: str
    local_files: FileStore | None = None

    def places(self) -> list[Place]:
        """Partitions of namespaces that are there; those of deleted ones are garbage collection's."""
        return self.db.fetch(
            Place,
            """
            select p.id as partition_id, n.organization_id, p.namespace_id, p.tenant from partitions p
            join namespaces n on n.id = p.namespace_id where n.deleted_at is null order by p.id
            """,
            {},
        )


BUSY: LiteralString = "exists (select from job_runs b where b.number = {generation} and b.finished_at is null)"
"""Whether a job run that is under way writes this generation: it is left alone."""
AT_WORK: LiteralString = """
    exists (select from run_documents m join job_runs b on b.id = m.job_run_id
            where m.document_id = {document} and b.finished_at is null)
"""
"""Whether a document is part of a job run that is under way."""
SWEPT: LiteralString = """
    exists (select from sweeps s where s.document_id = {document}
            and (s.kind = 'document' or s.kind = 'generation' and s.generation = {generation}))
"""
"""Whether garbage collection knows of a generation already."""
MARK = "Parts of this document are missing from the stores, and cannot be made from what is left: ingest it again."
"""The error of a document that could not be repaired; it is not found again."""


def split_batches(rows: Sequence[Any], size: int = 1000) -> Iterator[list[Any]]:
    for start in range(0, len(rows), size):
        yield list(rows[start : start + size])


def make_finding(kind: str, row: Mapping[str, Any], detail: str | None = None) -> Finding:
    """Return the finding of a row; `detail`: the column of this name if absent."""
    return Finding(kind, row.get("namespace_id"), row.get("document_id"), detail or str(row.get("detail")), dict(row))
