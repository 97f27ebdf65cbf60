"""Groups on the wire: users and other groups under one name, in a scope."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from api.wire.common import DataAnswer, Timestamp
from api.wire.ingest import NamespaceId
from retrieval.access import groups
from retrieval.access.groups import MEMBERS

Members = Annotated[list[str], Meta(max_length=MEMBERS, examples=[["ada@example.com"]])]


class GroupMembers(Struct):
    """What a group holds. Groups may hold each other: cycles are harmless."""

    users: Annotated[Members | None, Meta(description="The users, by their names.")] = None
    groups: Annotated[Members | None, Meta(description="The groups, by their names.")] = None


class PutGroup(Struct, rename="camel"):
    """All that the group holds from now on, 10,000 members at most."""

    namespace_id: NamespaceId
    members: Annotated[GroupMembers, Meta(description="What the group holds, directly.")]


class GroupQuery(Struct, rename="camel"):
    """Where the group is."""

    namespace_id: NamespaceId


class DeletedGroupQuery(Struct, rename="camel"):
    """Where the group is; it may stand in a JSON body instead, as with other deletions."""

    namespace_id: Annotated[str | None, Meta(description="The namespace's id.")] = None


class HeldMembers(Struct):
    """What the group holds, directly, as it is compared."""

    users: Annotated[list[str], Meta(description="The users, by their names.")]
    groups: Annotated[list[str], Meta(description="The groups, by their names.")]


class Group(Struct, rename="camel"):
    """A group of users and of other groups."""

    id: Annotated[str, Meta(description="The group's name, as it is compared.")]
    members: Annotated[HeldMembers, Meta(description="What the group holds, directly.")]
    created_at: Annotated[Timestamp, Meta(description="When it was made.")]
    updated_at: Annotated[Timestamp, Meta(description="When it last changed.")]

    @classmethod
    def of(cls, group: groups.Group) -> Group:
        held = HeldMembers(list(group.users), list(group.groups))
        return cls(group.id, held, Timestamp.of(group.created_at), Timestamp.of(group.updated_at))


class GroupData(Struct):
    """One group."""

    group: Group


class GroupAnswer(DataAnswer[GroupData]):
    """The group as it is now."""


class DeletedGroup(Struct):
    """The group's name."""

    id: Annotated[str, Meta(description="The group's name.")]


class GroupDeletedAnswer(DataAnswer[DeletedGroup]):
    """The group holds nobody any more."""
