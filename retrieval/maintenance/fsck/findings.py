"""Findings of the check, and the instance and partitions that it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, LiteralString

from retrieval.database.database import Database, Row
from retrieval.maintenance.garbage_actions import Stores
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


@dataclass(frozen=True, slots=True)
class Place:
    """A partition that is in use."""

    id: int
    scope: Scope

    @property
    def row(self) -> dict[str, Any]:
        """Columns of the partition, named as the actions of garbage collection expect them."""
        return {
            "partition_id": self.id,
            "namespace_id": self.scope.namespace,
            "organization_id": self.scope.organization,
            "tenant": self.scope.tenant,
        }


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
        rows = self.db.rows(
            """
            select p.id, n.organization_id, p.namespace_id, p.tenant from partitions p
            join namespaces n on n.id = p.namespace_id where n.deleted_at is null order by p.id
            """,
            {},
        )
        return [Place(row["id"], Scope(row["organization_id"], row["namespace_id"], row["tenant"])) for row in rows]


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


def batches(rows: Sequence[Any], size: int = 1000) -> Iterator[list[Any]]:
    for start in range(0, len(rows), size):
        yield list(rows[start : start + size])


def finding(kind: str, row: Row, detail: str) -> Finding:
    return Finding(kind, row.get("namespace_id"), row.get("document_id"), detail, dict(row))
