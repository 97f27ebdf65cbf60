"""Counts of this process before their write to the database. Counting takes a microsecond and never blocks.

A killed process loses unwritten counts: one second in the API, one step in a worker.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from typing import Any, Final, LiteralString

import structlog

from retrieval import origin
from retrieval.database.database import UNAVAILABLE_ERRORS, Database
from retrieval.metrics import catalog
from retrieval.metrics.catalog import Metric

log = structlog.get_logger()

# Organization of installation-wide counts.
ALL_ORGANIZATIONS: Final = ""
SUM_PART: Final = "sum"
INFINITE_BOUND: Final = "+Inf"

# Organization, metric name, label values, histogram part.
_Key = tuple[str, str, tuple[str, ...], str]

_lock = threading.Lock()
_counts: Counter[_Key] = Counter()


def add_count(metric: Metric, *labels: str, by: float = 1) -> None:
    """Add `by`, also for the organization of this context."""
    _add(metric, labels, {"": by})


def observe_seconds(metric: Metric, seconds: float, *labels: str, times: int = 1) -> None:
    """Record a duration `times` times."""
    bucket_index = bisect_left(metric.buckets, seconds)
    bucket = str(metric.buckets[bucket_index]) if bucket_index < len(metric.buckets) else INFINITE_BOUND
    _add(metric, labels, {bucket: times, SUM_PART: seconds * times})


def _add(metric: Metric, labels: tuple[str, ...], parts: dict[str, float]) -> None:
    labels = catalog.known_labels(metric, labels)
    organization = origin.current_origin().organization if metric.of_organizations else None
    with _lock:
        for part, value in parts.items():
            _counts[ALL_ORGANIZATIONS, metric.name, labels, part] += value  # type: ignore[assignment]
            if organization is not None:
                _counts[organization, metric.name, labels, part] += value  # type: ignore[assignment]


def write_counts(db: Database) -> None:
    """Add the counts to the database; keep the counts while the database is unreachable."""
    counts = _take()
    if counts:
        try:
            db.execute(_ADD_COUNTS, _params(counts))
        except UNAVAILABLE_ERRORS as error:
            _put_back(counts, error)


async def async_write_counts(db: Database) -> None:
    """Write counts on the event loop."""
    counts = _take()
    if counts:
        try:
            await db.async_execute(_ADD_COUNTS, _params(counts), plan_once=True)
        except UNAVAILABLE_ERRORS as error:
            _put_back(counts, error)


def _take() -> Counter[_Key]:
    global _counts  # swapped under the lock, so that nothing is counted twice or lost
    with _lock:
        pending, _counts = _counts, Counter()
    return pending


def _put_back(counts: Counter[_Key], error: Exception) -> None:
    log.warning("metrics.postponed", reason=type(error).__name__)
    with _lock:
        _counts.update(counts)


def _params(counts: Counter[_Key]) -> dict[str, Any]:
    # A fixed order prevents deadlocks between writers.
    keys = sorted(counts)
    return {
        "organizations": [key[0] for key in keys],
        "names": [key[1] for key in keys],
        "labels": [",".join(key[2]) for key in keys],
        "parts": [key[3] for key in keys],
        "values": [float(counts[key]) for key in keys],
    }


_ADD_COUNTS: LiteralString = """
    insert into metric_counts as m (organization_id, name, labels, part, value)
    select * from unnest(%(organizations)s::text[], %(names)s::text[], %(labels)s::text[], %(parts)s::text[],
                         %(values)s::float8[])
    on conflict (organization_id, name, labels, part) do update set value = m.value + excluded.value
"""
