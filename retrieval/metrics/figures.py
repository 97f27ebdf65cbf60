"""Reads the figures: counts, and gauges computed from the tables.

Expensive figures are computed so rarely that they take at most a hundredth of the time; in between the last values are
returned, and `retrieval_figures_age_seconds` is their age.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, LiteralString

import structlog

from retrieval.database.database import AWAY, HELD, Database
from retrieval.database.held import NOT_HELD
from retrieval.metrics import catalog, counts
from retrieval.metrics.catalog import Metric

log = structlog.get_logger()

KEPT_SECONDS: Final = 1.0
"""Whoever asks again within that time gets the same figures."""
SHARE: Final = 100
"""A reading that took a second is not repeated for so many."""
_ORGANIZATIONS: Final = 256
"""Whose figures are remembered at once."""

Values = dict[tuple[str, ...], float]
"""Of one metric, by the values of its labels."""


@dataclass(slots=True)
class Histogram:
    """Values of one combination of labels: count per bucket by its upper bound, and their sum."""

    buckets: dict[str, float] = field(default_factory=dict)
    sum: float = 0.0


@dataclass(slots=True)
class Reading:
    """Figures of one time. `age`: seconds since the oldest of them was read."""

    gauges: dict[str, Values]
    counters: dict[str, Values]
    histograms: dict[str, dict[tuple[str, ...], Histogram]]
    is_up: bool
    age: float


class _Paced:
    """One statement's rows, read anew only when that has become cheap again."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self.read_at: float | None = None
        self._cost = 0.0
        self._tried_at = float("-inf")

    def refresh(self, read: Callable[[], list[Any]]) -> None:
        began = time.monotonic()
        if began - self._tried_at < max(KEPT_SECONDS, self._cost * SHARE):
            return
        self._tried_at = began
        try:
            self.rows = read()
            self.read_at = began
        except HELD as error:
            log.warning("metrics.not_read", reason=type(error).__name__)
        finally:
            self._cost = time.monotonic() - began


class Figures:
    """Reader of figures of the whole installation, or of one organization. Thread-safe: one thread reads, others wait
    for it."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._lock = threading.Lock()
        self._known: OrderedDict[str, dict[str, _Paced]] = OrderedDict()
        self._counted: dict[str, list[Counted]] = {}

    def read(self, organization: str = counts.ALL) -> Reading:
        """The figures as they are, or as they were known last where the database is away."""
        with self._lock:
            cached = self._known.setdefault(organization, {})
            self._known.move_to_end(organization)
            while len(self._known) > _ORGANIZATIONS:
                self._counted.pop(self._known.popitem(last=False)[0], None)
            return self._read(organization, cached)

    def _read(self, organization: str, kept: dict[str, _Paced]) -> Reading:
        is_up = True
        statements = _OF_ALL if organization == counts.ALL else _OF_ONE
        try:
            self._counted[organization] = self._db.fetch(Counted, _COUNTED, {"organization": organization})
            for name, (row_type, statement) in statements.items():
                read = partial(self._db.fetch, row_type, statement, {"organization": organization})
                kept.setdefault(name, _Paced()).refresh(read)
        except AWAY as error:
            is_up = False
            log.warning("metrics.database_away", reason=type(error).__name__)
        read_at = time.monotonic()
        ages = [read_at - paced.read_at for paced in kept.values() if paced.read_at is not None]
        gauges = _gauges({name: paced.rows for name, paced in kept.items() if paced.read_at is not None})
        return _reading(gauges, self._counted.get(organization, ()), is_up=is_up, age=max(ages, default=0.0))


def _reading(gauges: dict[str, Values], counted: Iterable[Counted], *, is_up: bool, age: float) -> Reading:
    counters: dict[str, Values] = {}
    histograms: dict[str, dict[tuple[str, ...], Histogram]] = {}
    for row in counted:
        labels = tuple(row.labels.split(",")) if row.labels else ()
        if not row.part:
            counters.setdefault(row.name, {})[labels] = row.value
            continue
        histogram = histograms.setdefault(row.name, {}).setdefault(labels, Histogram())
        if row.part == counts.SUM:
            histogram.sum = row.value
        else:
            histogram.buckets[row.part] = row.value
    return Reading(gauges, counters, histograms, is_up, age)


def _gauges(rows: Mapping[str, list[Any]]) -> dict[str, Values]:
    gauges: dict[str, Values] = {}
    for metric in (catalog.DOCUMENTS, catalog.JOB_RUNS):
        if metric.name in rows:
            gauges[metric.name] = _by_status(metric, rows[metric.name])
    if (queue := rows.get("queue")) is not None:
        gauges[catalog.QUEUE_OLDEST.name] = {(): max((float(row.oldest) for row in queue), default=0.0)}
        gauges[catalog.QUEUE_HELD.name] = {(): sum(float(row.blocked) for row in queue)}
        gauges |= _shares(queue)
    if connected := rows.get("connections"):
        gauges[catalog.CONNECTIONS.name] = _connections(connected)
        gauges[catalog.CONNECTIONS_LIMIT.name] = {(): float(connected[0].limit)}
    for row in rows.get("sweeps", ()):
        gauges[catalog.SWEEPS.name] = {(): float(row.due)}
        gauges[catalog.SWEEPS_OLDEST.name] = {(): float(row.oldest)}
    for row in rows.get("loops", ()):
        if row.silent is not None:
            gauges[catalog.SILENT.name] = {(): float(row.silent)}
    return gauges


def _by_status(metric: Metric, rows: Iterable[StatusCount]) -> Values:
    values: Values = {(status,): 0.0 for status in metric.labels["status"]}
    return values | {(row.status,): float(row.count) for row in rows}


def _shares(queue: list[QueueShare]) -> dict[str, Values]:
    """Those that wait most by themselves, the others together."""
    by_length = sorted(queue, key=lambda row: (-row.count, row.organization))
    runs: Values = {(row.organization,): float(row.count) for row in by_length[: catalog.TOP]}
    oldest: Values = {(row.organization,): float(row.oldest) for row in by_length[: catalog.TOP]}
    remaining = by_length[catalog.TOP :]
    runs[catalog.OTHER,] = float(sum(row.count for row in remaining))
    oldest[catalog.OTHER,] = max((float(row.oldest) for row in remaining), default=0.0)
    return {catalog.SHARE_RUNS.name: runs, catalog.SHARE_OLDEST.name: oldest}


def _connections(rows: Iterable[ConnectionCount]) -> Values:
    values: Values = {}
    for row in rows:
        role = row.application.removeprefix("retrieval ").partition(" ")[0]
        labels = catalog.known_labels(catalog.CONNECTIONS, (role, "active" if row.is_active else "idle"))
        values[labels] = values.get(labels, 0.0) + row.count
    return values


@dataclass(frozen=True, slots=True)
class Counted:
    """A counter, or a part of a histogram: the upper bound of a bucket, or the sum."""

    name: str
    labels: str
    part: str
    value: float


@dataclass(frozen=True, slots=True)
class StatusCount:
    """Number of documents or job runs with a status."""

    status: str
    count: int


@dataclass(frozen=True, slots=True)
class QueueShare:
    """Waiting job runs of an organization. `blocked`: those that wait for a breaker; `oldest`: age in seconds."""

    organization: str
    count: int
    blocked: int
    oldest: float


@dataclass(frozen=True, slots=True)
class DueSweeps:
    """Sweeps that are due, and the age of the oldest in seconds."""

    due: int
    oldest: float


@dataclass(frozen=True, slots=True)
class ConnectionCount:
    """Connections of a role to PostgreSQL, and the limit of all."""

    application: str
    is_active: bool
    count: int
    limit: int


@dataclass(frozen=True, slots=True)
class Silence:
    """Seconds since the last success of the loop that was silent for longest."""

    silent: float | None


_COUNTED: LiteralString = "select name, labels, part, value from metric_counts where organization_id = %(organization)s"

_QUEUE: LiteralString = (
    """
    select n.organization_id as organization, count(*) as count, count(*) filter (where not r.may_leave) as blocked,
           coalesce(greatest(extract(epoch from now() - min(r.created_at) filter (where r.may_leave)), 0), 0)::float8
               as oldest
    from (
        select r.*, """
    + NOT_HELD
    + """ as may_leave from job_runs r where r.finished_at is null and r.status = 'QUEUED'
    ) r join partitions p on p.id = r.partition_id join namespaces n on n.id = p.namespace_id
    where n.deleted_at is null
      and (%(organization)s = '' or n.organization_id = %(organization)s)
    group by 1
