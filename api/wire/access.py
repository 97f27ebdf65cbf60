"""Access on the wire: whom a document is for, and what a group holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from retrieval import principals
from retrieval.errors import ErrorCode
from retrieval.principal_names import BYTES
from retrieval.principals import NAMES

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
    public: Annotated[bool, Meta(description="Every user whom it does not deny.")] | None = False

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
