"""What clients had deleted, and what garbage collection has removed for it so far."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, Boolean, Column, text
from sqlmodel import Field, SQLModel

from retrieval.database.schema.columns import reference_column, text_column, time_column


def _count() -> int:
    count: int = Field(sa_column=Column(BigInteger, nullable=False, server_default="0"))
    return count


class Deletion(SQLModel, table=True):
    """One DELETE of documents or of a namespace. `tenant` is null for a namespace with all of its tenants.

    `unread`: a store does not let us look whether it is empty.
    """

    __tablename__ = "deletions"
    id: str = text_column(primary_key=True)
    organization_id: str = reference_column("organizations.id")
    namespace_id: str = text_column()
    tenant: str | None = text_column(nullable=True)
    documents: int = _count()
    chunks: int = _count()
    vectors: int = _count()
    files: int = _count()
    unread: bool = Field(sa_column=Column(Boolean, nullable=False, server_default=text("false")))
    requested_at: datetime = time_column()
    confirmed_at: datetime | None = time_column(nullable=True)


class DeletionStore(SQLModel, table=True):
    """What one store has lost by a deletion, and when it was last asked and had nothing of it."""

    __tablename__ = "deletion_stores"
    deletion_id: str = reference_column("deletions.id", primary_key=True)
    store: str = text_column(primary_key=True)
    removed: int = Field(sa_column=Column(BigInteger, nullable=False))
    read_back_at: datetime | None = time_column(nullable=True)
