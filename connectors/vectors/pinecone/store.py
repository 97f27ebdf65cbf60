"""Filters in the vendor's words: as much of them as labels can say, so that what matches is always let through.

Labels (`retrieval.documents.vector_metadata`) know a document's id, type, source and its metadata by value, in marks;
of a document with too many marks only that it has them. What they cannot say (orders, dates, parts of texts, what is
not there) restricts nothing here: our own tables filter again.

Only ids, vectors of length 1 and labels are stored there. With length 1 all three metrics order alike, and each gives
the cosine: itself, the dot product, or 1 - d/2 of the squared distance d that a Euclidean index answers.
"""

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
from connectors.vectors.pinecone.client import NotThere, PineconeClient, Throttled
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

_NOTHING: Expression = {"document": {"$eq": ""}}
"""What no vector has; lists of no values are refused there."""
_EXACT = {"type": "type", "source": "source"}
"""Fields that a label holds as they are."""


def build_expression(where: DocumentFilter | None) -> Expression | None:
    """Filter expression for the index; None: no filter."""
    if where is None:
        return None
    clauses: list[Expression] = []
    if where.document_ids:
        clauses.append({"document": {"$in": list(where.document_ids)}})
    if where.sources:
        clauses.append({"source": {"$in": list(where.sources)}})
    if where.types:
        by_way = {"$and": [{"type": {"$eq": "URL"}}, {"source": {"$in": list(where.types)}}]}
        clauses.append({"$or": [{"type": {"$in": list(where.types)}}, by_way]})
    clauses.extend(_marked(key, values) for key, values in where.metadata_values())
    condition = None if where.where is None else of_condition(where.where)
    if condition is not None:
        clauses.append(condition)
    return {"$and": clauses} if clauses else None


def of_condition(condition: Condition, *, holds: bool = True) -> Expression | None:
    """Filter that passes everything for which the condition holds, or does not hold; None: everything."""
    match condition:
        case Not(part):
            return of_condition(part, holds=not holds)
        case AllOf(parts) | AnyOf(parts):
            clauses = [of_condition(part, holds=holds) for part in parts]
            return _every(clauses) if isinstance(condition, AllOf) is holds else _some(clauses)
        case Leaf():
            return _leaf(condition, equal=holds is (condition.op in {"eq", "in"}))


def _every(said: Sequence[Expression | None]) -> Expression | None:
    clauses = [clause for clause in said if clause is not None]
    return {"$and": clauses} if clauses else None


def _some(said: Sequence[Expression | None]) -> Expression | None:
    clauses = [clause for clause in said if clause is not None]
    return {"$or": clauses} if len(clauses) == len(said) else None


def _leaf(leaf: Leaf, *, equal: bool) -> Expression | None:
    """`equal`: the field must be one of the values; otherwise it must not."""
    if leaf.op not in {"eq", "in", "ne", "nin"} or any(isinstance(value, Instant) for value in leaf.values):
        return None
    if not leaf.field.is_metadata:
        name = _EXACT.get(leaf.field.name)
        texts = [value for value in leaf.values if isinstance(value, str)]
        if name is None:
            return None
        if not texts:
            return _NOTHING if equal else None
        return {name: {"$in" if equal else "$nin": texts}}
    return _marked(leaf.field.name, leaf.values) if equal else None


def _marked(key: str, values: Sequence[Any]) -> Expression:
    return {"marks": {"$in": [*dict.fromkeys(labels.metadata_mark(key, value) for value in values), labels.ANY_MARK]}}


BATCH = 200
BATCH_BYTES = 1_800_000
"""Of one upsert; the vendor takes 1,000 vectors and 2 MB."""
NUMBER_BYTES = 12
"""What a number of a vector takes at most, rounded as we send it."""
IDS = 1_000
"""Ids that one deletion may name."""
PAGE = 100
"""Ids that one page of a listing may have."""
MOST = 10_000
"""Matches that one query may ask for."""
AT_ONCE = 4
"""Requests of one call that are under way at the same time."""
TIMEOUT = 120.0
"""Seconds that an upsert waits in all while the index says that it has too much to do."""
CHECK_SECONDS = 4.0

T = TypeVar("T")

_COSINE: Mapping[str, Callable[[float], float]] = {
    "cosine": lambda score: score,
    "dotproduct": lambda score: score,
    "euclidean": lambda score: 1 - score / 2,
}
"""From the score of each metric to the cosine, for vectors of length 1."""


