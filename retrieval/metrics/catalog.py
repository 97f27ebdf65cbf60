"""Metrics with all label values: tenants, documents and texts never become series."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from retrieval.sources import CONNECTED_SOURCES
from retrieval.statuses import DocumentStatus, RunStatus

MAX_SERIES: Final = 400
# Label for unlisted values.
OTHER_LABEL: Final = "other"
# Organizations with an own series: the longest queues.
MAX_SHOWN_ORGANIZATIONS: Final = 5


class Kind(StrEnum):
    """Type of a metric in Prometheus."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """Metric definition. `labels`: possible values by label, or `distinct`: maximum number of ids.

    `buckets`: upper bounds in seconds; `of_organizations`: also reported per organization.
    """

    name: str
    kind: Kind
    help: str
    labels: Mapping[str, tuple[str, ...]]
    buckets: tuple[float, ...] = ()
    of_organizations: bool = False
    distinct: int = 0

    @property
    def series(self) -> int:
        """Return the maximum number of series."""
        combinations = self.distinct or math.prod(map(len, self.labels.values()))
        return combinations * (len(self.buckets) + 3 if self.kind is Kind.HISTOGRAM else 1)

    def sample_names(self) -> Iterator[str]:
        """Yield the series names in Prometheus."""
        if self.kind is Kind.HISTOGRAM:
            yield from (f"{self.name}_{part}" for part in ("bucket", "sum", "count"))
        else:
            yield self.name


_STAGES = ("discover", "fetch", "parse", "chunk", "embed", "upsert", "shadow")
_VENDORS = (
    *("OPENAI", "COHERE", "JINA", "PINECONE", "S3", "FIRECRAWL", "JINA_READER", "SCRAPINGBEE"),
    *CONNECTED_SOURCES,
    "OBJECT_STORAGE",
    OTHER_LABEL,
)
_ROUTES = (
    *("namespaces", "ingest", "ingest-job-runs", "search", "documents", "connections", "oauth", "files"),
    *("activity", "keys", "tenants", "usage", "audit", OTHER_LABEL),
)
ROLES: Final = ("postgres", "prefect", "api", "dispatcher", "worker", "ui", "metrics")
_CONNECTED = ("api", "dispatcher", "sweep", "worker", "heartbeat", "metrics", OTHER_LABEL)


def _of(
    kind: Kind, name: str, text: str, labels: Mapping[str, tuple[str, ...]] | None = None, **more: object
) -> Metric:
    return Metric(f"retrieval_{name}", kind, text, labels or {}, **more)  # type: ignore[arg-type]


DOCUMENTS: Final = _of(
    Kind.GAUGE,
    "documents",
    "Documents by status, deleted ones left out.",
    {"status": tuple(DocumentStatus)},
    of_organizations=True,
)
JOB_RUNS: Final = _of(
    Kind.GAUGE, "job_runs", "Job runs by status.", {"status": tuple(RunStatus)}, of_organizations=True
)
QUEUE_OLDEST: Final = _of(
    Kind.GAUGE,
    "queue_oldest_seconds",
    "How long the oldest job run has been QUEUED for want of a worker; 0 where none is. Held ones are left out.",
    of_organizations=True,
)
QUEUE_HELD: Final = _of(
    Kind.GAUGE,
    "queue_held_job_runs",
    "QUEUED job runs that wait for a vendor or site that does not answer: more workers do not help them.",
    of_organizations=True,
)
SHARE_RUNS: Final = _of(
    Kind.GAUGE,
    "queue_share_job_runs",
    "QUEUED job runs of the organizations that have most of them, and of all others.",
    {"organization": ()},
    distinct=MAX_SHOWN_ORGANIZATIONS + 1,
)
SHARE_OLDEST: Final = _of(
    Kind.GAUGE,
    "queue_share_oldest_seconds",
    "How long the oldest of these job runs has been QUEUED for want of a worker.",
    {"organization": ()},
    distinct=MAX_SHOWN_ORGANIZATIONS + 1,
)
STAGE: Final = _of(
    Kind.HISTOGRAM,
    "stage_seconds",
    "How long job runs were at each stage; what several share counts for each of them.",
    {"stage": _STAGES},
    buckets=(0.05, 0.25, 1.0, 5.0, 15.0, 60.0, 300.0),
    of_organizations=True,
)
TOKENS: Final = _of(
    Kind.COUNTER, "tokens_embedded_total", "Tokens of the chunks that were embedded.", of_organizations=True
)
SEARCH: Final = _of(
    Kind.HISTOGRAM,
    "search_seconds",
    "How long searches took, from the request's body to the results.",
    {"mode": ("semantic", "hybrid")},
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0),
    of_organizations=True,
)
VENDOR: Final = _of(
    Kind.COUNTER,
    "vendor_requests_total",
    "Requests to vendors, each try by itself; failed: no answer or 5xx, refused: one that trying again cannot better.",
    {"vendor": _VENDORS, "outcome": ("ok", "rate_limited", "failed", "refused")},
    of_organizations=True,
)
VENDOR_WAIT: Final = _of(
    Kind.COUNTER,
    "vendor_wait_seconds_total",
    "Seconds of pauses requested by vendors.",
    of_organizations=True,
)
HTTP: Final = _of(
    Kind.COUNTER,
    "http_requests_total",
    "Requests answered by the API, by the route's first part and the class of the status.",
    {"route": _ROUTES, "status": ("2xx", "4xx", "5xx")},
)
REFUSED: Final = _of(
    Kind.COUNTER,
    "requests_refused_total",
    "Requests that the API refused although they may be right: over a rate, over a quota, or no room.",
    {"reason": ("rate_limit", "quota", "unavailable")},
)
POOL_WAITS: Final = _of(
    Kind.COUNTER, "database_pool_waits_total", "Requests for a database connection that found none free."
)
CONNECTIONS: Final = _of(
    Kind.GAUGE,
    "database_connections",
    "Open connections of the service to its database.",
    {"role": _CONNECTED, "state": ("active", "idle")},
)
CONNECTIONS_LIMIT: Final = _of(Kind.GAUGE, "database_connections_limit", "Connections that the database allows in all.")
LEASES_LOST: Final = _of(
    Kind.COUNTER, "leases_lost_total", "Batches taken back from a worker that died, failed or fell silent."
)
SWEEPS: Final = _of(
    Kind.GAUGE, "sweep_backlog", "Things that garbage collection has to delete and that are due; counted up to 100000."
)
SWEEPS_OLDEST: Final = _of(Kind.GAUGE, "sweep_oldest_seconds", "How long the oldest of them has been due.")
SILENT: Final = _of(
    Kind.GAUGE,
    "dispatcher_silent_seconds",
    "Since when the slowest loop of the dispatchers has not succeeded, in the best of them.",
)
DATABASE_UP: Final = _of(
    Kind.GAUGE,
    "database_up",
    "1 if the database answered just now; where it is 0 the other figures are the last known.",
)
AGE: Final = _of(Kind.GAUGE, "figures_age_seconds", "How old the oldest of these figures is.")
ROLE_UP: Final = _of(
    Kind.GAUGE, "role_up", "1 if the role of this machine runs and is ready, by its supervisor.", {"role": ROLES}
)
ROLE_RESTARTS: Final = _of(
    Kind.COUNTER, "role_restarts_total", "Restarts of the role since its supervisor started.", {"role": ROLES}
)

CATALOG: Final[Mapping[str, Metric]] = {
    metric.name: metric for metric in list(globals().values()) if isinstance(metric, Metric)
}


def known_labels(metric: Metric, values: tuple[str, ...]) -> tuple[str, ...]:
    """Replace unlisted label values by `other`."""
    return tuple(
        value if value in allowed else OTHER_LABEL
        for value, allowed in zip(values, metric.labels.values(), strict=True)
    )


def route_label(path: str) -> str:
    """Return the label of a request path."""
    first = path[4:].partition("/")[0] if path.startswith("/v1/") else ""
    return first if first in _KNOWN_ROUTES else OTHER_LABEL


_KNOWN_ROUTES: Final = frozenset(_ROUTES)
