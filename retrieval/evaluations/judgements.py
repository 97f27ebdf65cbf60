"""Single judgements: a document is relevant to a question, or is not any more, whoever else judges meanwhile."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

from psycopg import AsyncConnection

from retrieval.database.database import Row
from retrieval.errors import ErrorCode, ServiceError

MOST_RELEVANT = 1_000
"""Judged documents of one question."""

_QUESTION: LiteralString = """
    select number, relevant from evaluation_questions where evaluation_id = %(id)s and query = %(query)s
    order by number limit 1
"""
_IDS: LiteralString = """
    select d.id, d.external_id from documents d join evaluations e on e.partition_id = d.partition_id
    where e.id = %(id)s and d.deleted_at is null and (d.id = %(document)s or d.external_id = %(external)s)
"""
_ADD: LiteralString = """
    insert into evaluation_questions (evaluation_id, query, relevant, filter)
    values (%(id)s, %(query)s, %(relevant)s, %(filter)s)
"""
_CHANGE: LiteralString = """
    update evaluation_questions set relevant = %(relevant)s where evaluation_id = %(id)s and number = %(number)s
"""
_REMOVE: LiteralString = "delete from evaluation_questions where evaluation_id = %(id)s and number = %(number)s"


@dataclass(frozen=True, slots=True)
class Verdict:
    """How relevant a document, by one of its ids, is to a query: 1 to 4; 0 takes its judgement back.

    `filter` is that of the search, for a question that is new.
    """

    query: str
    document_id: str | None
    external_id: str | None
    grade: int
    filter: Mapping[str, Any] | None = None

    @property
    def named(self) -> dict[str, Any]:
        if self.document_id is not None:
            return {"documentId": self.document_id, "grade": self.grade}
        return {"externalId": self.external_id, "grade": self.grade}


async def apply(connection: AsyncConnection[Row], evaluation_id: str, verdicts: Sequence[Verdict]) -> None:
    """One after the other, within the caller's transaction, which holds the evaluation.

    The first question with the query gets the judgement, a new one where there is none; a question without any
    judgement is removed. Spans that were judged stay, with the new grade. INVALID_REQUEST above 1,000 in a question.
    """
    for number, verdict in enumerate(verdicts):
        await _one(connection, evaluation_id, verdict, f"judge[{number}]")


async def _one(connection: AsyncConnection[Row], evaluation_id: str, verdict: Verdict, field: str) -> None:
    values: dict[str, Any] = {
        "id": evaluation_id,
        "query": verdict.query,
        "document": verdict.document_id,
        "external": verdict.external_id,
    }
    known = await (await connection.execute(_IDS, values)).fetchall()
    ids = {row["id"] for row in known} | {verdict.document_id} - {None}
    external = {row["external_id"] for row in known} | {verdict.external_id} - {None}
    question = await (await connection.execute(_QUESTION, values)).fetchone()
    before: list[dict[str, Any]] = [] if question is None else question["relevant"]
    own = [one for one in before if one.get("documentId") in ids or one.get("externalId") in external]
    relevant = [one for one in before if one not in own]
    if verdict.grade:
        relevant += [{**one, "grade": verdict.grade} for one in own] or [verdict.named]
    if len(relevant) > MOST_RELEVANT:
        message = f"A question has {MOST_RELEVANT:,} judged documents at most."
        raise ServiceError(ErrorCode.INVALID_REQUEST, message, field=field, reason="number_of_judged_documents")
    values["relevant"] = json.dumps(relevant)
    if question is not None:
        values["number"] = question["number"]
        await connection.execute(_CHANGE if relevant else _REMOVE, values)
    elif relevant:
        values["filter"] = None if verdict.filter is None else json.dumps(verdict.filter)
        await connection.execute(_ADD, values)
