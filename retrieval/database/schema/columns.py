"""Common columns."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, DateTime, ForeignKey, Integer, Text, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlmodel import Field

NOT_DELETED = text("deleted_at is null")


def text_column(**kwargs: Any) -> Any:
    kwargs.setdefault("nullable", False)
    return Field(sa_column=Column(Text, **kwargs))


def reference_column(target: str, **kwargs: Any) -> Any:
    kwargs.setdefault("nullable", False)
    return Field(sa_column=Column(Text, ForeignKey(target, ondelete="CASCADE"), **kwargs))


def partition_column(**kwargs: Any) -> Any:
    return Field(sa_column=Column(ForeignKey("partitions.id", ondelete="CASCADE"), nullable=False, **kwargs))


def number_column(**kwargs: Any) -> Any:
    """Partition id without foreign key: the check would cost more than the insert."""
    return Field(sa_column=Column(Integer, nullable=False, **kwargs))


def json_column(default: str | None = "{}") -> Any:
    server_default = None if default is None else text(f"'{default}'::jsonb")
    return Field(sa_column=Column(JSONB, nullable=default is None, server_default=server_default))


def time_column(*, nullable: bool = False) -> Any:
    server_default = None if nullable else text("now()")
    return Field(sa_column=Column(DateTime(timezone=True), nullable=nullable, server_default=server_default))
