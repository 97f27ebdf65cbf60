"""Readiness of dispatch: the last success of the dispatchers' loops, and the work that waits for them.

Each dispatcher writes the age of its loops' last success every few seconds; ages are differences of one clock each, so
that clocks of machines may disagree. A loop is as young as in the dispatcher where it is youngest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

from retrieval.database.database import Database
from retrieval.jobs import levers
from retrieval.jobs.levers import Lever
from retrieval.jobs.queries import breakers, job_queue
from retrieval.sources import CONNECTED

LATE: Mapping[str, float] = {
    "dispatch": 30,
    "reconcile": 60,
    "schedule": 120,
    "sweep": 300,
    "maintain": 3600,
    "listen": 60,
    "webhooks": 60,
}
"""Seconds after its last success from which a loop is late, by its name."""
NEEDED = frozenset({"dispatch", "reconcile"})
"""Without these nothing new is ingested; without the others something comes late."""
WAITING_MOST = 60.0
"""Seconds for which a job run may wait while no flow run is under way."""
FORGET_MINUTES = 10
"""A dispatcher that has not written for so long does not run any more."""
BACK_SECONDS = 60.0
"""How far PostgreSQL's clock may go back without a word: NTP sets clocks right by less."""


@dataclass(frozen=True, slots=True)
class Beat:
    """A loop as its dispatcher reports it. `age`: seconds since its last success, None before the first."""

    loop: str
    age: float | None
    running: float
    """Seconds since it began."""
    reason: str | None = None
    """The name of the error that it failed with since."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop of the dispatchers. `age`: seconds since its last success, or since its start before the first.

    `running`: seconds since its start.
    """

    name: str
    age: float
    running: float
    reason: str | None

    @property
    def late(self) -> bool:
        return self.age > LATE.get(self.name, max(LATE.values()))

    def __str__(self) -> str:
        why = f", since then: {self.reason}" if self.reason else ""
        return f"The dispatcher's loop `{self.name}` has not succeeded for {self.age:.0f} s{why}."


@dataclass(frozen=True, slots=True)
class Dispatch:
    """State of dispatch. `waiting`: seconds since the oldest job run that may start was due; None if none is.

    `reasons`: why it is stalled, in words; none if it is not. `breakers`: open circuit breakers of vendors and sites,
    per organization.
    """

    waiting: float | None
    loops: tuple[Loop, ...]
    reasons: tuple[str, ...]
    breakers: int = 0
    levers: tuple[Lever, ...] = ()
    """Levers of Prefect that hold something back, by people's choice."""

    @property
    def is_held(self) -> bool:
        """Tell whether a pause or limit of Prefect keeps new work from starting."""
        return any(lever.holds_all for lever in self.levers)

    @property
    def stalled(self) -> bool:
        return bool(self.reasons)

    @property
    def late(self) -> tuple[Loop, ...]:
        """Return all late loops, also those that ingestion does not depend on."""
        return tuple(loop for loop in self.loops if loop.late)


_LOOK: LiteralString = (
    job_queue.GROUPS
    + """
    select
        (select extract(epoch from now() - min(since))::float8 from (
            (select min(w.due) as since from groups g cross join lateral (
                select greatest(r.updated_at, (
                    select e.finished_at from job_runs e
                    where r.source = any(%(connected)s) and e.partition_id = r.partition_id and e.source = r.source
                      and e.number < r.number order by e.number desc limit 1)) as due
                from job_runs r where r.partition_id = g.partition_id and r.source = g.source and """
    + job_queue.MAY_LEAVE
    + """ order by r.number limit 1
             ) w)
            union all
            (select b.created_at from batches b
             where b.finished_at is null and b.dispatched_at is null and b.attempt = 1 order by b.created_at limit 1)
        ) waits) as waiting,
        exists (select from batches b where b.finished_at is null and b.dispatched_at is not null
                and (b.lease_until > now() or b.dispatched_at > now() - make_interval(secs => %(most)s))) as under_way,
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
    + breakers.OPEN
    + """) as breakers, """
    + levers.CURRENT
    + """ as levers
