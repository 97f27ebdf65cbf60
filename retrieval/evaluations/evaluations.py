"""Create, list, change and delete evaluations of a scope."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, LiteralString

from retrieval import ids
from retrieval.database import pagination, partitions
from retrieval.database.database import Database
from retrieval.database.pagination import Page, PageRequest
from retrieval.database.rows import AsyncExecutor
from retrieval.errors import ErrorCode, ServiceError
from retrieval.evaluations import judge
from retrieval.evaluations.judge import StoredQuestion, Verdict
from retrieval.namespaces import namespaces
from retrieval.ports import Scope

MAX_QUESTIONS = 10_000
# A run returns a rank per judged document and setting.
MAX_JUDGED_DOCUMENTS = 100_000

# `query`, `filter`, and `relevant`: `{documentId | externalId, start?, end?, grade?}`, empty if unanswerable.
Question = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Set of questions. `unresolved`: up to 100 judged external ids without a document; None in listings."""

    id: str
    namespace_id: str
    name: str
    question_count: int
    created_at: datetime
    unresolved: Sequence[str] | None = None


JOIN_SCOPE: LiteralString = (
    " join partitions p on p.id = e.partition_id and p.namespace_id = %(namespace)s and p.tenant = %(tenant)s"
    " join namespaces n on n.id = p.namespace_id and n.organization_id = %(organization)s and n.deleted_at is null"
)
_SELECT_EVALUATIONS: LiteralString = (
    "select e.id, p.namespace_id, e.name, e.created_at,"
    " (select count(*) from evaluation_questions q where q.evaluation_id = e.id) as question_count"
    " from evaluations e" + JOIN_SCOPE
)
_LIST_UNRESOLVED: LiteralString = """
    select distinct judged ->> 'externalId' as external_id
    from evaluations e join evaluation_questions q on q.evaluation_id = e.id
    cross join jsonb_array_elements(q.relevant) as judged
    where e.id = %(id)s and judged ? 'externalId' and not exists (
        select from documents d where d.partition_id = e.partition_id
        and d.external_id = judged ->> 'externalId' and d.deleted_at is null
    )
    order by 1 limit 100
"""


async def create_evaluation(db: Database, scope: Scope, name: str, questions: Sequence[Question]) -> Evaluation:
    """Create an evaluation. Raises NAMESPACE_NOT_FOUND."""
    partition = await partitions.ensure_partition(db, scope)
    if partition is None:
        raise namespaces.not_found()
    evaluation_id = ids.evaluation_id()
    async with db.async_transaction() as connection:
        await connection.async_execute(
            "insert into evaluations (id, partition_id, name) values (%(id)s, %(partition)s, %(name)s)",
            {"id": evaluation_id, "partition": partition, "name": name},
        )
        await _insert_questions(connection, evaluation_id, questions)
        await _require_bounds(connection, evaluation_id, "questions")
    return await get_evaluation(db, scope, evaluation_id)


async def get_evaluation(db: Database, scope: Scope, evaluation_id: str) -> Evaluation:
    """Return the scope's evaluation. Raises NOT_FOUND for missing and foreign ones."""
    values = {**partitions.scope_params(scope), "id": evaluation_id}
    evaluation = await db.async_fetch_one(Evaluation, _SELECT_EVALUATIONS + " where e.id = %(id)s", values)
    if evaluation is None:
        raise not_found()
    return replace(evaluation, unresolved=await db.async_fetch(str, _LIST_UNRESOLVED, {"id": evaluation_id}))


async def require_evaluation(db: Database, scope: Scope, evaluation_id: str) -> None:
    """Raise NOT_FOUND unless the scope has the evaluation."""
    statement = "select e.id from evaluations e" + JOIN_SCOPE + " where e.id = %(id)s"
    if await db.async_fetch_one(str, statement, {**partitions.scope_params(scope), "id": evaluation_id}) is None:
        raise not_found()


async def list_evaluations(db: Database, scope: Scope, part: PageRequest | None) -> Page[Evaluation]:
    """List evaluations, newest first, without `unresolved`."""
    statement: LiteralString = _SELECT_EVALUATIONS + " where true" + pagination.order_desc("e")
    values = {**partitions.scope_params(scope), **pagination.page_params(part)}
    return pagination.cut_page(await db.async_fetch(Evaluation, statement, values), part)


