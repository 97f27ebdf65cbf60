"""Roles of people by the groups of their token, from RETRIEVAL_OIDC_ROLES."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from retrieval.accounts.api_keys import KEY_SCOPES
from retrieval.errors import ErrorCode, ServiceError
from retrieval.setting_values import OidcRole

ANY_GROUP = "*"
_VIEWER_SCOPES = frozenset({"namespaces:read", "documents:read", "search"})
_EDITOR_SCOPES = frozenset({"ingest:read", "ingest:write", "documents:write", "connections:read", "connections:write"})
ROLE_SCOPES: Mapping[str, frozenset[str]] = {
    "viewer": _VIEWER_SCOPES,
    "editor": _VIEWER_SCOPES | _EDITOR_SCOPES,
    "admin": frozenset(KEY_SCOPES),
}
# A viewer reads as the person; an admin may act on behalf of others and change groups. Editors and admins act as the
# application within their tenant and namespace.
VIEWER, ADMIN = "viewer", "admin"


@dataclass(frozen=True, slots=True)
class RoleAssignment:
    """Role with the organization (None: the first one), tenant and namespace."""

    role: str
    organization: str | None
    tenant: str | None
    namespace: str | None


class Roles:
    """Role assignments of the setting."""

    def __init__(self, entries: Sequence[OidcRole]) -> None:
        self._entries = [
            (entry.group, RoleAssignment(entry.role, entry.organization, entry.tenant, entry.namespace))
            for entry in entries
        ]

    def find_assignment(self, groups: Sequence[str]) -> RoleAssignment:
        """Return the first assignment for one of these groups; raise FORBIDDEN without a match."""
        group_names = {*groups, ANY_GROUP}
        for group, assignment in self._entries:
            if group in group_names:
                return assignment
        message = (
            "You are signed in, but none of your groups may use this service: ask an administrator for access "
            "(RETRIEVAL_OIDC_ROLES names groups)."
        )
        raise ServiceError(ErrorCode.FORBIDDEN, message, reason="no_role")
