"""Vector store in the service's PostgreSQL with pgvector: exact scans of small scopes, HNSW for large ones."""

# Dimensions differ by namespace: the column has none, and each large partition has a partial index on the cast to its
# dimensions. PostgreSQL uses this index only for a query with the partition's number as a literal.

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

# Below this number of rows in a partition, an exact scan is fast enough.
INDEX_MIN_ROWS = 20_000
# Candidates of HNSW; at least top_k.
EF_SEARCH = 120
# pgvector's limit of ef_search; a larger top_k is searched exactly.
MAX_EF_SEARCH = 1_000
# pgvector's limit for indexes of half precision.
MAX_DIMENSIONS = 4_000
DROP_SECONDS, DROP_LOCK_SECONDS = 60.0, 5.0
# Ids of one statement.
_ID_BATCH_SIZE = 5_000
_COPY_HEAD, _COPY_END = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"

_SELECT_PARTITION: LiteralString = """
    select p.id, exists (
        select from pg_index where indexrelid = to_regclass('vectors_near_' || p.id || '_' || %(dimensions)s::int)
                               and indisvalid
    ) as indexed
    from partitions p where p.namespace_id = %(namespace)s and p.tenant = %(tenant)s
"""
_INSERT_PARTITION: LiteralString = (
    "insert into partitions (namespace_id, tenant) values (%(namespace)s, %(tenant)s) on conflict do nothing"
)
_DELETE_VECTORS: LiteralString = "delete from vectors where partition_id = %(partition)s and id = any(%(ids)s)"
_SELECT_IDS: LiteralString = """
    select id from vectors
    where partition_id = %(partition)s and id > %(after)s and id >= %(prefix)s and starts_with(id, %(prefix)s)
    order by id limit %(limit)s
"""
_SELECT_OTHER_DIMENSIONS: LiteralString = """
    select id from vectors where partition_id = %(partition)s and vector_dims(values) <> %(dimensions)s
"""
# Checked for each vector from the index, until top_k matched. Without `offset 0` PostgreSQL would turn the subquery
# into a join, read the index to the end (`hnsw.max_scan_tuples`) and sort.
_EACH_DOCUMENT: LiteralString = """
    and exists (select from documents d where d.id = v.document_id and d.partition_id = {partition}
                and d.deleted_at is null and """
# For exact scans: checked once per document, not per vector.
_AMONG_DOCUMENTS: LiteralString = """
    and v.document_id in (select d.id from documents d where d.partition_id = {partition}
                          and d.deleted_at is null and """
# Compares ids of vectors: ids of documents would be sorted again for each vector.
_DOCUMENT_IDS_FILTER: LiteralString = "and v.document_id = any(%(named)s)"


@dataclass(frozen=True, slots=True)
class Partition:
    """Partition of the tables; `indexed` by an index for the store's dimensions."""

    id: int
    indexed: bool


