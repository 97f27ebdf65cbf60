"""Google Drive connector: files of an account, and their permissions."""

# By developers.google.com/workspace/drive/api/reference/rest/v3/permissions a permission is of a user, a group, a
# domain or anyone. Only administrators may read the members of a group: groups are named by address, a domain by
# `domain:` and its name.

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from connectors.google import auth
from connectors.google.transport import AppsForbidden, HttpPool, NotFound, iterate_pages
from connectors.organization import PartUnavailable
from connectors.sources.google_drive import INFO, api
from connectors.sources.google_drive.api import DRIVE_API
from connectors.sources.google_drive.client import Drive
from retrieval.errors import ItemMissing, Skippable
from retrieval.ports import FolderPage, Page, RawContent, SourceAccess, SourceItem, TokenSource
from retrieval.settings import Settings

if TYPE_CHECKING:
    from connectors.sources.google_drive.listing import DrivePart
    from retrieval.ports import Authorizer
    from retrieval.ports.sources import Subscription


ACCESS_CLOSED_MESSAGE: Final = (
    "Google Drive does not show the connected account who may see this file: let it share the file (Editor), or connect"
    " an account that may."
)
ACCESS_UNREADABLE_MESSAGE: Final = "Google Drive's answer does not contain who may see this file."
# Roles that show a file; an unknown role grants nothing.
_READER_ROLES: Final = frozenset({"owner", "organizer", "fileOrganizer", "writer", "commenter", "reader"})
# Roles that show a file despite `inheritedPermissionsDisabled`.
_UNRESTRICTED_ROLES: Final = frozenset({"owner", "organizer"})


def read_access(drive: Drive, file_id: str) -> SourceAccess:
    """Return the access list of a file. Skippable if it is unreadable or empty."""
    # Each file has an owner.
    try:
        permissions = [
            permission
            for answer in iterate_pages(DRIVE_API.title, lambda page: drive.list_permissions(file_id, page))
            for permission in _parse_permissions(answer)
        ]
    except (api.CursorExpired, api.Forbidden) as error:
        is_missing = isinstance(error.__cause__, NotFound)
        raise (ItemMissing if is_missing else Skippable)(ACCESS_CLOSED_MESSAGE) from error
    if not permissions:
        raise Skippable(ACCESS_UNREADABLE_MESSAGE)
    good = [permission for permission in permissions if isinstance(permission, dict) and _gives_access(permission)]
    domains = [f"domain:{name.lower()}" for name in _grantee_names(good, "domain", "domain")]
    groups = (*(address.lower() for address in _grantee_names(good, "group", "emailAddress")), *domains)
    public = any(permission.get("type") == "anyone" for permission in good)
    return SourceAccess(tuple(_grantee_names(good, "user", "emailAddress")), groups, public=public)


def _parse_permissions(answer: Mapping[str, Any]) -> list[Any]:
    """Return the permissions of a page."""
    # Google may omit an empty list.
    values, following = answer.get("permissions", []), answer.get("nextPageToken")
    if not isinstance(values, list) or not isinstance(following, str | None):
        raise Skippable(ACCESS_UNREADABLE_MESSAGE)
    return values


def _grantee_names(good: list[dict[str, Any]], kind: str, field: str) -> list[str]:
    """Return the names of permissions of a kind."""
    return [
        permission[field]
        for permission in good
        if permission.get("type") == kind and isinstance(permission.get(field), str) and permission[field]
    ]


def _gives_access(permission: Mapping[str, Any]) -> bool:
    """Return True for a permission that gives access."""
    # Not of a deleted account, expired, or only of a view (the published version of a file, or names within a folder).
    if (
        permission.get("deleted")
        or permission.get("view")
        or not _has_role(permission, _READER_ROLES)
        or _is_disabled(permission)
    ):
        return False
    ends = permission.get("expirationTime")
    try:
        return not ends or datetime.fromisoformat(str(ends)) > datetime.now(UTC)
    except (ValueError, TypeError):
        return False


