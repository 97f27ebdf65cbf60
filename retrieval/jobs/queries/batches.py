"""Batches: job runs in a flow run, each attempt fenced and leased.

waiting job runs ──form──▶ batch ──dispatched──▶ flow run ──claim──▶ lease, renewed ──finish──▶ done
                              ▲                    ▲                   │      │
                              │                    └── resume ◀── suspended ◀─┘ yields, or waits for a vendor
                              └──────── restart_batch (attempt + 1) ◀──┘ lost
"""

# Only the holder of the newest fence may write, so a worker wrongly assumed dead cannot.

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
from retrieval.sources import STORED_SOURCES
from retrieval.statuses import DocumentStatus, Stage


@dataclass(frozen=True, slots=True)
class DocumentKey:
    """Document within a job run."""

    job_run_id: str
    document_id: str


@dataclass(frozen=True, slots=True)
class Batch:
    """Job runs of a source and scope for a flow run."""

    id: str
    source: str
    attempt: int
    job_runs: tuple[str, ...]
    namespace: str
    # Display name.
    name: str
    queue: str = fair_queue.DEFAULT_QUEUE
    # Suspended flow run that continues the batch; None for a new flow run.
    resumes: str | None = None

    @property
    def idempotency_key(self) -> str:
        # Repeated dispatch of the same attempt creates one flow run.
        return f"{self.id}:{self.attempt}"


@dataclass(frozen=True, slots=True)
class Lease:
    """Right to work on a batch until another claim."""

    batch_id: str
    fence: int
    partition: int
    source: str
    scope: Scope
    # Job runs of the scope and source may join the running batch (`batch_append`).
    grows: bool = False


@dataclass(frozen=True, slots=True)
class OpenBatch:
    """Dispatched, unfinished batch for the reconciler."""

    id: str
    attempt: int
    flow_run_id: str
    claimed: bool
    lease_lost: bool
    # Negative after a step of the database's clock.
    seconds_since_dispatch: float
    # Returned in order.
    released: bool = False
    # By a person.
    suspended: bool = False


class Superseded(Fatal):
    """Another worker holds this batch; writes of this worker are void."""


def form_batches(db: Database, *, size: int, batches: int, worker_slots: int | None = None) -> int:
    """Group waiting job runs into new batches of at most `size`, in fair order; return the number of batches."""
    # `batches` limits new ones, except short ones and the only one of an organization. Job runs of a connection follow
    # each other. At most `worker_slots` batches of a scope and source exist at once.
    formed = dispatched = 0
    skipped: set[tuple[int, str]] = set()
    while True:
        groups = [group for group in job_queue.list_groups(db) if (group.partition, group.source) not in skipped]
        formed_now = 0
        open_counts = job_queue.count_open(db, size=size) if groups else fair_queue.OpenBatchCounts()
        for group, queue in fair_queue.choose_groups(
            groups, open_counts, remaining=batches - dispatched, worker_slots=worker_slots
        ):
            count = 0
            with skip_locked("batch.not_formed", partition=group.partition), db.transaction() as connection:
                count = job_queue.form_batch(connection, group, queue, size=size, worker_slots=worker_slots or 1)
            if not count:
                skipped.add((group.partition, group.source))
            formed_now += count
            dispatched += count if queue != fair_queue.SHORT_QUEUE else 0
        if not formed_now:
            return formed
        formed += formed_now


def undispatched_batches(db: Database) -> list[Batch]:
    """Return batches whose newest attempt has no flow run, oldest first."""
    batches = []
    for row in db.fetch(_UndispatchedBatch, job_queue.UNDISPATCHED_QUERY):
        runs = len(row.job_runs)
        name = names.describe_run(row) if runs == 1 else names.name_of_several(row.source, runs, row.namespace)
        runs_of_batch = tuple(row.job_runs)
        batch = Batch(row.id, row.source, row.attempt, runs_of_batch, row.namespace_id, name, row.queue, row.resumes)
        batches.append(batch)
    return batches


