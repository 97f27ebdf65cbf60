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
from typing import Any, Final

import structlog

from retrieval.database.database import LOCK_ERRORS, UNAVAILABLE_ERRORS, Database
from retrieval.metrics import catalog, counts, queries
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
        except LOCK_ERRORS as error:
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
        self._counted: dict[str, list[queries.Counted]] = {}

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
        statements = queries.OF_INSTALLATION if organization == counts.ALL else queries.OF_ORGANIZATION
        try:
            self._counted[organization] = self._db.fetch(
                queries.Counted, queries.COUNTED, {"organization": organization}
            )
            for name, (row_type, statement) in statements.items():
                read = partial(self._db.fetch, row_type, statement, {"organization": organization})
                kept.setdefault(name, _Paced()).refresh(read)
        except UNAVAILABLE_ERRORS as error:
            is_up = False
            log.warning("metrics.database_away", reason=type(error).__name__)
        read_at = time.monotonic()
        ages = [read_at - paced.read_at for paced in kept.values() if paced.read_at is not None]
        gauges = _gauges({name: paced.rows for name, paced in kept.items() if paced.read_at is not None})
        return _reading(gauges, self._counted.get(organization, ()), is_up=is_up, age=max(ages, default=0.0))


def _reading(gauges: dict[str, Values], counted: Iterable[queries.Counted], *, is_up: bool, age: float) -> Reading:
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


def _by_status(metric: Metric, rows: Iterable[queries.StatusCount]) -> Values:
    values: Values = {(status,): 0.0 for status in metric.labels["status"]}
    return values | {(row.status,): float(row.count) for row in rows}


def _shares(queue: list[queries.QueueShare]) -> dict[str, Values]:
    """Those that wait most by themselves, the others together."""
    by_length = sorted(queue, key=lambda row: (-row.count, row.organization))
    runs: Values = {(row.organization,): float(row.count) for row in by_length[: catalog.TOP]}
    oldest: Values = {(row.organization,): float(row.oldest) for row in by_length[: catalog.TOP]}
    remaining = by_length[catalog.TOP :]
    runs[catalog.OTHER,] = float(sum(row.count for row in remaining))
    oldest[catalog.OTHER,] = max((float(row.oldest) for row in remaining), default=0.0)
    return {catalog.SHARE_RUNS.name: runs, catalog.SHARE_OLDEST.name: oldest}


def _connections(rows: Iterable[queries.ConnectionCount]) -> Values:
    values: Values = {}
    for row in rows:
        role = row.application.removeprefix("retrieval ").partition(" ")[0]
        labels = catalog.known_labels(catalog.CONNECTIONS, (role, "active" if row.is_active else "idle"))
        values[labels] = values.get(labels, 0.0) + row.count
    return values