"""
)
_COUNT_DOCUMENTS: LiteralString = """
    select d.status, sum(d.count)::bigint as count
    from (select partition_id, status, count(*) as count from documents where deleted_at is null group by 1, 2) d
    join partitions p on p.id = d.partition_id
    join namespaces n on n.id = p.namespace_id and n.deleted_at is null
    group by 1
"""
_COUNT_RUNS: LiteralString = """
    select r.status, sum(r.count)::bigint as count
    from (select partition_id, status, count(*) as count from job_runs group by 1, 2) r
    join partitions p on p.id = r.partition_id
    join namespaces n on n.id = p.namespace_id and n.deleted_at is null
    group by 1
"""
_OWN: LiteralString = """
    with part as materialized (
        select p.id from partitions p join namespaces n on n.id = p.namespace_id
        where n.organization_id = %(organization)s and n.deleted_at is null
    )
"""
_OWN_DOCUMENTS: LiteralString = (
    _OWN
    + """
    select d.status, count(*) as count from documents d join part on part.id = d.partition_id
    where d.deleted_at is null group by 1
"""
)
_OWN_RUNS: LiteralString = (
    _OWN + "select r.status, count(*) as count from job_runs r join part on part.id = r.partition_id group by 1"
)
_OF_ONE: Mapping[str, tuple[type[Any], LiteralString]] = {
    catalog.DOCUMENTS.name: (StatusCount, _OWN_DOCUMENTS),
    catalog.JOB_RUNS.name: (StatusCount, _OWN_RUNS),
    "queue": (QueueShare, _QUEUE),
}
_OF_ALL: Mapping[str, tuple[type[Any], LiteralString]] = {
    catalog.DOCUMENTS.name: (StatusCount, _COUNT_DOCUMENTS),
    catalog.JOB_RUNS.name: (StatusCount, _COUNT_RUNS),
    "queue": (QueueShare, _QUEUE),
    "sweeps": (
        DueSweeps,
        """
        select (select count(*) from (select from sweeps where due_at <= now() limit 100000) as due) as due,
               coalesce(greatest(extract(epoch from now() - (select min(due_at) from sweeps)), 0), 0)::float8 as oldest
    """,
    ),
    "connections": (
        ConnectionCount,
        """
        select coalesce(application_name, '') as application, coalesce(state = 'active', false) as is_active,
               count(*) as count, current_setting('max_connections')::int as "limit"
        from pg_stat_activity
        where datname = current_database() and backend_type = 'client backend' and application_name like 'retrieval%%'
        group by 1, 2
    """,
    ),
    "loops": (
        Silence,
        """
        select max(extract(epoch from now() - succeeded))::float8 as silent from (
            select max(coalesce(succeeded_at, started_at)) as succeeded from dispatcher_loops group by loop
        ) as best
    """,
    ),
}