@dataclass(frozen=True, slots=True)
class _UndispatchedBatch(names.RunDescription):
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


def count_in_flight(db: Database) -> int:
    """Count open batches, without short and suspended ones."""
    statement: LiteralString = (
        "select count(*) from batches where finished_at is null and suspended_at is null and queue <> 'short'"
    )
    return db.fetch_one(int, statement) or 0


def claim_lease(db: Database, batch_id: str, attempt: int, *, seconds: float) -> Lease | None:
    """Claim the batch; None if this attempt is finished, replaced or claimed."""
    # A flow run that a person resumed early takes its waiting job runs back.
    values = {"id": batch_id, "attempt": attempt, "seconds": seconds}
    row = db.fetch_one(_ClaimedBatch, _CLAIM_STATEMENT, values)
    if row is None:
        with db.transaction() as connection:
            job_queue.reopen_batch(connection, batch_id, attempt)
            row = connection.fetch_one(_ClaimedBatch, _CLAIM_STATEMENT, values)
    if row is None:
        return None
    scope = Scope(row.organization, row.namespace, row.tenant)
    grows = attempt == 1 and row.queue != fair_queue.SHORT_QUEUE and row.source in STORED_SOURCES
    return Lease(batch_id, row.fence, row.partition, row.source, scope, grows)


_CLAIM_STATEMENT: LiteralString = """
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
class _ClaimedBatch:
    fence: int
    partition: int
    source: str
    organization: str
    namespace: str
    tenant: str
    queue: str


def guard_lease(connection: ThreadConnection, lease: Lease) -> None:
    """Hold the fence until the end of the transaction; Superseded after another claim."""
    is_held = connection.execute(
        "select from batches where id = %(batch)s and fence = %(fence)s and finished_at is null for share",
        {"batch": lease.batch_id, "fence": lease.fence},
    ).rowcount
    if not is_held:
        raise Superseded("Another worker has taken over this batch.")


def is_cancelled(db: Database, job_run_id: str) -> bool:
    """Return whether cancellation of the job run was requested."""
    return bool(db.fetch_one(bool, "select cancel_requested from job_runs where id = %(run)s", {"run": job_run_id}))


def has_unfinished_runs(db: Database, lease: Lease) -> bool:
    """Return whether a job run of the batch is unfinished and not cancelled."""
    statement: LiteralString = (
        "select exists (select from job_runs"
        " where batch_id = %(batch)s and finished_at is null and not cancel_requested)"
    )
    return bool(db.fetch_one(bool, statement, {"batch": lease.batch_id}))


def finish_batch(db: Database, lease: Lease) -> None:
    """Close a batch with finished documents."""
    with db.transaction() as connection:
        guard_lease(connection, lease)
        connection.execute(_FINISH_STATEMENT, {"id": lease.batch_id})
        breakers.release_probe(connection, lease.batch_id, lease.partition)


_FINISH_STATEMENT: LiteralString = (
    "update batches set finished_at = now(), lease_until = least(lease_until, now()) where id = %(id)s"
)


def return_runs(
    db: Database,
    lease: Lease,
    *,
    blocked_runs: Mapping[str, str] | None = None,
    scope_breakers: Collection[str] = (),
    suspended: bool = False,
) -> int:
    """Return unfinished job runs to the queue and close the batch; return their number."""
    # `blocked_runs`: breaker by job run; `scope_breakers`: of the whole scope. A suspended flow run continues its job
    # runs.
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
                "runs": list(blocked_runs or {}),
                "keys": list((blocked_runs or {}).values()),
                "suspended": suspended,
            },
        ).rowcount
        if scope_breakers:
            breakers.wait_for_breakers(connection, lease.partition, sorted(scope_breakers))
        # An open batch without job runs would never be dispatched again.
        connection.execute(_FINISH_STATEMENT, {"id": lease.batch_id})
        if suspended:
            connection.execute("update batches set suspended_at = now() where id = %(id)s", {"id": lease.batch_id})
        breakers.release_probe(connection, lease.batch_id, lease.partition)
    return remaining


def open_batches(db: Database) -> list[OpenBatch]:
    """List dispatched, unfinished batches."""
    return db.fetch(
        OpenBatch,
        """
        select id, attempt, flow_run_id, lease_until is not null as claimed,
               extract(epoch from now() - dispatched_at)::float8 as seconds_since_dispatch, released,
               coalesce(lease_until < now(), false) as lease_lost, suspended_at is not null as suspended
        from batches where finished_at is null and dispatched_at is not null order by created_at limit 1000
        """,
    )


# Skips a batch that a worker's write has locked: the worker is alive, or its statement times out before the next pass.
_UNLOCKED_CONDITION: LiteralString = """
    id in (select id from batches where id = %(id)s and attempt = %(attempt)s and finished_at is null
           for update skip locked)
