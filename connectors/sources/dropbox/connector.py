"""Dropbox connector: authorization, listing and download."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from pathlib import Path
from typing import Any, Final

from connectors.http import oauth
from connectors.http.oauth import Auth, Service
from connectors.sources.dropbox import INFO, files, listing, sharing
from connectors.sources.dropbox.client import DropboxSession
from retrieval.errors import Skippable
from retrieval.ports import Authorizer, FolderEntry, FolderPage, Page, RawContent, SourceAccess, SourceItem, TokenSource
from retrieval.settings import Settings
from retrieval.sync_filter import SYNC_EVERYTHING, SyncFilter

FOLDER_PAGE_SIZE: Final = 500
FOLDER_MISSING_MESSAGE: Final = "There is no such folder in Dropbox, or the account may not read it."


def list_folder(client: DropboxSession, tokens: TokenSource, parent: str | None, cursor: str | None) -> FolderPage:
    """Return a page of a folder from Dropbox's own cursor."""

    def request(sdk: Any) -> Any:
        from dropbox.exceptions import ApiError
        from dropbox.stone_validators import ValidationError

        try:
            if cursor is not None:
                return sdk.files_list_folder_continue(cursor)
            has_mounts = client.space is None
            return sdk.files_list_folder(parent or "", include_mounted_folders=has_mounts, limit=FOLDER_PAGE_SIZE)
        except (ApiError, ValidationError) as error:
            raise Skippable(FOLDER_MISSING_MESSAGE) from error

    answer = client.call(tokens, request)
    entries = [entry for metadata in answer.entries if (entry := _folder_entry(metadata)) is not None]
    return FolderPage(entries, answer.cursor if answer.has_more else None)


def _folder_entry(metadata: Any) -> FolderEntry | None:
    """Convert metadata to an entry; None for deleted or unsupported items."""
    # Dropbox does not report whether a folder is empty.
    from dropbox.files import FileMetadata, FolderMetadata

    path = str(getattr(metadata, "path_display", None) or f"/{metadata.name}").lstrip("/")
    if isinstance(metadata, FolderMetadata):
        return FolderEntry(metadata.id, metadata.name, is_folder=True, path=path, has_children=True)
    item = files.as_source_item(metadata) if isinstance(metadata, FileMetadata) else ""
    if isinstance(item, str):
        return None
    changed = metadata.server_modified.replace(tzinfo=UTC).isoformat().replace("+00:00", "Z")
    return FolderEntry(metadata.id, metadata.name, False, path, item.media_type, metadata.size, changed)  # noqa: FBT003


def add_folders(
    pages: Iterator[Page[SourceItem]], client: DropboxSession, tokens: TokenSource, ids: Sequence[str]
) -> Iterator[Page[SourceItem]]:
    """Add the ids of containing folders, among `ids`, to each item."""
    folders = {folder_id: path for folder_id in ids if (path := _folder_path(client, tokens, folder_id)) is not None}
    for page in pages:
        yield replace(page, items=[replace(item, above=_containing_folders(item, folders)) for item in page.items])


def _containing_folders(item: SourceItem, folders: Mapping[str, str]) -> tuple[str, ...]:
    path = "/" + str(item.properties.get("path") or "").casefold()
    return tuple(folder_id for folder_id, folder in folders.items() if path.startswith(folder + "/"))


def _folder_path(client: DropboxSession, tokens: TokenSource, folder: str) -> str | None:
    """Return a folder's path in lower case; None for a file or a missing folder."""

    def request(sdk: Any) -> str | None:
        from dropbox.exceptions import ApiError
        from dropbox.files import FolderMetadata
        from dropbox.stone_validators import ValidationError

        try:
            metadata = sdk.files_get_metadata(folder)
        except (ApiError, ValidationError):
            return None
        path = metadata.path_display or metadata.path_lower
        return str(path).casefold() if isinstance(metadata, FolderMetadata) and path else None

    return client.call(tokens, request) if folder.startswith("id:") else None


OAUTH_SCOPES = ("account_info.read", "files.metadata.read", "files.content.read")
OAUTH_SERVICE = Service(
    name=INFO.title,
    authorize="https://www.dropbox.com/oauth2/authorize",
    token="https://api.dropboxapi.com/oauth2/token",  # noqa: S106
    extra={"scope": " ".join(OAUTH_SCOPES), "token_access_type": "offline"},
    revoke="https://api.dropboxapi.com/2/auth/token/revoke",
    revoke_auth=Auth.BEARER,
    account="account_id",
    rights=dict.fromkeys(OAUTH_SCOPES, ()),
    sharing={"scope": " ".join((*OAUTH_SCOPES, sharing.SHARING_SCOPE))},
)


def make(app: Mapping[str, Any], settings: Settings) -> Dropbox:
    """Return the connector of a namespace's app."""
    client = DropboxSession(settings.endpoints.get("DROPBOX"))
    return Dropbox(oauth.make_oauth("DROPBOX", OAUTH_SERVICE, app, settings), client, settings.max_file_bytes)


@dataclass(frozen=True, slots=True)
class Dropbox:
    """`Connector` of Dropbox."""

    authorizer: Authorizer
    client: DropboxSession
    max_file_bytes: int
    choice: SyncFilter = SYNC_EVERYTHING

    def with_choice(self, choice: SyncFilter) -> Dropbox:
        return replace(self, choice=choice)

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        pages = listing.list_changes(self.client, tokens, cursor)
        return add_folders(pages, self.client, tokens, self.choice.ids) if self.choice.ids else pages

    def browse(self, tokens: TokenSource, parent: str | None, cursor: str | None) -> FolderPage:
        return list_folder(self.client, tokens, parent, cursor)

    def fetch(self, tokens: TokenSource, item: SourceItem, to: Path) -> RawContent | None:
        return files.fetch_file(self.client, tokens, item, to, self.max_file_bytes)

    def access(self, tokens: TokenSource, external_id: str) -> SourceAccess:
        return sharing.read_access(self.client, tokens, external_id)

    def version(self, tokens: TokenSource, external_id: str) -> str:
        return files.current_version(self.client, tokens, external_id)

    def is_deleted(self, tokens: TokenSource, external_id: str) -> bool:
        return files.is_deleted(self.client, tokens, external_id)
