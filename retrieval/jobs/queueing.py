"""Queue position of a job run within scope and source, and the estimated start."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, LiteralString, NamedTuple

from retrieval.database.database import Database

# Bounds the cost of the count.
MAX_COUNTED_RUNS: Final = 10_000
# Newest batches of the service, the sample of its throughput.
SAMPLED_BATCHES: Final = 100
# Older batches do not count for the throughput.
SAMPLE_AGE_SECONDS: Final = 3600
# Job runs that may start in one batch, without a throughput.
MAX_BATCH_RUNS: Final = 1000


@dataclass(frozen=True, slots=True)
class QueueEstimate:
    """Position from 1, at most one above the limit, and likely start (None if unknown)."""

    position: int
    start: datetime | None


async def find_position(db: Database, job_run_id: str) -> QueueEstimate | None:
    """Return the job run's position; None if it does not wait."""
    values = {"run": job_run_id, "max_runs": MAX_COUNTED_RUNS, "sampled": SAMPLED_BATCHES, "recent": SAMPLE_AGE_SECONDS}
    queue = await db.async_fetch_one(QueueState, _QUEUE_STATE_QUERY, values)
    return None if queue is None else QueueEstimate(queue.ahead + 1, estimate_start(queue))


class QueueState(NamedTuple):
    """Queue before a job run: waiting time in seconds, throughput in job runs per second."""

    read_at: datetime
    since: datetime
    next_probe_at: datetime | None
    ahead: int
    wait: float | None
    pace: float | None


def estimate_start(queue: QueueState) -> datetime | None:
    """Estimate the start by the average wait, the throughput and the next probe of a breaker; None without data."""
    if queue.wait is None or (not queue.pace and queue.ahead >= MAX_BATCH_RUNS):
        return None
    moment = queue.since + timedelta(seconds=queue.wait)
    if queue.pace:
        moment = max(moment, queue.read_at + timedelta(seconds=queue.ahead / queue.pace))
    return max(queue.read_at, moment, queue.next_probe_at or queue.read_at)


# For a run without a batch or in an unclaimed batch.
_QUEUE_STATE_QUERY: LiteralString = """
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
    select now() as read_at, mine.since, (
               select max(k.open_until) from breakers k
               where k.key = mine.waits_for or (mine.partition_id = any(k.partitions) and mine.source <> 'REEMBED')
           ) as next_probe_at, least(%(max_runs)s, before.runs + waiting.runs) as ahead,
           (select extract(epoch from avg(started_at - created_at))::float8 from newest) as wait,
           (select sum(size) / greatest(1, extract(epoch from now() - min(started_at)))::float8 from newest n
            where n.partition_id = mine.partition_id and n.source = mine.source) as pace
    from mine
    cross join lateral (
        select count(*) as runs from (
            select from leaving l join job_runs a on a.batch_id = l.id
            where l.partition_id = mine.partition_id and l.source = mine.source and a.finished_at is null
              and a.number < mine.number limit %(max_runs)s
        ) found
    ) before
    cross join lateral (
        select count(*) as runs from (
            select from job_runs a
            where mine.batch_id is null and a.partition_id = mine.partition_id and a.source = mine.source
              and a.batch_id is null and a.finished_at is null and a.number < mine.number limit %(max_runs)s
        ) found
    ) waiting
"""
