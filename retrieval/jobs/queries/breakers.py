"""Circuit breakers per vendor and credential: after repeated failures, requests are refused until a probe succeeds.

closed ──failures in a row──▶ open ──its time is over──▶ one batch probes ──succeeds──▶ closed, waiting runs go
                               ▲                             └── fails: open for twice as long ──┐
                               └──────────────────────────────────────────────────────────────────┘
"""

# A breaker covers one vendor or site, organization and credential, in all processes. Job runs wait for it outside of
# workers (`job_queue.READY_CONDITION`) and fail with its reason at their time limit.

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

from retrieval.database.database import Database
from retrieval.database.sessions import ThreadConnection

MAX_CONSECUTIVE_FAILURES: Final = 3
# A breaker also opens after this total duration of failures: a hanging vendor is detected by the first time-out.
MAX_FAILURE_SECONDS: Final = 30.0
# Each failed probe doubles the open time.
FIRST_OPEN_SECONDS: Final = 15.0
MAX_OPEN_SECONDS: Final = 300.0
# After this time another batch may probe.
PROBE_SECONDS: Final = 120.0
# Organizations that probe for whole partitions at once: each may block a worker slot.
MAX_PROBING_ORGANIZATIONS: Final = 2


@dataclass(frozen=True, slots=True)
class BreakerTarget:
    """Vendor or site with an organization's credential; job runs wait up to `patience` seconds for a response."""

    organization: str
    name: str
    identity: Mapping[str, Any]
    patience: float

    @property
    def key(self) -> str:
        # A hash: the credential itself is not stored.
        text = json.dumps([self.organization, dict(self.identity)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class BreakerState:
    """State of a breaker. `closed_in`: seconds until the next probe, None if closed; `probe`: the probing batch."""

    failures: int = 0
    closed_in: float | None = None
    probe: str | None = None


def breaker_state(db: Database, key: str, batch_id: str) -> BreakerState:
    """Return the current state; after the open time, this batch becomes the probe if no other is."""
    probing = db.fetch_one(
        BreakerState, _BECOME_PROBE_STATEMENT, {"key": key, "batch": batch_id, "seconds": PROBE_SECONDS}
    )
    current = probing or db.fetch_one(
        BreakerState,
        "select failures, extract(epoch from open_until - now())::float8 as closed_in, probe from breakers"
        " where key = %(key)s",
        {"key": key},
    )
    return current or BreakerState()


_BECOME_PROBE_STATEMENT: LiteralString = """
    update breakers set probe = %(batch)s, open_until = now() + make_interval(secs => %(seconds)s)
    where key = %(key)s and open_until <= now()
    returning failures, %(seconds)s::float8 as closed_in, probe
"""


def record_failure(db: Database, target: BreakerTarget, batch_id: str, *, seconds: float, reason: str) -> BreakerState:
    """Record a failed request of `seconds` and return the new state."""
    values = {
        "key": target.key,
        "organization": target.organization,
        "name": target.name,
        "patience": target.patience,
        "batch": batch_id,
        "seconds": seconds,
        "reason": reason,
        "failures": MAX_CONSECUTIVE_FAILURES,
        "max_seconds": MAX_FAILURE_SECONDS,
        "first": FIRST_OPEN_SECONDS,
        "longest": MAX_OPEN_SECONDS,
    }
    with db.transaction() as connection:
        connection.execute(_COUNT_FAILURE_STATEMENT, values)
        opened = connection.fetch_one(BreakerState, _OPEN_BREAKER_STATEMENT, values)
    return opened or breaker_state(db, target.key, batch_id)


_COUNT_FAILURE_STATEMENT: LiteralString = """
    insert into breakers as b (key, organization_id, name, reason, failures, lost, patience)
    values (%(key)s, %(organization)s, %(name)s, %(reason)s, 1, %(seconds)s, %(patience)s)
    on conflict (key) do update set failures = b.failures + 1, lost = b.lost + excluded.lost, name = excluded.name,
        reason = excluded.reason, patience = excluded.patience, updated_at = now()
"""
_OPEN_BREAKER_STATEMENT: LiteralString = """
    update breakers
    set opened_at = coalesce(opened_at, now()), opens = opens + 1, probe = null,
        open_until = now() + make_interval(secs => least(%(longest)s, %(first)s * 2 ^ least(opens, 20)))
    where key = %(key)s and (probe = %(batch)s or (
        (open_until is null or open_until <= now()) and (failures >= %(failures)s or lost >= %(max_seconds)s)))
    returning failures, extract(epoch from open_until - now())::float8 as closed_in
"""


def record_success(db: Database, key: str) -> None:
    """Delete the breaker after a response."""
    db.execute("delete from breakers where key = %(key)s", {"key": key})


def release_probes(db: Database, batch_id: str, partition: int) -> None:
    """Release the probes of an ended batch and its partition."""
    db.execute(_RELEASE_PROBE_STATEMENT, {"batch": batch_id, "partition": partition})


def release_probe(connection: ThreadConnection, batch_id: str, partition: int | None = None) -> None:
    """Release the probe, in the transaction ending a batch or an attempt."""
    # Without `partition`, the partition still waits for breakers without a probe.
    connection.execute(_RELEASE_PROBE_STATEMENT, {"batch": batch_id, "partition": partition})


_RELEASE_PROBE_STATEMENT: LiteralString = """
    update breakers set probe = null, open_until = now(), partitions = array_remove(partitions, %(partition)s::bigint)
    where probe = %(batch)s
"""


# Partitions with an open breaker, or during another probe: an organization probes one vendor at a time, and at most
# `%(probes)s` organizations probe at once.
BLOCKED_PARTITIONS: LiteralString = """
    array(select unnest(b.partitions) from breakers b, lateral (
              select count(distinct organization_id) as organizations,
                     coalesce(bool_or(organization_id = b.organization_id), false) as own
              from breakers where probe is not null and open_until > now() and partitions <> '{}'
          ) probing
          where b.open_until > now() or (b.open_until is not null
                and (probing.own or probing.organizations >= %(probes)s)))
"""


def become_probe(connection: ThreadConnection, batch_id: str, partition: int) -> bool | None:
    """Return whether the batch of this partition becomes a probe; None if dispatch is not allowed now."""
    values = {"batch": batch_id, "partition": partition, "seconds": PROBE_SECONDS, "probes": MAX_PROBING_ORGANIZATIONS}
    if connection.fetch_one(bool, "select %(partition)s = any(" + BLOCKED_PARTITIONS + ")", values):
        return None
    return bool(
        connection.execute(
            "update breakers set probe = %(batch)s, open_until = now() + make_interval(secs => %(seconds)s)"
            " where open_until <= now() and %(partition)s = any(partitions)",
            values,
        ).rowcount
    )


def wait_for_breakers(connection: ThreadConnection, partition: int, keys: Sequence[str]) -> None:
    """Block all ingestion of the partition until these breakers close."""
    connection.execute(
        "update breakers set partitions = partitions || %(partition)s::bigint"
        " where key = any(%(keys)s) and %(partition)s <> all(partitions)",
        {"partition": partition, "keys": list(keys)},
    )


OPEN_BREAKERS_QUERY: LiteralString = "select count(*) from breakers where open_until > now()"

# Breaker that job run `r` waits for, or null.
RUN_BREAKER_QUERY: LiteralString = """
    (select jsonb_build_object('name', k.name, 'reason', k.reason, 'since', k.opened_at, 'until', k.open_until,
                               'end', greatest(k.opened_at, r.created_at) + make_interval(secs => k.patience))
     from breakers k
     where r.finished_at is null and k.open_until is not null
       and (k.key = r.waits_for or (r.partition_id = any(k.partitions) and r.source <> 'REEMBED')) limit 1)
"""
