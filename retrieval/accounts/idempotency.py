"""Idempotency keys: a repeated request with the same key acts once and gets the same response.

The writes of a request and its response are committed together, so no crash can lose one of them. A concurrent request
with the same key waits for the commit without holding a connection. A failed request is rolled back and may be repeated
with the same key. A response that names a deleted object is not repeated: the request acts anew.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, LiteralString

import msgspec

from retrieval.database.database import Database
from retrieval.errors import ErrorCode, ServiceError
from retrieval.security.secrets import KeyRing

WAIT = 30.0
"""Seconds a request waits for another with its key that is still being worked on."""

_PAUSE = 0.02
_LONGEST_PAUSE = 0.2
HEADER = "Idempotency-Key"


@dataclass(frozen=True, slots=True)
class IdempotentRequest:
    """Request that must act once: its sender, its key, and the hash of everything it requests.

    The hash is keyed by a secret: a stored one does not let anyone try passwords that a body may hold. `plain_hash`: as
    0.2.0 stored it, for requests that are repeated during an upgrade.
    """

    caller: str
    key: str
    request_hash: bytes
    plain_hash: bytes = b""

    @property
    def row(self) -> str:
        """Under which name the answer is sealed."""
        return row_name(self.caller, self.key)

    @property
    def lock(self) -> int:
        """Name of the lock that requests with the same key queue for."""
        return int.from_bytes(hashlib.sha256(self.row.encode()).digest()[:8], signed=True)


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """The sealed answer of an earlier request."""

    request_hash: bytes
    sealed: bytes


_KEPT: LiteralString = (
    "select request_hash, sealed from idempotent_answers"
    " where caller = %(caller)s and key = %(key)s and created_at > now() - interval '1 day'"
)
_KEEP: LiteralString = (
    "insert into idempotent_answers (caller, key, request_hash, sealed)"
    " values (%(caller)s, %(key)s, %(hash)s, %(sealed)s)"
    " on conflict (caller, key) do update set"
    " request_hash = excluded.request_hash, sealed = excluded.sealed, created_at = now()"
)
_EXISTING: dict[str, LiteralString] = {
    "doc": "select count(*) from documents where id = any(%(ids)s) and deleted_at is null",
    "ijr": "select count(*) from job_runs r join partitions p on p.id = r.partition_id"
    " join namespaces n on n.id = p.namespace_id where r.id = any(%(ids)s) and n.deleted_at is null",
    "ns": "select count(*) from namespaces where id = any(%(ids)s) and deleted_at is null",
    "conn": "select count(*) from connections where id = any(%(ids)s)",
    "wh": "select count(*) from webhooks where id = any(%(ids)s)",
    "eval": "select count(*) from evaluations where id = any(%(ids)s)",
    "evr": "select count(*) from evaluation_runs where id = any(%(ids)s)",
    "key": "select count(*) from api_keys where id = any(%(ids)s) and revoked_at is null",
}
"""Count what exists, by the prefix of the ids."""


async def stored_answer(db: Database, ring: KeyRing, asked: IdempotentRequest) -> bytes | None:
    """The answer given before. None if there is none, or if something that it names was deleted since.

    IDEMPOTENCY_CONFLICT if it was another request's.
    """
    values = {"caller": asked.caller, "key": asked.key}
    stored = await db.async_fetch_one(StoredAnswer, _KEPT, values, plan_once=True)
    if stored is None:
        return None
    answer = _opened(ring, asked, stored)
    return answer if await _exists(db, answer) else None


async def _exists(db: Database, kept: bytes) -> bool:
    """Tell if all objects that a kept answer names are still there."""
    ids_by_prefix: dict[str, set[str]] = {}
    for object_id in _named_ids(msgspec.json.decode(kept)):
        ids_by_prefix.setdefault(object_id.partition("_")[0], set()).add(object_id)
    for prefix, ids in ids_by_prefix.items():
        if statement := _EXISTING.get(prefix):
            existing = await db.async_fetch_one(int, statement, {"ids": list(ids)}, plan_once=True)
            if existing is None or existing < len(ids):
                return False
    return True


def _named_ids(value: Any) -> Iterator[str]:
    """Yield the ids of the objects in an answer, and of its job run."""
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
    db: Database, ring: KeyRing, asked: IdempotentRequest, act: Callable[[], Awaitable[bytes]]
) -> bytes:
    """The response of `act`, or the stored one of an earlier request with this key.

    What `act` does to the database on the event loop is committed with the response. `act` holds a connection, so it
    should be short and start no tasks; do slow work before.
    """
    end = time.monotonic() + WAIT
    pause = _PAUSE
    while True:
        async with db.async_together():
            if await db.async_fetch_one(bool, "select pg_try_advisory_xact_lock(%(lock)s)", {"lock": asked.lock}):
                answer = await stored_answer(db, ring, asked)
                return answer if answer is not None else await _act(db, ring, asked, act)
        if time.monotonic() > end:
            raise ServiceError(
                ErrorCode.IDEMPOTENCY_CONFLICT,
                f"Another request with this {HEADER} is still being worked on. Send it again in a moment.",
                reason="still_running",
            )
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE)


async def _act(db: Database, ring: KeyRing, asked: IdempotentRequest, act: Callable[[], Awaitable[bytes]]) -> bytes:
    answer = await act()
    sealed = ring.seal(answer, row=asked.row)
    values = {"caller": asked.caller, "key": asked.key, "hash": asked.request_hash, "sealed": sealed}
    await db.async_execute(_KEEP, values)
    return answer


def _opened(ring: KeyRing, asked: IdempotentRequest, stored: StoredAnswer) -> bytes:
    if stored.request_hash not in (asked.request_hash, asked.plain_hash):
        raise ServiceError(
            ErrorCode.IDEMPOTENCY_CONFLICT,
            f"This {HEADER} was used for another request within the last 24 hours. Use a new one.",
            reason="other_request",
        )
    return ring.open(stored.sealed, row=asked.row)


def row_name(caller: str, key: str) -> str:
    return f"idempotent_answers/{caller}/{key}"
