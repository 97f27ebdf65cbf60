"""What the stores are still to be told: deletions, gone from all answers before and read back here, and new labels.

Each scope's sweeps are done one after the other, and no two scopes wait for each other: one whose store hangs, or whose
rows are held, keeps one thread busy, and half of the threads are kept for those without trouble.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Event
from typing import LiteralString

import structlog

from retrieval import frontier
from retrieval.database import Database, Row
from retrieval.errors import StepError
from retrieval.ports import Scope
from retrieval.sweep_actions import ACTIONS, PAGE, Stores

__all__ = ["Stores", "Sweeper", "forget", "maintain", "run"]

log = structlog.get_logger()

LARGE = 10_000
"""Chunks from which on a scope is looked after."""
THREADS = 4
TURN_SECONDS = 10.0
"""How long one scope's sweeps go on while others may wait; what was begun is brought to its end."""

_DUE: LiteralString = """
    with recursive scopes as (
        (select partition_id from sweeps order by partition_id limit 1)
        union all
        select (select s.partition_id from sweeps s where s.partition_id > scopes.partition_id
                order by s.partition_id limit 1)
        from scopes where scopes.partition_id is not null
    )
    select first.partition_id, first.tries > 0 as failed
    from scopes cross join lateral (
        select s.partition_id, s.due_at, s.tries from sweeps s
        where s.partition_id = scopes.partition_id and s.due_at <= now() and s.partition_id <> all(%(busy)s)
        order by s.due_at limit 1
    ) first
    order by first.due_at limit %(most)s
"""
"""Scopes with something due, however much it is, by its age: one row of the index for each scope."""

_TAKE: LiteralString = """
    update sweeps s
    set tries = tries + 1, due_at = now() + interval '1 minute' * least(power(2, s.tries), 720)
    from partitions p join namespaces n on n.id = p.namespace_id
    where s.id = (select id from sweeps where partition_id = %(partition)s and due_at <= now()
                  order by due_at limit 1 for update skip locked) and p.id = s.partition_id
    returning s.*, p.namespace_id, p.tenant, n.organization_id
"""


class Sweeper:
    """Threads that do what is due, each for one scope at a time."""

    def __init__(self, db: Database, stores: Callable[[str], Stores]) -> None:
        """`stores`: by namespace id."""
        self._db = db
        self._stores = stores
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="sweep")
        self._busy: dict[int, tuple[Future[int], bool]] = {}
        self._closing = Event()

    def begin(self) -> int:
        """Give free threads to scopes with something due; how many are at work."""
        self._busy = {scope: turn for scope, turn in self._busy.items() if not turn[0].done()}
        free = THREADS - len(self._busy)
        if free <= 0:
            return len(self._busy)
        begun = 0
        for row in self._db.rows(_DUE, {"busy": list(self._busy), "most": 10 * THREADS}):
            troubled = sum(failed for _, failed in self._busy.values())
            if begun == free or (row["failed"] and troubled >= THREADS // 2):
                continue
            turn = self._threads.submit(self._turn, row["partition_id"])
            self._busy[row["partition_id"]] = (turn, row["failed"])
            begun += 1
        return len(self._busy)

    def wait(self, seconds: float | None = None) -> int:
        """Until one of the threads is free, or all if no time is named; how many sweeps those that ended have done."""
        turns = [turn for turn, _ in self._busy.values()]
        ended, _ = wait(turns, seconds, "ALL_COMPLETED" if seconds is None else "FIRST_COMPLETED")
        return sum(turn.result() for turn in ended)

    def close(self) -> None:
        """Nothing more is begun; what was begun ends by itself."""
        self._closing.set()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _turn(self, partition: int) -> int:
        """One scope's sweeps, until nothing is due or the time is over; how many were done."""
        done, ends = 0, time.monotonic() + TURN_SECONDS
        try:
            while self._goes_on(ends) and (row := self._db.row(_TAKE, {"partition": partition})) is not None:
                if self._do(row):
                    self._db.rows("delete from sweeps where id = %(id)s", row)
                    done += 1
        except Exception:
            log.exception("sweep.failed", partition=partition)
        return done

    def _goes_on(self, ends: float) -> bool:
        return time.monotonic() < ends and not self._closing.is_set()

    def _do(self, row: Row) -> bool:
        """Whether it is done. What fails is tried again, later each time, and stops nothing else."""
        try:
            ACTIONS[row["kind"]](self._db, self._stores(row["namespace_id"]), row)
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


def maintain(db: Database, stores: Callable[[str], Stores]) -> None:
    """Let the vector stores look after the scopes that have grown large."""
    large = db.rows(
        """
        select n.organization_id, p.namespace_id, p.tenant from partitions p join namespaces n on n.id = p.namespace_id
        where p.chunks >= %(large)s and n.deleted_at is null
        """,
        {"large": LARGE},
    )
    for row in large:
        try:
            stores(row["namespace_id"]).vectors.maintain(
                Scope(row["organization_id"], row["namespace_id"], row["tenant"])
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, the others go on
            reason = str(error) if isinstance(error, StepError) else type(error).__name__
            log.warning("maintenance.postponed", namespace=row["namespace_id"], reason=reason)


def forget(db: Database) -> None:
    """Drop what has served its time: answers of idempotency keys after a day, of addresses after a minute, of searches
    after two days."""
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
    frontier.forget(db)
