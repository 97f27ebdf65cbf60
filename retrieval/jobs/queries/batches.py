"""Batches: job runs on their way through a flow run, each attempt fenced and leased.

    waiting job runs ──form──▶ batch ──dispatched──▶ flow run ──claim──▶ lease, renewed ──finish──▶ done
                                  ▲                    ▲                   │      │
                                  │                    └── resume ◀── suspended ◀─┘ yields, or waits for a vendor
                                  └──────── start_again (a new attempt) ◀──┘ lost

Only the holder of the newest fence may write: a worker that was wrongly assumed dead can no longer write.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import LiteralString

from retrieval import ids
from retrieval.database.database import Database, skip_locked
from retrieval.database.sessions import ThreadConnection
from retrieval.errors import Fatal
from retrieval.jobs import fair_queue, names
from retrieval.jobs.queries import breakers, job_queue
from retrieval.ports import Scope
from retrieval.sources import STORED
from retrieval.statuses import DocumentStatus, Stage


@dataclass(frozen=True, slots=True)
class DocumentKey:
    """A document within a job run."""

    job_run_id: str
    document_id: str


@dataclass(frozen=True, slots=True)
class Batch:
    """Job runs of one source and scope that go into one flow run."""

    id: str
    source: str
    attempt: int
    job_runs: tuple[str, ...]
    namespace: str
    name: str
    """What it is about, for people."""
    queue: str = fair_queue.DEFAULT
    resumes: str | None = None
    """Id of the suspended flow run that continues the batch; None: a new flow run executes it."""

    @property
    def idempotency_key(self) -> str:
        """Makes repeated dispatch of the same attempt create one flow run."""
        return f"{self.id}:{self.attempt}"


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on a batch, until another claims it."""

    batch_id: str
    fence: int
    partition: int
    source: str
    scope: Scope
    grows: bool = False
    """True if job runs of its scope and source may join the batch while it runs (`batch_append`)."""


@dataclass(frozen=True, slots=True)
class Open:
    """A dispatched batch that is not finished, as the reconciler sees it."""

    id: str
    attempt: int
    flow_run_id: str
    claimed: bool
    lease_lost: bool
    dispatched: float
    """How many seconds ago."""
    released: bool = False
    """Handed back in good order."""
    suspended: bool = False
    """A person suspended its flow run."""


class Superseded(Fatal):
    """Another worker holds this batch now; nothing that this one does may count."""


def form_batches(db: Database, *, size: int, batches: int, places: int | None = None) -> int:
    """Gather waiting job runs into new batches of at most `size`, by turns (`fair_queue`); how many were made.

    At most `batches`, beside those that are short or their organization's only one. A connection's job runs follow each
    other: one waits until those before it are finished. `places`: flow runs that workers execute at once; as many
    batches of a scope and source are on their way at most, where others may join them. None: any number.
    """
    formed = leaving = 0
    passed: set[tuple[int, str]] = set()
    while True:
        groups = [group for group in job_queue.list_groups(db) if (group.partition, group.source) not in passed]
        made = 0
        chosen = job_queue.count_open(db, size=size) if groups else fair_queue.Taken()
        for group, queue in fair_queue.choose_groups(groups, chosen, room=batches - leaving, places=places):
            count = 0
            with skip_locked("batch.not_formed", partition=group.partition), db.transaction() as connection:
                count = job_queue.form_batch(connection, group, queue, size=size, places=places or 1)
            if not count:
                passed.add((group.partition, group.source))
            made += count
            leaving += count if queue != fair_queue.SHORT else 0
        if not made:
            return formed
        formed += made


def undispatched_batches(db: Database) -> list[Batch]:
    """Batches whose newest attempt has no flow run yet, oldest first."""
    batches = []
    for row in db.fetch(_Undispatched, job_queue.UNDISPATCHED):
        runs = len(row.job_runs)
        name = names.titled_name(row) if runs == 1 else names.name_of_several(row.source, runs, row.namespace)
        runs_of_batch = tuple(row.job_runs)
        batch = Batch(row.id, row.source, row.attempt, runs_of_batch, row.namespace_id, name, row.queue, row.resumes)
        batches.append(batch)
    return batches


@dataclass(frozen=True, slots=True)
class _Undispatched(names.About):
    id: str
    attempt: int
    queue: str
    resumes: str | None
    job_runs: list[str]
    namespace_id: str
    namespace: str


def record_flow_run(db: Database, batch: Batch, flow_run_id: str) -> None:
    """Record the flow run of this attempt."""
    db.execute(
        "update batches set flow_run_id = %(flow_run)s, dispatched_at = now(), resumes = false"
        " where id = %(id)s and attempt = %(attempt)s",
        {"id": batch.id, "attempt": batch.attempt, "flow_run": flow_run_id},
    )


def in_flight(db: Database) -> int:
    """Count open batches, without short and suspended ones."""
    statement: LiteralString = (
        "select count(*) from batches where finished_at is null and suspended_at is null and queue <> 'short'"
    )
    return db.fetch_one(int, statement) or 0


