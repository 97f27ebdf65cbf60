"""Runs of an evaluation: requested by the API, started by the dispatcher, executed by one flow run at a time.

The flow run renews a lease. When the lease has expired, a new flow run is started; after three lost ones the run has
failed.
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

ATTEMPTS = 3
MOST_OPEN = 10
"""Unfinished runs of a namespace and tenant."""
LEASE_SECONDS = 60
START_SECONDS = 600
"""How long a flow run may wait for a worker before another is asked for; whichever comes first begins."""
PATIENCE_SECONDS = 86_400
"""How long a run may wait for a worker at all."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run and its results. `result`: `settings` and `questions` as in the contract, None before its end. `progress`:
    number of searches done, `asked`, of the `total`, once they are counted."""

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
class Claimed:
    """A claimed run: the input of a flow run."""

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


_COLUMNS: LiteralString = (
    "r.id, r.evaluation_id, r.status, r.settings, r.error, r.created_at, r.finished_at, r.progress"
)
_FROM: LiteralString = " from evaluation_runs r join evaluations e on e.id = r.evaluation_id" + evaluations.SCOPED
_SELECT: LiteralString = "select " + _COLUMNS + ", r.result" + _FROM
_LISTED: LiteralString = "select " + _COLUMNS + ", r.result - 'questions' as result" + _FROM
"""Without the ranks of each question, which are megabytes a run."""


async def create(db: Database, scope: Scope, evaluation_id: str, settings: Sequence[Mapping[str, Any]]) -> Run:
    """A run that waits for its flow run."""
    await evaluations.require_evaluation(db, scope, evaluation_id)
    run_id = ids.evaluation_run_id()
    inserted_id = await db.async_fetch_one(
        str,
        """
        insert into evaluation_runs (id, evaluation_id, settings)
        select %(id)s, %(evaluation)s, %(settings)s
        where %(most)s > (
            select count(*) from evaluations asked join evaluations e on e.partition_id = asked.partition_id
            join evaluation_runs r on r.evaluation_id = e.id and r.finished_at is null
            where asked.id = %(evaluation)s
        )
        returning id
        """,
        {"id": run_id, "evaluation": evaluation_id, "settings": json.dumps(list(settings)), "most": MOST_OPEN},
    )
    if inserted_id is None:
        raise ServiceError(
            ErrorCode.INVALID_REQUEST,
            f"{MOST_OPEN} runs of evaluations wait or go on here already; start this one when one of them has ended.",
            reason="too_many_runs",
        )
    return await get(db, scope, evaluation_id, run_id)


async def get(db: Database, scope: Scope, evaluation_id: str, run_id: str) -> Run:
    """NOT_FOUND for any other, missing or foreign alike."""
    run = await db.async_fetch_one(
        Run,
        _SELECT + " where e.id = %(evaluation)s and r.id = %(id)s",
        {**partitions.scope_params(scope), "evaluation": evaluation_id, "id": run_id},
    )
    if run is None:
        raise ServiceError(ErrorCode.NOT_FOUND, "There is no such run.", reason="evaluation_run_not_found")
    return run


async def list_part(db: Database, scope: Scope, evaluation_id: str, part: PageRequest | None) -> Page[Run]:
    """Newest first, without their questions."""
    await evaluations.require_evaluation(db, scope, evaluation_id)
    listed_runs = await db.async_fetch(
        Run,
        _LISTED + " where e.id = %(evaluation)s" + pagination.order_desc("r"),
        {**partitions.scope_params(scope), "evaluation": evaluation_id, **pagination.page_params(part)},
    )
    return pagination.cut_page(listed_runs, part)


@dataclass(frozen=True, slots=True)
class WaitingRun:
    """A run that needs a flow run. `requested_at` distinguishes two requests of an attempt."""

    id: str
    attempt: int
    requested_at: int


def list_waiting(db: Database) -> list[WaitingRun]:
    """Return runs that need a flow run: new ones, those whose flow run did not start in
    time, and those whose lease has expired.

    Only started attempts count: waiting for a worker is not a loss.
    """
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
        {"attempts": ATTEMPTS, "seconds": START_SECONDS, "patience": PATIENCE_SECONDS},
    )


def not_started(db: Database, run_ids: Sequence[str]) -> None:
    """Prefect did not take them: ask again soon, unless they have begun all the same."""
    db.execute(
        "update evaluation_runs set lease_until = now() + interval '5 seconds'"
        " where id = any(%(ids)s) and status = 'QUEUED' and finished_at is null",
        {"ids": list(run_ids)},
    )


def claim_run(db: Database, run_id: str, attempt: int) -> Claimed | None:
    """Start an attempt; None if it has ended or started, its namespace is deleted, or a later attempt exists."""
    return db.fetch_one(
        Claimed,
        """
        update evaluation_runs r set status = 'RUNNING', lease_until = now() + make_interval(secs => %(seconds)s)
        from evaluations e, partitions p, namespaces n
        where r.id = %(id)s and r.attempt = %(attempt)s and r.status = 'QUEUED' and r.finished_at is null
          and e.id = r.evaluation_id and p.id = e.partition_id and n.id = p.namespace_id and n.deleted_at is null
        returning r.id, r.attempt, r.evaluation_id, r.settings, n.organization_id, p.namespace_id, p.tenant
        """,
        {"id": run_id, "attempt": attempt, "seconds": LEASE_SECONDS},
    )


def renew_lease(db: Database, claimed: Claimed, asked: int = 0, total: int = 0) -> bool:
    """Renew the lease; return False if another attempt holds it. `asked`: searches done, of `total`, once that is
    known."""
    progress = json.dumps({"asked": min(asked, total), "total": total}) if total else None
    updated = db.execute(
        "update evaluation_runs set lease_until = now() + make_interval(secs => %(seconds)s),"
        " progress = coalesce(%(progress)s, progress)"
        " where id = %(id)s and attempt = %(attempt)s and finished_at is null",
        {"id": claimed.id, "attempt": claimed.attempt, "seconds": LEASE_SECONDS, "progress": progress},
    )
    return updated > 0


def finish_run(db: Database, claimed: Claimed, result: Mapping[str, Any] | None, error: str | None = None) -> bool:
    """Store what came out: COMPLETED with a result, FAILED with the reason; False if another attempt has it."""
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
