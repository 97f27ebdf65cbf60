"""Garbage collection of unreachable data by threads, and retention of what is kept for a time."""

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
from retrieval.documents.queries import counts, uploads
from retrieval.errors import StepError
from retrieval.ingestion.queries import frontier
from retrieval.maintenance import queries_garbage, queries_sweeps
from retrieval.maintenance.garbage_actions import SWEEP_ACTIONS
from retrieval.maintenance.garbage_hosts import HostBackoff
from retrieval.maintenance.queries_sweeps import Sweep
from retrieval.maintenance.stores import Stores
from retrieval.search import queries_weak
from retrieval.webhooks import deliveries

log = structlog.get_logger()

# Sweeps of one scope run one after the other; scopes do not wait for each other.
SWEEP_THREADS = 4
# After this time a thread continues with another scope.
SCOPE_TURN_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class _ScopeTurn:
    """Work of a thread on a scope. `hosts`: external hosts of the scope's stores."""

    work: Future[int]
    hosts: tuple[str, ...]
    # The sweep failed before, or a host has not succeeded yet or failed last.
    doubtful: bool


class GarbageCollector:
    """Thread pool for due sweeps, one scope per thread."""

    def __init__(self, db: Database, stores: Callable[[str], Stores]) -> None:
        """Create the threads. `stores`: stores by namespace id."""
        self._db = db
        self._stores = stores
        self._threads = ThreadPoolExecutor(SWEEP_THREADS, thread_name_prefix="sweep")
        self._hosts = HostBackoff()
        self._turns: dict[int, _ScopeTurn] = {}
        self._closing = Event()

    def begin(self) -> int:
        """Assign free threads to scopes with due sweeps; return the number of busy threads."""
        self._turns = {scope: turn for scope, turn in self._turns.items() if not turn.work.done()}
        if len(self._turns) >= SWEEP_THREADS:
            return SWEEP_THREADS
        healthy = self._hosts.list_healthy()
        busy, blocked, limit = list(self._turns), self._hosts.list_blocked(), 10 * SWEEP_THREADS
        for scope in queries_sweeps.list_due(self._db, busy=busy, healthy=healthy, blocked=blocked, limit=limit):
            hosts = tuple(scope.hosts)
            doubtful = scope.failed or not set(healthy).issuperset(hosts)
            if len(self._turns) < SWEEP_THREADS and self._has_room(hosts, doubtful=doubtful):
                self._hosts.add_thread(hosts)
                work = self._threads.submit(self._sweep_scope, scope.partition_id, hosts)
                self._turns[scope.partition_id] = _ScopeTurn(work, hosts, doubtful)
        return len(self._turns)

    def _has_room(self, hosts: Sequence[str], *, doubtful: bool) -> bool:
        turns = self._turns.values()
        # A store that hangs occupies a thread: half of the threads are for scopes without failures.
        if doubtful and sum(turn.doubtful for turn in turns) >= SWEEP_THREADS // 2:
            return False
        # One thread is for scopes without external stores.
        if hosts and sum(bool(turn.hosts) for turn in turns) >= SWEEP_THREADS - 1:
            return False
        return not self._hosts.is_any_blocked(hosts)

    def wait(self, seconds: float | None = None) -> int:
        """Wait for a free thread (`seconds` None: for all); return the number of completed sweeps."""
        turns = [turn.work for turn in self._turns.values()]
        ended, _ = wait(turns, seconds, "ALL_COMPLETED" if seconds is None else "FIRST_COMPLETED")
        return sum(turn.result() for turn in ended)

    def close(self) -> None:
        """Start no further sweep; running sweeps continue to their end."""
        self._closing.set()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _sweep_scope(self, partition: int, hosts: Sequence[str]) -> int:
        """Execute due sweeps of a scope until a time limit or host failure; return the number completed."""
        completed, deadline = 0, time.monotonic() + SCOPE_TURN_SECONDS
        try:
            while self._may_continue(deadline, hosts) and (sweep := queries_sweeps.take_sweep(self._db, partition)):
                if self._execute(sweep):
                    self._settle(sweep)
                    completed += 1
        except Exception:
            log.exception("sweep.failed", partition=partition)
        finally:
            self._hosts.remove_thread(hosts)
        return completed

    def _may_continue(self, deadline: float, hosts: Sequence[str]) -> bool:
        return time.monotonic() < deadline and not self._closing.is_set() and not self._hosts.is_any_delayed(hosts)

    def _settle(self, sweep: Sweep) -> None:
        """Settle the sweep's receipt and delete a swept scope in one transaction."""
        with self._db.transaction() as connection:
            receipts.settle_sweep(connection, sweep.id)
            if sweep.kind == "partition":
                queries_garbage.delete_partition(connection, sweep)

    def _execute(self, sweep: Sweep) -> bool:
        """Execute a sweep; return False after a logged failure, retried with growing delays."""
        try:
            stores = self._stores(sweep.namespace_id)
            watched = self._hosts.watch_stores(stores, sweep.vectors, sweep.files, sweep.others)
            SWEEP_ACTIONS[sweep.kind](self._db, watched, sweep)
        except Exception as error:  # noqa: BLE001 - no sweep may end the thread
            reason = str(error) if isinstance(error, StepError) else type(error).__name__
            log.warning("sweep.postponed", sweep=sweep.id, kind=sweep.kind, tries=sweep.tries, reason=reason)
            return False
        return True


def collect_garbage(db: Database, stores: Callable[[str], Stores]) -> int:
    """Execute the due sweeps once; return the number completed."""
    collector = GarbageCollector(db, stores)
    try:
        collector.begin()
        return collector.wait()
    finally:
        collector.close()


def delete_expired(db: Database) -> None:
    """Delete what is kept for a time only, and merge the counts of quotas and documents."""
    options = settings.load_settings()
    queries_garbage.delete_short_lived(db)
    uploads.delete_expired(db)
    queries_weak.delete_old_searches(db, options.weak_search_days)
    audit.delete_old_entries(db, options.audit_days)
    deliveries.delete_old_deliveries(db, options.webhook_days)
    quotas.recount_due(db)
    counts.merge_counts(db)
    frontier.delete_frontiers(db)
