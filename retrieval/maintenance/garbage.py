"""Garbage collection: deletes data that no request can reach from the stores, and updates vector metadata.

Sweeps of one scope run one after the other; scopes do not wait for each other. A scope with a hanging store or locked
rows occupies one thread, and half of the threads are reserved for scopes without failures. Each host has at most two
threads; a host that hangs or fails is skipped, each time for longer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from threading import Event
from typing import LiteralString

import structlog

from retrieval import settings
from retrieval.accounts import audit, quotas
from retrieval.database.database import Database, Row
from retrieval.documents import receipts
from retrieval.errors import StepError
from retrieval.ingestion import discover
from retrieval.maintenance import copies, garbage_hosts
from retrieval.maintenance.garbage_actions import ACTIONS, PAGE, Stores
from retrieval.maintenance.garbage_hosts import Hosts
from retrieval.webhooks import deliveries

__all__ = ["Stores", "Sweeper", "forget", "run"]

log = structlog.get_logger()

THREADS = 4
TURN_SECONDS = 10.0
"""How long one scope's sweeps go on while others may wait; what was begun is brought to its end."""

_DUE: LiteralString = (
    """
    with recursive scopes as (
        (select partition_id from sweeps order by partition_id limit 1)
        union all
        select (select s.partition_id from sweeps s where s.partition_id > scopes.partition_id
                order by s.partition_id limit 1)
        from scopes where scopes.partition_id is not null
    ),
    due as (
        select first.partition_id, first.tries > 0 as failed, first.due_at, array_remove(array["""
    + garbage_hosts.VECTORS
    + ", "
    + garbage_hosts.FILES
    + ", "
    + garbage_hosts.OTHERS
    + """], null) as hosts
        from scopes cross join lateral (
            select s.partition_id, s.due_at, s.tries from sweeps s
            where s.partition_id = scopes.partition_id and s.partition_id <> all(%(busy)s)
            order by s.due_at limit 1
        ) first
        join partitions p on p.id = first.partition_id join namespaces n on n.id = p.namespace_id
        where first.due_at <= now()
    )
    select partition_id, failed, hosts from (
        select *, row_number() over (
            partition by failed, hosts = '{}', hosts <@ %(good)s::text[] order by due_at
        ) as turn
        from due where not hosts && %(held)s::text[]
    ) ranked
    where turn <= %(most)s order by due_at
"""
)
"""Scopes with something due, however much it is, by its age: one row of the index for each scope, due or
not: asked for what is due, the plan would hang on statistics of yesterday. So many of each kind that those which have
to wait hide no others."""

_TAKE: LiteralString = (
    """
    update sweeps s
    set tries = tries + 1, due_at = now() + interval '1 minute' * least(power(2, s.tries), 720)
    from partitions p join namespaces n on n.id = p.namespace_id
    where s.id = (select id from sweeps where partition_id = %(partition)s and due_at <= now()
                  and (kind not in ('file', 'document', 'partition') or not """
    + copies.IS_COPIED.format(namespace="(select namespace_id from partitions where id = %(partition)s)")
    + """)
                  order by due_at limit 1 for update skip locked) and p.id = s.partition_id
    returning s.*, p.namespace_id, p.tenant, n.organization_id,
        n.config #>> '{vectorStorageConfig,provider}' as vector_store,
        n.config #>> '{fileStorageConfig,type}' as file_store, """
    + garbage_hosts.VECTORS
    + " as vectors, "
    + garbage_hosts.FILES
    + " as files, "
    + garbage_hosts.OTHERS
    + " as others"
)


@dataclass(frozen=True, slots=True)
class _Turn:
    """Work of one thread on one scope. `hosts`: external hosts of its stores."""

    work: Future[int]
    hosts: tuple[str, ...]
    doubtful: bool
    """What was due failed before, or a host there has not answered yet or failed the last time."""


