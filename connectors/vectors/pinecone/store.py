"""Vector store in an index of Pinecone, with filters on labels."""

# Labels (`retrieval.documents.vector_metadata`) hold a document's id, type, source, and marks of metadata values; with
# too many values, one mark for any value. Filters must pass every match: conditions beyond labels (orders, dates,
# substrings, missing fields) restrict nothing here, because the service's own tables filter again.
#
# The index stores only ids, vectors of length 1 and labels. With length 1 all metrics have the same order, and give
# the cosine: directly, as dot product, or as 1 - d/2 of the squared Euclidean distance d.

from __future__ import annotations

import contextlib
import importlib
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from connectors.http.responses import Cursors
from connectors.vectors.pinecone.client import IndexNotFound, PineconeClient, Throttled
from retrieval import settings
from retrieval.conditions.model import AllOf, AnyOf, Condition, Instant, Leaf, Not
from retrieval.documents import vector_metadata as labels
from retrieval.errors import Fatal, Retryable
from retrieval.ids import vector_prefix_of
from retrieval.network import fetch_guard
from retrieval.ports import Match, Scope, Vector
from retrieval.principals import Viewer

if TYPE_CHECKING:
    from retrieval.database.database import Database
    from retrieval.filters import DocumentFilter


Expression = dict[str, Any]

# Matches no vector. Pinecone refuses empty lists of values.
_NO_MATCH: Expression = {"document": {"$eq": ""}}
_EXACT_LABELS = {"type": "type", "source": "source"}


def build_expression(where: DocumentFilter | None) -> Expression | None:
    """Return the filter expression for the index; None without a filter."""
    if where is None:
        return None
    clauses: list[Expression] = []
    if where.document_ids:
        clauses.append({"document": {"$in": list(where.document_ids)}})
    if where.sources:
        clauses.append({"source": {"$in": list(where.sources)}})
    if where.types:
        by_connector = {"$and": [{"type": {"$eq": "URL"}}, {"source": {"$in": list(where.types)}}]}
        clauses.append({"$or": [{"type": {"$in": list(where.types)}}, by_connector]})
    clauses.extend(_mark_filter(key, values) for key, values in where.metadata_values())
    condition = None if where.where is None else convert_condition(where.where)
    if condition is not None:
        clauses.append(condition)
    return {"$and": clauses} if clauses else None


def convert_condition(condition: Condition, *, is_true: bool = True) -> Expression | None:
    """Return a filter for documents with a true (or false) condition; None without a restriction."""
    match condition:
        case Not(part):
            return convert_condition(part, is_true=not is_true)
        case AllOf(parts) | AnyOf(parts):
            clauses = [convert_condition(part, is_true=is_true) for part in parts]
            return _join_and(clauses) if isinstance(condition, AllOf) is is_true else _join_or(clauses)
        case Leaf():
            return _convert_leaf(condition, equal=is_true is (condition.op in {"eq", "in"}))


def _join_and(expressions: Sequence[Expression | None]) -> Expression | None:
    clauses = [clause for clause in expressions if clause is not None]
    return {"$and": clauses} if clauses else None


def _join_or(expressions: Sequence[Expression | None]) -> Expression | None:
    clauses = [clause for clause in expressions if clause is not None]
    return {"$or": clauses} if len(clauses) == len(expressions) else None


def _convert_leaf(leaf: Leaf, *, equal: bool) -> Expression | None:
    """Return a filter for (un)equal values of a field."""
    if leaf.op not in {"eq", "in", "ne", "nin"} or any(isinstance(value, Instant) for value in leaf.values):
        return None
    if not leaf.field.is_metadata:
        name = _EXACT_LABELS.get(leaf.field.name)
        texts = [value for value in leaf.values if isinstance(value, str)]
        if name is None:
            return None
        if not texts:
            return _NO_MATCH if equal else None
        return {name: {"$in" if equal else "$nin": texts}}
    return _mark_filter(leaf.field.name, leaf.values) if equal else None


def _mark_filter(key: str, values: Sequence[Any]) -> Expression:
    return {"marks": {"$in": [*dict.fromkeys(labels.metadata_mark(key, value) for value in values), labels.ANY_MARK]}}


# Per upsert; Pinecone accepts 1,000 vectors and 2 MB.
UPSERT_VECTORS = 200
UPSERT_BYTES = 1_800_000
# Largest size of a rounded number of a vector.
NUMBER_BYTES = 12
DELETE_IDS = 1_000
LIST_PAGE_SIZE = 100
MAX_TOP_K = 10_000
CONCURRENT_REQUESTS = 4
# Total wait of an upsert for a throttling index.
UPSERT_WAIT_SECONDS = 120.0
CHECK_SECONDS = 4.0

ResultT = TypeVar("ResultT")

# From the score of each metric to the cosine, for vectors of length 1.
_COSINE_BY_METRIC: Mapping[str, Callable[[float], float]] = {
    "cosine": lambda score: score,
    "dotproduct": lambda score: score,
    "euclidean": lambda score: 1 - score / 2,
}


