"""Tables of evaluations."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, Column, Double, Identity, Index, text
from sqlmodel import Field, SQLModel

from retrieval.database.schema.columns import (
    json_column,
    partition_column,
    reference_column,
    text_column,
    time_column,
)


class Evaluation(SQLModel, table=True):
    """Judged questions of a scope."""

    __tablename__ = "evaluations"
    __table_args__ = (Index("evaluations_of_partition", "partition_id", "created_at", "id"),)
    id: str = text_column(primary_key=True)
    partition_id: int = partition_column()
    name: str = text_column()
    created_at: datetime = time_column()


class WeakSearch(SQLModel, table=True):
    """Query with poor results (`retrieval.search.weak_searches`)."""

    __tablename__ = "weak_searches"
    partition_id: int = partition_column(primary_key=True)
    query: str = text_column(primary_key=True)
    searches: int = Field()
    best_score: float | None = Field(sa_column=Column(Double))
    probability: float = Field(sa_column=Column(Double, nullable=False))
    last_at: datetime = time_column()


class EvaluationQuestion(SQLModel, table=True):
    """Question with its relevant answers, in wire format."""

    __tablename__ = "evaluation_questions"
    evaluation_id: str = reference_column("evaluations.id", primary_key=True)
    number: int = Field(sa_column=Column(BigInteger, Identity(always=True), primary_key=True))
    query: str = text_column()
    relevant: list[Any] = json_column("[]")
    filter: dict[str, Any] | None = json_column(None)


class EvaluationRun(SQLModel, table=True):
    """Settings compared over the questions."""

    __tablename__ = "evaluation_runs"
    __table_args__ = (
        Index("evaluation_runs_of_evaluation", "evaluation_id", "created_at", "id"),
        Index("evaluation_runs_open", "created_at", postgresql_where=text("finished_at is null")),
        CheckConstraint("status in ('QUEUED','RUNNING','COMPLETED','FAILED')", name="evaluation_run_status"),
    )
    id: str = text_column(primary_key=True)
    evaluation_id: str = reference_column("evaluations.id")
    status: str = text_column(server_default="QUEUED")
    settings: list[Any] = json_column("[]")
    result: dict[str, Any] | None = json_column(None)
    progress: dict[str, int] | None = json_column(None)
    error: str | None = text_column(nullable=True)
    attempt: int = Field(sa_column_kwargs={"server_default": "0"})
    # The flow run counts as lost after this time; null before the first one.
    lease_until: datetime | None = time_column(nullable=True)
    created_at: datetime = time_column()
    finished_at: datetime | None = time_column(nullable=True)
