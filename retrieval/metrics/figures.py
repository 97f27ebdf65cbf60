"""Read metrics: counts, and gauges computed from tables.

A query of one second is repeated after 100 s; until then the last values are returned, with their age in
`retrieval_figures_age_seconds`.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import structlog

from retrieval.database.database import LOCK_ERRORS, UNAVAILABLE_ERRORS, Database
from retrieval.metrics import catalog, counts, queries
from retrieval.metrics.catalog import Metric

log = structlog.get_logger()

# Minimum time between two runs of a query.
MIN_REFRESH_SECONDS: Final = 1.0
# Time until a query is repeated, in durations of the query.
COST_FACTOR: Final = 100
# Organizations with cached values.
_MAX_ORGANIZATIONS: Final = 256

# Values of one metric by label values.
Values = dict[tuple[str, ...], float]


@dataclass(slots=True)
class Histogram:
    """Observations by upper bound of the bucket, and the sum of their values."""

    buckets: dict[str, float] = field(default_factory=dict)
    sum: float = 0.0


@dataclass(slots=True)
class Reading:
    """Values of all metrics. `is_up`: the database answered; `age`: seconds since the oldest query of a gauge."""

    gauges: dict[str, Values]
    counters: dict[str, Values]
    histograms: dict[str, dict[tuple[str, ...], Histogram]]
    is_up: bool
    age: float


class _PacedQuery:
    """Rows of a query, refreshed in proportion to the query's cost."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self.read_at: float | None = None
        # Duration of the last run, in seconds.
        self._duration = 0.0
        self._tried_at = float("-inf")

    def refresh(self, read: Callable[[], list[Any]]) -> None:
        started_at = time.monotonic()
        if started_at - self._tried_at < max(MIN_REFRESH_SECONDS, self._duration * COST_FACTOR):
            return
        self._tried_at = started_at
        try:
            self.rows = read()
            self.read_at = started_at
        except LOCK_ERRORS as error:
            log.warning("metrics.not_read", reason=type(error).__name__)
        finally:
            self._duration = time.monotonic() - started_at


class MetricsReader:
    """Thread-safe reader of metrics for the installation or an organization."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._lock = threading.Lock()
        # Queries by organization, the least recently read first, and by name.
        self._cache: OrderedDict[str, dict[str, _PacedQuery]] = OrderedDict()
        self._stored_counts: dict[str, list[queries.StoredCount]] = {}

    def read(self, organization: str = counts.ALL_ORGANIZATIONS) -> Reading:
        """Return current values, or the last ones while the database is unreachable."""
        with self._lock:
            cached = self._cache.setdefault(organization, {})
            self._cache.move_to_end(organization)
            while len(self._cache) > _MAX_ORGANIZATIONS:
                evicted, _ = self._cache.popitem(last=False)
                self._stored_counts.pop(evicted, None)
            return self._read(organization, cached)

    def _read(self, organization: str, paced_queries: dict[str, _PacedQuery]) -> Reading:
        is_up = True
        statements = queries.OF_INSTALLATION if organization == counts.ALL_ORGANIZATIONS else queries.OF_ORGANIZATION
        try:
            self._stored_counts[organization] = self._db.fetch(
                queries.StoredCount, queries.READ_COUNTS, {"organization": organization}
            )
            for name, (row_type, statement) in statements.items():
                read = partial(self._db.fetch, row_type, statement, {"organization": organization})
                paced_queries.setdefault(name, _PacedQuery()).refresh(read)
        except UNAVAILABLE_ERRORS as error:
            is_up = False
            log.warning("metrics.database_away", reason=type(error).__name__)
        read_at = time.monotonic()
        ages = [read_at - paced.read_at for paced in paced_queries.values() if paced.read_at is not None]
        gauges = _make_gauges({name: paced.rows for name, paced in paced_queries.items() if paced.read_at is not None})
        return _make_reading(gauges, self._stored_counts.get(organization, ()), is_up=is_up, age=max(ages, default=0.0))


def _make_reading(
    gauges: dict[str, Values], stored_counts: Iterable[queries.StoredCount], *, is_up: bool, age: float
) -> Reading:
    """Sort stored counts into counters and histograms."""
    counters: dict[str, Values] = {}
    histograms: dict[str, dict[tuple[str, ...], Histogram]] = {}
    for row in stored_counts:
        labels = tuple(row.labels.split(",")) if row.labels else ()
        # Rows of a histogram are its buckets and its sum.
        if not row.part:
            counters.setdefault(row.name, {})[labels] = row.value
            continue
        histogram = histograms.setdefault(row.name, {}).setdefault(labels, Histogram())
        if row.part == counts.SUM_PART:
            histogram.sum = row.value
        else:
            histogram.buckets[row.part] = row.value
    return Reading(gauges, counters, histograms, is_up, age)


def _make_gauges(rows: Mapping[str, list[Any]]) -> dict[str, Values]:
    """Return gauges from the rows of each query, by its name."""
    gauges: dict[str, Values] = {}
    for metric in (catalog.DOCUMENTS, catalog.JOB_RUNS):
        if metric.name in rows:
            gauges[metric.name] = _by_status(metric, rows[metric.name])
    if (queue := rows.get("queue")) is not None:
        gauges[catalog.QUEUE_OLDEST.name] = {(): max((float(row.oldest) for row in queue), default=0.0)}
        gauges[catalog.QUEUE_HELD.name] = {(): sum(float(row.blocked) for row in queue)}
        gauges |= _queue_shares(queue)
    if connected := rows.get("connections"):
        gauges[catalog.CONNECTIONS.name] = _database_connections(connected)
        gauges[catalog.CONNECTIONS_LIMIT.name] = {(): float(connected[0].limit)}
    for row in rows.get("sweeps", ()):
        gauges[catalog.SWEEPS.name] = {(): float(row.due)}
        gauges[catalog.SWEEPS_OLDEST.name] = {(): float(row.oldest)}
    for row in rows.get("loops", ()):
        if row.silent is not None:
            gauges[catalog.SILENT.name] = {(): float(row.silent)}
    return gauges


def _by_status(metric: Metric, rows: Iterable[queries.StatusCount]) -> Values:
    values: Values = {(status,): 0.0 for status in metric.labels["status"]}
    return values | {(row.status,): float(row.count) for row in rows}


def _queue_shares(queue: list[queries.QueueShare]) -> dict[str, Values]:
    """Return length and age of the longest queues by organization; the other queues are one."""
    by_length = sorted(queue, key=lambda row: (-row.count, row.organization))
    shown, remaining = by_length[: catalog.MAX_SHOWN_ORGANIZATIONS], by_length[catalog.MAX_SHOWN_ORGANIZATIONS :]
    runs: Values = {(row.organization,): float(row.count) for row in shown}
    oldest: Values = {(row.organization,): float(row.oldest) for row in shown}
    runs[catalog.OTHER_LABEL,] = float(sum(row.count for row in remaining))
    oldest[catalog.OTHER_LABEL,] = max((float(row.oldest) for row in remaining), default=0.0)
    return {catalog.SHARE_RUNS.name: runs, catalog.SHARE_OLDEST.name: oldest}


def _database_connections(rows: Iterable[queries.ConnectionCount]) -> Values:
    """Return database connections by role and state."""
    values: Values = {}
    for row in rows:
        role = row.application.removeprefix("retrieval ").partition(" ")[0]
        labels = catalog.known_labels(catalog.CONNECTIONS, (role, "active" if row.is_active else "idle"))
        values[labels] = values.get(labels, 0.0) + row.count
    return values
