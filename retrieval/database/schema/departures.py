"""Which connections have a document, and removals at a service that are not carried out yet."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Index
from sqlmodel import Field, SQLModel

from retrieval.database.schema.columns import reference_column, text_column, time_column


class ConnectionDocument(SQLModel, table=True):
    """A connection that lists a document. No foreign keys: their checks would cost more than the insert."""

    __tablename__ = "connection_documents"
    __table_args__ = (Index("documents_by_connection", "connection_id", "document_id"),)
    document_id: str = text_column(primary_key=True)
    connection_id: str = text_column(primary_key=True)
    listed_at: datetime = time_column()


class Departure(SQLModel, table=True):
    """`held`: too many left at once, so a person is to confirm; otherwise the job run that found it removes it."""

    __tablename__ = "departures"
    document_id: str = reference_column("documents.id", primary_key=True)
    connection_id: str = reference_column("connections.id", index=True, primary_key=True)
    job_run_id: str = text_column()
    held: bool = Field(sa_column_kwargs={"server_default": "false"})
    created_at: datetime = time_column()
