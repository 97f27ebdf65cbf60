"""Request ids of a flow run: on each of its log lines, and their traces continued through its steps.

What is known to go wrong (`StepError`) says so in its words, and leaves no stack trace in the logs.
"""

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

_LOGGERS = ("prefect.flow_runs", "prefect.task_runs")


class _Lines(logging.Filter):
    """Puts the request's id before what Prefect keeps and shows of a flow run; drops stack traces of known trouble."""

    def filter(self, record: logging.LogRecord) -> bool:
        request = structlog.contextvars.get_contextvars().get("request_id")
        if request and isinstance(record.msg, str) and not getattr(record, "request_id", None):
            record.request_id = request
            record.msg = f"[{request}] {record.msg}"
        if record.exc_info and isinstance(record.exc_info[1], StepError):
            record.exc_info = None
        return True


_FILTER = _Lines()


@contextmanager
def bind_requests(db: Database, lease: Lease) -> Iterator[None]:
    """Bind the ids while the flow works on the batch. They stay in the context, for the engine's last log lines."""
    rows = db.fetch(
        QueuedRun,
        "select id, request_id, traceparent, created_at from job_runs where batch_id = %(batch)s order by number",
        {"batch": lease.batch_id},
    )
    if requests := list(dict.fromkeys(run.request_id for run in rows if run.request_id)):
        structlog.contextvars.bind_contextvars(request_id=_together(requests))
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_FILTER)  # once, however often
    tracer = tracing.make_tracer("worker") if any(run.traceparent for run in rows) else None
    if tracer is None:
        yield
        return
    runs = tracing.Runs(tracer)
    about: dict[str, str | int | bool] = {
        "retrieval.batch": lease.batch_id,
        "retrieval.source": lease.source,
        "retrieval.job_runs": len(rows),
    }
    _begin(runs, rows, lease, about)
    token = tracing.RUNS.set(runs)
    try:
        yield
    finally:
        tracing.RUNS.reset(token)
        runs.end()


def follow_joined(joined: Sequence[QueuedRun], lease: Lease) -> None:
    """These have joined the batch: their traces go on as well, if any of it is traced."""
    if (runs := tracing.RUNS.get()) is not None:
        about = {"retrieval.batch": lease.batch_id, "retrieval.source": lease.source}
        _begin(runs, joined, lease, about)


def _begin(runs: tracing.Runs, rows: Sequence[QueuedRun], lease: Lease, about: Mapping[str, str | int | bool]) -> None:
    for run in rows:
        origin = Origin(run.request_id, run.traceparent)
        runs.begin(run.id, origin, run.created_at, f"flow run {lease.source}", about)


def _together(requests: list[str]) -> str:
    """The one, or the first of them and how many more."""
    return requests[0] + (f"+{len(requests) - 1}" if len(requests) > 1 else "")
