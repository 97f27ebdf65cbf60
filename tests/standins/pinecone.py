"""A stateful Pinecone index on loopback; Pinecone's API description checks both sides."""
# Beyond the description: 2 MB per request, 40 KB of metadata per record, no zero vectors, 100 ids per page, 404 for a
# deletion in a missing namespace.

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np

from tests.standins.described import Described
from tests.standins.faults import Fault, Handler, cut, html, reset, serving, slow, status

__all__ = ["Index", "cut", "html", "reset", "running", "slow", "status"]

DESCRIPTION = Described(Path(__file__).with_name("contracts") / "pinecone-db_data-2026-04.json")
API_KEY = "canary-pinecone-key"
REQUEST_BYTES = 2_000_000
METADATA_BYTES = 40_960


class Refused(Exception):
    """An answer with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Index:
    """An index with faults."""

    # `faults`: (part of the path, fault), used once each; `always`: stays; `lag`, `reads`: writes become visible after
    # so many seconds and reads; `keep`: vectors accepted per upsert, as reported in the answer.

    dimension: int | None = 16
    metric: str | None = "cosine"
    vector_type: str | None = "dense"
    lag: float = 0.0
    reads: int = 0
    keep: int | None = None
    updates_by_filter: bool = True
    port: int = 0
    spaces: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    faults: list[tuple[str, Fault]] = field(default_factory=list)
    always: list[tuple[str, Fault]] = field(default_factory=list)
    seen: list[tuple[str, str, Any]] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    log: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _looks: int = 0
    lock: threading.RLock = field(default_factory=threading.RLock)
    _matrices: dict[str, tuple[list[str], Any]] = field(default_factory=dict)

    @property
    def host(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def config(self, **overrides: str) -> dict[str, str]:
        """A vectorStorageConfig for this index."""
        return {"provider": "PINECONE", "apiKey": API_KEY, "indexHost": self.host} | overrides

    def bodies(self, path: str) -> list[Any]:
        """Return the bodies sent to a path."""
        return [body for _, url, body in self.seen if urlsplit(url).path == path]

    def settle(self) -> None:
        """Make all writes visible."""
        with self.lock:
            for _, _, write in self.log:
                write()
            self.log.clear()
            self._matrices.clear()

    def write(self, change: Callable[[], None]) -> None:
        self.log.append((time.monotonic() + self.lag, self._looks + self.reads, change))
        if not self.lag and not self.reads:
            self.settle()

    def look(self) -> None:
        """Count a read and make due writes visible in order."""
        self._looks += 1
        while self.log and self.log[0][0] <= time.monotonic() and self.log[0][1] < self._looks:
            self.log.pop(0)[2]()
            self._matrices.clear()

    def space(self, name: str) -> dict[str, dict[str, Any]]:
        return self.spaces.get(name, {})

    def matrix(self, name: str) -> tuple[list[str], Any]:
        if name not in self._matrices:
            records = self.space(name)
            rows = [record["values"] for record in records.values()]
            self._matrices[name] = (
                list(records),
                np.array(rows, dtype=np.float32).reshape(len(rows), self.dimension or 0),
            )
        return self._matrices[name]


def running(**options: Any) -> AbstractContextManager[Index]:
    return serving(Index(**options), _Handler)


class _Handler(Handler):
    """Checks each request and each answer against the description, and acts on the index in between."""

    standin: Index

    def do_POST(self) -> None:  # noqa: N802 - the name that http.server calls
        self._serve("post")

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        self._serve("get")

    def do_DELETE(self) -> None:  # noqa: N802 - the name that http.server calls
        self._serve("delete")

    def _serve(self, method: str) -> None:
        index, size = self.standin, int(self.headers.get("Content-Length") or 0)
        data = self.rfile.read(size)
        body = json.loads(data) if data else None
        with index.lock:
            index.seen.append((method.upper(), self.path, body))
            fault = self._fault()
        if fault is None or not fault(self):
            self._answer(method, body, size)

    def _fault(self) -> Fault | None:
        for fault_list in (self.standin.faults, self.standin.always):
            for entry in fault_list:
                if entry[0] in self.path:
                    if fault_list is self.standin.faults:
                        fault_list.remove(entry)
                    return entry[1]
        return None

    def _answer(self, method: str, body: Any, size: int) -> None:
        path = urlsplit(self.path).path
        pattern = "/namespaces/{namespace}" if path.startswith("/namespaces/") else path
        try:
            self._admit(pattern, method, body, size)
            with self.standin.lock:
                result = _ACTIONS[method, pattern](self.standin, body or self._query(), unquote(path))
        except Refused as error:
            self.reply(error.status, {"code": 3, "message": str(error), "details": []})
            return
        if complaint := DESCRIPTION.complaint_on_answer(pattern, method, result):
            self.standin.violations.append(f"answer of {path}: {complaint}")
        self.reply(200, result)

    def _query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.path).query)

    def _admit(self, pattern: str, method: str, body: Any, size: int) -> None:
        if self.headers.get("Api-Key") != API_KEY:
            raise Refused(401, "Invalid API Key SECRET VENDOR WORDS")
        if (method, pattern) not in _ACTIONS:
            raise Refused(404, "No such path")
        complaint = f"{size} bytes" if size > REQUEST_BYTES else DESCRIPTION.complaint_on_request(pattern, method, body)
        if not self.headers.get("X-Pinecone-Api-Version"):
            complaint = "no version"
        if complaint:
            self.standin.violations.append(f"{pattern}: {complaint}")
            raise Refused(413 if size > REQUEST_BYTES else 400, complaint)


def _stats(index: Index, _body: Any, _path: str) -> Any:
    index.look()
    counts = {name or "__default__": {"vectorCount": len(space)} for name, space in index.spaces.items()}
    attributes = {"dimension": index.dimension, "metric": index.metric, "vectorType": index.vector_type}
    total = sum(len(space) for space in index.spaces.values())
    return {
        "namespaces": counts,
        "indexFullness": 0,
        "totalVectorCount": total,
        **{name: value for name, value in attributes.items() if value is not None},
    }


def _upsert(index: Index, body: Any, _path: str) -> Any:
    vectors = body["vectors"] if index.keep is None else body["vectors"][: index.keep]
    for vector in body["vectors"]:
        _check_vector(index, vector)

    def change() -> None:
        index.spaces.setdefault(body.get("namespace", ""), {}).update(
            {vector["id"]: {"values": vector["values"], "metadata": vector.get("metadata", {})} for vector in vectors}
        )

    index.write(change)
    return {"upsertedCount": len(vectors)}


def _check_vector(index: Index, vector: Any) -> None:
    if len(vector["values"]) != index.dimension:
        raise Refused(400, f"Vector dimension {len(vector['values'])} does not match the dimension of the index")
    if not any(vector["values"]):
        raise Refused(400, "Dense vectors must contain at least one non-zero value.")
    _check_metadata(vector.get("metadata", {}))


def _check_metadata(metadata: Any) -> None:
    if len(json.dumps(metadata).encode()) > METADATA_BYTES:
        raise Refused(400, "Metadata size is too large")
    for value in metadata.values():
        texts = isinstance(value, list) and all(isinstance(element, str) for element in value)
        if not texts and not isinstance(value, str | int | float | bool):
            raise Refused(400, "Metadata value must be a string, number, boolean or list of strings")


def _query(index: Index, body: Any, _path: str) -> Any:
    index.look()
    if len(body["vector"]) != index.dimension or not any(body["vector"]):
        raise Refused(400, "Query vector is not valid")
    name = body.get("namespace", "")
    names, rows = index.matrix(name)
    query_vector = np.array(body["vector"], dtype=np.float32)
    if not names:
        return {"matches": [], "namespace": name}
    if index.metric == "euclidean":
        scores = np.sum((rows - query_vector) ** 2, axis=1)
        order = np.argsort(scores, kind="stable")
    else:
        lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(query_vector) if index.metric == "cosine" else 1.0
        scores = rows @ query_vector / lengths
        order = np.argsort(-scores, kind="stable")
    matches = []
    for position in order:
        record = index.space(name)[names[position]]
        if fits(body.get("filter") or {}, record["metadata"]):
            matches.append({"id": names[position], "score": float(scores[position]), "values": []})
        if len(matches) == body["topK"]:
            break
    return {"matches": matches, "namespace": name, "usage": {"readUnits": 5}}


def fits(expression: Any, metadata: Any) -> bool:
    """Evaluate Pinecone's filter language, as far as the tests need."""
    for key, condition in expression.items():
        if key == "$and":
            matches = all(fits(condition_part, metadata) for condition_part in condition)
        elif key == "$or":
            matches = any(fits(condition_part, metadata) for condition_part in condition)
        elif key.startswith("$") or not isinstance(condition, dict):
            raise Refused(400, "Filter is not valid")
        else:
            matches = all(_compares(name, metadata.get(key), value) for name, value in condition.items())
        if not matches:
            return False
    return True


