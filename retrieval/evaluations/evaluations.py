"""Create, list, change and delete evaluations of a scope."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, LiteralString

from sqlalchemy import BigInteger, bindparam, cast, delete, func, insert, null, select, update

from retrieval import ids
from retrieval.database import pagination, partitions, schema
from retrieval.database.compiling import (
    columns_of,
    compile_numbered,
    compile_page,
    compile_statement,
    equals,
    equals_if_given,
    in_list,
    in_scope,
    parameters,
)
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


_table: Any = schema.Evaluation
_question: Any = schema.EvaluationQuestion
_partition: Any = schema.Partition
# With the parameters of `partitions.scope_params`.
evaluation_in_scope = in_scope(_table.partition_id)
_is_evaluation = equals(_table.id)
_of_evaluation = equals(_question.evaluation_id, "id")
_question_count = select(func.count()).where(_question.evaluation_id == _table.id).correlate(_table).scalar_subquery()
_columns = columns_of(
    _table, Evaluation, namespace_id=_partition.namespace_id, question_count=_question_count, unresolved=null()
)
_INSERT_EVALUATION = compile_statement(insert(_table).values(**parameters("id", "partition_id", "name")))
_GET_EVALUATION = compile_statement(select(*_columns).where(_is_evaluation, evaluation_in_scope))
_FIND_EVALUATION = compile_statement(select(_table.id).where(_is_evaluation, evaluation_in_scope))
_LIST_EVALUATIONS = compile_page(select(*_columns).where(evaluation_in_scope), _table)
_RENAME_EVALUATION = compile_statement(
    update(_table).where(_is_evaluation).values(name=func.coalesce(bindparam("name"), _table.name)).returning(_table.id)
)
_question_columns = columns_of(_question, StoredQuestion)
_LIST_QUESTIONS = compile_numbered(
    select(*_question_columns).where(_of_evaluation, equals_if_given(_question.query)), _question.number
)
_READ_QUESTIONS = compile_statement(select(*_question_columns).where(_of_evaluation).order_by(_question.number))
_DELETE_QUESTIONS = compile_statement(delete(_question).where(_of_evaluation, in_list(_question.query, "queries")))
_COUNT_QUESTIONS = compile_statement(
    select(
        func.count().label("questions"),
        cast(func.coalesce(func.sum(func.jsonb_array_length(_question.relevant)), 0), BigInteger).label("judged"),
    ).where(_of_evaluation)
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
            _INSERT_EVALUATION, {"id": evaluation_id, "partition_id": partition, "name": name}
        )
        await _insert_questions(connection, evaluation_id, questions)
        await _require_bounds(connection, evaluation_id, "questions")
    return await get_evaluation(db, scope, evaluation_id)


async def get_evaluation(db: Database, scope: Scope, evaluation_id: str) -> Evaluation:
    """Return the scope's evaluation. Raises NOT_FOUND for missing and foreign ones."""
    values = {**partitions.scope_params(scope), "id": evaluation_id}
    evaluation = await db.async_fetch_one(Evaluation, _GET_EVALUATION, values)
    if evaluation is None:
        raise not_found()
    return replace(evaluation, unresolved=await db.async_fetch(str, _LIST_UNRESOLVED, {"id": evaluation_id}))


async def require_evaluation(db: Database, scope: Scope, evaluation_id: str) -> None:
    """Raise NOT_FOUND unless the scope has the evaluation."""
    values = {**partitions.scope_params(scope), "id": evaluation_id}
    if await db.async_fetch_one(str, _FIND_EVALUATION, values) is None:
        raise not_found()


async def list_evaluations(db: Database, scope: Scope, part: PageRequest | None) -> Page[Evaluation]:
    """List evaluations, newest first, without `unresolved`."""
    values = {**partitions.scope_params(scope), **pagination.page_params(part)}
    return pagination.cut_page(await db.async_fetch(Evaluation, _LIST_EVALUATIONS, values), part)


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
    values = {"id": evaluation_id, "name": name, "queries": list(remove)}
    async with db.async_transaction() as connection:
        if await connection.async_fetch_one(str, _RENAME_EVALUATION, values) is None:
            raise not_found()
        await connection.async_execute(_DELETE_QUESTIONS, values)
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
    values = {"id": evaluation_id, "query": query, **pagination.number_params(part.cursor, part.size)}
    rows = await db.async_fetch(StoredQuestion, _LIST_QUESTIONS, values)
    return pagination.take_page(rows, part.size, lambda question: str(question.number))


def read_questions(db: Database, evaluation_id: str) -> list[StoredQuestion]:
    """Return all questions in order."""
    return db.fetch(StoredQuestion, _READ_QUESTIONS, {"id": evaluation_id})


def not_found() -> ServiceError:
    return ServiceError(ErrorCode.NOT_FOUND, "There is no such evaluation.", reason="evaluation_not_found")


@dataclass(frozen=True, slots=True)
class EvaluationSize:
    """Numbers of questions and judged documents."""

    questions: int
    judged: int


async def _require_bounds(connection: AsyncExecutor, evaluation_id: str, field: str) -> None:
    """Raise INVALID_REQUEST for too few or many questions or judged documents."""
    counts = await connection.async_fetch_one(EvaluationSize, _COUNT_QUESTIONS, {"id": evaluation_id})
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
