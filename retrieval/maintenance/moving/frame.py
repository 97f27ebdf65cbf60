"""Frame of an import: a hidden namespace, a lease on it, and inserts into tables."""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, LiteralString, TypeVar

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from retrieval import ids
from retrieval.database.database import Database
from retrieval.maintenance.moving.archive import Archive, ArchiveError
from retrieval.namespaces import namespaces
from retrieval.namespaces.namespaces import NamespaceConfig
from retrieval.ports import FileStore, VectorStore
from retrieval.security.secrets import KeyRing
from retrieval.statuses import DocumentStatus

LEASE_MINUTES = 15
"""For how long an import may be silent before garbage collection takes what it has made."""
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
        for row in self._archive.rows("partitions"):
            number, tenant = row.get("id"), row.get("tenant")
            if not isinstance(number, int) or not isinstance(tenant, str) or not TENANT.fullmatch(tenant):
                raise ArchiveError("The export is damaged: it has a tenant that cannot be.")
            tenants[number] = tenant
        if len(set(tenants.values())) != len(tenants):
            raise ArchiveError("The export is damaged: it has a tenant twice.")
        config = self._to.config
        with self._db.transaction() as connection:
            connection.execute(namespaces.INSERT, namespaces.row_values(self._to.ring, config))
            connection.execute("update namespaces set deleted_at = now() where id = %(id)s", {"id": config.id})
            for number, tenant in tenants.items():
                partition = connection.execute(
                    "insert into partitions (namespace_id, tenant) values (%(id)s, %(tenant)s) returning id",
                    {"id": config.id, "tenant": tenant},
                ).fetchone()
                if partition is None:
                    raise RuntimeError("insert … returning gave no row")
                self._to.partitions[number] = (partition["id"], tenant)
            connection.execute(
                "insert into sweeps (partition_id, kind, due_at) select p, 'partition',"
                " now() + make_interval(mins => %(minutes)s) from unnest(%(partitions)s::int[]) p",
                {"minutes": LEASE_MINUTES, "partitions": self._here()},
            )

    def give_up(self) -> None:
        """Have garbage collection clear what is there, now."""
        try:
            self._db.rows(
                "update sweeps set due_at = now() where partition_id = any(%(p)s) and kind = 'partition'",
                {"p": self._here()},
            )
        except psycopg.Error:
            return  # its time comes by itself

    def _here(self) -> list[int]:
        return [number for number, _ in self._to.partitions.values()]

    def _partition(self, row: Mapping[str, Any]) -> int:
        return self._to.partitions[row["partition_id"]][0]

    def _renew(self) -> None:
        """Say that the import lives; ArchiveError if garbage collection has begun to clear it."""
        if time.monotonic() - self._renewed < 10:
            return
        leases = self._db.rows(RENEW, {"minutes": LEASE_MINUTES, "partitions": self._here()})
        if len(leases) < len(self._to.partitions):
            raise ArchiveError("The import stood still for too long, and was cleared away: begin it again.")
        self._renewed = time.monotonic()

    def _pages(self, table: str) -> Iterator[list[dict[str, Any]]]:
        for page in split_pages(self._archive.rows(table), PAGE):
            self._renew()
            yield page

    def _show(self) -> None:
        """The one moment in which the namespace appears."""
        with self._db.transaction() as connection:
            leases = connection.execute(RENEW, {"minutes": LEASE_MINUTES, "partitions": self._here()}).fetchall()
            if len(leases) < len(self._to.partitions):
                raise ArchiveError("The import stood still for too long, and was cleared away: begin it again.")
            connection.execute("delete from sweeps where id = any(%(ids)s)", {"ids": [row["id"] for row in leases]})
            connection.execute(SHOW, {"id": self._to.config.id})
            connection.execute(KNOWN, {"organization": self._to.config.organization_id, "partitions": self._here()})

    def _insert(self, table: str, rows: list[dict[str, Any]], returning: str = "") -> list[Any]:
        """Rows by the columns that they and the table have; numbers that the database gives are left to it."""
        if not rows:
            return []
        table_columns = self._db.rows(
            "select column_name as name from information_schema.columns where table_schema = current_schema()"
            " and table_name = %(table)s and is_identity = 'NO'",
            {"table": table},
        )
        columns = sql.SQL(", ").join(
            sql.Identifier(column["name"]) for column in table_columns if column["name"] in rows[0]
        )
        statement = sql.SQL(
            "insert into {table} ({columns}) select {columns} from jsonb_populate_recordset(null::{table}, %(rows)s)"
        ).format(table=sql.Identifier(table), columns=columns)
        if returning:
            statement += sql.SQL(" returning {}").format(sql.SQL(", ").join(map(sql.Identifier, returning.split(", "))))
        with self._db.transaction() as connection:
            cursor = connection.execute(statement, {"rows": Jsonb(rows)})
            return cursor.fetchall() if returning else []


T = TypeVar("T")

DOCUMENT = re.compile(r"doc_[0-9A-Za-z]{1,60}")
CONNECTION = re.compile(r"conn_[0-9A-Za-z]{1,60}")
SOURCE = re.compile(r"[A-Z_]{1,40}")
TENANT = re.compile(r"[A-Za-z0-9_\-]{0,64}")
OF_DOCUMENT = re.compile(r"(?P<document>doc_[0-9A-Za-z]+)/\d+/(?P<rest>.+)")