class PineconeStore:
    """The PINECONE store of one namespace."""

    labelled = True

    def __init__(self, client: PineconeClient, namespace_id: str, dimensions: int) -> None:
        self._client = client
        self._namespace = namespace_id
        self._dimensions = dimensions
        self._metric = ""

    def upsert(self, scope: Scope, vectors: Sequence[Vector]) -> None:
        """Put vectors in, replacing by id; the last one of an id wins. One of length 0 is left out."""
        namespace = self._place(scope)
        latest = {vector.id: vector for vector in vectors}
        records = [self._record(vector) for vector in latest.values()]
        _all(lambda part: self._send(namespace, part), _parts([record for record in records if record is not None]))

    def query(
        self,
        scope: Scope,
        values: Sequence[float],
        top_k: int,
        document_filter: DocumentFilter | None = None,
        _viewer: Viewer | None = None,
    ) -> list[Match]:
        """The nearest, best first; of what was written a moment ago some may be missing."""
        direction = self._unit(values)
        if direction is None or (document_filter is not None and document_filter.empty_lists):
            return []
        request: dict[str, Any] = {
            "namespace": self._place(scope),
            "vector": direction,
            "top_k": min(top_k, MOST),
            "filter": build_expression(document_filter),
            "include_values": False,
            "include_metadata": False,
        }
        cosine = _COSINE[self._metric_of_index()]
        with contextlib.suppress(NotThere):
            with self._client.index() as index:
                results = index.query(**request).matches
            matches = [Match(result.id, max(-1.0, min(1.0, cosine(result.score)))) for result in results]
            return sorted(matches, key=lambda match: (-match.score, match.id))
        return []

    def delete(self, scope: Scope, ids: Sequence[str]) -> None:
        """Remove by id; unknown ids are no error, nor is a namespace that is not there."""
        namespace = self._place(scope)
        for start in range(0, len(ids), IDS):
            with contextlib.suppress(NotThere), self._client.index() as index:
                index.delete(namespace=namespace, ids=list(ids[start : start + IDS]))

    def ids(self, scope: Scope, prefix: str) -> Iterator[str]:
        """Every id that starts with `prefix`, as far as the index shows them already. Retryable if it never ends."""
        request: dict[str, Any] = {"namespace": self._place(scope), "prefix": prefix or None, "limit": PAGE}
        token: str | None = None
        cursors, latest = Cursors("The vector index's listing"), ""
        while True:
            try:
                with self._client.index() as index:
                    page = index.list_paginated(**request, pagination_token=token)
            except NotThere:
                return
            page_ids = [vector.id for vector in page.vectors if vector.id]
            yield from (vector for vector in page_ids if vector.startswith(prefix))
            token = page.pagination.next if page.pagination else None
            if not token:
                return
            cursors.follow(token, brought=bool(page_ids) and page_ids[-1] != latest)
            latest = page_ids[-1] if page_ids else latest

    def list_misfits(self, _scope: Scope) -> Iterator[str]:
        """An index takes none."""
        return iter(())

    def list_unsettled(self, scope: Scope, ids: Sequence[str]) -> list[str]:
        """Those that the index does not list yet: it shows what was written after a while."""
        prefixes = list({vector_prefix_of(vector_id) for vector_id in ids})
        visible_ids = {
            vector_id
            for id_lists in _all(lambda prefix: list(self.ids(scope, prefix)), prefixes)
            for vector_id in id_lists
        }
        return [vector_id for vector_id in ids if vector_id not in visible_ids]

    def relabel(self, scope: Scope, document_id: str, ids: Sequence[str], labels: Mapping[str, Any]) -> None:
        """Set the labels of all of the document's vectors at once, or of each where the index cannot do that."""
        namespace = self._place(scope)
        change: dict[str, Any] = {"namespace": namespace, "set_metadata": dict(labels)}
        with contextlib.suppress(NotThere, Fatal):
            with self._client.index() as index:
                answer = index.update(filter={"document": {"$eq": document_id}}, **change)
            if (answer.matched_records or 0) >= len(ids):
                return
        _all(lambda one: self._update(one, change), ids)

    def drop(self, scope: Scope) -> None:
        """Remove everything of the scope, its namespace too where the kind of index has a call for that."""
        namespace = self._place(scope)
        with contextlib.suppress(NotThere), self._client.index() as index:
            index.delete(namespace=namespace, delete_all=True)
        with contextlib.suppress(Fatal), self._client.index() as index:
            index.delete_namespace(name=namespace)

    def maintain(self, scope: Scope, *, seconds: float) -> None:
        """The vendor does."""

    def check(self) -> None:
        """Fatal, in words for who configures it, unless the index holds dense vectors of the model's dimensions."""
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
        if stats.metric is not None and stats.metric not in _COSINE:
            raise Fatal("The index has a metric other than cosine, dotproduct and euclidean.", field="indexHost")

    def _metric_of_index(self) -> str:
        """Metric of the index, requested once. Cosine, the vendor's default, if an old index does not say."""
        if not self._metric:
            with self._client.index() as index:
                metric = index.describe_index_stats().metric or "cosine"
            if metric not in _COSINE:
                raise Fatal("The index has a metric other than cosine, dotproduct and euclidean.", field="indexHost")
            self._metric = metric
        return self._metric

    def _send(self, place: str, part: Sequence[dict[str, Any]]) -> None:
        """Send one upsert. A rate limit is no failure, until the time for it ends."""
        pause, end = 1.0, time.monotonic() + TIMEOUT
        while True:
            try:
                with self._client.index() as index:
                    answer = index.upsert(namespace=place, vectors=part)
            except Throttled as error:
                wait = error.after or pause
                if time.monotonic() + wait > end:
                    raise
                time.sleep(wait)
                pause *= 2
            else:
                if answer.upserted_count < len(part):
                    raise Retryable(f"The vector index took only {answer.upserted_count} of {len(part)} vectors.")
                return

    def _update(self, vector_id: str, told: Mapping[str, Any]) -> None:
        with contextlib.suppress(NotThere), self._client.index() as index:
            index.update(id=vector_id, **told)

    def _record(self, vector: Vector) -> dict[str, Any] | None:
        values = self._unit(vector.values)
        return None if values is None else {"id": vector.id, "values": values, "metadata": dict(vector.labels)}

    def _unit(self, values: Sequence[float]) -> list[float] | None:
        """The direction, with length 1; None if there is none. Seven digits are finer than what is kept elsewhere."""
        numbers: list[float] = values.tolist() if hasattr(values, "tolist") else list(values)
        if len(numbers) != self._dimensions:
            raise Fatal(f"The embedding has {len(numbers)} dimensions; this namespace's have {self._dimensions}.")
        length = math.hypot(*numbers)
        if not math.isfinite(length):
            raise Fatal("The embedding has numbers that are not finite.")
        return [round(number / length, 7) for number in numbers] if length else None

    def _place(self, scope: Scope) -> str:
        """The scope's namespace in the index. A tenant's name has no dot, so no two scopes share one."""
        if scope.namespace != self._namespace:
            raise Fatal("This vector store belongs to another namespace.")
        return f"{scope.namespace}.{scope.tenant}" if scope.tenant else scope.namespace


