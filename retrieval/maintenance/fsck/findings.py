"""Findings of the check, and the checked instance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, LiteralString

from retrieval.database.database import Database
from retrieval.maintenance.queries_sweeps import Sweep
from retrieval.maintenance.stores import Stores
from retrieval.ports import FileStore, Scope


@dataclass(frozen=True, slots=True)
class Finding:
    """Inconsistency, optionally of a namespace and document."""

    kind: str
    namespace: str | None
    document: str | None
    detail: str
    # Input of the repair.
    data: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def make_sweep(self, kind: str) -> Sweep:
        """Return the sweep that clears the inconsistency."""
        columns = {column.name: self.data[column.name] for column in fields(Sweep) if column.name in self.data}
        return Sweep(**{"tenant": "", "organization_id": "", **columns, "kind": kind})


@dataclass(frozen=True, slots=True)
class Place:
    """Partition of an existing namespace."""

    partition_id: int
    organization_id: str
    namespace_id: str
    tenant: str

    @property
    def scope(self) -> Scope:
        return Scope(self.organization_id, self.namespace_id, self.tenant)


@dataclass(frozen=True, slots=True)
class Instance:
    """Checked installation: database, stores by namespace, and folder of LOCAL files (None: unused)."""

    db: Database
    stores: Callable[[str], Stores]
    language: str
    local_files: FileStore | None = None

    def list_places(self) -> list[Place]:
        """Return the partitions of existing namespaces."""
        # Garbage collection clears the others.
        return self.db.fetch(
            Place,
            """
            select p.id as partition_id, n.organization_id, p.namespace_id, p.tenant from partitions p
            join namespaces n on n.id = p.namespace_id where n.deleted_at is null order by p.id
            """,
            {},
        )


# An unfinished job run writes this generation; the check skips it.
IS_BEING_WRITTEN: LiteralString = (
    "exists (select from job_runs b where b.number = {generation} and b.finished_at is null)"
)
# The document is part of an unfinished job run.
IS_AT_WORK: LiteralString = """
    exists (select from run_documents m join job_runs b on b.id = m.job_run_id
            where m.document_id = {document} and b.finished_at is null)
"""
# Garbage collection already has a sweep for the generation.
IS_SWEPT: LiteralString = """
    exists (select from sweeps s where s.document_id = {document}
            and (s.kind = 'document' or s.kind = 'generation' and s.generation = {generation}))
"""
# Error of an unrepairable document; later checks skip it.
UNREPAIRABLE_ERROR = (
    "Parts of this document are missing from the stores, and cannot be made from what is left: ingest it again."
)


def split_batches(rows: Sequence[Any], size: int = 1000) -> Iterator[list[Any]]:
    """Yield lists of at most `size` rows."""
    for start in range(0, len(rows), size):
        yield list(rows[start : start + size])


def make_finding(kind: str, row: Mapping[str, Any], detail: str | None = None) -> Finding:
    """Return the finding of a row. `detail` defaults to the row's column."""
    return Finding(kind, row.get("namespace_id"), row.get("document_id"), detail or str(row.get("detail")), dict(row))
