"""Google Drive: files of an account, and their permissions.

By developers.google.com/workspace/drive/api/reference/rest/v3/permissions a permission is of a user, a group, a domain
or anyone. Only administrators may read the members of a group: groups are named by their addresses, a domain by
`domain:` and its name.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from connectors.http import oauth
from connectors.http.oauth import OAuth, Service
from connectors.sources.google_drive import INFO, transport
from connectors.sources.google_drive.client import Drive, iterate_pages
from retrieval.errors import ItemMissing, Skippable
from retrieval.ports import FolderPage, Page, RawContent, SourceAccess, SourceItem, TokenSource
from retrieval.settings import Settings

if TYPE_CHECKING:
    from connectors.sources.google_drive.transport import HttpPool


CLOSED: Final = (
    "Google Drive does not tell the connected account who may see this file: let it share the file (Editor), or connect"
    " an account that may."
)
UNREADABLE: Final = "Google Drive's answer does not tell who may see this file."
_SEES: Final = frozenset({"owner", "organizer", "fileOrganizer", "writer", "commenter", "reader"})
"""Roles that show a file; an unknown role grants nothing."""
_STAYS: Final = frozenset({"owner", "organizer"})
"""Roles that show it also where inherited permissions do not count (`inheritedPermissionsDisabled`)."""


def read_access(drive: Drive, file_id: str) -> SourceAccess:
    """Return the access of one file. Skippable where the account may not read it, or it is empty: each file has an
    owner."""
    try:
        permissions = [
            permission
            for answer in iterate_pages(lambda page: drive.permissions(file_id, page))
            for permission in _permissions(answer)
        ]
    except (transport.CursorExpired, transport.Forbidden) as error:
        is_missing = isinstance(error.__cause__, transport.NotFound)
        raise (ItemMissing if is_missing else Skippable)(CLOSED) from error
    if not permissions:
        raise Skippable(UNREADABLE)
    good = [permission for permission in permissions if isinstance(permission, dict) and _counts(permission)]
    domains = [f"domain:{name.lower()}" for name in _named(good, "domain", "domain")]
    groups = (*(address.lower() for address in _named(good, "group", "emailAddress")), *domains)
    public = any(permission.get("type") == "anyone" for permission in good)
    return SourceAccess(tuple(_named(good, "user", "emailAddress")), groups, public=public)


def _permissions(answer: Mapping[str, Any]) -> list[Any]:
    """Return the permissions of a page, which may leave an empty list out."""
    values, following = answer.get("permissions", []), answer.get("nextPageToken")
    if not isinstance(values, list) or not isinstance(following, str | None):
        raise Skippable(UNREADABLE)
    return values


def _named(good: list[dict[str, Any]], kind: str, field: str) -> list[str]:
    """Return the names of permissions of a kind. Unknown kinds and names that are no text are left out."""
    return [
        permission[field]
        for permission in good
        if permission.get("type") == kind and isinstance(permission.get(field), str) and permission[field]
    ]


def _counts(one: Mapping[str, Any]) -> bool:
    """Tell whether a permission gives access: not that of a deleted account, an expired one, or one of a view alone
    (the published version of a file, or the names within a folder)."""
    if one.get("deleted") or one.get("view") or not _has(one, _SEES) or _is_cut(one):
        return False
    ends = one.get("expirationTime")
    try:
        return not ends or datetime.fromisoformat(str(ends)) > datetime.now(UTC)
    except (ValueError, TypeError):
        return False


def _is_cut(one: Mapping[str, Any]) -> bool:
    """Tell whether a permission is inherited by an item that has inherited permissions disabled."""
    raw_details = one.get("permissionDetails")
    details = [detail for detail in raw_details if isinstance(detail, Mapping)] if isinstance(raw_details, list) else []
    is_direct = any(detail.get("inherited") is False for detail in details)
    return bool(one.get("inheritedPermissionsDisabled")) and not is_direct and not _has(one, _STAYS)


def _has(one: Mapping[str, Any], roles: frozenset[str]) -> bool:
    role = one.get("role")
    return isinstance(role, str) and role in roles


READ = "https://www.googleapis.com/auth/drive.readonly"
SERVICE = Service(
    name=INFO.title,
    authorize="https://accounts.google.com/o/oauth2/v2/auth",
    token="https://oauth2.googleapis.com/token",  # noqa: S106
    extra={
        "scope": f"openid {READ}",
        "access_type": "offline",
        "prompt": "consent",
        "include_granted_scopes": "true",
    },
    revoke="https://oauth2.googleapis.com/revoke",
    account="account",
    rights={READ: ("https://www.googleapis.com/auth/drive",)},
)
"""`openid` gives no right, but a word in the token answer that says whose tokens these are."""


def make(app: Mapping[str, Any], settings: Settings) -> GoogleDrive:
    """The connector of a namespace's app. Its API key is for choosing files in a browser and is not used here."""
    return GoogleDrive(oauth.make_oauth("GOOGLE_DRIVE", SERVICE, app, settings, send_token_request), settings)


