"""Frame of an import: hidden namespace, lease against garbage collection, inserts into tables."""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, LiteralString, TypeVar

import psycopg

from retrieval import ids
from retrieval.database.database import Database
from retrieval.maintenance.moving import queries
from retrieval.maintenance.moving.archive import Archive, ArchiveError, Record
from retrieval.namespaces import namespaces
from retrieval.namespaces.namespaces import NamespaceConfig
from retrieval.ports import FileStore, VectorStore
from retrieval.security.secrets import KeyRing
from retrieval.statuses import DocumentStatus

# In memory at once.
PAGE_ROWS = 500
LEASE_RENEWAL_SECONDS = 10


@dataclass(slots=True)
class ImportTarget:
    """Target of an import: configuration of the new namespace, and stores, opened after the creation."""

    db: Database
    ring: KeyRing
    config: NamespaceConfig
    files: Callable[[], FileStore]
    # By dimensions.
    vectors: Callable[[int], VectorStore]
    language: str
    lacks: tuple[str, ...] = ()
    # New partition and tenant by archived partition.
    partitions: dict[int, tuple[int, str]] = field(default_factory=dict)


class ImportFrame:
    """Hidden namespace of an import, protected by leases until the last step."""

    def __init__(self, target: ImportTarget, archive: Archive) -> None:
        self._target = target
        self._db = target.db
        self._archive = archive
        self._renewed = 0.0

    def begin(self) -> None:
        """Create the hidden namespace and its partitions, with the sweep for an interrupted import."""
        tenants: dict[int, str] = {}
        for record in self._archive.iterate_records("partitions"):
            number, tenant = record.get("id"), record.get("tenant")
            if not isinstance(number, int) or not isinstance(tenant, str) or not TENANT_PATTERN.fullmatch(tenant):
                raise ArchiveError("The export is damaged: it has an invalid tenant.")
            tenants[number] = tenant
        if len(set(tenants.values())) != len(tenants):
            raise ArchiveError("The export is damaged: it has a tenant twice.")
        config = self._target.config
        with self._db.transaction() as connection:
            connection.execute(namespaces.INSERT_NAMESPACE, namespaces.row_values(self._target.ring, config))
            queries.hide_namespace(connection, config.id)
            for number, tenant in tenants.items():
                self._target.partitions[number] = (queries.insert_partition(connection, config.id, tenant), tenant)
            queries.insert_leases(connection, self._list_partitions())

    def abort(self) -> None:
        """Make garbage collection clear the namespace now."""
        try:
            queries.end_leases(self._db, self._list_partitions())
        except psycopg.Error:
            return  # the lease expires by itself

    def _list_partitions(self) -> list[int]:
        return [number for number, _ in self._target.partitions.values()]

    def _partition_of(self, record: Record) -> int:
        return self._target.partitions[record["partition_id"]][0]

    def _renew_lease(self) -> None:
        """Renew a due lease; ArchiveError after garbage collection began."""
        if time.monotonic() - self._renewed < LEASE_RENEWAL_SECONDS:
            return
        self._check_leases(queries.renew_leases(self._db, self._list_partitions()))
        self._renewed = time.monotonic()

    def _check_leases(self, leases: list[int]) -> None:
        if len(leases) < len(self._target.partitions):
            raise ArchiveError("The import stopped for too long, and its namespace was cleared: start it again.")

    def _read_pages(self, table: str) -> Iterator[list[Record]]:
        for page in split_pages(self._archive.iterate_records(table), PAGE_ROWS):
            self._renew_lease()
            yield page

    def _show_namespace(self) -> None:
        """Make the namespace visible, in one transaction."""
        with self._db.transaction() as connection:
            leases = queries.renew_leases(connection, self._list_partitions())
            self._check_leases(leases)
            config = self._target.config
            queries.show_namespace(connection, config.id, config.organization_id, self._list_partitions(), leases)

    def _insert(self, table: str, records: list[Record]) -> None:
        with self._db.transaction() as connection:
            queries.insert_records(connection, table, records)


RowT = TypeVar("RowT")

DOCUMENT_ID_PATTERN = re.compile(r"doc_[0-9A-Za-z]{1,60}")
CONNECTION_ID_PATTERN = re.compile(r"conn_[0-9A-Za-z]{1,60}")
SOURCE_PATTERN = re.compile(r"[A-Z_]{1,40}")
TENANT_PATTERN = re.compile(r"[A-Za-z0-9_\-]{0,64}")
DOCUMENT_FILE_PATTERN = re.compile(r"(?P<document>doc_[0-9A-Za-z]+)/\d+/(?P<rest>.+)")