def claim_lease(db: Database, batch_id: str, attempt: int, *, seconds: float) -> Lease | None:
    """Claim the batch; None if this attempt is finished, replaced or already being worked on.

    A flow run that a person resumed before its turn takes its waiting job runs back.
    """
    values = {"id": batch_id, "attempt": attempt, "seconds": seconds}
    row = db.fetch_one(_Claimed, _CLAIM, values)
    if row is None:
        with db.transaction() as connection:
            job_queue.reopen_batch(connection, batch_id, attempt)
            row = connection.fetch_one(_Claimed, _CLAIM, values)
    if row is None:
        return None
    scope = Scope(row.organization, row.namespace, row.tenant)
    grows = attempt == 1 and row.queue != fair_queue.SHORT and row.source in STORED
    return Lease(batch_id, row.fence, row.partition, row.source, scope, grows)


_CLAIM: LiteralString = """
    update batches b
    set fence = fence + 1, started_at = now(), lease_until = now() + make_interval(secs => %(seconds)s),
        released = false, suspended_at = null, resumes = false
    from partitions p join namespaces n on n.id = p.namespace_id
    where b.id = %(id)s and b.attempt = %(attempt)s and b.finished_at is null and p.id = b.partition_id
      and (b.lease_until is null or b.lease_until < now() or b.released)
    returning b.fence, b.partition_id as partition, b.source, n.organization_id as organization,
              p.namespace_id as namespace, p.tenant, b.queue
"""


@dataclass(frozen=True, slots=True)
class _Claimed:
    fence: int
    partition: int
    source: str
    organization: str
    namespace: str
    tenant: str
    queue: str


def guard_lease(connection: ThreadConnection, lease: Lease) -> None:
    """Hold the fence until the end of the caller's transaction; Superseded if another worker has claimed the batch."""
    held = connection.execute(
        "select from batches where id = %(batch)s and fence = %(fence)s and finished_at is null for share",
        {"batch": lease.batch_id, "fence": lease.fence},
    ).rowcount
    if not held:
        raise Superseded("Another worker has taken over this batch.")


def is_cancelled(db: Database, job_run_id: str) -> bool:
    """Tell if cancellation of the job run was requested."""
    return bool(db.fetch_one(bool, "select cancel_requested from job_runs where id = %(run)s", {"run": job_run_id}))


def is_wanted(db: Database, lease: Lease) -> bool:
    """Tell if any job run of the batch still has to be completed."""
    statement: LiteralString = (
        "select exists (select from job_runs"
        " where batch_id = %(batch)s and finished_at is null and not cancel_requested)"
    )
    return bool(db.fetch_one(bool, statement, {"batch": lease.batch_id}))


def finish_batch(db: Database, lease: Lease) -> None:
    """Every document is at its end: close the batch."""
    with db.transaction() as connection:
        guard_lease(connection, lease)
        connection.execute(_FINISH, {"id": lease.batch_id})
        breakers.let_go(connection, lease.batch_id, lease.partition)


_FINISH: LiteralString = (
    "update batches set finished_at = now(), lease_until = least(lease_until, now()) where id = %(id)s"
)


def hand_back(
    db: Database,
    lease: Lease,
    *,
    waiting: Mapping[str, str] | None = None,
    held: Collection[str] = (),
    suspended: bool = False,
) -> int:
    """Return unfinished job runs to the queue and close the batch; the number of these job runs.

    `waiting`: by job run, the breaker that it waits for; `held`: breakers that the whole scope waits for. `suspended`:
    the flow run is suspended and continues these job runs when it is their turn.
    """
    # An open batch without job runs would never be dispatched again.
    with db.transaction() as connection:
        guard_lease(connection, lease)
        remaining = connection.execute(
            """
            update job_runs r set batch_id = null, updated_at = now(),
                resumes_batch = case when %(suspended)s then %(batch)s end, waits_for = (
                select w.key from unnest(%(runs)s::text[], %(keys)s::text[]) as w (run, key) where w.run = r.id limit 1)
            where r.batch_id = %(batch)s and r.finished_at is null
            """,
            {
                "batch": lease.batch_id,
                "runs": list(waiting or {}),
                "keys": list((waiting or {}).values()),
                "suspended": suspended,
            },
        ).rowcount
        if held:
            breakers.wait_for_breakers(connection, lease.partition, sorted(held))
        connection.execute(_FINISH, {"id": lease.batch_id})
        if suspended:
            connection.execute("update batches set suspended_at = now() where id = %(id)s", {"id": lease.batch_id})
        breakers.let_go(connection, lease.batch_id, lease.partition)
    return remaining


def open_batches(db: Database) -> list[Open]:
    """List everything that was dispatched and is not finished."""
    return db.fetch(
        Open,
        """
        select id, attempt, flow_run_id, lease_until is not null as claimed,
               extract(epoch from now() - dispatched_at)::float8 as dispatched, released,
               coalesce(lease_until < now(), false) as lease_lost, suspended_at is not null as suspended
        from batches where finished_at is null and dispatched_at is not null order by created_at limit 1000
        """,
    )