class PgVectorStore:
    """The PGVECTOR store of one namespace."""

    stores_labels = False

    def __init__(self, db: Database, namespace_id: str, dimensions: int) -> None:
        self._db = db
        self._namespace = namespace_id
        self._dimensions = dimensions
        self._indexed: dict[str, int] = {}

    def upsert(self, scope: Scope, vectors: Sequence[Vector]) -> None:
        """Insert or replace vectors by id in one transaction."""
        latest = {vector.id: vector for vector in vectors}
        with self._connection() as connection:
            partition = self._ensure_partition(connection, scope)
            rows = b"".join(self._binary(partition, vector) for vector in latest.values())
            connection.execute(_DELETE_VECTORS, {"partition": partition, "ids": list(latest)})
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
        """Return the nearest vectors, best first; exact without an index."""
        with _translated_errors():
            partition, indexed = self._find_partition(scope)
            if partition is None:
                return []
            params: dict[str, Any] = {"values": HalfVector(self._check_dimensions(values)), "top_k": top_k}
            excludes_documents = document_filter is not None and document_filter.can_exclude()
            if indexed and top_k <= MAX_EF_SEARCH:
                is_viewer_only = viewer is not None and not excludes_documents
                settings = {"hnsw.ef_search": str(max(EF_SEARCH, top_k)), "hnsw.iterative_scan": "relaxed_order"}
                if is_viewer_only:
                    settings |= INDEX_SCANS_ONLY
                db = viewed_database(self._db, viewer) if is_viewer_only else self._db
                with db.tuned(settings, plan_once=not excludes_documents) as connection:
                    rows = self._nearest(connection, partition, params, document_filter, viewer, exact=False)
                if len(rows) == top_k:
                    return rows
            with self._db.tuned(plan_once=not excludes_documents and viewer is None) as connection:
                return self._nearest(connection, partition, params, document_filter, viewer, exact=True)

    def delete(self, scope: Scope, ids: Sequence[str]) -> None:
        """Delete by id; ignore unknown ids."""
        with self._connection() as connection:
            partition = self._read_partition(connection, scope)
            for start in range(0, len(ids) if partition else 0, _ID_BATCH_SIZE):
                part = list(ids[start : start + _ID_BATCH_SIZE])
                connection.execute(_DELETE_VECTORS, {"partition": partition.id if partition else None, "ids": part})

    def ids(self, scope: Scope, prefix: str) -> Iterator[str]:
        """Yield ids with a prefix, in order, read in batches."""
        last_id, size = "", _ID_BATCH_SIZE
        while size == _ID_BATCH_SIZE:
            with self._connection() as connection:
                partition = self._read_partition(connection, scope)
                params = {
                    "partition": partition and partition.id,
                    "after": last_id,
                    "prefix": prefix,
                    "limit": _ID_BATCH_SIZE,
                }
                names = connection.fetch(str, _SELECT_IDS, params)
            yield from names
            size, last_id = len(names), names[-1] if names else last_id

    def list_other_dimensions(self, scope: Scope) -> Iterator[str]:
        """Yield ids of vectors with other dimensions, invisible to searches."""
        with self._connection() as connection:
            partition = self._read_partition(connection, scope)
            params = {"partition": partition and partition.id, "dimensions": self._dimensions}
            return iter(connection.fetch(str, _SELECT_OTHER_DIMENSIONS, params))

    def list_unsettled(self, _scope: Scope, _ids: Sequence[str]) -> list[str]:
        """Return nothing: committed vectors are visible."""
        return []

    def relabel(self, scope: Scope, document_id: str, ids: Sequence[str], labels: Mapping[str, Any]) -> None:
        """Do nothing: queries join the documents."""

    def check(self) -> None:
        """Fatal unless pgvector is installed and supports the dimensions."""
        if not 1 <= self._dimensions <= MAX_DIMENSIONS:
            raise Fatal(f"The embedded vector store holds vectors of 1 to {MAX_DIMENSIONS} dimensions.")
        with self._connection() as connection:
            connection.execute("select '[1]'::halfvec(1) <=> '[1]'::halfvec(1)")

    def drop(self, scope: Scope) -> None:
        """Delete all vectors of the scope and the index."""
        self.drop_index(scope)
        # In batches: a stopped call can be repeated.
        while part := list(islice(self.ids(scope, ""), _ID_BATCH_SIZE)):
            self.delete(scope, part)

    def maintain(self, scope: Scope, *, seconds: float) -> None:
        """Build the index of a large partition."""
        self.ensure_index(scope, seconds=seconds)

    def ensure_index(self, scope: Scope, *, seconds: float = 0) -> bool:
        """Build the index of a large partition without blocking writers; True if built. Retryable after `seconds` (0:
        no limit), without a partial index."""
        # About a minute per 100,000 vectors: never within a request.
        with self._connection() as connection:
            partition = self._read_partition(connection, scope)
            if partition is None or partition.indexed or self._is_small(connection, partition.id):
                return False
        with _translated_errors(), psycopg.connect(self._db.url, autocommit=True) as connection:
            _set_timeouts(connection, statement=seconds)
            try:
                return self._build(connection, int(partition.id))
            except psycopg.errors.QueryCanceled:
                with suppress(psycopg.Error):
                    self._drop(connection, int(partition.id))
                raise

    def drop_index(self, scope: Scope) -> None:
        """Drop the partition's index, valid or not."""
        with self._connection() as connection:
            partition = self._read_partition(connection, scope)
            self._indexed.pop(scope.tenant, None)
        if partition is not None:
            with _translated_errors(), psycopg.connect(self._db.url, autocommit=True) as connection:
                self._drop(connection, int(partition.id))

    def _drop(self, connection: Connection[Any], partition: int) -> None:
        # The build of another partition's index locks the table for long: a short timeout.
        _set_timeouts(connection, statement=DROP_SECONDS, lock=DROP_LOCK_SECONDS)
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
        return not connection.fetch(int, statement, {"partition": partition, "rows": INDEX_MIN_ROWS - 1})

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
        """Return the nearest vectors by the index or by an exact scan, ties in order of ids."""
        # The connection has the viewer's rights if the viewer is the only filter of an indexed query.
        condition: LiteralString = ""
        filtering: dict[str, Any] = {}
        limit: LiteralString = "%(top_k)s"
        is_prepared = False
        excludes_documents = document_filter is not None and document_filter.can_exclude()
        if viewer is not None and not excludes_documents and not exact:
            # The planner chooses the index by a literal limit.
            limit, is_prepared = str(int(params["top_k"])), True
        elif viewer is not None or excludes_documents:
            document_filter = document_filter or DocumentFilter()
            fragment, filtering = replace(document_filter, document_ids=()).sql("d")
            document_condition = _AMONG_DOCUMENTS if exact else _EACH_DOCUMENT
            condition = f"{document_condition.format(partition=partition)}{fragment} offset 0)"
            if document_filter.document_ids:
                condition = f"{_DOCUMENT_IDS_FILTER}{condition}"
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
        if is_prepared:
            return connection.fetch(Match, statement, params, prepare=True)
        scoped = scope_statement(statement, {**params, **filtering}, viewer)
        return connection.fetch(Match, scoped.text, dict(scoped.params))

    def _binary(self, partition: int, vector: Vector) -> bytes:
        """Return a row in COPY's binary format."""
        # A halfvec is the number of dimensions, two empty bytes and IEEE half floats.
        values = self._check_dimensions(vector.values)
        try:
            halves = struct.pack(f">hh{len(values)}e", len(values), 0, *values)
        except (OverflowError, struct.error) as error:
            raise Fatal("An embedding has a value that half precision cannot hold.") from error
        names = b"".join(
            struct.pack(">i", len(name)) + name for name in (vector.id.encode(), vector.document_id.encode())
        )
        return struct.pack(">hii", 4, 4, partition) + names + struct.pack(">i", len(halves)) + halves

    def _check_dimensions(self, values: Sequence[float]) -> list[float]:
        numbers: list[float] = values.tolist() if hasattr(values, "tolist") else list(values)
        if len(numbers) != self._dimensions:
            raise Fatal(f"The embedding has {len(numbers)} dimensions; this namespace's have {self._dimensions}.")
        return numbers

    def _find_partition(self, scope: Scope) -> tuple[int | None, bool]:
        """Return the id of the partition, and True if indexed; indexed ones are cached."""
        if scope.tenant in self._indexed and scope.namespace == self._namespace:
            return self._indexed[scope.tenant], True
        with self._db.tuned() as connection:
            partition = self._read_partition(connection, scope)
        if partition is None:
            return None, False
        if partition.indexed:
            self._indexed[scope.tenant] = int(partition.id)
        return int(partition.id), bool(partition.indexed)

    def _read_partition(self, connection: ThreadConnection, scope: Scope) -> Partition | None:
        return connection.fetch_one(Partition, _SELECT_PARTITION, dict(self._params(scope)))

    def _ensure_partition(self, connection: ThreadConnection, scope: Scope) -> int:
        partition = self._read_partition(connection, scope)
        if partition is None:
            connection.execute(_INSERT_PARTITION, self._params(scope))
            partition = self._read_partition(connection, scope)
        if partition is None:
            raise Retryable("The scope is being created.")
        return int(partition.id)

    def _params(self, scope: Scope) -> dict[str, Any]:
        if scope.namespace != self._namespace:
            raise Fatal("This vector store belongs to another namespace.")
        return {"namespace": scope.namespace, "tenant": scope.tenant, "dimensions": self._dimensions}

    @contextmanager
    def _connection(self) -> Iterator[ThreadConnection]:
        with _translated_errors(), self._db.transaction() as connection:
            yield connection


@contextmanager
def _translated_errors() -> Iterator[None]:
    """Convert PostgreSQL's errors to port errors."""
    try:
        yield
    except (*UNAVAILABLE_ERRORS, psycopg.errors.UniqueViolation) as error:
        raise Retryable("The vector store cannot be reached or is busy.") from error
    except psycopg.Error as error:
        raise Fatal("The vector store refused the request.") from error


def _set_timeouts(connection: Connection[Any], *, statement: float, lock: float = 0) -> None:
    connection.execute("select set_config('statement_timeout', %s, false)", [str(round(statement * 1000))])
    connection.execute("select set_config('lock_timeout', %s, false)", [str(round(lock * 1000))])


def make(_config: Mapping[str, Any], db: Database, namespace_id: str, dimensions: int) -> PgVectorStore:
    """Return the vector store in the service's database."""
    return PgVectorStore(db, namespace_id, dimensions)