class Sweeper:
    """Threads that do what is due, each for one scope at a time."""

    def __init__(self, db: Database, stores: Callable[[str], Stores]) -> None:
        """`stores`: by namespace id."""
        self._db = db
        self._stores = stores
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="sweep")
        self._hosts = Hosts()
        self._turns: dict[int, _Turn] = {}
        self._closing = Event()

    def begin(self) -> int:
        """Assign free threads to scopes with work that is due; the number of busy threads.

        One thread is kept for scopes without external stores, and at most half of them serve scopes that have failed.
        """
        self._turns = {scope: turn for scope, turn in self._turns.items() if not turn.work.done()}
        if len(self._turns) >= THREADS:
            return THREADS
        good = set(self._hosts.good())
        params = {"busy": list(self._turns), "good": list(good), "held": self._hosts.held(), "most": 10 * THREADS}
        for row in self._db.rows(_DUE, params):
            hosts = tuple(row["hosts"])
            doubtful = row["failed"] or not good.issuperset(hosts)
            if len(self._turns) < THREADS and self._has_room(hosts, doubtful=doubtful):
                self._hosts.begin(hosts)
                work = self._threads.submit(self._turn, row["partition_id"], hosts)
                self._turns[row["partition_id"]] = _Turn(work, hosts, doubtful)
        return len(self._turns)

    def _has_room(self, hosts: Sequence[str], *, doubtful: bool) -> bool:
        turns = self._turns.values()
        if doubtful and sum(turn.doubtful for turn in turns) >= THREADS // 2:
            return False
        if hosts and sum(bool(turn.hosts) for turn in turns) >= THREADS - 1:
            return False
        return not self._hosts.is_held(hosts)

    def wait(self, seconds: float | None = None) -> int:
        """Until one of the threads is free, or all if no time is named; how many sweeps those that ended have done."""
        turns = [turn.work for turn in self._turns.values()]
        ended, _ = wait(turns, seconds, "ALL_COMPLETED" if seconds is None else "FIRST_COMPLETED")
        return sum(turn.result() for turn in ended)

    def close(self) -> None:
        """Start nothing more; what is running ends by itself."""
        self._closing.set()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _turn(self, partition: int, hosts: Sequence[str]) -> int:
        """One scope's sweeps, until nothing is due, the time is over or a host fails; how many were done."""
        done, ends = 0, time.monotonic() + TURN_SECONDS
        try:
            while self._goes_on(ends, hosts) and (row := self._db.row(_TAKE, {"partition": partition})) is not None:
                if self._do(row):
                    self._settle(row)
                    done += 1
        except Exception:
            log.exception("sweep.failed", partition=partition)
        finally:
            self._hosts.end(hosts)
        return done

    def _goes_on(self, ends: float, hosts: Sequence[str]) -> bool:
        return time.monotonic() < ends and not self._closing.is_set() and not self._hosts.wait(hosts)

    def _settle(self, row: Row) -> None:
        """Record a sweep as done: settle its receipt, and delete the scope with its last sweep, in one transaction."""
        with self._db.transaction() as connection:
            receipts.settle(connection, row)
            if row["kind"] == "partition":
                connection.execute("delete from partitions where id = %(partition_id)s", row)

    def _do(self, row: Row) -> bool:
        """Execute one sweep; return True if it is done. A failure is logged and retried later, with growing delays."""
        try:
            stores = self._stores(row["namespace_id"])
            watched = self._hosts.watched(stores, row["vectors"], row["files"], row["others"])
            ACTIONS[row["kind"]](self._db, watched, row)
        except Exception as error:  # noqa: BLE001 - whatever it is, the others go on
            reason = str(error) if isinstance(error, StepError) else type(error).__name__
            log.warning("sweep.postponed", sweep=row["id"], kind=row["kind"], tries=row["tries"], reason=reason)
            return False
        return True


def run(db: Database, stores: Callable[[str], Stores]) -> int:
    """Do what is due, `stores` by namespace id; how many were done. What fails is tried again, later each time."""
    sweeper = Sweeper(db, stores)
    try:
        sweeper.begin()
        return sweeper.wait()
    finally:
        sweeper.close()


def forget(db: Database) -> None:
    """Drop what has served its time: answers of idempotency keys after a day, of addresses after a minute, of searches
    after two days, of the audit log and of deliveries of webhooks after their days."""
    db.rows(
        "delete from idempotent_answers where ctid = any(array("
        "select ctid from idempotent_answers where created_at < now() - interval '1 day' limit %(page)s))",
        {"page": 10 * PAGE},
    )
    db.rows(
        "delete from rate_windows where caller like 'address:%%'"
        " and minute < floor(extract(epoch from now()) / 60)::bigint - 1",
        {},
    )
    db.rows("delete from search_times where hour < now() - interval '2 days'", {})
    audit.forget(db, settings.load().audit_days)
    deliveries.forget(db, settings.load().webhook_days)
    quotas.recount_due(db)
    discover.forget(db)
