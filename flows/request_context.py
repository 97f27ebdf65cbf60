"""Request ids and traces of a flow run."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import structlog

from retrieval import tracing
from retrieval.database.database import Database
from retrieval.errors import StepError
from retrieval.jobs.queries.batches import Lease
from retrieval.jobs.queries.job_queue import QueuedRun
from retrieval.origin import Origin

_RUN_LOGGERS = ("prefect.flow_runs", "prefect.task_runs")


class _RequestIdFilter(logging.Filter):
    """Prefix a flow run's log lines with the request id, and drop stack traces of `StepError`."""

    def filter(self, record: logging.LogRecord) -> bool:
        request = structlog.contextvars.get_contextvars().get("request_id")
        if request and isinstance(record.msg, str) and not getattr(record, "request_id", None):
            record.request_id = request
            record.msg = f"[{request}] {record.msg}"
        if record.exc_info and isinstance(record.exc_info[1], StepError):
            record.exc_info = None
        return True


_REQUEST_ID_FILTER = _RequestIdFilter()


@contextmanager
def bind_requests(db: Database, lease: Lease) -> Iterator[None]:
    """Bind request ids to the context and trace the batch's job runs."""
    # The ids stay in the context after the batch, for the last log lines of Prefect's engine.
    rows = db.fetch(
        QueuedRun,
        "select id, request_id, traceparent, created_at from job_runs where batch_id = %(batch)s order by number",
        {"batch": lease.batch_id},
    )
    if requests := list(dict.fromkeys(run.request_id for run in rows if run.request_id)):
        structlog.contextvars.bind_contextvars(request_id=_join_ids(requests))
    for name in _RUN_LOGGERS:
        logging.getLogger(name).addFilter(_REQUEST_ID_FILTER)  # repeated calls add it once
    tracer = tracing.make_tracer("worker") if any(run.traceparent for run in rows) else None
    if tracer is None:
        yield
        return
    runs = tracing.JobRunSpans(tracer)
    attributes: dict[str, str | int | bool] = {
        "retrieval.batch": lease.batch_id,
        "retrieval.source": lease.source,
        "retrieval.job_runs": len(rows),
    }
    _begin_traces(runs, rows, lease, attributes)
    token = tracing.CURRENT_RUNS.set(runs)
    try:
        yield
    finally:
        tracing.CURRENT_RUNS.reset(token)
        runs.end()


def trace_joined(joined: Sequence[QueuedRun], lease: Lease) -> None:
    """Continue the traces of joined job runs."""
    if (runs := tracing.CURRENT_RUNS.get()) is not None:
        attributes = {"retrieval.batch": lease.batch_id, "retrieval.source": lease.source}
        _begin_traces(runs, joined, lease, attributes)


def _begin_traces(
    runs: tracing.JobRunSpans, rows: Sequence[QueuedRun], lease: Lease, attributes: Mapping[str, str | int | bool]
) -> None:
    for run in rows:
        origin = Origin(run.request_id, run.traceparent)
        runs.begin(run.id, origin, run.created_at, f"flow run {lease.source}", attributes)


def _join_ids(requests: list[str]) -> str:
    """Return the first id and the number of the others."""
    return requests[0] + (f"+{len(requests) - 1}" if len(requests) > 1 else "")
