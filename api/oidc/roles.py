"""What a person may do, by the groups that their token lists: RETRIEVAL_OIDC_ROLES."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from retrieval.accounts.api_keys import SCOPES
from retrieval.errors import ErrorCode, ServiceError
from retrieval.settings import OidcRole

EVERYONE = "*"
_VIEWER = frozenset({"namespaces:read", "documents:read", "ingest:read", "search", "connections:read"})
ROLE_SCOPES: Mapping[str, frozenset[str]] = {
    "viewer": _VIEWER,
    "editor": _VIEWER | {"documents:write", "ingest:write", "connections:write"},
    "admin": frozenset(SCOPES),
}
"""The scopes of a role."""
BEYOND_ONE_PERSON = frozenset({"editor", "admin"})
"""Roles that are answered what looks beyond what one person may see, such as groups and connections."""
AS_ANOTHER = frozenset({"admin"})
"""Roles that may ask on behalf of another person."""


@dataclass(frozen=True, slots=True)
class Place:
    """What a person may do, and where. `organization`: None is the installation's first one."""

    role: str
    organization: str | None
    tenant: str | None
    namespace: str | None


class Roles:
    """The setting, read once."""

    def __init__(self, said: Sequence[OidcRole]) -> None:
        self._said = [(one.group, Place(one.role, one.organization, one.tenant, one.namespace)) for one in said]

    def of(self, groups: Sequence[str]) -> Place:
        """The first entry that names one of these groups; FORBIDDEN if none does."""
        held = {*groups, EVERYONE}
        for group, place in self._said:
            if group in held:
                return place
        message = (
            "You are signed in, but none of your groups may use this service: ask an administrator for access "
            "(RETRIEVAL_OIDC_ROLES names groups)."
        )
        raise ServiceError(ErrorCode.FORBIDDEN, message, reason="no_role")
