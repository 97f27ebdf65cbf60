"""Roles of people by the groups in their token, from RETRIEVAL_OIDC_ROLES."""

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
    """A role and where it holds. `organization`: None is the first organization of the installation."""

    role: str
    organization: str | None
    tenant: str | None
    namespace: str | None


class Roles:
    """The setting, read once."""

    def __init__(self, entries: Sequence[OidcRole]) -> None:
        self._entries = [
            (entry.group, Place(entry.role, entry.organization, entry.tenant, entry.namespace)) for entry in entries
        ]

    def of(self, groups: Sequence[str]) -> Place:
        """Return the first entry that names one of these groups. Raises FORBIDDEN if none does."""
        group_names = {*groups, EVERYONE}
        for group, assignment in self._entries:
            if group in group_names:
                return assignment
        message = (
            "You are signed in, but none of your groups may use this service: ask an administrator for access "
            "(RETRIEVAL_OIDC_ROLES names groups)."
        )
        raise ServiceError(ErrorCode.FORBIDDEN, message, reason="no_role")