def _is_disabled(permission: Mapping[str, Any]) -> bool:
    """Return True for an inherited permission of an item with `inheritedPermissionsDisabled`."""
    raw_details = permission.get("permissionDetails")
    details = [detail for detail in raw_details if isinstance(detail, Mapping)] if isinstance(raw_details, list) else []
    is_direct = any(detail.get("inherited") is False for detail in details)
    return (
        bool(permission.get("inheritedPermissionsDisabled"))
        and not is_direct
        and not _has_role(permission, _UNRESTRICTED_ROLES)
    )


def _has_role(permission: Mapping[str, Any], roles: frozenset[str]) -> bool:
    role = permission.get("role")
    return isinstance(role, str) and role in roles


READ_SCOPE: Final = "https://www.googleapis.com/auth/drive.readonly"


def make(app: Mapping[str, Any], settings: Settings) -> GoogleDrive:
    """Return the connector of a namespace's app."""
    # The app's API key serves file pickers in browsers.
    flow = auth.make_oauth(
        DRIVE_API.name, INFO.title, app, settings, scope=READ_SCOPE, more="https://www.googleapis.com/auth/drive"
    )
    return GoogleDrive(flow, settings)


class GoogleDrive:
    """`Connector` of Google Drive. The SDK is loaded with the first request."""

    def __init__(
        self,
        authorizer: Authorizer,
        settings: Settings,
        part: DrivePart | None = None,
        pool: HttpPool | None = None,
    ) -> None:
        self.authorizer = authorizer
        self._settings = settings
        self._part = part
        self._pool = pool
        self._lock = Lock()

    def with_part(self, part: DrivePart) -> GoogleDrive:
        """Return the connector of a part of an organization, over the same clients."""
        return GoogleDrive(self.authorizer, self._settings, part, self._open_pool())

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        from connectors.sources.google_drive.listing import DriveListing

        listing = DriveListing(self.make_drive(tokens), self._part)
        try:
            yield from listing.pages(cursor)
        except AppsForbidden as error:
            if self._part is None:
                raise
            raise PartUnavailable from error

    def browse(self, tokens: TokenSource, parent: str | None, cursor: str | None) -> FolderPage:
        from connectors.sources.google_drive import files

        if self._part is not None:
            parent = parent or self._part.change_log or "root"
        return files.list_folder(self.make_drive(tokens), parent, cursor)

    def access(self, tokens: TokenSource, external_id: str) -> SourceAccess:

        return read_access(self.make_drive(tokens), external_id)

    def version(self, tokens: TokenSource, external_id: str) -> str:
        from connectors.sources.google_drive import files

        try:
            return files.file_version(
                self.make_drive(tokens).read_file(external_id, "id,md5Checksum,headRevisionId,modifiedTime")
            )
        except Skippable:
            return ""

    def fetch(self, tokens: TokenSource, item: SourceItem, to: Path) -> RawContent | None:
        from connectors.sources.google_drive import files

        return files.fetch_content(self.make_drive(tokens), item.external_id, to, self._settings.max_file_bytes)

    def is_deleted(self, tokens: TokenSource, external_id: str) -> bool:
        try:
            file = self.make_drive(tokens).read_file(external_id, "id,trashed,driveId,ownedByMe")
            return bool(file.get("trashed")) or (self._part is not None and not self._part.holds(file))
        except NotFound:
            return True
        except Skippable:
            return False

    def subscribe(self, tokens: TokenSource, address: str, secret: str, state: str | None) -> Subscription:
        from connectors.sources.google_drive import watching

        try:
            return watching.subscribe(self.make_drive(tokens), address, secret, state)
        except api.Forbidden as error:
            raise Skippable(str(error.__cause__)) from error
        except api.CursorExpired as error:
            raise Skippable(api.PUSH_REFUSED_MESSAGE) from error

    def unsubscribe(self, tokens: TokenSource, state: str) -> None:
        from connectors.sources.google_drive import watching

        watching.unsubscribe(self.make_drive(tokens), state)

    def make_drive(self, tokens: TokenSource) -> Drive:
        """Return the requests of an account."""
        from connectors.sources.google_drive.client import Drive

        return Drive(self._open_pool(), tokens)

    def _open_pool(self) -> HttpPool:

        with self._lock:
            if self._pool is None:
                self._pool = HttpPool(DRIVE_API, self._settings.endpoints.get(DRIVE_API.name))
            return self._pool