def _compares(operator: str, have: Any, expected: Any) -> bool:
    values = have if isinstance(have, list) else [] if have is None else [have]
    if operator == "$eq":
        return expected in values
    if operator == "$in":
        if len(expected) > 10_000:
            raise Refused(400, "too many values")
        return any(element in expected for element in values)
    if operator == "$nin":
        return not any(element in expected for element in values)
    raise Refused(400, "Operator is not valid")


def _delete(index: Index, body: Any, _path: str) -> Any:
    name = body.get("namespace", "")
    if name not in index.spaces and not index.log:
        raise Refused(404, "Namespace not found")
    if sum(map(bool, (body.get("ids"), body.get("deleteAll"), body.get("filter")))) != 1:
        raise Refused(400, "One of ids, deleteAll and filter")

    def change() -> None:
        space = index.spaces.get(name, {})
        deleted_ids = list(space) if body.get("deleteAll") else body.get("ids") or []
        deleted_ids += [
            vector
            for vector, record in space.items()
            if body.get("filter") and fits(body["filter"], record["metadata"])
        ]
        for vector in deleted_ids:
            space.pop(vector, None)

    index.write(change)
    return {}


def _list(index: Index, query: Any, _path: str) -> Any:
    index.look()
    name, prefix = query.get("namespace", [""])[0], query.get("prefix", [""])[0]
    limit, start = int(query.get("limit", ["100"])[0]), query.get("paginationToken", [""])[0]
    if not 1 <= limit <= 100:
        raise Refused(400, "limit must be 1 to 100")
    names = sorted(vector_id for vector_id in index.space(name) if vector_id.startswith(prefix) and vector_id > start)
    page = {"vectors": [{"id": vector_id} for vector_id in names[:limit]], "namespace": name, "usage": {"readUnits": 1}}
    return page | ({"pagination": {"next": names[limit - 1]}} if len(names) > limit else {})