RENEW: LiteralString = (
    "update sweeps set due_at = now() + make_interval(mins => %(minutes)s)"
    " where partition_id = any(%(partitions)s) and kind = 'partition' returning id"
)
SHOW: LiteralString = "update namespaces set deleted_at = null, updated_at = now() where id = %(id)s"
KNOWN: LiteralString = """
    insert into tenants (organization_id, id)
    select %(organization)s, tenant from partitions where id = any(%(partitions)s) and tenant <> ''
    on conflict do nothing
"""
RUNS: LiteralString = """
    insert into job_runs (id, job_id, partition_id, source, status, created_at, started_at, finished_at)
    select w.run, w.job, w.partition, w.source, 'COMPLETED', j.created_at, now(), now()
    from unnest(%(runs)s::text[], %(jobs)s::text[], %(partitions)s::int[], %(sources)s::text[])
        with ordinality as w (run, job, partition, source, position)
    join jobs j on j.id = w.job order by w.position returning job_id, id, number
"""
EMBEDDED: LiteralString = """
    insert into embeddings (partition_id, key, values)
    select distinct on (c.partition_id, w.key) c.partition_id, w.key, w.value::halfvec
    from unnest(%(keys)s::bytea[], %(values)s::text[]) as w (key, value)
    join chunks c on c.partition_id = any(%(partitions)s) and c.embedding_key = w.key on conflict do nothing
"""
VECTORS: LiteralString = """
    select c.id, c.document_id, c.generation, c.index, e.values::text as values, d.document_type, d.source, d.metadata
    from chunks c join documents d on d.id = c.document_id
    left join embeddings e on e.partition_id = c.partition_id and e.key = c.embedding_key
    where c.partition_id = %(partition)s and c.id > %(after)s order by c.id limit %(page)s
"""


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
    """Export and import of one table.

    statement: its rows in the namespace, each as JSON named `row`, in the order in which they are inserted.
    refers: columns that name a partition, or a row of an earlier table.
    made: makes an id, where rows have one; `taken`: selects ids that exist already.
    documents: JSON columns that contain ids of documents.
    """

    statement: LiteralString
    refers: Mapping[str, str]
    made: Callable[[], str] | None = None
    taken: LiteralString | None = None
    documents: tuple[str, ...] = ()


_OF: LiteralString = " join partitions p on p.id = e.partition_id where p.namespace_id = %(namespace)s"
CARRIED: Mapping[str, Carried] = {
    "evaluations": Carried(
        "select to_jsonb(e) as row from evaluations e" + _OF + " order by e.created_at, e.id",
        {"partition_id": _PARTITIONS},
        made=ids.evaluation_id,
        taken="select 1 as yes from evaluations where id = any(%(ids)s) limit 1",
    ),
    "evaluation_questions": Carried(
        "select to_jsonb(q) as row from evaluation_questions q join evaluations e on e.id = q.evaluation_id"
        + _OF
        + " order by q.evaluation_id, q.number",
        {"evaluation_id": "evaluations"},
        documents=("relevant", "filter"),
    ),
    "evaluation_runs": Carried(
        "select to_jsonb(r) as row from evaluation_runs r join evaluations e on e.id = r.evaluation_id"
        + _OF
        + " and r.finished_at is not null order by r.created_at, r.id",
        {"evaluation_id": "evaluations"},
        made=ids.evaluation_run_id,
        taken="select 1 as yes from evaluation_runs where id = any(%(ids)s) limit 1",
    ),
    "access_groups": Carried(
        "select to_jsonb(e) as row from access_groups e" + _OF + " order by e.partition_id, e.id",
        {"partition_id": _PARTITIONS},
    ),
    "group_members": Carried(
        "select to_jsonb(e) as row from group_members e" + _OF + " order by e.partition_id, e.group_id, e.member",
        {"partition_id": _PARTITIONS},
    ),
}
"""By table, in the order in which they are imported. Runs that have not ended are left out."""


class Carrying(Frame):
    """Writes them."""

    def _carry(self, documents: Mapping[str, str], *, renamed: bool) -> None:
        """Every row of every one. `documents`: their ids here by those of the archive."""
        new_ids: dict[str, dict[str, str]] = {}
        for table, carried in CARRIED.items():
            new_ids[table] = {}
            for page in self._pages(table):
                rows = [row for row in page if row.get("finished_at", "") is not None]
                if carried.made is not None:
                    new_ids[table] |= self._names_of(carried, carried.made, rows, renamed=renamed)
                self._insert(table, [self._carried(table, row, new_ids, documents) for row in rows])

    def _names_of(
        self, one: Carried, made: Callable[[], str], rows: list[dict[str, Any]], *, renamed: bool
    ) -> dict[str, str]:
        archived_ids = [row["id"] for row in rows]
        if not all(isinstance(name, str) and _ID.fullmatch(name) for name in archived_ids):
            raise ArchiveError("The export is damaged: a row has an id that cannot be.")
        in_use = one.taken is not None and self._db.row(one.taken, {"ids": archived_ids}) is not None
        return {name: made() if renamed or in_use else name for name in archived_ids}

    def _carried(
        self, table: str, row: dict[str, Any], known: Mapping[str, Mapping[str, str]], documents: Mapping[str, str]
    ) -> dict[str, Any]:
        carried = CARRIED[table]
        values = dict(row)
        for column, target in carried.refers.items():
            values[column] = self._partition(row) if target == _PARTITIONS else known[target][row[column]]
        if carried.made is not None:
            values["id"] = known[table][row["id"]]
        return values | {column: _renamed(row[column], documents) for column in carried.documents}


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
