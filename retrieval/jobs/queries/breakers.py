"""Circuit breakers per vendor and credential: after repeated failures, requests are refused until a probe succeeds.

    closed ──failures in a row──▶ open ──its time is over──▶ one batch probes ──succeeds──▶ closed, waiting runs go
                                   ▲                             └── fails: open for twice as long ──┐
                                   └──────────────────────────────────────────────────────────────────┘

A breaker covers one vendor or site, organization and credential, in all processes. Job runs that need it wait outside
of the workers (`job_queue.MAY_LEAVE`), and fail with its reason when their time limit is reached.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

from retrieval.database.database import Database
from retrieval.database.sessions import ThreadConnection

FAILURES: Final = 3
"""Failures in a row that open a breaker …"""
LOST_SECONDS: Final = 30.0
"""… or seconds that they took together: what hangs is found out by its first time-out."""
FIRST_SECONDS: Final = 15.0
LONGEST_SECONDS: Final = 300.0
"""How long it stays open, first and at most; twice as long each time that a probe fails."""
PROBE_SECONDS: Final = 120.0
"""How long a probe may take; then another batch may try."""
PROBES: Final = 2
"""Organizations that probe for whole partitions at the same time: each may hold a place in a worker, and hang there."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A vendor or site that one organization requests. `name`: for display. `identity`: distinguishes it and the
    credential.

    `patience`: seconds that job runs wait for it.
    """

    organization: str
    name: str
    identity: Mapping[str, Any]
    patience: float

    @property
    def key(self) -> str:
        """A hash: the credential itself is not kept here."""
        text = json.dumps([self.organization, dict(self.identity)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class State:
    """`closed_in`: seconds until it may be probed, None if it is not open. `probe`: the batch that does so now."""

    failures: int = 0
    closed_in: float | None = None
    probe: str | None = None


def breaker_state(db: Database, key: str, batch_id: str) -> State:
    """Return the current state. When the open time is over, this batch becomes the probe if no other is."""
    entered = db.fetch_one(State, _ENTER, {"key": key, "batch": batch_id, "seconds": PROBE_SECONDS})
    current = entered or db.fetch_one(
        State,
        "select failures, extract(epoch from open_until - now())::float8 as closed_in, probe from breakers"
        " where key = %(key)s",
        {"key": key},
    )
    return current or State()


_ENTER: LiteralString = """
    update breakers set probe = %(batch)s, open_until = now() + make_interval(secs => %(seconds)s)
    where key = %(key)s and open_until <= now()
    returning failures, %(seconds)s::float8 as closed_in, probe
"""


def record_failure(db: Database, asked: Asked, batch_id: str, *, seconds: float, reason: str) -> State:
    """A request failed, or hung, for so long: the state after it."""
    values = {
        "key": asked.key,
        "organization": asked.organization,
        "name": asked.name,
        "patience": asked.patience,
        "batch": batch_id,
        "seconds": seconds,
        "reason": reason,
        "failures": FAILURES,
        "most": LOST_SECONDS,
        "first": FIRST_SECONDS,
        "longest": LONGEST_SECONDS,
    }
    with db.transaction() as connection:
        connection.execute(_COUNT, values)
        opened = connection.fetch_one(State, _OPEN, values)
    return opened or breaker_state(db, asked.key, batch_id)


_COUNT: LiteralString = """
    insert into breakers as b (key, organization_id, name, reason, failures, lost, patience)
    values (%(key)s, %(organization)s, %(name)s, %(reason)s, 1, %(seconds)s, %(patience)s)
    on conflict (key) do update set failures = b.failures + 1, lost = b.lost + excluded.lost, name = excluded.name,
        reason = excluded.reason, patience = excluded.patience, updated_at = now()
"""
_OPEN: LiteralString = """
    update breakers
    set opened_at = coalesce(opened_at, now()), opens = opens + 1, probe = null,
        open_until = now() + make_interval(secs => least(%(longest)s, %(first)s * 2 ^ least(opens, 20)))
    where key = %(key)s and (probe = %(batch)s or (
        (open_until is null or open_until <= now()) and (failures >= %(failures)s or lost >= %(most)s)))
    returning failures, extract(epoch from open_until - now())::float8 as closed_in
"""


def record_success(db: Database, key: str) -> None:
    """It answers: forget what was."""
    db.execute("delete from breakers where key = %(key)s", {"key": key})


def release_probes(db: Database, batch_id: str, partition: int) -> None:
    """A batch has ended. What it was to probe and did not need, another may probe, and its partition needs no more."""
    db.execute(_LET_GO, {"batch": batch_id, "partition": partition})


def let_go(connection: ThreadConnection, batch_id: str, partition: int | None = None) -> None:
    """Release the probe in the transaction that ends a batch or loses its attempt, so that another batch may probe.
    Without `partition`, the partition still waits for breakers that were not probed."""
    connection.execute(_LET_GO, {"batch": batch_id, "partition": partition})


_LET_GO: LiteralString = """
    update breakers set probe = null, open_until = now(), partitions = array_remove(partitions, %(partition)s::bigint)
    where probe = %(batch)s
"""


RESTING: LiteralString = """
    array(select unnest(b.partitions) from breakers b, lateral (
              select count(distinct organization_id) as organizations,
                     coalesce(bool_or(organization_id = b.organization_id), false) as own
              from breakers where probe is not null and open_until > now() and partitions <> '{}'
          ) probing
          where b.open_until > now() or (b.open_until is not null
                and (probing.own or probing.organizations >= %(probes)s)))
"""
"""Partitions of which nothing leaves now: what they need is open, or it is another's turn to probe.

An organization probes one thing at a time, and so do PROBES organizations (`%(probes)s`) beside each other.
"""


def become_probe(connection: ThreadConnection, batch_id: str, partition: int) -> bool | None:
    """Tell if the batch of this partition becomes a probe; None if it may not be dispatched now."""
    values = {"batch": batch_id, "partition": partition, "seconds": PROBE_SECONDS, "probes": PROBES}
    if connection.fetch_one(bool, "select %(partition)s = any(" + RESTING + ")", values):
        return None
    return bool(
        connection.execute(
            "update breakers set probe = %(batch)s, open_until = now() + make_interval(secs => %(seconds)s)"
            " where open_until <= now() and %(partition)s = any(partitions)",
            values,
        ).rowcount
    )


def wait_for_breakers(connection: ThreadConnection, partition: int, keys: Sequence[str]) -> None:
    """Let all ingestion of the partition wait until these breakers close."""
    connection.execute(
        "update breakers set partitions = partitions || %(partition)s::bigint"
        " where key = any(%(keys)s) and %(partition)s <> all(partitions)",
        {"partition": partition, "keys": list(keys)},
    )


OPEN: LiteralString = "select count(*) from breakers where open_until > now()"
"""How many are open."""

OF_RUN: LiteralString = """
    (select jsonb_build_object('name', k.name, 'reason', k.reason, 'since', k.opened_at, 'until', k.open_until,
                               'end', greatest(k.opened_at, r.created_at) + make_interval(secs => k.patience))
     from breakers k
     where r.finished_at is null and k.open_until is not null
       and (k.key = r.waits_for or (r.partition_id = any(k.partitions) and r.source <> 'REEMBED')) limit 1)
"""
"""SQL: the breaker that job run `r` waits for, or null."""