async def change_evaluation(
    db: Database,
    scope: Scope,
    evaluation_id: str,
    *,
    name: str | None,
    add: Sequence[Question],
    remove: Sequence[str],
    verdicts: Sequence[Verdict] = (),
) -> Evaluation:
    """Rename, remove questions by query, add questions, then apply verdicts. Raises NOT_FOUND, INVALID_REQUEST."""
    await require_evaluation(db, scope, evaluation_id)
    values = {"id": evaluation_id, "name": name, "remove": list(remove)}
    async with db.async_transaction() as connection:
        statement: LiteralString = (
            "update evaluations set name = coalesce(%(name)s, name) where id = %(id)s returning id"
        )
        if await connection.async_fetch_one(str, statement, values) is None:
            raise not_found()
        await connection.async_execute(
            "delete from evaluation_questions where evaluation_id = %(id)s and query = any(%(remove)s)", values
        )
        await _insert_questions(connection, evaluation_id, add)
        await judge.apply_verdicts(connection, evaluation_id, verdicts)
        await _require_bounds(connection, evaluation_id, "add")
    return await get_evaluation(db, scope, evaluation_id)


async def delete_evaluation(db: Database, scope: Scope, evaluation_id: str) -> None:
    """Delete an evaluation with its questions, runs and fits. Raises NOT_FOUND."""
    deleted_id = await db.async_fetch_one(
        str,
        "with deleted as ("
        "delete from evaluations gone using partitions p, namespaces n where gone.id = %(id)s"
        " and p.id = gone.partition_id and p.namespace_id = %(namespace)s and p.tenant = %(tenant)s"
        " and n.id = p.namespace_id and n.organization_id = %(organization)s and n.deleted_at is null"
        " returning gone.id, gone.partition_id), forgotten as ("
        "update partitions p set answerability = ("
        " select jsonb_object_agg(key, value) from jsonb_each(p.answerability)"
        " where value ->> 'evaluation_id' <> %(id)s"
        ") from deleted where p.id = deleted.partition_id and p.answerability is not null"
        ") select id from deleted",
        {**partitions.scope_params(scope), "id": evaluation_id},
    )
    if deleted_id is None:
        raise not_found()


async def list_questions(
    db: Database, scope: Scope, evaluation_id: str, part: PageRequest, query: str | None = None
) -> Page[StoredQuestion]:
    """List questions in order, optionally with exactly this query."""
    await require_evaluation(db, scope, evaluation_id)
    rows = await db.async_fetch(
        StoredQuestion,
        "select number, query, relevant, filter from evaluation_questions where evaluation_id = %(id)s"
        " and (%(after)s::bigint is null or number > %(after)s) and (%(query)s::text is null or query = %(query)s)"
        " order by number limit %(limit)s",
        {"id": evaluation_id, "query": query, **pagination.number_params(part.cursor, part.size)},
    )
    return pagination.take_page(rows, part.size, lambda question: str(question.number))


def read_questions(db: Database, evaluation_id: str) -> list[StoredQuestion]:
    """Return all questions in order."""
    return db.fetch(
        StoredQuestion,
        "select number, query, relevant, filter from evaluation_questions where evaluation_id = %(id)s order by number",
        {"id": evaluation_id},
    )


def not_found() -> ServiceError:
    return ServiceError(ErrorCode.NOT_FOUND, "There is no such evaluation.", reason="evaluation_not_found")


@dataclass(frozen=True, slots=True)
class EvaluationSize:
    """Numbers of questions and judged documents."""

    questions: int
    judged: int


async def _require_bounds(connection: AsyncExecutor, evaluation_id: str, field: str) -> None:
    """Raise INVALID_REQUEST for too few or many questions or judged documents."""
    counts = await connection.async_fetch_one(
        EvaluationSize,
        "select count(*) as questions, coalesce(sum(jsonb_array_length(relevant)), 0)::bigint as judged"
        " from evaluation_questions where evaluation_id = %(id)s",
        {"id": evaluation_id},
    )
    if counts is None or not 1 <= counts.questions <= MAX_QUESTIONS:
        raise ServiceError(
            ErrorCode.INVALID_REQUEST,
            f"An evaluation has 1 to {MAX_QUESTIONS:,} questions; this change goes beyond that.",
            field=field,
            reason="number_of_questions",
        )
    if not counts.judged:
        raise ServiceError(
            ErrorCode.INVALID_REQUEST,
            "At least one question of an evaluation needs a relevant document.",
            field=field,
            reason="number_of_judged_documents",
        )
    if counts.judged > MAX_JUDGED_DOCUMENTS:
        raise ServiceError(
            ErrorCode.INVALID_REQUEST,
            f"An evaluation has {MAX_JUDGED_DOCUMENTS:,} judged documents at most;"
            f" this one would have {counts.judged:,}.",
            field=field,
            reason="number_of_judged_documents",
        )


async def _insert_questions(connection: AsyncExecutor, evaluation_id: str, added: Sequence[Question]) -> None:
    if not added:
        return
    await connection.async_execute(
        "insert into evaluation_questions (evaluation_id, query, relevant, filter)"
        " select %(id)s, question ->> 'query', question -> 'relevant', nullif(question -> 'filter', 'null'::jsonb)"
        " from jsonb_array_elements(%(questions)s::jsonb) with ordinality as added(question, position)"
        " order by position",
        {"id": evaluation_id, "questions": json.dumps(list(added))},
    )
