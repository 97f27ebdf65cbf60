"""What is counted for quotas and bills."""

from __future__ import annotations

from datetime import date

from sqlalchemy import BigInteger, Column, Date, Identity
from sqlmodel import Field, SQLModel

from retrieval.database.schema.columns import text_column


class QuotaChange(SQLModel, table=True):
    """What one statement added to the documents of a tenant or took away; the sum is how many there are.

    Written by a trigger on `documents` where the organization is `counted`; `retrieval.accounts.quotas` folds them.
    """

    __tablename__ = "quota_changes"
    organization_id: str = text_column(primary_key=True)
    change: int = Field(sa_column=Column(BigInteger, Identity(always=True), primary_key=True))
    tenant: str = text_column()
    documents: int = Field(sa_column=Column(BigInteger, nullable=False))
    stored_bytes: int = Field(sa_column=Column(BigInteger, nullable=False))


class TokenUsage(SQLModel, table=True):
    """Tokens of documents that were embedded on a day (UTC), by scope and model."""

    __tablename__ = "token_usage"
    organization_id: str = text_column(primary_key=True)
    day: date = Field(sa_column=Column(Date, primary_key=True))
    namespace_id: str = text_column(primary_key=True)
    tenant: str = text_column(primary_key=True)
    provider: str = text_column(primary_key=True)
    model: str = text_column(primary_key=True)
    tokens: int = Field(sa_column=Column(BigInteger, nullable=False))
