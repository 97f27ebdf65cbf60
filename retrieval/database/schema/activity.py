"""What people look at afterwards: how long searches took."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Column, DateTime
from sqlmodel import Field, SQLModel

from retrieval.database.schema.columns import text_column


class SearchTime(SQLModel, table=True):
    """How many searches of a scope took about as long, by the hour. `bucket`: 8 times the log2 of milliseconds."""

    __tablename__ = "search_times"
    namespace_id: str = text_column(primary_key=True)
    tenant: str = text_column(primary_key=True)
    hour: datetime = Field(sa_column=Column(DateTime(timezone=True), primary_key=True))
    bucket: int = Field(primary_key=True)
    searches: int = Field()
