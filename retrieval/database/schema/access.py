"""What groups hold. A change of a group touches no document."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKeyConstraint, Index
from sqlmodel import SQLModel

from retrieval.database.schema.columns import (
    number_column,
    partition_column,
    text_column,
    time_column,
)


class AccessGroup(SQLModel, table=True):
    """A group of users and of other groups, by its name."""

    __tablename__ = "access_groups"
    partition_id: int = partition_column(primary_key=True)
    id: str = text_column(primary_key=True)
    created_at: datetime = time_column()
    updated_at: datetime = time_column()


class GroupMember(SQLModel, table=True):
    """What a group holds: `u:<user>` or `g:<group>`."""

    __tablename__ = "group_members"
    __table_args__ = (
        ForeignKeyConstraint(
            ["partition_id", "group_id"], ["access_groups.partition_id", "access_groups.id"], ondelete="CASCADE"
        ),
        Index("groups_of_member", "partition_id", "member"),
    )
    partition_id: int = number_column(primary_key=True)
    group_id: str = text_column(primary_key=True)
    member: str = text_column(primary_key=True)