@dataclass(slots=True)
class ImportedJob:
    """New job for an archived job, with a single run."""

    id: str
    partition: int
    source: str
    run: str = ""
    number: int = 0


@dataclass(slots=True)
class ImportedDocument:
    """New document of an archived one."""

    id: str
    partition: int
    generation: int
    run: str
    visible: bool
    status: str


def final_status(archived: str, *, visible: bool) -> str:
    """Return the final status of an imported document."""
    # The archived status may be unfinished.
    ended = {DocumentStatus.SUCCESS.value, DocumentStatus.FAILED.value, DocumentStatus.CANCELLED.value}
    if visible:
        return archived if archived in ended else DocumentStatus.SUCCESS.value
    return archived if archived in ended - {DocumentStatus.SUCCESS.value} else DocumentStatus.FAILED.value


def vector_text(values: bytes) -> str:
    """Return a binary halfvec as PostgreSQL's text."""
    halves = struct.unpack(f">{(len(values) - 4) // 2}e", values[4:])
    return "[" + ",".join(map(repr, halves)) + "]"


def split_pages(rows: Iterable[RowT], size: int) -> Iterator[list[RowT]]:
    """Yield lists of at most `size` rows."""
    page: list[RowT] = []
    for row in rows:
        page.append(row)
        if len(page) == size:
            yield page
            page = []
    if page:
        yield page


_ID_PATTERN = re.compile(r"[a-z]{1,10}_[0-9A-Za-z]{1,60}")
_PARTITIONS_TABLE = "partitions"


@dataclass(frozen=True, slots=True)
class TableImport:
    """Import of a table with new ids. `references`: columns with a partition or row of an earlier table; `documents`:
    JSON columns with document ids."""

    references: Mapping[str, str]
    new_id: Callable[[], str] | None = None
    table: LiteralString = ""
    documents: tuple[str, ...] = ()


# In the order of import.
TABLE_IMPORTS: Mapping[str, TableImport] = {
    "evaluations": TableImport({"partition_id": _PARTITIONS_TABLE}, new_id=ids.evaluation_id, table="evaluations"),
    "evaluation_questions": TableImport({"evaluation_id": "evaluations"}, documents=("relevant", "filter")),
    "evaluation_runs": TableImport(
        {"evaluation_id": "evaluations"}, new_id=ids.evaluation_run_id, table="evaluation_runs"
    ),
    "access_groups": TableImport({"partition_id": _PARTITIONS_TABLE}),
    "group_members": TableImport({"partition_id": _PARTITIONS_TABLE}),
    "directory_resources": TableImport({"partition_id": _PARTITIONS_TABLE}),
}


class TableImporter(ImportFrame):
    """Import of the tables of `TABLE_IMPORTS`."""

    def _import_tables(self, documents: Mapping[str, str], *, renamed: bool) -> None:
        """Import every row. `documents`: new document id by archived id."""
        new_ids: dict[str, dict[str, str]] = {}
        for table, rule in TABLE_IMPORTS.items():
            new_ids[table] = {}
            for page in self._read_pages(table):
                records = [record for record in page if record.get("finished_at", "") is not None]
                if rule.new_id is not None:
                    new_ids[table] |= self._choose_ids(rule, rule.new_id, records, renamed=renamed)
                self._insert(table, [self._convert(table, record, new_ids, documents) for record in records])

    def _choose_ids(
        self, rule: TableImport, new_id: Callable[[], str], records: list[Record], *, renamed: bool
    ) -> dict[str, str]:
        archived_ids = [record["id"] for record in records]
        if not all(isinstance(name, str) and _ID_PATTERN.fullmatch(name) for name in archived_ids):
            raise ArchiveError("The export is damaged: a row has an invalid id.")
        in_use = queries.has_any(self._db, rule.table, archived_ids)
        return {name: new_id() if renamed or in_use else name for name in archived_ids}

    def _convert(
        self, table: str, record: Record, new_ids: Mapping[str, Mapping[str, str]], documents: Mapping[str, str]
    ) -> Record:
        rule = TABLE_IMPORTS[table]
        values = dict(record)
        for column, target in rule.references.items():
            values[column] = (
                self._partition_of(record) if target == _PARTITIONS_TABLE else new_ids[target][record[column]]
            )
        if rule.new_id is not None:
            values["id"] = new_ids[table][record["id"]]
        return values | {column: _replace_ids(record[column], documents) for column in rule.documents}


def _replace_ids(value: Any, documents: Mapping[str, str]) -> Any:
    """Return a copy of the JSON value with new document ids."""
    match value:
        case str():
            return documents.get(value, value)
        case list():
            return [_replace_ids(item, documents) for item in value]
        case dict():
            return {key: _replace_ids(item, documents) for key, item in value.items()}
        case _:
            return value
