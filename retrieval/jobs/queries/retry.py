"""Retry of failed documents of a batch after its flow run is retried in Prefect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from retrieval import ids, origin
from retrieval.database.database import Database
from retrieval.jobs.control import RETRY_STATEMENT, changed_job_params
from retrieval.sources import CONNECTED_SOURCES


class Retry(NamedTuple):
    """Batch of the flow run with the failed documents, and job runs left to the dispatcher."""

    batch_id: str | None = None
    waiting_runs: Sequence[str] = ()


def retry_batch(db: Database, batch_id: str, flow_run_id: str) -> Retry:
    """Create job runs for the failed documents of a batch, and for the flow run a batch with them."""
    # Job runs of a connection follow each other, so content services wait for the dispatcher.
    batch_id = find_newest_batch(db, batch_id, flow_run_id)
    new = ids.batch_id()
    with db.transaction() as connection:
        old = connection.fetch_one(
            _FinishedBatch,
            "select id, partition_id, source from batches where id = %(id)s and finished_at is not null"
            " and source <> 'REEMBED' for update",
            {"id": batch_id},
        )
        if old is None:
            return Retry()
        runs = connection.fetch(str, "select id from job_runs where batch_id = %(id)s order by number", {"id": old.id})
        values = {**origin.origin_params(), **changed_job_params(None), "causes": None}
        retries = [
            connection.fetch_one(str, RETRY_STATEMENT, {"run": run, "new": ids.job_run_id(), **values}) for run in runs
        ]
        queued = [run for run in retries if run is not None]
        if not queued or old.source in CONNECTED_SOURCES:
            return Retry(waiting_runs=tuple(queued))
        connection.execute(
            "insert into batches (id, partition_id, source, flow_run_id, dispatched_at)"
            " values (%(new)s, %(partition)s, %(source)s, %(flow_run)s, now())",
            {"new": new, "partition": old.partition_id, "source": old.source, "flow_run": flow_run_id},
        )
        connection.execute(
            "update job_runs set batch_id = %(new)s where id = any(%(runs)s)", {"new": new, "runs": queued}
        )
    return Retry(new)


def find_newest_batch(db: Database, batch_id: str, flow_run_id: str) -> str:
    """Return the last batch of the flow run, different from its parameter after a retry."""
    newest_id = db.fetch_one(
        str,
        "select id from batches where flow_run_id = %(run)s or id = %(id)s order by created_at desc limit 1",
        {"run": flow_run_id, "id": batch_id},
    )
    return newest_id or batch_id


def is_stored_batch(db: Database, batch_id: str) -> bool:
    return bool(db.fetch_one(bool, "select exists (select from batches where id = %(id)s)", {"id": batch_id}))


def is_finished(db: Database, batch_id: str) -> bool:
    return bool(db.fetch_one(bool, "select finished_at is not null from batches where id = %(id)s", {"id": batch_id}))


class _FinishedBatch(NamedTuple):
    id: str
    partition_id: int
    source: str
