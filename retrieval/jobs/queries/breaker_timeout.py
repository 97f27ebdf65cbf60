"""Expiry of job runs that waited too long for an open breaker: they fail with the breaker's reason."""

from __future__ import annotations

from typing import Final, LiteralString, NamedTuple

from retrieval.database.database import Database
from retrieval.database.sessions import ThreadConnection
from retrieval.jobs.control import OPEN_DOCUMENTS
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import DocumentKey
from retrieval.statuses import DocumentStatus

PAGE: Final = 200
"""Job runs that are ended together."""
KEPT: Final = 1000
"""Breakers of an organization that are remembered: a crawl may meet any number of hosts."""


def expire_runs(db: Database) -> int:
    """End job runs whose patience is at its end, each open document with the reason; how many."""
    ended = 0
    while True:
        with db.transaction() as connection:
            rows = connection.fetch(_Expired, _IMPATIENT, {"page": PAGE})
            impatient = {run.id: run for run in rows}  # one may wait for several
            for run in impatient.values():
                _give_up(connection, run)
        ended += len(impatient)
        if len(rows) < PAGE:
            break
    db.execute("delete from breakers where updated_at < now() - interval '1 day'")
    db.execute(
        "delete from breakers where key in (select key from (select key, row_number() over ("
        "partition by organization_id order by updated_at desc) as place from breakers) b where place > %(kept)s)",
        {"kept": KEPT},
    )
    return ended


class _Expired(NamedTuple):
    id: str
    to_discover: bool
    name: str
    reason: str
    seconds: float


_IMPATIENT: LiteralString = """
    select r.id, r.to_discover, k.name, k.reason, extract(epoch from now() - k.opened_at)::float8 as seconds
    from breakers k join job_runs r on r.waits_for = k.key
        or (r.partition_id = any(k.partitions) and r.source <> 'REEMBED')
    where k.opened_at < now() - make_interval(secs => k.patience) and r.batch_id is null and r.finished_at is null
      and r.created_at < now() - make_interval(secs => k.patience)
    order by r.number limit %(page)s for update of r skip locked
"""


def _give_up(connection: ThreadConnection, run: _Expired) -> None:
    minutes = max(1, round(run.seconds / 60))
    error = f"{run.name} has not answered for {minutes} minutes: {run.reason} Retry when the cause is gone."
    keys = connection.fetch(DocumentKey, OPEN_DOCUMENTS, {"id": run.id})
    batches.close_documents(connection, dict.fromkeys(keys, error), status=DocumentStatus.FAILED)
    if run.to_discover:
        batches.record_failed_listing(connection, run.id, error)
    connection.execute(
        "update job_runs set status = 'COMPLETED', finished_at = now(), updated_at = now(), waits_for = null"
        " where id = %(id)s",
        {"id": run.id},
    )
    batches.leave_stores(connection, [run.id])