_FREE: LiteralString = """
    id in (select id from batches where id = %(id)s and attempt = %(attempt)s and finished_at is null
           for update skip locked)
"""
"""SQL: not locked by a transaction. A worker that writes with the fence now lives, or ends by its time limits."""


def end_batch(db: Database, batch: Open, *, status: str, error: str | None) -> bool:
    """Close a batch from outside: unfinished documents become `status` (FAILED or CANCELLED), its job runs COMPLETED.

    Returns False, and changes nothing, while a worker writes under the fence, or if a newer attempt exists.
    """
    values = {"id": batch.id, "attempt": batch.attempt, "status": status, "error": error}
    with db.transaction() as connection:
        if not connection.execute(
            "update batches set fence = fence + 1, finished_at = now() where " + _FREE, values
        ).rowcount:
            return False
        close_documents(connection, dict.fromkeys(open_documents(connection, batch.id), error), status=status)
        if error is not None and status == DocumentStatus.FAILED:
            undiscovered = connection.fetch(
                str, "select id from job_runs where batch_id = %(id)s and to_discover and finished_at is null", values
            )
            for job_run_id in undiscovered:
                record_failed_listing(connection, job_run_id, error)
        ended = connection.fetch(
            str,
            """
            update job_runs set status = 'COMPLETED', finished_at = now(), updated_at = now(),
                                cancel_requested = cancel_requested or %(status)s = 'CANCELLED'
            where batch_id = %(id)s and finished_at is null returning id
            """,
            values,
        )
        leave_stores(connection, ended)
        breakers.let_go(connection, batch.id)
    return True


def open_documents(connection: ThreadConnection, batch_id: str) -> list[DocumentKey]:
    """List the documents of the batch that are not at their end."""
    return connection.fetch(
        DocumentKey,
        "select d.job_run_id, d.document_id from run_documents d join job_runs r on r.id = d.job_run_id"
        " where r.batch_id = %(batch)s and d.status in ('QUEUED', 'PROCESSING')",
        {"batch": batch_id},
    )


def leave_stores(connection: ThreadConnection, job_runs: Sequence[str]) -> None:
    """For those that were to move a namespace and ended from outside: have the store that they built in forgotten.

    Deletions would go on asking it, whether it answers or not.
    """
    connection.execute(
        "insert into sweeps (partition_id, kind, generation, due_at)"
        " select partition_id, 'stores', -1, now() + interval '10 minutes' from job_runs"
        " where id = any(%(runs)s) and source = 'REEMBED'",
        {"runs": list(job_runs)},
    )


def record_failed_listing(connection: ThreadConnection, job_run_id: str, error: str) -> None:
    """Record a failed listing of a job run as an entry without a document."""
    connection.execute(
        """
        insert into run_documents (job_run_id, document_id, position, generation, name, status, stage, error)
        select r.id, %(document)s, (select count(*) from run_documents d where d.job_run_id = r.id), r.number,
               'listing of ' || r.source, 'FAILED', %(stage)s, %(error)s
        from job_runs r where r.id = %(run)s
        """,
        {"run": job_run_id, "document": ids.document_id(), "stage": Stage.DISCOVER, "error": error},
    )


_DELETED: LiteralString = "not exists (select from documents k where k.id = d.document_id and k.deleted_at is null)"


def close_documents(connection: ThreadConnection, errors: Mapping[DocumentKey, str | None], *, status: str) -> None:
    """End these documents, each with its error. Garbage collection deletes their output; raw files stay.

    A document that was deleted meanwhile is cancelled, whatever its work failed of.
    """
    connection.execute(
        f"""
        with closed as (
            update run_documents d
            set status = case when {_DELETED} then 'CANCELLED' else %(status)s end,
                error = case when {_DELETED} then null else w.error end
            from unnest(%(runs)s::text[], %(documents)s::text[], %(errors)s::text[]) as w (run, document, error)
            where d.job_run_id = w.run and d.document_id = w.document and d.status in ('QUEUED', 'PROCESSING')
            returning d.job_run_id, d.document_id, d.error, d.generation, d.partition_id
        ),
        swept as (
            insert into sweeps (partition_id, kind, document_id, generation, due_at)
            select coalesce(c.partition_id, r.partition_id), 'generation', c.document_id, c.generation,
                   now() + interval '2 minutes'
            from closed c join job_runs r on r.id = c.job_run_id
        )
        update documents d set status = %(status)s, error = closed.error, updated_at = now()
        from closed where d.id = closed.document_id and d.job_run_id = closed.job_run_id
        """,
        {
            "status": status,
            "runs": [key.job_run_id for key in errors],
            "documents": [key.document_id for key in errors],
            "errors": list(errors.values()),
        },
    )
