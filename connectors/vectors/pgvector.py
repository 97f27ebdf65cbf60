"""Vectors in the service's own PostgreSQL with pgvector: an exact scan while a scope is small, HNSW when it is not.

Dimensions differ by namespace, so the column has none and each large partition gets an index of its own: partial, on
the cast to its dimensions. PostgreSQL uses it only for a query that spells out the partition's number.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, LiteralString

import psycopg
from psycopg import Connection

from retrieval.access.reading import scope_statement, viewed_database
from retrieval.database.database import UNAVAILABLE_ERRORS, Database
from retrieval.database.half_vectors import HalfVector
from retrieval.database.sessions import INDEX_SCANS_ONLY, ThreadConnection
from retrieval.errors import Fatal, Retryable
from retrieval.filters import DocumentFilter
from retrieval.ports import Match, Scope, Vector
from retrieval.principals import Viewer

INDEX_FROM = 20_000
"""Rows of a partition from which an index is worth its upkeep; below it an exact scan is quick enough."""
EF_SEARCH = 120
"""Candidates that HNSW keeps at least; more if more are asked for."""
EF_MOST = 1_000
"""The highest ef_search that pgvector takes; beyond it the scan is exact."""
DIMENSIONS_MOST = 4_000
"""What pgvector can index as half precision."""
DROP_SECONDS, DROP_LOCK_SECONDS = 60.0, 5.0
_PART = 5_000
"""Ids that one statement deletes or reads."""
_COPY_HEAD, _COPY_END = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"

_PARTITION: LiteralString = """
    select p.id, exists (
        select from pg_index where indexrelid = to_regclass('vectors_near_' || p.id || '_' || %(dimensions)s::int)
                               and indisvalid
    ) as indexed
    from partitions p where p.namespace_id = %(namespace)s and p.tenant = %(tenant)s
"""
_MAKE: LiteralString = (
    "insert into partitions (namespace_id, tenant) values (%(namespace)s, %(tenant)s) on conflict do nothing"
)
_DELETE: LiteralString = "delete from vectors where partition_id = %(partition)s and id = any(%(ids)s)"
_IDS: LiteralString = """
    select id from vectors
    where partition_id = %(partition)s and id > %(after)s and id >= %(prefix)s and starts_with(id, %(prefix)s)
    order by id limit %(limit)s
"""
_MISFITS: LiteralString = """
    select id from vectors where partition_id = %(partition)s and vector_dims(values) <> %(dimensions)s
