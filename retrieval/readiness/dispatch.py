"""Readiness of dispatch: the last success of the dispatchers' loops, and waiting work.

Dispatchers record ages, not times, so clocks of machines may differ. A loop counts with its youngest dispatcher.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

from retrieval.database.database import Database
from retrieval.jobs import levers
from retrieval.jobs.levers import Lever
from retrieval.jobs.queries import breakers, job_queue
from retrieval.sources import CONNECTED_SOURCES

# Seconds since the last success, by loop.
LATE_AFTER_SECONDS: Mapping[str, float] = {
    "dispatch": 30,
    "reconcile": 60,
    "schedule": 120,
    "sweep": 300,
    "maintain": 3600,
    "listen": 60,
    "webhooks": 60,
}
# Ingestion stops without these; the others only cause delays.
REQUIRED_LOOPS = frozenset({"dispatch", "reconcile"})
# Wait of a job run without any running flow run.
MAX_WAITING_SECONDS = 60.0
FORGET_AFTER_MINUTES = 10
# NTP corrections are smaller.
CLOCK_TOLERANCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class LoopReport:
    """Loop in a dispatcher's report. `age`: seconds since the last success, None before the first."""

    loop: str
    age: float | None
    # Seconds since the start of the loop.
    running: float
    # Error name of the failure after the last success.
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class LoopState:
    """Loop of the dispatchers. `age`: seconds since the last success or, before any, the start; `running`: since the
    start."""

    name: str
    age: float
    running: float
    reason: str | None

    @property
    def late(self) -> bool:
        return self.age > LATE_AFTER_SECONDS.get(self.name, max(LATE_AFTER_SECONDS.values()))

    def __str__(self) -> str:
        suffix = f", since then: {self.reason}" if self.reason else ""
        return f"The dispatcher's loop `{self.name}` has not succeeded for {self.age:.0f} s{suffix}."


@dataclass(frozen=True, slots=True)
class DispatchState:
    """State of dispatch. `waiting`: seconds since the oldest startable job run was due; `reasons`: sentences on a
    stall; `breakers`: open circuit breakers."""

    waiting: float | None
    loops: tuple[LoopState, ...]
    reasons: tuple[str, ...]
    breakers: int = 0
    # Pauses and limits set in Prefect.
    levers: tuple[Lever, ...] = ()

    @property
    def is_held(self) -> bool:
        """Return True if a pause or limit of Prefect blocks new work."""
        return any(lever.blocks_all for lever in self.levers)

    @property
    def stalled(self) -> bool:
        return bool(self.reasons)

    @property
    def late(self) -> tuple[LoopState, ...]:
        """Return the late loops, including optional ones."""
        return tuple(loop for loop in self.loops if loop.late)


# A job run is due at its acceptance, loss or return, or at the end of the previous one of its connection.
_READ_DISPATCH: LiteralString = (
    job_queue.GROUPS_CTE
    + """
    select
        (select extract(epoch from now() - min(since))::float8 from (
            (select min(w.due) as since from groups g cross join lateral (
                select greatest(r.updated_at, (
                    select e.finished_at from job_runs e
                    where r.source = any(%(connected)s) and e.partition_id = r.partition_id and e.source = r.source
                      and e.number < r.number order by e.number desc limit 1)) as due
                from job_runs r where r.partition_id = g.partition_id and r.source = g.source and """
    + job_queue.READY_CONDITION
    + """ order by r.number limit 1
             ) w)
            union all
            (select b.created_at from batches b
             where b.finished_at is null and b.dispatched_at is null and b.attempt = 1 order by b.created_at limit 1)
        ) waits) as waiting,
        exists (select from batches b where b.finished_at is null and b.dispatched_at is not null
                and (b.lease_until > now()
                     or b.dispatched_at > now() - make_interval(secs => %(max_waiting)s))) as under_way,
        (select extract(epoch from now() - min(b.dispatched_at))::float8 from batches b
         where b.finished_at is null and b.dispatched_at is not null and b.started_at is null) as unclaimed,
        (select coalesce(jsonb_agg(jsonb_build_array(loop, age, running, reason) order by loop), '[]')
         from (
            select distinct on (loop) loop, reason, extract(epoch from now() - started_at)::float8 as running,
                   extract(epoch from now() - coalesce(succeeded_at, started_at))::float8 as age
            from dispatcher_loops order by loop, coalesce(succeeded_at, started_at) desc
         ) youngest) as loops,
        (select extract(epoch from max(recorded_at) - now())::float8 from dispatcher_loops) as back,
        ("""
    + breakers.OPEN_BREAKERS_QUERY
    + """) as breakers, """
    + levers.CURRENT_LEVERS
    + """ as levers
"""
)

