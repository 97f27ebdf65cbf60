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

import structlog

from retrieval import settings
from retrieval.accounts import audit, quotas
from retrieval.database.database import Database
from retrieval.documents import receipts
from retrieval.documents.queries import counts
from retrieval.documents.queries import uploads as file_uploads
from retrieval.errors import StepError
from retrieval.ingestion.queries import frontier
from retrieval.maintenance import queries, queries_garbage
from retrieval.maintenance.garbage_actions import ACTIONS, PAGE, Stores
from retrieval.maintenance.garbage_hosts import Hosts
from retrieval.maintenance.queries import Sweep
from retrieval.search import queries_weak
from retrieval.webhooks import deliveries

__all__ = ["GarbageCollector", "Stores", "collect_garbage", "delete_expired"]

log = structlog.get_logger()

THREADS = 4
TURN_SECONDS = 10.0
"""How long one scope's sweeps go on while others may wait; what was begun is brought to its end."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """Work of one thread on one scope. `hosts`: external hosts of its stores."""

    work: Future[int]
    hosts: tuple[str, ...]
    doubtful: bool
    """What was due failed before, or a host there has not answered yet or failed the last time."""


class GarbageCollector:
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
        busy, held_hosts = list(self._turns), self._hosts.held()
        for scope in queries.list_due(self._db, busy=busy, good=list(good), held=held_hosts, limit=10 * THREADS):
            hosts = tuple(scope.hosts)
            doubtful = scope.failed or not good.issuperset(hosts)
            if len(self._turns) < THREADS and self._has_room(hosts, doubtful=doubtful):
                self._hosts.begin(hosts)
                work = self._threads.submit(self._turn, scope.partition_id, hosts)
                self._turns[scope.partition_id] = _Turn(work, hosts, doubtful)
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
            while self._goes_on(ends, hosts) and (sweep := queries.take_sweep(self._db, partition)):
                if self._do(sweep):
                    self._settle(sweep)
                    done += 1
        except Exception:
            log.exception("sweep.failed", partition=partition)
        finally:
            self._hosts.end(hosts)
        return done

    def _goes_on(self, ends: float, hosts: Sequence[str]) -> bool:
        return time.monotonic() < ends and not self._closing.is_set() and not self._hosts.wait(hosts)

    def _settle(self, sweep: Sweep) -> None:
        """Record a sweep as done: settle its receipt, and delete the scope with its last sweep, in one transaction."""
        with self._db.transaction() as connection:
            receipts.settle_sweep(connection, sweep.id)
            if sweep.kind == "partition":
                queries_garbage.delete_partition(connection, sweep)

    def _do(self, sweep: Sweep) -> bool:
        """Execute one sweep; return True if it is done. A failure is logged and retried later, with growing delays."""
        try:
            stores = self._stores(sweep.namespace_id)
            watched = self._hosts.watched(stores, sweep.vectors, sweep.files, sweep.others)
            ACTIONS[sweep.kind](self._db, watched, sweep)
        except Exception as error:  # noqa: BLE001 - whatever it is, the others go on
            reason = str(error) if isinstance(error, StepError) else type(error).__name__
            log.warning("sweep.postponed", sweep=sweep.id, kind=sweep.kind, tries=sweep.tries, reason=reason)
            return False
        return True


def collect_garbage(db: Database, stores: Callable[[str], Stores]) -> int:
    """Do what is due, `stores` by namespace id; how many were done. What fails is tried again, later each time."""
    collector = GarbageCollector(db, stores)
    try:
        collector.begin()
        return collector.wait()
    finally:
        collector.close()


def delete_expired(db: Database) -> None:
    """Drop what has served its time: answers of idempotency keys after a day, of addresses after a minute, of searches
    after two days, uploads at their expiry, weak searches, entries of the audit log and deliveries of webhooks after
    their days. Counts of documents are added up.
    """
    queries.delete_expired(db, 10 * PAGE)
    file_uploads.delete_expired(db)
    queries_weak.delete_old(db, settings.load_settings().weak_search_days)
    audit.delete_old_entries(db, settings.load_settings().audit_days)
    deliveries.delete_old(db, settings.load_settings().webhook_days)
    quotas.recount_due(db)
    counts.add_up_counts(db)
    frontier.delete_frontiers(db)
