"""Frame of an import: a hidden namespace, a lease on it, and inserts into tables."""

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

PAGE = 500
"""Rows in memory at once."""


@dataclass(slots=True)
class Target:
    """Target of an import: `config` of the new namespace, and its stores, which are opened after it exists."""

    db: Database
    ring: KeyRing
    config: NamespaceConfig
    files: Callable[[], FileStore]
    vectors: Callable[[int], VectorStore]
    """By dimensions."""
    language: str
    lacks: tuple[str, ...] = ()
    partitions: dict[int, tuple[int, str]] = field(default_factory=dict)
    """Of the archive's number: the one here, and the tenant."""


class Frame:
    """Makes the namespace of `target` hidden, keeps it from garbage collection, and shows it in the end."""

    def __init__(self, target: Target, archive: Archive) -> None:
        self._to = target
        self._db = target.db
        self._archive = archive
        self._renewed = 0.0

    def begin(self) -> None:
        """The namespace and its partitions, hidden, with the sweep that clears them should this end."""
        tenants: dict[int, str] = {}
        for record in self._archive.records("partitions"):
            number, tenant = record.get("id"), record.get("tenant")
            if not isinstance(number, int) or not isinstance(tenant, str) or not TENANT.fullmatch(tenant):
                raise ArchiveError("The export is damaged: it has a tenant that cannot be.")
            tenants[number] = tenant
        if len(set(tenants.values())) != len(tenants):
            raise ArchiveError("The export is damaged: it has a tenant twice.")
        config = self._to.config
        with self._db.transaction() as connection:
            connection.execute(namespaces.INSERT, namespaces.row_values(self._to.ring, config))
            queries.hide_namespace(connection, config.id)
            for number, tenant in tenants.items():
                self._to.partitions[number] = (queries.insert_partition(connection, config.id, tenant), tenant)
            queries.insert_leases(connection, self._here())

    def give_up(self) -> None:
        """Have garbage collection clear what is there, now."""
        try:
            queries.end_leases(self._db, self._here())
        except psycopg.Error:
            return  # its time comes by itself

    def _here(self) -> list[int]:
        return [number for number, _ in self._to.partitions.values()]

    def _partition(self, record: Record) -> int:
        return self._to.partitions[record["partition_id"]][0]

    def _renew(self) -> None:
        """Say that the import lives; ArchiveError if garbage collection has begun to clear it."""
        if time.monotonic() - self._renewed < 10:
            return
        if len(queries.renew_leases(self._db, self._here())) < len(self._to.partitions):
            raise ArchiveError("The import stood still for too long, and was cleared away: begin it again.")
        self._renewed = time.monotonic()

    def _pages(self, table: str) -> Iterator[list[Record]]:
        for page in split_pages(self._archive.records(table), PAGE):
            self._renew()
            yield page

    def _show(self) -> None:
        """The one moment in which the namespace appears."""
        with self._db.transaction() as connection:
            leases = queries.renew_leases(connection, self._here())
            if len(leases) < len(self._to.partitions):
                raise ArchiveError("The import stood still for too long, and was cleared away: begin it again.")
            config = self._to.config
            queries.show_namespace(connection, config.id, config.organization_id, self._here(), leases)

    def _insert(self, table: str, records: list[Record]) -> None:
        with self._db.transaction() as connection:
            queries.insert_records(connection, table, records)


T = TypeVar("T")

DOCUMENT = re.compile(r"doc_[0-9A-Za-z]{1,60}")
CONNECTION = re.compile(r"conn_[0-9A-Za-z]{1,60}")
SOURCE = re.compile(r"[A-Z_]{1,40}")
TENANT = re.compile(r"[A-Za-z0-9_\-]{0,64}")
OF_DOCUMENT = re.compile(r"(?P<document>doc_[0-9A-Za-z]+)/\d+/(?P<rest>.+)")


@dataclass(slots=True)
class Job:
    """A job of the archive as it is here, with its one run."""

    id: str
    partition: int
    source: str
    run: str = ""
    number: int = 0


@dataclass(slots=True)
class Document:
    """A document of the archive as it is here."""

    id: str
    partition: int
    generation: int
    run: str
    visible: bool
    status: str


