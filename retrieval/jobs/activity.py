"""Activity of a scope: waiting and running job runs, recent failures, tokens, search latency."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import LiteralString, NamedTuple

import structlog

from retrieval.database import partitions
from retrieval.database.database import UNAVAILABLE_ERRORS, Database
from retrieval.jobs.queries import progress as run_progress
from retrieval.metrics import catalog, counts
from retrieval.ports import Scope

log = structlog.get_logger()

WRITE_INTERVAL_SECONDS = 5.0
HISTORY_HOURS, HISTORY_DAYS = 24, 30
# A time read back is within 5 % of the measured time.
BUCKETS_PER_DOUBLING = 8


@dataclass(frozen=True, slots=True)
class Activity:
    """Activity of one scope; searches of the last 24 hours with times in milliseconds."""

    runs: dict[str, int]
    oldest_waiting: datetime | None
    failed_last_day: int
    tokens: int
    searches: int
    search_p50: float | None
    search_p95: float | None
    search_times: list[tuple[float, int]]
    search_hours: list[SearchHour]


@dataclass(frozen=True, slots=True)
class SearchHour:
    """Searches of one hour with times in milliseconds."""

    at: datetime
    searches: int
    p50: float | None
    p95: float | None


@dataclass(frozen=True, slots=True)
class DocumentCount:
    """Documents finished in one hour or day."""

    at: datetime
    indexed: int
    failed: int


@dataclass(frozen=True, slots=True)
class DocumentHistory:
    """Finished documents of the last 24 hours and 30 days (UTC), oldest first."""

    hours: list[DocumentCount]
    days: list[DocumentCount]


class SearchTimes:
    """Search times, counted in memory and written every few seconds so that a search never waits."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._counts: Counter[tuple[str, str, datetime, int]] = Counter()

    def record_search(self, scope: Scope, seconds: float, mode: str = "semantic") -> None:
        """Count one search; `mode` is `semantic` or `hybrid`."""
        counts.observe_seconds(catalog.SEARCH, seconds, mode)
        hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        self._counts[scope.namespace, scope.tenant, hour, bucket_of(seconds * 1000)] += 1

    async def write_periodically(self) -> None:
        """Write periodically until cancelled."""
        while True:
            await asyncio.sleep(WRITE_INTERVAL_SECONDS)
            await self.write_counts()

    async def write_counts(self) -> None:
        """Write the counts; keep them if the database is unavailable."""
        pending, self._counts = self._counts, Counter()
        if not pending:
            return
        keys = list(pending)
        try:
            await self._db.async_execute(
                _ADD_COUNTS_STATEMENT,
                {
                    "namespaces": [key[0] for key in keys],
                    "tenants": [key[1] for key in keys],
                    "hours": [key[2] for key in keys],
                    "buckets": [key[3] for key in keys],
                    "searches": [pending[key] for key in keys],
                },
            )
        except UNAVAILABLE_ERRORS as error:
            log.warning("search_times.postponed", reason=type(error).__name__)
            self._counts.update(pending)


def bucket_of(milliseconds: float) -> int:
    return round(BUCKETS_PER_DOUBLING * math.log2(max(milliseconds, 0.01)))


def percentile(counts: Sequence[tuple[int, int]], share: float) -> float | None:
    """Return the time in milliseconds that `share` of the searches did not exceed; `counts` by growing bucket."""
    rank = math.ceil(share * sum(count for _, count in counts))
    for number, count in counts:
        rank -= count
        if rank <= 0:
            return bucket_middle(number)
    return None


def bucket_middle(number: int) -> float:
    """Return the milliseconds that a bucket represents."""
    return round(2 ** (number / BUCKETS_PER_DOUBLING), 1)