# `recorded_at` never decreases, so a clock set back remains visible.
_RECORD_LOOPS: LiteralString = """
    insert into dispatcher_loops (dispatcher, loop, started_at, succeeded_at, reason, recorded_at)
    select %(dispatcher)s, b.loop, now() - make_interval(secs => b.running), now() - make_interval(secs => b.age),
           b.reason, now()
    from unnest(%(loops)s::text[], %(running)s::float8[], %(ages)s::float8[], %(reasons)s::text[])
         as b (loop, running, age, reason)
    on conflict (dispatcher, loop) do update
    set started_at = excluded.started_at, succeeded_at = excluded.succeeded_at, reason = excluded.reason,
        recorded_at = greatest(dispatcher_loops.recorded_at, excluded.recorded_at)
"""


@dataclass(frozen=True, slots=True)
class DispatchRow:
    """State of dispatch in the database; times in seconds, `loops` as fields of `LoopState`."""

    waiting: float | None
    under_way: bool
    unclaimed: float | None
    loops: Sequence[Sequence[Any]]
    back: float | None
    breakers: int
    levers: Any


_READ_PARAMS = {"connected": list(CONNECTED_SOURCES), "max_waiting": MAX_WAITING_SECONDS}


def read_dispatch(db: Database) -> DispatchState:
    """Read the state of dispatch from a thread."""
    return _dispatch_state(db.fetch(DispatchRow, _READ_DISPATCH, _READ_PARAMS)[0])


async def async_read_dispatch(db: Database) -> DispatchState:
    """Read the state of dispatch on the event loop."""
    return _dispatch_state((await db.async_fetch(DispatchRow, _READ_DISPATCH, _READ_PARAMS))[0])


def record_loops(db: Database, dispatcher: str, beats: Sequence[LoopReport]) -> None:
    """Record the loops of a dispatcher, and delete dispatchers without recent reports."""
    values = {
        "dispatcher": dispatcher,
        "loops": [beat.loop for beat in beats],
        "running": [beat.running for beat in beats],
        "ages": [beat.age for beat in beats],
        "reasons": [beat.reason for beat in beats],
    }
    db.execute(_RECORD_LOOPS, values)
    db.execute(
        "delete from dispatcher_loops where recorded_at < now() - make_interval(mins => %(minutes)s)",
        {"minutes": FORGET_AFTER_MINUTES},
    )


def deregister_dispatcher(db: Database, dispatcher: str) -> None:
    """Delete the report of a stopping dispatcher."""
    db.execute("delete from dispatcher_loops where dispatcher = %(dispatcher)s", {"dispatcher": dispatcher})


def _dispatch_state(row: DispatchRow) -> DispatchState:
    loops = tuple(LoopState(*fields) for fields in row.loops)
    reasons = _stall_reasons(row.waiting, row.unclaimed, loops, under_way=row.under_way)
    if row.back is not None and row.back > CLOCK_TOLERANCE_SECONDS:
        reasons.append(
            f"The database's clock went back by {row.back:.0f} s, and what waits for a moment waits longer by that:"
            " keep it right by NTP, then restart the dispatchers."
        )
    return DispatchState(row.waiting, loops, tuple(reasons), row.breakers, levers.load_levers(row.levers))


def _stall_reasons(
    waiting: float | None, unclaimed: float | None, loops: Sequence[LoopState], *, under_way: bool
) -> list[str]:
    """Return the reasons of a stall. `unclaimed`: seconds since the creation of the oldest unstarted flow run."""
    # A flow run is under way while its lease is renewed, and for a minute after its creation.
    late = [str(loop) for loop in loops if loop.late and loop.name in REQUIRED_LOOPS]
    is_starting = bool(loops) and min(loop.running for loop in loops) < MAX_WAITING_SECONDS
    if late or under_way or is_starting:
        return late
    if unclaimed is not None and unclaimed > MAX_WAITING_SECONDS:
        return [
            f"No worker has begun a flow run that was created {unclaimed:.0f} s ago: look at Prefect and the workers."
        ]
    if waiting is None or waiting <= MAX_WAITING_SECONDS:
        return []
    reason = f"A job run has waited for {waiting:.0f} s while no flow run is under way"
    return [f"{reason}." if loops else f"{reason}, and no dispatcher reports: start one."]
