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
    """Return a page of a folder; `cursor` is that of Dropbox, None for the first page."""

    def request(sdk: Any) -> Any:
        from dropbox.exceptions import ApiError
        from dropbox.stone_validators import ValidationError

        try:
            if cursor is not None:
                return sdk.files_list_folder_continue(cursor)
            # A team's shared folders are spaces of their own.
            has_mounts = client.space is None
            return sdk.files_list_folder(parent or "", include_mounted_folders=has_mounts, limit=FOLDER_PAGE_SIZE)
        except (ApiError, ValidationError) as error:
            raise Skippable(FOLDER_MISSING_MESSAGE) from error

    answer = client.call(tokens, request)
    entries = [entry for metadata in answer.entries if (entry := _folder_entry(metadata)) is not None]
    return FolderPage(entries, answer.cursor if answer.has_more else None)


def _folder_entry(metadata: Any) -> FolderEntry | None:
    """Convert metadata to an entry; None for deleted or unsupported items."""
    from dropbox.files import FileMetadata, FolderMetadata

    path = str(getattr(metadata, "path_display", None) or f"/{metadata.name}").lstrip("/")
    if isinstance(metadata, FolderMetadata):
        # Dropbox does not report whether a folder is empty.
        return FolderEntry(metadata.id, metadata.name, is_folder=True, path=path, has_children=True)
    if not isinstance(metadata, FileMetadata):
        return None
    item_or_skip_reason = files.as_source_item(metadata)
    if isinstance(item_or_skip_reason, str):
        return None
    return FolderEntry(
        metadata.id,
        metadata.name,
        is_folder=False,
        path=path,
        media_type=item_or_skip_reason.media_type,
        size=metadata.size,
        modified_at=metadata.server_modified.replace(tzinfo=UTC).isoformat().replace("+00:00", "Z"),
    )


def add_folders(
    pages: Iterator[Page[SourceItem]], client: DropboxSession, tokens: TokenSource, ids: Sequence[str]
) -> Iterator[Page[SourceItem]]:
    """Yield the pages with the containing folders of each item, as far as they are among `ids`."""
    paths = {folder_id: _folder_path(client, tokens, folder_id) for folder_id in ids}
    paths_by_id = {folder_id: path for folder_id, path in paths.items() if path is not None}
    for page in pages:
        items = [replace(item, above=_containing_folders(item, paths_by_id)) for item in page.items]
        yield replace(page, items=items)


def _containing_folders(item: SourceItem, paths_by_id: Mapping[str, str]) -> tuple[str, ...]:
    """Return the ids of the folders with the item, compared by lower-case path."""
    item_path = "/" + str(item.properties.get("path") or "").casefold()
    return tuple(folder_id for folder_id, path in paths_by_id.items() if item_path.startswith(path + "/"))


def _folder_path(client: DropboxSession, tokens: TokenSource, folder_id: str) -> str | None:
    """Return a folder's path in lower case; None for a file or a missing folder."""

    def request(sdk: Any) -> str | None:
        from dropbox.exceptions import ApiError
        from dropbox.files import FolderMetadata
        from dropbox.stone_validators import ValidationError

        try:
            metadata = sdk.files_get_metadata(folder_id)
        except (ApiError, ValidationError):
            return None
        path = metadata.path_display or metadata.path_lower
        return str(path).casefold() if isinstance(metadata, FolderMetadata) and path else None

    return client.call(tokens, request) if folder_id.startswith("id:") else None


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
    """Return the connector with the OAuth2 app of a namespace."""
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