def send_token_request(flow: OAuth, url: str, content: dict[str, str]) -> Any:
    """A request of the flow, as `connectors.http.oauth.Send`; its answer with the account that it is about."""
    app = {"client_id": flow.client_id, "client_secret": flow.client_secret} if "grant_type" in content else {}
    answer = oauth.post_form(flow.service.name, url, data={**content, **app})
    return {**answer, "account": _subject(answer)} if isinstance(answer, dict) else answer


def _subject(answer: Mapping[str, Any]) -> str | None:
    """Return the subject of the id token (OpenID Connect); from the token endpoint itself, so no signature check is
    needed."""
    try:
        claims = str(answer["id_token"]).split(".")[1]
        subject = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["sub"]
    except (LookupError, TypeError, ValueError, RecursionError):
        return None
    return subject if isinstance(subject, str) else None


class GoogleDrive:
    """Connector of Google Drive. The vendor's SDK is loaded with the first request."""

    def __init__(self, authorizer: OAuth, settings: Settings) -> None:
        self.authorizer = authorizer
        self._settings = settings
        self._wires: HttpPool | None = None
        self._lock = Lock()

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        """See `connectors.sources.google_drive.listing`."""
        from connectors.sources.google_drive.listing import DriveListing

        return DriveListing(self._drive(tokens)).pages(cursor)

    def browse(self, tokens: TokenSource, parent: str | None, cursor: str | None) -> FolderPage:
        from connectors.sources.google_drive import files

        return files.list_folder(self._drive(tokens), parent, cursor)

    def access(self, tokens: TokenSource, external_id: str) -> SourceAccess:

        return read_access(self._drive(tokens), external_id)

    def version(self, tokens: TokenSource, external_id: str) -> str:
        from connectors.sources.google_drive import files

        try:
            return files.version_of(self._drive(tokens).file(external_id, "id,md5Checksum,headRevisionId,modifiedTime"))
        except Skippable:
            return ""

    def fetch(self, tokens: TokenSource, item: SourceItem, to: Path) -> RawContent | None:
        """Fetch the content: unchanged files are known from the listing, and not requested."""
        from connectors.sources.google_drive import files

        return files.fetch_content(self._drive(tokens), item.external_id, to, self._settings.max_file_bytes)

    def is_deleted(self, tokens: TokenSource, external_id: str) -> bool:
        from connectors.sources.google_drive.transport import NotFound

        try:
            return bool(self._drive(tokens).file(external_id, "id,trashed").get("trashed"))
        except NotFound:
            return True
        except Skippable:
            return False

    def _drive(self, tokens: TokenSource) -> Drive:
        from connectors.sources.google_drive.client import Drive
        from connectors.sources.google_drive.transport import HttpPool

        with self._lock:
            if self._wires is None:
                self._wires = HttpPool(self._settings.endpoints.get("GOOGLE_DRIVE"))
        return Drive(self._wires, tokens)
