"""Idempotency keys: a repeated request with the same key runs once and gets the stored response.

Writes and response are committed together. A failed request is rolled back and may be repeated. If an object of the
response was deleted, the request runs again.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec
from sqlalchemy import bindparam, func, select
from sqlalchemy.dialects.postgresql import insert

from retrieval.database import schema
from retrieval.database.compiling import columns_of, compile_statement, equals, in_list, in_live_namespace, parameters
from retrieval.database.database import Database
from retrieval.errors import ErrorCode, ServiceError
from retrieval.security.secrets import KeyRing

# Wait for a concurrent request with the same key.
WAIT_SECONDS = 30.0

_FIRST_PAUSE_SECONDS = 0.02
_MAX_PAUSE_SECONDS = 0.2
IDEMPOTENCY_HEADER = "Idempotency-Key"


@dataclass(frozen=True, slots=True)
class IdempotentRequest:
    """Request with its sender, key and content hash. `plain_hash`: format of 0.2.0, for requests repeated during an
    upgrade."""

    caller: str
    key: str
    # Keyed by a secret: a leaked hash reveals no password from a request body.
    request_hash: bytes
    plain_hash: bytes = b""

    @property
    def row(self) -> str:
        """Return the name that the response is sealed under."""
        return row_name(self.caller, self.key)

    @property
    def lock(self) -> int:
        """Return the advisory lock shared by requests with this key."""
        return int.from_bytes(hashlib.sha256(self.row.encode()).digest()[:8], signed=True)


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """Sealed response of an earlier request."""

    request_hash: bytes
    sealed: bytes


_table: Any = schema.IdempotentAnswer
_GET_ANSWER = compile_statement(
    select(*columns_of(_table, StoredAnswer)).where(
        equals(_table.caller), equals(_table.key), _table.created_at > func.now() - timedelta(days=1)
    )
)
_new = insert(_table).values(request_hash=bindparam("hash"), **parameters("caller", "key", "sealed"))
_STORE_ANSWER = compile_statement(
    _new.on_conflict_do_update(
        index_elements=["caller", "key"],
        set_={"request_hash": _new.excluded.request_hash, "sealed": _new.excluded.sealed, "created_at": func.now()},
    )
)


def _count_existing(table: Any, *conditions: Any) -> Any:
    return compile_statement(select(func.count()).where(in_list(table.id, "ids"), *conditions))


_document: Any = schema.Document
_run: Any = schema.JobRun
_namespace: Any = schema.Namespace
_key: Any = schema.ApiKey
# Count existing objects, by id prefix.
_COUNT_EXISTING: dict[str, Any] = {
    "doc": _count_existing(_document, _document.deleted_at.is_(None)),
    "ijr": _count_existing(_run, in_live_namespace(_run.partition_id)),
    "ns": _count_existing(_namespace, _namespace.deleted_at.is_(None)),
    "conn": _count_existing(schema.Connection),
    "wh": _count_existing(schema.Webhook),
    "eval": _count_existing(schema.Evaluation),
    "evr": _count_existing(schema.EvaluationRun),
    "key": _count_existing(_key, _key.revoked_at.is_(None)),
}


async def find_answer(db: Database, ring: KeyRing, request: IdempotentRequest) -> bytes | None:
    """Return the stored response; None without one or after deletion of its objects."""
    # Raises IDEMPOTENCY_CONFLICT if the key was used for another request.
    values = {"caller": request.caller, "key": request.key}
    stored = await db.async_fetch_one(StoredAnswer, _GET_ANSWER, values, plan_once=True)
    if stored is None:
        return None
    answer = _open_answer(ring, request, stored)
    return answer if await _objects_exist(db, answer) else None


async def _objects_exist(db: Database, answer: bytes) -> bool:
    """Return True if all objects in the response exist."""
    ids_by_prefix: dict[str, set[str]] = {}
    for object_id in _named_ids(msgspec.json.decode(answer)):
        ids_by_prefix.setdefault(object_id.partition("_")[0], set()).add(object_id)
    for prefix, ids in ids_by_prefix.items():
        if statement := _COUNT_EXISTING.get(prefix):
            existing = await db.async_fetch_one(int, statement, {"ids": list(ids)}, plan_once=True)
            if existing is None or existing < len(ids):
                return False
    return True


def _named_ids(value: Any) -> Iterator[str]:
    """Yield the object ids and the job run id of a response."""
    if isinstance(value, list):
        for entry in value:
            yield from _named_ids(entry)
    elif isinstance(value, dict):
        for name, entry in value.items():
            if name in ("id", "ingestJobRunId") and isinstance(entry, str):
                yield entry
            else:
                yield from _named_ids(entry)


async def answer_once(
    db: Database, ring: KeyRing, request: IdempotentRequest, act: Callable[[], Awaitable[bytes]]
) -> bytes:
    """Return the response of `act`, or the stored one.

    Raises IDEMPOTENCY_CONFLICT for another request with the key, or one that still runs after `WAIT_SECONDS`.
    `act` runs in a transaction and holds a connection: keep it short, and start no tasks.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    pause = _FIRST_PAUSE_SECONDS
    while True:
        async with db.async_together():
            if await db.async_fetch_one(bool, "select pg_try_advisory_xact_lock(%(lock)s)", {"lock": request.lock}):
                answer = await find_answer(db, ring, request)
                return answer if answer is not None else await _act_and_store(db, ring, request, act)
        if time.monotonic() > deadline:
            raise ServiceError(
                ErrorCode.IDEMPOTENCY_CONFLICT,
                f"Another request with this {IDEMPOTENCY_HEADER} is still being worked on. Send it again in a moment.",
                reason="still_running",
            )
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _MAX_PAUSE_SECONDS)


async def _act_and_store(
    db: Database, ring: KeyRing, request: IdempotentRequest, act: Callable[[], Awaitable[bytes]]
) -> bytes:
    answer = await act()
    sealed = ring.seal(answer, row=request.row)
    values = {"caller": request.caller, "key": request.key, "hash": request.request_hash, "sealed": sealed}
    await db.async_execute(_STORE_ANSWER, values)
    return answer


def _open_answer(ring: KeyRing, request: IdempotentRequest, stored: StoredAnswer) -> bytes:
    if stored.request_hash not in (request.request_hash, request.plain_hash):
        raise ServiceError(
            ErrorCode.IDEMPOTENCY_CONFLICT,
            f"This {IDEMPOTENCY_HEADER} was used for another request within the last 24 hours. Use a new one.",
            reason="other_request",
        )
    return ring.open(stored.sealed, row=request.row)


def row_name(caller: str, key: str) -> str:
    return f"idempotent_answers/{caller}/{key}"