def _fetch(index: Index, query: Any, _path: str) -> Any:
    index.look()
    name = query.get("namespace", [""])[0]
    space = index.space(name)
    return {
        "vectors": {
            vector_id: {"id": vector_id, **space[vector_id]} for vector_id in query["ids"] if vector_id in space
        },
        "namespace": name,
    }


def _update(index: Index, body: Any, _path: str) -> Any:
    name = body.get("namespace", "")
    if name not in index.spaces:
        raise Refused(404, "Namespace not found")
    if body.get("filter") and not index.updates_by_filter:
        raise Refused(400, "This index cannot update by filter")
    _check_metadata(body.get("setMetadata", {}))

    def matching_records() -> list[Any]:
        if "id" in body:
            return [index.space(name)[body["id"]]] if body["id"] in index.space(name) else []
        return [record for record in index.space(name).values() if fits(body["filter"], record["metadata"])]

    def change() -> None:
        for record in matching_records():
            record["metadata"] = {**record["metadata"], **body.get("setMetadata", {})}

    matched = len(matching_records())
    index.write(change)
    return {"matchedRecords": matched}


def _drop(index: Index, _query: Any, path: str) -> Any:
    if index.spaces.pop(path.removeprefix("/namespaces/"), None) is None:
        raise Refused(404, "Namespace not found")
    return {}


_ACTIONS: dict[tuple[str, str], Callable[[Index, Any, str], Any]] = {
    ("post", "/describe_index_stats"): _stats,
    ("post", "/vectors/upsert"): _upsert,
    ("post", "/query"): _query,
    ("post", "/vectors/delete"): _delete,
    ("post", "/vectors/update"): _update,
    ("get", "/vectors/list"): _list,
    ("get", "/vectors/fetch"): _fetch,
    ("delete", "/namespaces/{namespace}"): _drop,
}
