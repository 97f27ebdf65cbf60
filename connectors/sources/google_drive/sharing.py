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

_SEES: Final = frozenset({"owner", "organizer", "fileOrganizer", "writer", "commenter", "reader"})
"""Roles that show a file; one that is not known here shows nobody anything."""
_STAYS: Final = frozenset({"owner", "organizer"})
"""Roles that show it also where inherited permissions do not count (`inheritedPermissionsDisabled`)."""


def access(drive: Drive, file_id: str) -> SourceAccess:
    """Of one file. Skippable where the account may not ask."""
    try:
        said = [one for answer in every(lambda page: drive.permissions(file_id, page)) for one in answer["permissions"]]
    except (drive_errors.Forgotten, drive_errors.Barred) as error:
        raise Skippable(CLOSED) from error
    good = [one for one in said if isinstance(one, dict) and _counts(one)]
    users = [str(one["emailAddress"]) for one in good if one.get("type") == "user" and one.get("emailAddress")]
    groups = [str(one["emailAddress"]) for one in good if one.get("type") == "group" and one.get("emailAddress")]
    domains = [f"domain:{one['domain']}" for one in good if one.get("type") == "domain" and one.get("domain")]
    return SourceAccess(tuple(users), (*groups, *domains), public=any(one.get("type") == "anyone" for one in good))


def _counts(one: Mapping[str, Any]) -> bool:
    """Not of a deleted account, not one that has ended, and not one of a view alone: the published version of a file,
    or the names of what lies in a folder."""
    if one.get("deleted") or one.get("view") or one.get("role") not in _SEES or _is_cut(one):
        return False
    ends = one.get("expirationTime")
    try:
        return not ends or datetime.fromisoformat(str(ends)) > datetime.now(UTC)
    except (ValueError, TypeError):
        return False


def _is_cut(one: Mapping[str, Any]) -> bool:
    """Whether it comes from above, and what comes from above does not count here."""
    details = [each for each in one.get("permissionDetails") or () if isinstance(each, Mapping)]
    is_direct = any(each.get("inherited") is False for each in details)
    return bool(one.get("inheritedPermissionsDisabled")) and not is_direct and one.get("role") not in _STAYS
