"""Groups on the wire: users and other groups under one name, in a scope."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct

from api.wire.common import Answer, Timestamp
from api.wire.ingest import NamespaceId
from retrieval.access import groups
from retrieval.access.groups import MEMBERS

Members = Annotated[list[str], Meta(max_length=MEMBERS, examples=[["ada@example.com"]])]


class GroupMembers(Struct):
    """What a group holds. Groups may hold each other: cycles are harmless."""

    users: Members | None = None
    groups: Members | None = None


class PutGroup(Struct, rename="camel"):
    """All that the group holds from now on, 10,000 members at most."""

    namespace_id: NamespaceId
    members: GroupMembers


class GroupQuery(Struct, rename="camel"):
    """Where the group is."""

    namespace_id: NamespaceId


class DeletedGroupQuery(Struct, rename="camel"):
    """Where the group is; it may stand in a JSON body instead, as with other deletions."""

    namespace_id: Annotated[str | None, Meta(description="The namespace's id.")] = None


class HeldMembers(Struct):
    """What the group holds, directly, as it is compared."""

    users: list[str]
    groups: list[str]


class Group(Struct, rename="camel"):
    """A group of users and of other groups."""

    id: str
    members: HeldMembers
    created_at: Timestamp
    updated_at: Timestamp

    @classmethod
    def of(cls, group: groups.Group) -> Group:
        held = HeldMembers(list(group.users), list(group.groups))
        return cls(group.id, held, Timestamp.of(group.created_at), Timestamp.of(group.updated_at))


class GroupData(Struct):
    """One group."""

    group: Group


class GroupAnswer(Answer, kw_only=True):
    """The group as it is now."""

    data: GroupData


class DeletedGroup(Struct):
    """The group's name."""

    id: str


class GroupDeletedAnswer(Answer, kw_only=True):
    """The group holds nobody any more."""

    data: DeletedGroup


WORDS: Mapping[str, str] = {
    "users": "The users, by their names.",
    "groups": "The groups, by their names.",
    "denied": "Who may not see it, whatever else is said.",
    "members": "What the group holds, directly.",
    "group": "The group.",
    "Group.id": "The group's name, as it is compared.",
    "DeletedGroup.id": "The group's name.",
    "Key.principal": "The user as whom it acts; absent if it acts as none.",
    "Key.principalRequired": "Whether it answers on behalf of a user alone; absent if it does not.",
    "Key.role": "Of a person who signed in with a token: `viewer`, `editor` or `admin`. Absent for a key.",
    "Key.expiresAt": "When that token ends. Absent for a key.",
    "AuditEntry.subject": "The token's subject, where a person asked and no key.",
}
"""What the properties mean, for the OpenAPI document."""