def final_status(said: str, *, visible: bool) -> str:
    """Return the final status of an imported document: an import leaves nothing in progress."""
    ended = {DocumentStatus.SUCCESS.value, DocumentStatus.FAILED.value, DocumentStatus.CANCELLED.value}
    if visible:
        return said if said in ended else DocumentStatus.SUCCESS.value
    return said if said in ended - {DocumentStatus.SUCCESS.value} else DocumentStatus.FAILED.value


def vector_text(values: bytes) -> str:
    halves = struct.unpack(f">{(len(values) - 4) // 2}e", values[4:])
    return "[" + ",".join(map(repr, halves)) + "]"


def split_pages(rows: Iterable[T], size: int) -> Iterator[list[T]]:
    page: list[T] = []
    for row in rows:
        page.append(row)
        if len(page) == size:
            yield page
            page = []
    if page:
        yield page


_ID = re.compile(r"[a-z]{1,10}_[0-9A-Za-z]{1,60}")
_PARTITIONS = "partitions"


@dataclass(frozen=True, slots=True)
class Carried:
    """Import of one table.

    refers: columns that name a partition, or a row of an earlier table.
    new_id: returns an id for a record, if records have ids; `table`: the table of these ids.
    documents: JSON columns that contain ids of documents.
    """

    refers: Mapping[str, str]
    new_id: Callable[[], str] | None = None
    table: LiteralString = ""
    documents: tuple[str, ...] = ()


CARRIED: Mapping[str, Carried] = {
    "evaluations": Carried({"partition_id": _PARTITIONS}, new_id=ids.evaluation_id, table="evaluations"),
    "evaluation_questions": Carried({"evaluation_id": "evaluations"}, documents=("relevant", "filter")),
    "evaluation_runs": Carried({"evaluation_id": "evaluations"}, new_id=ids.evaluation_run_id, table="evaluation_runs"),
    "access_groups": Carried({"partition_id": _PARTITIONS}),
    "group_members": Carried({"partition_id": _PARTITIONS}),
    "directory_resources": Carried({"partition_id": _PARTITIONS}),
}
"""By table, in the order in which they are imported."""


class Carrying(Frame):
    """Writes them."""

    def _carry(self, documents: Mapping[str, str], *, renamed: bool) -> None:
        """Every row of every one. `documents`: their ids here by those of the archive."""
        new_ids: dict[str, dict[str, str]] = {}
        for table, carried in CARRIED.items():
            new_ids[table] = {}
            for page in self._pages(table):
                records = [record for record in page if record.get("finished_at", "") is not None]
                if carried.new_id is not None:
                    new_ids[table] |= self._names_of(carried, carried.new_id, records, renamed=renamed)
                self._insert(table, [self._carried(table, record, new_ids, documents) for record in records])

    def _names_of(
        self, carried: Carried, new_id: Callable[[], str], records: list[Record], *, renamed: bool
    ) -> dict[str, str]:
        archived_ids = [record["id"] for record in records]
        if not all(isinstance(name, str) and _ID.fullmatch(name) for name in archived_ids):
            raise ArchiveError("The export is damaged: a row has an id that cannot be.")
        in_use = queries.has_any(self._db, carried.table, archived_ids)
        return {name: new_id() if renamed or in_use else name for name in archived_ids}

    def _carried(
        self, table: str, record: Record, known: Mapping[str, Mapping[str, str]], documents: Mapping[str, str]
    ) -> Record:
        carried = CARRIED[table]
        values = dict(record)
        for column, target in carried.refers.items():
            values[column] = self._partition(record) if target == _PARTITIONS else known[target][record[column]]
        if carried.new_id is not None:
            values["id"] = known[table][record["id"]]
        return values | {column: _renamed(record[column], documents) for column in carried.documents}


def _renamed(value: Any, documents: Mapping[str, str]) -> Any:
    """Return a copy of the JSON value with the new ids of documents."""
    match value:
        case str():
            return documents.get(value, value)
        case list():
            return [_renamed(item, documents) for item in value]
        case dict():
            return {key: _renamed(item, documents) for key, item in value.items()}
        case _:
            return value