async def read_activity(db: Database, scope: Scope) -> Activity | None:
    """Count the activity of a scope; None unless the organization has the namespace."""
    row = await db.async_fetch_one(_ActivityRow, _READ_ACTIVITY_QUERY, partitions.scope_params(scope))
    if row is None:
        return None
    bucket_counts: Counter[int] = Counter()
    hour_counts: dict[datetime, list[tuple[int, int]]] = {hour: [] for hour in _last_hours(row.read_at)}
    for hour, number, count in row.times:
        bucket_counts[number] += count
        hour_counts.setdefault(datetime.fromisoformat(hour).astimezone(UTC), []).append((number, count))
    counts = sorted(bucket_counts.items())
    return Activity(
        runs=row.runs,
        oldest_waiting=row.oldest_waiting,
        failed_last_day=row.failed,
        tokens=row.tokens,
        searches=sum(count for _, count in counts),
        search_p50=percentile(counts, 0.5) if counts else None,
        search_p95=percentile(counts, 0.95) if counts else None,
        search_times=[(bucket_middle(number), count) for number, count in counts],
        search_hours=[
            SearchHour(hour, sum(count for _, count in pairs), percentile(pairs, 0.5), percentile(pairs, 0.95))
            for hour, pairs in sorted(hour_counts.items())[-HISTORY_HOURS:]
        ],
    )


async def read_history(db: Database, scope: Scope) -> DocumentHistory:
    """Count the finished documents of the scope's job runs by the end time of the runs."""
    finished = await db.async_fetch(
        DocumentCount, run_progress.ENDED_BY_HOUR_QUERY, {**partitions.scope_params(scope), "days": HISTORY_DAYS}
    )
    current_time = datetime.now(UTC)
    hours = {hour: DocumentCount(hour, 0, 0) for hour in _last_hours(current_time)}
    today = current_time.replace(hour=0, minute=0, second=0, microsecond=0)
    days = {today - timedelta(days=number): (0, 0) for number in reversed(range(HISTORY_DAYS))}
    for count in finished:
        hour = count.at.astimezone(UTC)
        day = hour.replace(hour=0)
        if hour in hours:
            hours[hour] = replace(count, at=hour)
        if day in days:
            days[day] = days[day][0] + count.indexed, days[day][1] + count.failed
    return DocumentHistory(list(hours.values()), [DocumentCount(day, *numbers) for day, numbers in days.items()])


def _last_hours(end: datetime) -> list[datetime]:
    hour = end.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return [hour - timedelta(hours=number) for number in reversed(range(HISTORY_HOURS))]


class _ActivityRow(NamedTuple):
    failed: int
    tokens: int
    runs: dict[str, int]
    oldest_waiting: datetime | None
    times: list[tuple[str, int, int]]
    read_at: datetime


_ADD_COUNTS_STATEMENT: LiteralString = """
    insert into search_times as s (namespace_id, tenant, hour, bucket, searches)
    select * from unnest(%(namespaces)s::text[], %(tenants)s::text[], %(hours)s::timestamptz[], %(buckets)s::int[],
                         %(searches)s::int[])
    on conflict (namespace_id, tenant, hour, bucket) do update set searches = s.searches + excluded.searches
"""

_READ_ACTIVITY_QUERY: LiteralString = """
    with space as (
        select id from namespaces
        where id = %(namespace)s and organization_id = %(organization)s and deleted_at is null
    ),
    part as (select p.id from partitions p join space on space.id = p.namespace_id where p.tenant = %(tenant)s),
    open_runs as (
        select r.status, r.created_at from job_runs r join part on part.id = r.partition_id
        where r.finished_at is null
    ),
    held as (
        select count(*) filter (where d.status = 'FAILED' and d.updated_at > now() - interval '1 day') as failed,
               coalesce(sum((d.properties ->> 'tokenCount')::bigint), 0)::bigint as tokens
        from documents d join part on part.id = d.partition_id where d.deleted_at is null
    ),
    took as (
        select s.hour, s.bucket, s.searches from search_times s join space on space.id = s.namespace_id
        where s.tenant = %(tenant)s and s.hour > now() - interval '1 day'
    )
    select held.failed, held.tokens,
           (select coalesce(jsonb_object_agg(status, runs), '{}')
            from (select status, count(*) as runs from open_runs group by status) as o) as runs,
           (select min(created_at) from open_runs where status = 'QUEUED') as oldest_waiting,
           (select coalesce(jsonb_agg(jsonb_build_array(hour, bucket, searches) order by hour, bucket), '[]')
            from took) as times, now() as read_at
    from held, space
"""
