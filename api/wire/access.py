"""Access on the wire: whom a document is for, and groups of users."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from api.wire.common import DataAnswer, NamespaceId, Timestamp
from retrieval import principals
from retrieval.access import groups
from retrieval.access.groups import MEMBERS
from retrieval.errors import ErrorCode
from retrieval.principals import BYTES, NAMES

Names = Annotated[
    list[str],
    Meta(
        max_length=NAMES,
        description=f"E-mail addresses, in any case, or ids of your own, compared exactly; {BYTES} bytes each.",
        examples=[["ada@example.com"]],
    ),
]


class Denied(Struct):
    """Who may not see it, whatever else is said."""

    users: Names | None = None
    groups: Names | None = None


class Access(Struct):
    """Whom a document is for. Empty lists and no `public` mean nobody; denial wins. At most 1,000 names in all."""

    users: Names | None = None
    groups: Names | None = None
    denied: Annotated[Denied | None, Meta(description="Who may not see it, whatever else is said.")] = None
    public: Annotated[bool | None, Meta(description="Every user whom it does not deny.")] = False

    def to_values(self, code: ErrorCode, where: str) -> principals.Access:
        """By normal names; ServiceError `code` for a name that cannot be. `where`: the object's path."""
        denied = self.denied or Denied()
        return principals.Access.of(
            self.users or (),
            self.groups or (),
            denied.users or (),
            denied.groups or (),
            public=bool(self.public),
            code=code,
            where=where,
        )

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Access:
        """Of what is kept."""
        access = principals.Access.load(stored)
        denied = Denied(list(access.denied_users), list(access.denied_groups))
        return cls(list(access.users), list(access.groups), denied, access.public)


def of_request(sent: Access | None, code: ErrorCode, where: str) -> principals.Access | None:
    """What an ingestion says; None where it says nothing."""
    return None if sent is None else sent.to_values(code, where)


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
