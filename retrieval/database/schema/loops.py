"""When each loop of each dispatcher succeeded last."""

from __future__ import annotations

from datetime import datetime

from sqlmodel import SQLModel

from retrieval.database.schema.columns import text_column, time_column


class DispatcherLoop(SQLModel, table=True):
    """`dispatcher`: host and process. `reason`: why the loop failed since its last success, by the error's name."""

    __tablename__ = "dispatcher_loops"
    dispatcher: str = text_column(primary_key=True)
    loop: str = text_column(primary_key=True)
    started_at: datetime = time_column()
    succeeded_at: datetime | None = time_column(nullable=True)
    reason: str | None = text_column(nullable=True)
    recorded_at: datetime = time_column()