"""


def end_batch(db: Database, batch: OpenBatch, *, status: str, error: str | None) -> bool:
    """Close a batch from outside with `status` for unfinished documents; False during a write."""
    values = {"id": batch.id, "attempt": batch.attempt, "status": status, "error": error}
    with db.transaction() as connection:
        if not connection.execute(
            "update batches set fence = fence + 1, finished_at = now() where " + _UNLOCKED_CONDITION, values
        ).rowcount:
            return False
        close_documents(connection, dict.fromkeys(open_documents(connection, batch.id), error), status=status)
        if error is not None and status == DocumentStatus.FAILED:
            undiscovered = connection.fetch(
                str, "select id from job_runs where batch_id = %(id)s and to_discover and finished_at is null", values
            )
            for job_run_id in undiscovered:
                record_failed_listing(connection, job_run_id, error)
        # COMPLETED means ended; the outcome is computed from the documents (`progress.OUTCOME_EXPRESSION`).
        ended = connection.fetch(
            str,
            """
            update job_runs set status = 'COMPLETED', finished_at = now(), updated_at = now(),
                                cancel_requested = cancel_requested or %(status)s = 'CANCELLED'
            where batch_id = %(id)s and finished_at is null returning id
            """,
            values,
        )
        sweep_target_stores(connection, ended)
        breakers.release_probe(connection, batch.id)
    return True


def open_documents(connection: ThreadConnection, batch_id: str) -> list[DocumentKey]:
    """List the unfinished documents of the batch."""
    return connection.fetch(
        DocumentKey,
        "select d.job_run_id, d.document_id from run_documents d join job_runs r on r.id = d.job_run_id"
        " where r.batch_id = %(batch)s and d.status in ('QUEUED', 'PROCESSING')",
        {"batch": batch_id},
    )


def sweep_target_stores(connection: ThreadConnection, job_runs: Sequence[str]) -> None:
    """Schedule removal of the target stores of re-embedding runs ended from outside."""
    # Otherwise every later deletion would be sent to these stores, too. Generation -1: stores have none.
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
               'Listing of the source', 'FAILED', %(stage)s, %(error)s
        from job_runs r where r.id = %(run)s
        """,
        {"run": job_run_id, "document": ids.document_id(), "stage": Stage.DISCOVER, "error": error},
    )


_DELETED_CONDITION: LiteralString = (
    "not exists (select from documents k where k.id = d.document_id and k.deleted_at is null)"
)


def close_documents(connection: ThreadConnection, errors: Mapping[DocumentKey, str | None], *, status: str) -> None:
    """End these documents, each with its error, or as cancelled if deleted; raw files stay."""
    connection.execute(
        f"""
        with closed as (
            update run_documents d
            set status = case when {_DELETED_CONDITION} then 'CANCELLED' else %(status)s end,
                error = case when {_DELETED_CONDITION} then null else w.error end
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
