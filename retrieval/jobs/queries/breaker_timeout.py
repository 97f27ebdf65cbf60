"""Expiry of job runs that waited too long for an open breaker."""

from __future__ import annotations

from typing import Final, LiteralString, NamedTuple

from retrieval.database.database import Database
from retrieval.database.sessions import ThreadConnection
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import DocumentKey
from retrieval.jobs.queries.retry import OPEN_DOCUMENTS_QUERY
from retrieval.statuses import DocumentStatus

RUNS_PER_TRANSACTION: Final = 200
# Limit of an organization, since crawls may create a breaker for every host.
MAX_STORED_BREAKERS: Final = 1000


def expire_runs(db: Database) -> int:
    """Fail job runs with a breaker open beyond the time limit, return their number, and delete old breakers."""
    expired_count = 0
    while True:
        with db.transaction() as connection:
            rows = connection.fetch(_ExpiredRun, _EXPIRED_RUNS_QUERY, {"limit": RUNS_PER_TRANSACTION})
            # A run has a row for each breaker that it waits for.
            runs_by_id = {run.id: run for run in rows}
            for run in runs_by_id.values():
                _fail_run(connection, run)
        expired_count += len(runs_by_id)
        if len(rows) < RUNS_PER_TRANSACTION:
            break
    db.execute("delete from breakers where updated_at < now() - interval '1 day'")
    db.execute(
        "delete from breakers where key in (select key from (select key, row_number() over ("
        "partition by organization_id order by updated_at desc) as place from breakers) b where place > %(limit)s)",
        {"limit": MAX_STORED_BREAKERS},
    )
    return expired_count


class _ExpiredRun(NamedTuple):
    id: str
    to_discover: bool
    breaker_name: str
    breaker_reason: str
    open_seconds: float


_EXPIRED_RUNS_QUERY: LiteralString = """
    select r.id, r.to_discover, k.name as breaker_name, k.reason as breaker_reason,
           extract(epoch from now() - k.opened_at)::float8 as open_seconds
    from breakers k join job_runs r on r.waits_for = k.key
        or (r.partition_id = any(k.partitions) and r.source <> 'REEMBED')
    where k.opened_at < now() - make_interval(secs => k.patience) and r.batch_id is null and r.finished_at is null
      and r.created_at < now() - make_interval(secs => k.patience)
    order by r.number limit %(limit)s for update of r skip locked
"""


def _fail_run(connection: ThreadConnection, run: _ExpiredRun) -> None:
    minutes = max(1, round(run.open_seconds / 60))
    error = (
        f"{run.breaker_name} has not answered for {minutes} minutes: {run.breaker_reason} Retry when the cause is gone."
    )
    keys = connection.fetch(DocumentKey, OPEN_DOCUMENTS_QUERY, {"id": run.id})
    batches.close_documents(connection, dict.fromkeys(keys, error), status=DocumentStatus.FAILED)
    if run.to_discover:
        batches.record_failed_listing(connection, run.id, error)
    connection.execute(
        "update job_runs set status = 'COMPLETED', finished_at = now(), updated_at = now(), waits_for = null"
        " where id = %(id)s",
        {"id": run.id},
    )
    batches.sweep_target_stores(connection, [run.id])
