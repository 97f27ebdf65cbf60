"""Evaluation runs: created by the API, started by the dispatcher, executed by one flow run at a time.

The flow run renews a lease; after its expiry a new flow run starts. The run fails after three lost flow runs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Text, and_, bindparam, case, func, literal, literal_column, select, update
from sqlalchemy.dialects.postgresql import JSONB

from retrieval import ids
from retrieval.database import pagination, partitions, schema
from retrieval.database.compiling import (
    columns_of,
    compile_page,
    compile_statement,
    equals,
    in_list,
    in_live_namespace,
    parameters,
)
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


_table: Any = schema.EvaluationRun
_evaluation: Any = schema.Evaluation
_partition: Any = schema.Partition
_namespace: Any = schema.Namespace
_in_scope = and_(
    _table.evaluation_id == _evaluation.id,
    equals(_evaluation.id, "evaluation"),
    evaluations.evaluation_in_scope,
)
# Without the ranks of each question: megabytes per run.
_summary = _table.result.op("-")(literal("questions", Text))
_LIST_RUNS = compile_page(select(*columns_of(_table, EvaluationRun, result=_summary)).where(_in_scope), _table)
_GET_RUN = compile_statement(select(*columns_of(_table, EvaluationRun)).where(_in_scope, equals(_table.id)))
_RETRY_START = compile_statement(
    update(_table)
    .where(in_list(_table.id, "ids"), _table.status == "QUEUED", _table.finished_at.is_(None))
    .values(lease_until=func.now() + timedelta(seconds=5))
)
_is_attempt = and_(equals(_table.id), equals(_table.attempt), _table.finished_at.is_(None))
_lease_until = func.now() + timedelta(seconds=LEASE_SECONDS)
_CLAIM_RUN = compile_statement(
    update(_table)
    .where(
        _is_attempt,
        _table.status == "QUEUED",
        _evaluation.id == _table.evaluation_id,
        in_live_namespace(_evaluation.partition_id),
    )
    .values(status="RUNNING", lease_until=_lease_until)
    .returning(
        *columns_of(
            _table,
            ClaimedRun,
            organization_id=_namespace.organization_id,
            namespace_id=_partition.namespace_id,
            tenant=_partition.tenant,
        )
    )
)
_RENEW_LEASE = compile_statement(
    update(_table)
    .where(_is_attempt)
    .values(lease_until=_lease_until, progress=func.coalesce(bindparam("progress", type_=JSONB), _table.progress))
)
_status = bindparam("status", type_=Text)
_all_searches = func.jsonb_set(_table.progress, literal_column("'{asked}'"), _table.progress["total"])
_FINISH_RUN = compile_statement(
    update(_table)
    .where(_is_attempt)
    .values(
        status=_status,
        finished_at=func.now(),
        progress=case((_status == "COMPLETED", _all_searches), else_=_table.progress),
        **parameters("result", "error"),
    )
)


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
    values = {**partitions.scope_params(scope), "evaluation": evaluation_id, "id": run_id}
    run = await db.async_fetch_one(EvaluationRun, _GET_RUN, values)
    if run is None:
        raise ServiceError(ErrorCode.NOT_FOUND, "There is no such run.", reason="evaluation_run_not_found")
    return run


async def list_runs(db: Database, scope: Scope, evaluation_id: str, part: PageRequest | None) -> Page[EvaluationRun]:
    """List runs, newest first, without questions."""
    await evaluations.require_evaluation(db, scope, evaluation_id)
    values = {**partitions.scope_params(scope), "evaluation": evaluation_id, **pagination.page_params(part)}
    return pagination.cut_page(await db.async_fetch(EvaluationRun, _LIST_RUNS, values), part)


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
    db.execute(_RETRY_START, {"ids": list(run_ids)})


def claim_run(db: Database, run_id: str, attempt: int) -> ClaimedRun | None:
    """Start an attempt; None for a started, ended or superseded attempt, or a deleted namespace."""
    return db.fetch_one(ClaimedRun, _CLAIM_RUN, {"id": run_id, "attempt": attempt})


def renew_lease(db: Database, claimed: ClaimedRun, search_count: int = 0, total: int = 0) -> bool:
    """Renew the lease; return False if another attempt holds it. `search_count`: searches done."""
    progress = json.dumps({"asked": min(search_count, total), "total": total}) if total else None
    updated = db.execute(_RENEW_LEASE, {"id": claimed.id, "attempt": claimed.attempt, "progress": progress})
    return updated > 0


def finish_run(db: Database, claimed: ClaimedRun, result: Mapping[str, Any] | None, error: str | None = None) -> bool:
    """Store a result (COMPLETED) or an error (FAILED); return False if another attempt holds the run."""
    updated = db.execute(
        _FINISH_RUN,
        {
            "id": claimed.id,
            "attempt": claimed.attempt,
            "status": EvaluationStatus.FAILED if result is None else EvaluationStatus.COMPLETED,
            "result": None if result is None else json.dumps(result),
            "error": error,
        },
    )
    return updated > 0