class PineconeStore:
    """The PINECONE store of one namespace."""

    stores_labels = True

    def __init__(self, client: PineconeClient, namespace_id: str, dimensions: int) -> None:
        self._client = client
        self._namespace = namespace_id
        self._dimensions = dimensions
        self._metric = ""

    def upsert(self, scope: Scope, vectors: Sequence[Vector]) -> None:
        """Insert or replace vectors by id; skip vectors of length 0."""
        namespace = self._namespace_name(scope)
        latest = {vector.id: vector for vector in vectors}
        records = [self._record(vector) for vector in latest.values()]
        batches = _batch_records([record for record in records if record is not None])
        _call_all(lambda batch: self._send(namespace, batch), batches)

    def query(
        self,
        scope: Scope,
        values: Sequence[float],
        top_k: int,
        document_filter: DocumentFilter | None = None,
        _viewer: Viewer | None = None,
    ) -> list[Match]:
        """Return the nearest vectors, best first; the newest may be missing."""
        direction = self._unit_vector(values)
        if direction is None or (document_filter is not None and document_filter.empty_lists):
            return []
        request: dict[str, Any] = {
            "namespace": self._namespace_name(scope),
            "vector": direction,
            "top_k": min(top_k, MAX_TOP_K),
            "filter": build_expression(document_filter),
            "include_values": False,
            "include_metadata": False,
        }
        cosine = _COSINE_BY_METRIC[self._metric_of_index()]
        with contextlib.suppress(IndexNotFound):
            with self._client.index() as index:
                results = index.query(**request).matches
            matches = [Match(result.id, max(-1.0, min(1.0, cosine(result.score)))) for result in results]
            return sorted(matches, key=lambda match: (-match.score, match.id))
        return []

    def delete(self, scope: Scope, ids: Sequence[str]) -> None:
        """Delete by id; ignore unknown ids and namespaces."""
        namespace = self._namespace_name(scope)
        for start in range(0, len(ids), DELETE_IDS):
            with contextlib.suppress(IndexNotFound), self._client.index() as index:
                index.delete(namespace=namespace, ids=list(ids[start : start + DELETE_IDS]))

    def ids(self, scope: Scope, prefix: str) -> Iterator[str]:
        """Yield visible ids with a prefix. Retryable for an endless listing."""
        request: dict[str, Any] = {
            "namespace": self._namespace_name(scope),
            "prefix": prefix or None,
            "limit": LIST_PAGE_SIZE,
        }
        token: str | None = None
        cursors, latest = Cursors("The vector index's listing"), ""
        while True:
            try:
                with self._client.index() as index:
                    page = index.list_paginated(**request, pagination_token=token)
            except IndexNotFound:
                return
            page_ids = [vector.id for vector in page.vectors if vector.id]
            yield from (vector for vector in page_ids if vector.startswith(prefix))
            token = page.pagination.next if page.pagination else None
            if not token:
                return
            cursors.follow(token, brought=bool(page_ids) and page_ids[-1] != latest)
            latest = page_ids[-1] if page_ids else latest

    def list_other_dimensions(self, _scope: Scope) -> Iterator[str]:
        """Return nothing: an index accepts no vectors of other dimensions."""
        return iter(())

    def list_unsettled(self, scope: Scope, ids: Sequence[str]) -> list[str]:
        """Return the ids missing in the index's listing; new vectors appear with a delay."""
        prefixes = list({vector_prefix_of(vector_id) for vector_id in ids})
        visible_ids = {
            vector_id
            for id_lists in _call_all(lambda prefix: list(self.ids(scope, prefix)), prefixes)
            for vector_id in id_lists
        }
        return [vector_id for vector_id in ids if vector_id not in visible_ids]

    def relabel(self, scope: Scope, document_id: str, ids: Sequence[str], labels: Mapping[str, Any]) -> None:
        """Set the labels of a document's vectors."""
        namespace = self._namespace_name(scope)
        change: dict[str, Any] = {"namespace": namespace, "set_metadata": dict(labels)}
        # Some kinds of indexes update only by id.
        with contextlib.suppress(IndexNotFound, Fatal):
            with self._client.index() as index:
                answer = index.update(filter={"document": {"$eq": document_id}}, **change)
            if (answer.matched_records or 0) >= len(ids):
                return
        _call_all(lambda vector_id: self._update(vector_id, change), ids)

    def drop(self, scope: Scope) -> None:
        """Delete all vectors of the scope, and the namespace if the index supports it."""
        namespace = self._namespace_name(scope)
        with contextlib.suppress(IndexNotFound), self._client.index() as index:
            index.delete(namespace=namespace, delete_all=True)
        with contextlib.suppress(Fatal), self._client.index() as index:
            index.delete_namespace(name=namespace)

    def maintain(self, scope: Scope, *, seconds: float) -> None:
        """Do nothing: Pinecone maintains the index."""

    def check(self) -> None:
        """Fatal unless the index holds dense vectors of the model's dimensions."""
        with self._client.index(CHECK_SECONDS) as index:
            stats = index.describe_index_stats()
        if stats.vector_type == "sparse":
            raise Fatal("The index holds sparse vectors; use one of dense vectors.", field="indexHost")
        if not stats.dimension:
            words = "The index takes documents, not vectors; use one that was made with a dimension and a metric."
            raise Fatal(words, field="indexHost")
        if stats.dimension != self._dimensions:
            words = f"The index has {stats.dimension} dimensions, the model makes {self._dimensions}."
            raise Fatal(words, field="indexHost")
        if stats.metric is not None and stats.metric not in _COSINE_BY_METRIC:
            raise Fatal("The index has a metric other than cosine, dotproduct and euclidean.", field="indexHost")

    def _metric_of_index(self) -> str:
        """Return the metric of the index, requested once."""
        # Old indexes do not report it; cosine is Pinecone's default.
        if not self._metric:
            with self._client.index() as index:
                metric = index.describe_index_stats().metric or "cosine"
            if metric not in _COSINE_BY_METRIC:
                raise Fatal("The index has a metric other than cosine, dotproduct and euclidean.", field="indexHost")
            self._metric = metric
        return self._metric

    def _send(self, namespace: str, batch: Sequence[dict[str, Any]]) -> None:
        """Send one upsert, repeated for UPSERT_WAIT_SECONDS by a throttling index."""
        pause, end = 1.0, time.monotonic() + UPSERT_WAIT_SECONDS
        while True:
            try:
                with self._client.index() as index:
                    answer = index.upsert(namespace=namespace, vectors=batch)
            except Throttled as error:
                wait = error.after or pause
                if time.monotonic() + wait > end:
                    raise
                time.sleep(wait)
                pause *= 2
            else:
                if answer.upserted_count < len(batch):
                    raise Retryable(f"The vector index took only {answer.upserted_count} of {len(batch)} vectors.")
                return

    def _update(self, vector_id: str, change: Mapping[str, Any]) -> None:
        with contextlib.suppress(IndexNotFound), self._client.index() as index:
            index.update(id=vector_id, **change)

    def _record(self, vector: Vector) -> dict[str, Any] | None:
        values = self._unit_vector(vector.values)
        return None if values is None else {"id": vector.id, "values": values, "metadata": dict(vector.labels)}

    def _unit_vector(self, values: Sequence[float]) -> list[float] | None:
        """Scale to length 1, rounded to 7 digits; None for length 0."""
        numbers: list[float] = values.tolist() if hasattr(values, "tolist") else list(values)
        if len(numbers) != self._dimensions:
            raise Fatal(f"The embedding has {len(numbers)} dimensions; this namespace's have {self._dimensions}.")
        length = math.hypot(*numbers)
        if not math.isfinite(length):
            raise Fatal("The embedding has numbers that are not finite.")
        return [round(number / length, 7) for number in numbers] if length else None

    def _namespace_name(self, scope: Scope) -> str:
        """Return the scope's namespace in the index."""
        if scope.namespace != self._namespace:
            raise Fatal("This vector store belongs to another namespace.")
        # Names of tenants contain no dot: the result is unique.
        return f"{scope.namespace}.{scope.tenant}" if scope.tenant else scope.namespace


