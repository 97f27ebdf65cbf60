"""Whom Google Drive shows a file: GET /files/{id}/permissions, which names what is inherited too.

By developers.google.com/workspace/drive/api/reference/rest/v3/permissions a permission is of a user, a group, a domain
or anyone. Who is in a group its administrators alone may ask: groups go by their addresses, a domain by `domain:` and
its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from connectors.sources.google_drive import errors as drive_errors
from connectors.sources.google_drive.client import Drive, every
from retrieval.errors import Skippable
from retrieval.ports import SourceAccess

CLOSED: Final = (
    "Google Drive does not tell the connected account who may see this file: let it share the file (Editor), or connect"
    " an account that may."
)
UNREADABLE: Final = "Google Drive's answer does not tell who may see this file."
_SEES: Final = frozenset({"owner", "organizer", "fileOrganizer", "writer", "commenter", "reader"})
"""Roles that show a file; one that is not known here shows nobody anything."""
_STAYS: Final = frozenset({"owner", "organizer"})
"""Roles that show it also where inherited permissions do not count (`inheritedPermissionsDisabled`)."""


def access(drive: Drive, file_id: str) -> SourceAccess:
    """Of one file. Skippable where the account may not ask, or nothing is told: each file has at least an owner."""
    try:
        said = [one for answer in every(lambda page: drive.permissions(file_id, page)) for one in _entries(answer)]
    except (drive_errors.Forgotten, drive_errors.Barred) as error:
        raise Skippable(CLOSED) from error
    if not said:
        raise Skippable(UNREADABLE)
    good = [one for one in said if isinstance(one, dict) and _counts(one)]
    domains = [f"domain:{name.lower()}" for name in _named(good, "domain", "domain")]
    groups = (*(address.lower() for address in _named(good, "group", "emailAddress")), *domains)
    public = any(one.get("type") == "anyone" for one in good)
    return SourceAccess(tuple(_named(good, "user", "emailAddress")), groups, public=public)


def _entries(answer: Mapping[str, Any]) -> list[Any]:
    """Of a page, which may leave an empty list out."""
    found, following = answer.get("permissions", []), answer.get("nextPageToken")
    if not isinstance(found, list) or not isinstance(following, str | None):
        raise Skippable(UNREADABLE)
    return found


def _named(good: list[dict[str, Any]], kind: str, field: str) -> list[str]:
    """The names of permissions of a kind. An unknown kind is nobody, and so is a name that is no text."""
    return [one[field] for one in good if one.get("type") == kind and isinstance(one.get(field), str) and one[field]]


def _counts(one: Mapping[str, Any]) -> bool:
    """Not of a deleted account, not one that has ended, and not one of a view alone: the published version of a file,
    or the names of what lies in a folder."""
    if one.get("deleted") or one.get("view") or not _has(one, _SEES) or _is_cut(one):
        return False
    ends = one.get("expirationTime")
    try:
        return not ends or datetime.fromisoformat(str(ends)) > datetime.now(UTC)
    except (ValueError, TypeError):
        return False


def _is_cut(one: Mapping[str, Any]) -> bool:
    """Whether it comes from above, and what comes from above does not count here."""
    told = one.get("permissionDetails")
    details = [each for each in told if isinstance(each, Mapping)] if isinstance(told, list) else []
    is_direct = any(each.get("inherited") is False for each in details)
    return bool(one.get("inheritedPermissionsDisabled")) and not is_direct and not _has(one, _STAYS)


def _has(one: Mapping[str, Any], roles: frozenset[str]) -> bool:
    role = one.get("role")
    return isinstance(role, str) and role in roles
