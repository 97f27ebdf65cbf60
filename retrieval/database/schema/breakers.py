"""Vendors and sites that do not answer: who asks them waits, without a place in a worker."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, Column, Index, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlmodel import Field, SQLModel

from retrieval.database.schema.columns import reference_column, text_column, time_column


class Breaker(SQLModel, table=True):
    """One vendor or site, as one organization asks it with one credential; a row only while it fails.

    `key`: a hash of all these. `failures` in a row, which took `lost` seconds; it is open, and nobody asks, until
    `open_until`, for the `opens`th time since `opened_at`. `probe`: the batch that may ask meanwhile. `partitions`:
    scopes that need it for whatever they ingest. `patience`: seconds after which job runs that wait for it fail.
    """

    __tablename__ = "breakers"
    __table_args__ = (
        Index("breakers_open", "open_until", postgresql_where=text("open_until is not null")),
        Index("breakers_of_organization", "organization_id", "updated_at"),
    )
    key: str = text_column(primary_key=True)
    organization_id: str = reference_column("organizations.id")
    name: str = text_column()
    reason: str = text_column()
    failures: int = Field(sa_column_kwargs={"server_default": "0"})
    lost: float = Field(sa_column_kwargs={"server_default": "0"})
    opens: int = Field(sa_column_kwargs={"server_default": "0"})
    patience: float = Field(nullable=False)
    opened_at: datetime | None = time_column(nullable=True)
    open_until: datetime | None = time_column(nullable=True)
    probe: str | None = text_column(nullable=True)
    partitions: list[int] = Field(sa_column=Column(ARRAY(BigInteger), nullable=False, server_default=text("'{}'")))
    updated_at: datetime = time_column()
