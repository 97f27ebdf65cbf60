"""Documents that a content service does not have any more and that still wait for their removal."""

from __future__ import annotations

from datetime import datetime

from sqlmodel import Field, SQLModel

from retrieval.tables.columns import reference_column, text_column, time_column


class Departure(SQLModel, table=True):
    """`held`: too many left at once, so a person is to confirm; otherwise the job run that found it removes it."""

    __tablename__ = "departures"
    document_id: str = reference_column("documents.id", primary_key=True)
    connection_id: str = reference_column("connections.id", index=True)
    job_run_id: str = text_column()
    held: bool = Field(sa_column_kwargs={"server_default": "false"})
    created_at: datetime = time_column()
