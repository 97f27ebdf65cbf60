"""What a person may do, by the groups that their token lists: RETRIEVAL_OIDC_ROLES."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from retrieval.accounts.api_keys import SCOPES
from retrieval.errors import ErrorCode, ServiceError
from retrieval.setting_values import OidcRole

EVERYONE = "*"
_VIEWER = frozenset({"namespaces:read", "documents:read", "search"})
_EDITOR = frozenset({"ingest:read", "ingest:write", "documents:write", "connections:read", "connections:write"})
ROLE_SCOPES: Mapping[str, frozenset[str]] = {
    "viewer": _VIEWER,
    "editor": _VIEWER | _EDITOR,
    "admin": frozenset(SCOPES),
}
"""The scopes of a role."""
VIEWER, ADMIN = "viewer", "admin"
"""Who reads as the person alone, and who may ask on behalf of another person and change groups. Editors and admins act
as the application within their tenant and namespace."""


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