def _parts(records: Iterable[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The records in requests that are neither too many nor too large."""
    parts: list[list[dict[str, Any]]] = []
    room = 0
    for record in records:
        size = len(json.dumps(record["metadata"])) + NUMBER_BYTES * len(record["values"]) + len(record["id"]) + 64
        if not parts or size > room or len(parts[-1]) == BATCH:
            parts.append([])
            room = BATCH_BYTES
        parts[-1].append(record)
        room -= size
    return parts


A = TypeVar("A")


def _all(call: Callable[[A], T], arguments: Sequence[A]) -> list[T]:
    """The call for each argument, a few at a time; none is still under way when the first failure is raised."""
    if len(arguments) <= 1:
        return [call(argument) for argument in arguments]
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="pinecone") as pool:
        return [done.result() for done in [pool.submit(call, argument) for argument in arguments]]


def prepare() -> None:
    """Import the SDK, which loads its parts when they are first used."""
    for part in ("pinecone.errors", "pinecone.index", "retrieval.network.guard_proxy"):
        importlib.import_module(part)


def make(config: Mapping[str, Any], _db: Database, namespace_id: str, dimensions: int) -> PineconeStore:
    """The namespace's own index. Nothing is dialled yet."""
    options = settings.load_settings()
    client = PineconeClient(
        config["indexHost"], config["apiKey"], fetch_guard.make_guard(options), options.endpoints.get("PINECONE")
    )
    return PineconeStore(client, namespace_id, dimensions)
