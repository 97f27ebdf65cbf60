"""Access lists and groups in requests and responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from api.wire.common import DataAnswer, NamespaceId, Timestamp
from retrieval import principals
from retrieval.access import groups
from retrieval.access.groups import MAX_GROUP_MEMBERS
from retrieval.errors import ErrorCode
from retrieval.principals import MAX_ACCESS_NAMES, MAX_NAME_BYTES

Names = Annotated[
    list[str],
    Meta(
        max_length=MAX_ACCESS_NAMES,
        description=(
            "E-mail addresses (case-insensitive) or your own ids (case-sensitive), at most"
            f" {MAX_NAME_BYTES} bytes each."
        ),
        examples=[["ada@example.com"]],
    ),
]


class Denied(Struct):
    """Users and groups that may not see the document. A denial overrides every permission."""

    users: Names | None = None
    groups: Names | None = None


class Access(Struct):
    """Access list of a document, at most 1,000 names. Without names and `public`, no user may see the document."""

    users: Names | None = None
    groups: Names | None = None
    denied: Annotated[
        Denied | None, Meta(description="Users and groups that are denied access. A denial overrides every permission.")
    ] = None
    public: Annotated[bool | None, Meta(description="Allows every user who is not denied.")] = False

    def to_values(self, code: ErrorCode, path: str) -> principals.Access:
        """Return the list with normalized names; raise ServiceError `code` for an invalid name."""
        denied = self.denied or Denied()
        return principals.Access.of(
            self.users or (),
            self.groups or (),
            denied.users or (),
            denied.groups or (),
            public=bool(self.public),
            code=code,
            path=path,
        )

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any]) -> Access:
        access = principals.Access.load(stored)
        denied = Denied(list(access.denied_users), list(access.denied_groups))
        return cls(list(access.users), list(access.groups), denied, access.public)


def read_access(access: Access | None, code: ErrorCode, path: str) -> principals.Access | None:
    """Return the access list of an ingestion request; None if absent."""
    return None if access is None else access.to_values(code, path)


Members = Annotated[list[str], Meta(max_length=MAX_GROUP_MEMBERS, examples=[["ada@example.com"]])]


class GroupMembers(Struct):
    """Members of a group. Groups may be members of each other, in cycles too."""

    users: Annotated[Members | None, Meta(description="User names.")] = None
    groups: Annotated[Members | None, Meta(description="Group names.")] = None


class PutGroup(Struct, rename="camel"):
    """All members of a group, at most 10,000; they replace the current members."""

    namespace_id: NamespaceId
    members: Annotated[GroupMembers, Meta(description="The direct members of the group.")]


class GroupQuery(Struct, rename="camel"):
    """The namespace of the group."""

    namespace_id: NamespaceId


class DeletedGroupQuery(Struct, rename="camel"):
    """The namespace of the group. As in other deletions, it may be sent in a JSON body instead."""

    namespace_id: Annotated[str | None, Meta(description="The namespace's id.")] = None


class StoredGroupMembers(Struct):
    """Direct members of a group, with normalized names."""

    users: Annotated[list[str], Meta(description="User names.")]
    groups: Annotated[list[str], Meta(description="Group names.")]


class Group(Struct, rename="camel"):
    """A group of users and of other groups."""

    id: Annotated[str, Meta(description="The group's name in its normalized form.")]
    members: Annotated[StoredGroupMembers, Meta(description="The direct members of the group.")]
    created_at: Annotated[Timestamp, Meta(description="Time of creation.")]
    updated_at: Annotated[Timestamp, Meta(description="Time of the last change.")]

    @classmethod
    def from_group(cls, group: groups.Group) -> Group:
        members = StoredGroupMembers(list(group.users), list(group.groups))
        return cls(
            group.id, members, Timestamp.from_datetime(group.created_at), Timestamp.from_datetime(group.updated_at)
        )


class GroupData(Struct):
    """A group."""

    group: Group


class GroupAnswer(DataAnswer[GroupData]):
    """The current group."""


class DeletedGroup(Struct):
    """The group's name."""

    id: Annotated[str, Meta(description="The group's name.")]


class GroupDeletedAnswer(DataAnswer[DeletedGroup]):
    """The group was deleted."""
