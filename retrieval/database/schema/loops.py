"""When each loop of each dispatcher succeeded last, and the levers of Prefect that hold work back."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Column, SmallInteger, Text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlmodel import Field, SQLModel

from retrieval.database.schema.columns import text_column, time_column


class PrefectLevers(SQLModel, table=True):
    """Levers of Prefect that hold ingestion back, as a dispatcher saw them last (`jobs.levers`): one row.

    `sources`: those whose deployments are paused.
    """

    __tablename__ = "prefect_levers"
    id: int = Field(sa_column=Column(SmallInteger, primary_key=True, autoincrement=False))
    levers: list[dict[str, Any]] = Field(sa_column=Column(JSONB, nullable=False))
    sources: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False))
    recorded_at: datetime = time_column()


class DispatcherLoop(SQLModel, table=True):
    """`dispatcher`: host and process. `reason`: why the loop failed since its last success, by the error's name."""

    __tablename__ = "dispatcher_loops"
    dispatcher: str = text_column(primary_key=True)
    loop: str = text_column(primary_key=True)
    started_at: datetime = time_column()
    succeeded_at: datetime | None = time_column(nullable=True)
    reason: str | None = text_column(nullable=True)
    recorded_at: datetime = time_column()