"""
)
"""A job run is due from when it was accepted, lost or handed back, or the one before it of its connection ended."""

_RECORD: LiteralString = """
    insert into dispatcher_loops (dispatcher, loop, started_at, succeeded_at, reason, recorded_at)
    select %(dispatcher)s, b.loop, now() - make_interval(secs => b.running), now() - make_interval(secs => b.age),
           b.reason, now()
    from unnest(%(loops)s::text[], %(running)s::float8[], %(ages)s::float8[], %(reasons)s::text[])
         as b (loop, running, age, reason)
    on conflict (dispatcher, loop) do update
    set started_at = excluded.started_at, succeeded_at = excluded.succeeded_at, reason = excluded.reason,
        recorded_at = greatest(dispatcher_loops.recorded_at, excluded.recorded_at)
"""
"""`recorded_at` stays where it was after PostgreSQL's clock went back, so that everybody sees by how much."""


@dataclass(frozen=True, slots=True)
class DispatchRow:
    """State of dispatch in the database: `waiting`, `unclaimed` and `back` in seconds; `loops`: fields of `Loop`."""

    waiting: float | None
    under_way: bool
    unclaimed: float | None
    loops: Sequence[Sequence[Any]]
    back: float | None
    breakers: int
    levers: Any


_VALUES = {"connected": list(CONNECTED), "most": WAITING_MOST}


def read_dispatch(db: Database) -> Dispatch:
    """Read the state of dispatch, of all dispatchers, from a thread."""
    return _read(db.fetch(DispatchRow, _LOOK, _VALUES)[0])


async def async_look(db: Database) -> Dispatch:
    """Async form of `read_dispatch`."""
    return _read((await db.async_fetch(DispatchRow, _LOOK, _VALUES))[0])


def record_loops(db: Database, dispatcher: str, beats: Sequence[Beat]) -> None:
    """Record the loops of a dispatcher, and forget dispatchers that ended."""
    values = {
        "dispatcher": dispatcher,
        "loops": [beat.loop for beat in beats],
        "running": [beat.running for beat in beats],
        "ages": [beat.age for beat in beats],
        "reasons": [beat.reason for beat in beats],
    }
    db.execute(_RECORD, values)
    db.execute(
        "delete from dispatcher_loops where recorded_at < now() - make_interval(mins => %(minutes)s)",
        {"minutes": FORGET_MINUTES},
    )


def deregister_dispatcher(db: Database, dispatcher: str) -> None:
    """Deregister a dispatcher that ends in order."""
    db.execute("delete from dispatcher_loops where dispatcher = %(dispatcher)s", {"dispatcher": dispatcher})


def _read(row: DispatchRow) -> Dispatch:
    loops = tuple(Loop(*fields) for fields in row.loops)
    reasons = _reasons(row.waiting, row.unclaimed, loops, under_way=row.under_way)
    if row.back is not None and row.back > BACK_SECONDS:
        reasons.append(
            f"The database's clock went back by {row.back:.0f} s, and what waits for a moment waits longer by that:"
            " keep it right by NTP, then restart the dispatchers."
        )
    return Dispatch(row.waiting, loops, tuple(reasons), row.breakers, levers.load_levers(row.levers))


def _reasons(waiting: float | None, unclaimed: float | None, loops: Sequence[Loop], *, under_way: bool) -> list[str]:
    """A dispatcher that never reported matters only once something waits; one that just began has yet to look.

    A flow run is under way while its worker renews its lease, and for a minute after it was created. `unclaimed`:
    seconds since the oldest one was created that no worker has begun.
    """
    late = [str(loop) for loop in loops if loop.late and loop.name in NEEDED]
    begins = bool(loops) and min(loop.running for loop in loops) < WAITING_MOST
    if late or under_way or begins:
        return late
    if unclaimed is not None and unclaimed > WAITING_MOST:
        return [
            f"No worker has begun a flow run that was created {unclaimed:.0f} s ago: look at Prefect and the workers."
        ]
    if waiting is None or waiting <= WAITING_MOST:
        return []
    reason = f"A job run has waited for {waiting:.0f} s while no flow run is under way"
    return [f"{reason}." if loops else f"{reason}, and no dispatcher reports: start one."]