def _batch_records(records: Iterable[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Split records into batches within UPSERT_VECTORS and UPSERT_BYTES."""
    batches: list[list[dict[str, Any]]] = []
    room = 0
    for record in records:
        size = len(json.dumps(record["metadata"])) + NUMBER_BYTES * len(record["values"]) + len(record["id"]) + 64
        if not batches or size > room or len(batches[-1]) == UPSERT_VECTORS:
            batches.append([])
            room = UPSERT_BYTES
        batches[-1].append(record)
        room -= size
    return batches


ArgumentT = TypeVar("ArgumentT")


def _call_all(call: Callable[[ArgumentT], ResultT], arguments: Sequence[ArgumentT]) -> list[ResultT]:
    """Call `call` for each argument in CONCURRENT_REQUESTS threads; wait for all before raising a failure."""
    if len(arguments) <= 1:
        return [call(argument) for argument in arguments]
    with ThreadPoolExecutor(CONCURRENT_REQUESTS, thread_name_prefix="pinecone") as pool:
        return [future.result() for future in [pool.submit(call, argument) for argument in arguments]]


def prepare() -> None:
    """Import the SDK's lazily loaded modules."""
    for part in ("pinecone.errors", "pinecone.index", "retrieval.network.guard_proxy"):
        importlib.import_module(part)


def make(config: Mapping[str, Any], _db: Database, namespace_id: str, dimensions: int) -> PineconeStore:
    """Return the store of a namespace's index, without a connection."""
    options = settings.load_settings()
    client = PineconeClient(
        config["indexHost"], config["apiKey"], fetch_guard.make_guard(options), options.endpoints.get("PINECONE")
    )
    return PineconeStore(client, namespace_id, dimensions)
