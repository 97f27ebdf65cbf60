"""Queue position of a job run in its scope and source, and its estimated start.

Bounded reads: places are counted up to MOST, throughput comes from the newest SAMPLED batches of the service.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, LiteralString, NamedTuple

from retrieval.database.database import Database

MOST: Final = 10_000
"""Job runs ahead that are counted at most."""
SAMPLED: Final = 100
"""Newest batches, of everybody, from which it is known how fast work begins."""
RECENT_SECONDS: Final = 3600
"""Batches that began earlier say nothing of now."""
TOGETHER: Final = 1000
"""Job runs that may begin together, in one batch: so many need no throughput of their own to be estimated."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """`position`: from 1, the next to begin; at most MOST + 1. `start`: when it is likely to begin, None if unknown."""

    position: int
    start: datetime | None


async def queue_place(db: Database, job_run_id: str) -> Waiting | None:
    """The job run's place now; None if it does not wait: a worker has it, or it has ended."""
    values = {"run": job_run_id, "most": MOST, "sampled": SAMPLED, "recent": RECENT_SECONDS}
    queue = await db.async_fetch_one(Queue, _PLACE, values)
    return None if queue is None else Waiting(queue.ahead + 1, estimate_start(queue))


class Queue(NamedTuple):
    """The queue before a job run that waits `since`. `rests`: the next probe of its breaker; `wait`: average seconds
    for a worker; `pace`: job runs a second."""

    now: datetime
    since: datetime
    rests: datetime | None
    ahead: int
    wait: float | None
    pace: float | None


def estimate_start(queue: Queue) -> datetime | None:
    """Estimate the start from the average wait for a worker and the pace of the queue; at least now and the next probe
    of an open breaker. None without data."""
    if queue.wait is None or (not queue.pace and queue.ahead >= TOGETHER):
        return None
    moment = queue.since + timedelta(seconds=queue.wait)
    if queue.pace:
        moment = max(moment, queue.now + timedelta(seconds=queue.ahead / queue.pace))
    return max(queue.now, moment, queue.rests or queue.now)


_PLACE: LiteralString = """
    with mine as (
        select r.id, r.number, r.partition_id, r.source, r.batch_id, r.waits_for, r.updated_at as since
        from job_runs r left join batches b on b.id = r.batch_id
        where r.id = %(run)s and r.finished_at is null and (r.batch_id is null or b.lease_until is null)
    ),
    leaving as materialized (
        select id, partition_id, source from batches where finished_at is null and lease_until is null
    ),
    newest as materialized (
        select partition_id, source, size, created_at, started_at from (
            select * from batches order by id desc limit %(sampled)s
        ) b where started_at > now() - make_interval(secs => %(recent)s)
    )
    select now() as now, mine.since, (
               select max(k.open_until) from breakers k
               where k.key = mine.waits_for or (mine.partition_id = any(k.partitions) and mine.source <> 'REEMBED')
           ) as rests, least(%(most)s, before.runs + waiting.runs) as ahead,
           (select extract(epoch from avg(started_at - created_at))::float8 from newest) as wait,
           (select sum(size) / greatest(1, extract(epoch from now() - min(started_at)))::float8 from newest n
            where n.partition_id = mine.partition_id and n.source = mine.source) as pace
    from mine
    cross join lateral (
        select count(*) as runs from (
            select from leaving l join job_runs a on a.batch_id = l.id
            where l.partition_id = mine.partition_id and l.source = mine.source and a.finished_at is null
              and a.number < mine.number limit %(most)s
        ) found
    ) before
    cross join lateral (
        select count(*) as runs from (
            select from job_runs a
            where mine.batch_id is null and a.partition_id = mine.partition_id and a.source = mine.source
              and a.batch_id is null and a.finished_at is null and a.number < mine.number limit %(most)s
        ) found
    ) waiting
"""
"""Of one that waits for a batch, or within a batch that no worker has yet."""