"""
_OF_DOCUMENTS: LiteralString = """
    and exists (select from documents d where d.id = v.document_id and d.partition_id = {partition}
                and d.deleted_at is null and """
"""Asked of each vector that the index yields, which ends with the last one that is wanted. As a join, which PostgreSQL
makes of it without `offset 0`, the index would be read to its end (`hnsw.max_scan_tuples`) and sorted."""
_AMONG_DOCUMENTS: LiteralString = """
    and v.document_id in (select d.id from documents d where d.partition_id = {partition}
                          and d.deleted_at is null and """
"""Where all vectors are compared: asked of each document once, with `offset 0`, and not of each of its vectors."""
_NAMED: LiteralString = "and v.document_id = any(%(named)s)"
"""Ids are compared with the vector's own: with the document's they would be sorted anew for each vector looked at."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition of the tables. `indexed`: it has an index of vectors with the store's dimensions."""

    id: int
    indexed: bool


class PgVectorStore:
    """The PGVECTOR store of one namespace."""

    labelled = False

    def __init__(self, db: Database, namespace_id: str, dimensions: int) -> None:
        self._db = db
        self._namespace = namespace_id
        self._dimensions = dimensions
        self._indexed: dict[str, int] = {}

    def upsert(self, scope: Scope, vectors: Sequence[Vector]) -> None:
        """Put vectors in, replacing by id, in one transaction; the last one of an id wins."""
        latest = {vector.id: vector for vector in vectors}
        with self._connection() as connection:
            partition = self._made(connection, scope)
            rows = b"".join(self._binary(partition, vector) for vector in latest.values())
            connection.execute(_DELETE, {"partition": partition, "ids": list(latest)})
            into = "copy vectors (partition_id, id, document_id, values) from stdin (format binary)"
            with connection.cursor().copy(into) as copy:
                copy.write(_COPY_HEAD + rows + _COPY_END)

    def query(
        self,
        scope: Scope,
        values: Sequence[float],
        top_k: int,
        document_filter: DocumentFilter | None = None,
        viewer: Viewer | None = None,
    ) -> list[Match]:
        """The nearest, best first; exact unless the partition has an index."""
        with _errors():
            partition, indexed = self._place(scope)
            if partition is None:
                return []
            params: dict[str, Any] = {"values": HalfVector(self._checked(values)), "top_k": top_k}
            same_plan = document_filter is None or not document_filter.narrows()
            if indexed and top_k <= EF_MOST:
                seen_alone = viewer is not None and same_plan
                settings = {"hnsw.ef_search": str(max(EF_SEARCH, top_k)), "hnsw.iterative_scan": "relaxed_order"}
                if seen_alone:
                    settings |= INDEX_SCANS_ONLY
                db = viewed_database(self._db, viewer) if seen_alone else self._db
                with db.tuned(settings, plan_once=same_plan) as connection:
                    rows = self._nearest(connection, partition, params, document_filter, viewer, exact=False)
                if len(rows) == top_k:
                    return rows
            with self._db.tuned(plan_once=same_plan and viewer is None) as connection:
                return self._nearest(connection, partition, params, document_filter, viewer, exact=True)

    def delete(self, scope: Scope, ids: Sequence[str]) -> None:
        """Remove by id; unknown ids are no error."""
        with self._connection() as connection:
            partition = self._found(connection, scope)
            for start in range(0, len(ids) if partition else 0, _PART):
                part = list(ids[start : start + _PART])
                connection.execute(_DELETE, {"partition": partition.id if partition else None, "ids": part})

    def ids(self, scope: Scope, prefix: str) -> Iterator[str]:
        """Every id that starts with `prefix`, in order, read in parts."""
        last_id, size = "", _PART
        while size == _PART:
            with self._connection() as connection:
                partition = self._found(connection, scope)
                params = {
                    "partition": partition and partition.id,
                    "after": last_id,
                    "prefix": prefix,
                    "limit": _PART,
                }
                names = connection.fetch(str, _IDS, params)
            yield from names
            size, last_id = len(names), names[-1] if names else last_id

    def list_misfits(self, scope: Scope) -> Iterator[str]:
        """Ids of vectors that searches leave out, since they have other dimensions."""
        with self._connection() as connection:
            partition = self._found(connection, scope)
            params = {"partition": partition and partition.id, "dimensions": self._dimensions}
            return iter(connection.fetch(str, _MISFITS, params))

    def list_unsettled(self, _scope: Scope, _ids: Sequence[str]) -> list[str]:
        """Return no ids: what is committed is visible."""
        return []

    def relabel(self, scope: Scope, document_id: str, ids: Sequence[str], labels: Mapping[str, Any]) -> None:
        """Queries join the documents themselves."""

    def check(self) -> None:
        """Fatal unless pgvector is there and can hold vectors of these dimensions."""
        if not 1 <= self._dimensions <= DIMENSIONS_MOST:
            raise Fatal(f"The embedded vector store holds vectors of 1 to {DIMENSIONS_MOST} dimensions.")
        with self._connection() as connection:
            connection.execute("select '[1]'::halfvec(1) <=> '[1]'::halfvec(1)")

    def drop(self, scope: Scope) -> None:
        """Remove everything of the scope, its index too, in parts: it may stop anywhere and begin again."""
        self.drop_index(scope)
        while part := list(islice(self.ids(scope, ""), _PART)):
            self.delete(scope, part)

    def maintain(self, scope: Scope, *, seconds: float) -> None:
        """Give a large partition its index."""
        self.ensure_index(scope, seconds=seconds)

    def ensure_index(self, scope: Scope, *, seconds: float = 0) -> bool:
        """Give a large partition its index, without holding up readers or writers; whether one was built.

        Takes about a minute for 100,000 vectors: for maintenance after big ingestions, never within a request.
        `seconds`: Retryable if it takes longer, and what was built of it is taken away; 0 for as long as it takes.
        """
        with self._connection() as connection:
            partition = self._found(connection, scope)
            if partition is None or partition.indexed or self._is_small(connection, partition.id):
                return False
        with _errors(), psycopg.connect(self._db.url, autocommit=True) as connection:
            _limit(connection, statement=seconds)
            try:
                return self._build(connection, int(partition.id))
            except psycopg.errors.QueryCanceled:
                with suppress(psycopg.Error):
                    self._drop(connection, int(partition.id))
                raise

    def drop_index(self, scope: Scope) -> None:
        """Take the partition's index away, whatever became of it."""
        with self._connection() as connection:
            partition = self._found(connection, scope)
            self._indexed.pop(scope.tenant, None)
        if partition is not None:
            with _errors(), psycopg.connect(self._db.url, autocommit=True) as connection:
                self._drop(connection, int(partition.id))

    def _drop(self, connection: Connection[Any], partition: int) -> None:
        """An index that another partition gets holds the table's lock for as long as it takes: not waited for."""
        _limit(connection, statement=DROP_SECONDS, lock=DROP_LOCK_SECONDS)
        connection.execute(f"drop index concurrently if exists {self._index(partition)}".encode())

    def _build(self, connection: Connection[Any], partition: int) -> bool:
        lock_row = connection.execute("select pg_try_advisory_lock(1986356071, %s)", [partition]).fetchone()
        if not lock_row or not lock_row[0]:
            return False
        name = self._index(partition)
        connection.execute("set maintenance_work_mem = '256MB'")
        connection.execute(f"drop index concurrently if exists {name}".encode())
        connection.execute(
            f"create index concurrently {name} on vectors"
            f" using hnsw ((values::halfvec({self._dimensions})) halfvec_cosine_ops)"
            f" where partition_id = {partition} and vector_dims(values) = {self._dimensions}".encode()
        )
        return True

    def _is_small(self, connection: ThreadConnection, partition: int) -> bool:
        statement: LiteralString = "select 1 from vectors where partition_id = %(partition)s offset %(rows)s limit 1"
        return not connection.fetch(int, statement, {"partition": partition, "rows": INDEX_FROM - 1})

    def _index(self, partition: int) -> str:
        return f"vectors_near_{int(partition)}_{int(self._dimensions)}"

    def _nearest(
        self,
        connection: ThreadConnection,
        partition: int,
        params: dict[str, Any],
        document_filter: DocumentFilter | None,
        viewer: Viewer | None,
        *,
        exact: bool,
    ) -> list[Match]:
        """Query in the form the index serves, or in one that it cannot; ties are in the order of ids.

        The connection is the viewer's where the viewer is the only filter, and the index is used.
        """
        condition: LiteralString = ""
        filtering: dict[str, Any] = {}
        limit: LiteralString = "%(top_k)s"
        once = False
        narrows = document_filter is not None and document_filter.narrows()
        if viewer is not None and not narrows and not exact:
            limit, once = str(int(params["top_k"])), True  # the planner chooses the index by the number asked for
        elif viewer is not None or narrows:
            document_filter = document_filter or DocumentFilter()
            fragment, filtering = replace(document_filter, document_ids=()).sql("d")
            of_documents = _AMONG_DOCUMENTS if exact else _OF_DOCUMENTS
            condition = f"{of_documents.format(partition=partition)}{fragment} offset 0)"
            if document_filter.document_ids:
                condition = f"{_NAMED}{condition}"
                filtering = {**filtering, "named": list(document_filter.document_ids)}
        size = int(self._dimensions)
        distance = f"(v.values::halfvec({size}) <=> %(values)s::halfvec({size}))"
        order = f"{distance} + 0, v.id" if exact else distance
        statement = f"""
            select id, 1 - coalesce(nullif(distance, 'NaN'), 1) as score from (
                select v.id, {distance} as distance from vectors v
                where v.partition_id = {int(partition)} and vector_dims(v.values) = {size} {condition}
                order by {order} limit {limit}
            ) nearest order by 2 desc, 1
        """
        if once:
            return connection.fetch(Match, statement, params, prepare=True)
        scoped = scope_statement(statement, {**params, **filtering}, viewer)
        return connection.fetch(Match, scoped.text, dict(scoped.params))

    def _binary(self, partition: int, vector: Vector) -> bytes:
        """A row in the binary format of COPY; a halfvec is its size, two empty bytes and IEEE half floats."""
        values = self._checked(vector.values)
        try:
            halves = struct.pack(f">hh{len(values)}e", len(values), 0, *values)
        except (OverflowError, struct.error) as error:
            raise Fatal("An embedding has a value that half precision cannot hold.") from error
        names = b"".join(
            struct.pack(">i", len(name)) + name for name in (vector.id.encode(), vector.document_id.encode())
        )
        return struct.pack(">hii", 4, 4, partition) + names + struct.pack(">i", len(halves)) + halves

    def _checked(self, values: Sequence[float]) -> list[float]:
        numbers: list[float] = values.tolist() if hasattr(values, "tolist") else list(values)
        if len(numbers) != self._dimensions:
            raise Fatal(f"The embedding has {len(numbers)} dimensions; this namespace's have {self._dimensions}.")
        return numbers

    def _place(self, scope: Scope) -> tuple[int | None, bool]:
        """The partition and whether it has an index. One that has is remembered: neither ever changes back unasked."""
        if scope.tenant in self._indexed and scope.namespace == self._namespace:
            return self._indexed[scope.tenant], True
        with self._db.tuned() as connection:
            partition = self._found(connection, scope)
        if partition is None:
            return None, False
        if partition.indexed:
            self._indexed[scope.tenant] = int(partition.id)
        return int(partition.id), bool(partition.indexed)

    def _found(self, connection: ThreadConnection, scope: Scope) -> Partition | None:
        return connection.fetch_one(Partition, _PARTITION, dict(self._params(scope)))

    def _made(self, connection: ThreadConnection, scope: Scope) -> int:
        partition = self._found(connection, scope)
        if partition is None:
            connection.execute(_MAKE, self._params(scope))
            partition = self._found(connection, scope)
        if partition is None:
            raise Retryable("The scope is being created.")
        return int(partition.id)

    def _params(self, scope: Scope) -> dict[str, Any]:
        if scope.namespace != self._namespace:
            raise Fatal("This vector store belongs to another namespace.")
        return {"namespace": scope.namespace, "tenant": scope.tenant, "dimensions": self._dimensions}

    @contextmanager
    def _connection(self) -> Iterator[ThreadConnection]:
        with _errors(), self._db.transaction() as connection:
            yield connection


@contextmanager
def _errors() -> Iterator[None]:
    """PostgreSQL's troubles in the words of the ports."""
    try:
        yield
    except (*UNAVAILABLE_ERRORS, psycopg.errors.UniqueViolation) as error:
        raise Retryable("The vector store cannot be reached or is busy.") from error
    except psycopg.Error as error:
        raise Fatal("The vector store refused the request.") from error


def _limit(connection: Connection[Any], *, statement: float, lock: float = 0) -> None:
    connection.execute("select set_config('statement_timeout', %s, false)", [str(round(statement * 1000))])
    connection.execute("select set_config('lock_timeout', %s, false)", [str(round(lock * 1000))])


def make(_config: Mapping[str, Any], db: Database, namespace_id: str, dimensions: int) -> PgVectorStore:
    """The service's own database as vector store."""
    return PgVectorStore(db, namespace_id, dimensions)
