"""Evaluation runs: created by the API, started by the dispatcher, executed by one flow run at a time.

The flow run renews a lease; after its expiry a new flow run starts. The run fails after three lost flow runs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString

from retrieval import ids
from retrieval.database import pagination, partitions
from retrieval.database.database import Database
from retrieval.database.pagination import Page, PageRequest
from retrieval.errors import ErrorCode, ServiceError
from retrieval.evaluations import evaluations
from retrieval.ports import Scope
from retrieval.statuses import EvaluationStatus

MAX_ATTEMPTS = 3
# Unfinished runs of a namespace and tenant.
MAX_OPEN_RUNS = 10
LEASE_SECONDS = 60
# Wait for a worker before another flow run is requested; the first to start wins.
START_LEASE_SECONDS = 600
# Wait for a worker before the run fails.
MAX_WAITING_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class EvaluationRun:
    """Run and its results. `result`: None before the end; `progress`: searches done (`asked`) of `total`."""

    id: str
    evaluation_id: str
    status: EvaluationStatus
    settings: Sequence[Mapping[str, Any]]
    result: Mapping[str, Any] | None
    error: str | None
    created_at: datetime
    finished_at: datetime | None
    progress: Mapping[str, int] | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", EvaluationStatus(self.status))


@dataclass(frozen=True, slots=True)
class ClaimedRun:
    """Claimed run: input of a flow run."""

    id: str
    attempt: int
    evaluation_id: str
    settings: Sequence[Mapping[str, Any]]
    organization_id: str
    namespace_id: str
    tenant: str

    @property
    def scope(self) -> Scope:
        return Scope(self.organization_id, self.namespace_id, self.tenant)


_RUN_COLUMNS: LiteralString = (
    "r.id, r.evaluation_id, r.status, r.settings, r.error, r.created_at, r.finished_at, r.progress"
)
_FROM_RUNS: LiteralString = (
    " from evaluation_runs r join evaluations e on e.id = r.evaluation_id" + evaluations.JOIN_SCOPE
)
_SELECT_RUNS: LiteralString = "select " + _RUN_COLUMNS + ", r.result" + _FROM_RUNS
# Omits the ranks of each question: megabytes per run.
_SELECT_WITHOUT_QUESTIONS: LiteralString = "select " + _RUN_COLUMNS + ", r.result - 'questions' as result" + _FROM_RUNS


async def create_run(
    db: Database, scope: Scope, evaluation_id: str, settings: Sequence[Mapping[str, Any]]
) -> EvaluationRun:
    """Create a queued run. Raises NOT_FOUND, INVALID_REQUEST above MAX_OPEN_RUNS."""
    await evaluations.require_evaluation(db, scope, evaluation_id)
    run_id = ids.evaluation_run_id()
    inserted_id = await db.async_fetch_one(
        str,
        """
        insert into evaluation_runs (id, evaluation_id, settings)
        select %(id)s, %(evaluation)s, %(settings)s
        where %(limit)s > (
            select count(*) from evaluations requested join evaluations e on e.partition_id = requested.partition_id
            join evaluation_runs r on r.evaluation_id = e.id and r.finished_at is null
            where requested.id = %(evaluation)s
        )
        returning id
        """,
        {"id": run_id, "evaluation": evaluation_id, "settings": json.dumps(list(settings)), "limit": MAX_OPEN_RUNS},
    )
    if inserted_id is None:
        raise ServiceError(
            ErrorCode.INVALID_REQUEST,
            f"{MAX_OPEN_RUNS} runs of evaluations wait or go on here already;"
            " start this one when one of them has ended.",
            reason="too_many_runs",
        )
    return await get_run(db, scope, evaluation_id, run_id)


async def get_run(db: Database, scope: Scope, evaluation_id: str, run_id: str) -> EvaluationRun:
    """Return a run. Raises NOT_FOUND for missing and foreign ones."""
    run = await db.async_fetch_one(
        EvaluationRun,
        _SELECT_RUNS + " where e.id = %(evaluation)s and r.id = %(id)s",
        {**partitions.scope_params(scope), "evaluation": evaluation_id, "id": run_id},
    )
    if run is None:
        raise ServiceError(ErrorCode.NOT_FOUND, "There is no such run.", reason="evaluation_run_not_found")
    return run


async def list_runs(db: Database, scope: Scope, evaluation_id: str, part: PageRequest | None) -> Page[EvaluationRun]:
    """List runs, newest first, without questions."""
    await evaluations.require_evaluation(db, scope, evaluation_id)
    listed_runs = await db.async_fetch(
        EvaluationRun,
        _SELECT_WITHOUT_QUESTIONS + " where e.id = %(evaluation)s" + pagination.order_desc("r"),
        {**partitions.scope_params(scope), "evaluation": evaluation_id, **pagination.page_params(part)},
    )
    return pagination.cut_page(listed_runs, part)


@dataclass(frozen=True, slots=True)
class WaitingRun:
    """Run without a flow run. `requested_at` distinguishes repeated requests of an attempt."""

    id: str
    attempt: int
    requested_at: int


def list_waiting(db: Database) -> list[WaitingRun]:
    """Return runs without a live flow run, and fail hopeless ones."""
    # Only started attempts count: waiting for a worker is not a loss.
    return db.fetch(
        WaitingRun,
        """
        with due as (
            select id, status, attempt, case
                when status = 'RUNNING' and attempt >= %(attempts)s
                then 'Its worker was lost three times; start the run again.'
                when status = 'QUEUED' and created_at < now() - make_interval(secs => %(patience)s)
                then 'No worker has begun it for a day; start the run again.' end as hopeless
            from evaluation_runs where finished_at is null and (lease_until is null or lease_until < now())
            order by created_at limit 50 for update skip locked
        ),
        failed as (
            update evaluation_runs r set status = 'FAILED', finished_at = now(), error = due.hopeless
            from due where r.id = due.id and due.hopeless is not null
        )
        update evaluation_runs r set status = 'QUEUED', lease_until = now() + make_interval(secs => %(seconds)s),
            attempt = r.attempt + (due.status = 'RUNNING' or due.attempt = 0)::int
        from due where r.id = due.id and due.hopeless is null
        returning r.id, r.attempt, extract(epoch from r.lease_until)::bigint as requested_at
        """,
        {"attempts": MAX_ATTEMPTS, "seconds": START_LEASE_SECONDS, "patience": MAX_WAITING_SECONDS},
    )


def retry_start(db: Database, run_ids: Sequence[str]) -> None:
    """Retry soon for runs refused by Prefect, unless they have started."""
    db.execute(
        "update evaluation_runs set lease_until = now() + interval '5 seconds'"
        " where id = any(%(ids)s) and status = 'QUEUED' and finished_at is null",
        {"ids": list(run_ids)},
    )


def claim_run(db: Database, run_id: str, attempt: int) -> ClaimedRun | None:
    """Start an attempt; return None if it ended or started, a later one exists, or the namespace is deleted."""
    return db.fetch_one(
        ClaimedRun,
        """
        update evaluation_runs r set status = 'RUNNING', lease_until = now() + make_interval(secs => %(seconds)s)
        from evaluations e, partitions p, namespaces n
        where r.id = %(id)s and r.attempt = %(attempt)s and r.status = 'QUEUED' and r.finished_at is null
          and e.id = r.evaluation_id and p.id = e.partition_id and n.id = p.namespace_id and n.deleted_at is null
        returning r.id, r.attempt, r.evaluation_id, r.settings, n.organization_id, p.namespace_id, p.tenant
        """,
        {"id": run_id, "attempt": attempt, "seconds": LEASE_SECONDS},
    )


def renew_lease(db: Database, claimed: ClaimedRun, search_count: int = 0, total: int = 0) -> bool:
    """Renew the lease; return False if another attempt holds it. `search_count`: searches done."""
    progress = json.dumps({"asked": min(search_count, total), "total": total}) if total else None
    updated = db.execute(
        "update evaluation_runs set lease_until = now() + make_interval(secs => %(seconds)s),"
        " progress = coalesce(%(progress)s, progress)"
        " where id = %(id)s and attempt = %(attempt)s and finished_at is null",
        {"id": claimed.id, "attempt": claimed.attempt, "seconds": LEASE_SECONDS, "progress": progress},
    )
    return updated > 0


def finish_run(db: Database, claimed: ClaimedRun, result: Mapping[str, Any] | None, error: str | None = None) -> bool:
    """Store a result (COMPLETED) or an error (FAILED); return False if another attempt holds the run."""
    updated = db.execute(
        "update evaluation_runs set status = %(status)s, result = %(result)s, error = %(error)s, finished_at = now(),"
        " progress = case when %(status)s = 'COMPLETED' then jsonb_set(progress, '{asked}', progress -> 'total')"
        " else progress end"
        " where id = %(id)s and attempt = %(attempt)s and finished_at is null",
        {
            "id": claimed.id,
            "attempt": claimed.attempt,
            "status": EvaluationStatus.FAILED if result is None else EvaluationStatus.COMPLETED,
            "result": None if result is None else json.dumps(result),
            "error": error,
        },
    )
    return updated > 0
