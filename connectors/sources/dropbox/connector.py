"""Dropbox: authorization, listing and download.

`client` sends requests, `listing` lists, `files` fetches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from connectors.http import oauth
from connectors.http.oauth import Auth, OAuth, Service
from connectors.sources.dropbox import INFO, files, folders, listing, sharing
from connectors.sources.dropbox.client import DropboxSession
from retrieval.ports import Level, Page, RawContent, SourceAccess, SourceItem, TokenSource
from retrieval.settings import Settings
from retrieval.sync_filter import EVERYTHING, Choice

SCOPES = ("account_info.read", "files.metadata.read", "files.content.read")
SERVICE = Service(
    name=INFO.title,
    authorize="https://www.dropbox.com/oauth2/authorize",
    token="https://api.dropboxapi.com/oauth2/token",  # noqa: S106
    extra={"scope": " ".join(SCOPES), "token_access_type": "offline"},
    revoke="https://api.dropboxapi.com/2/auth/token/revoke",
    revoke_auth=Auth.BEARER,
    account="account_id",
    rights=dict.fromkeys(SCOPES, ()),
    sharing={"scope": " ".join((*SCOPES, sharing.SCOPE))},
)


def make(app: Mapping[str, Any], settings: Settings) -> Dropbox:
    """The connector of a namespace's app."""
    client = DropboxSession(settings.endpoints.get("DROPBOX"))
    return Dropbox(oauth.make_oauth("DROPBOX", SERVICE, app, settings), client, settings.max_file_bytes)


@dataclass(frozen=True, slots=True)
class Dropbox:
    """A `Connector`. `most`: bytes that one file may have."""

    authorizer: OAuth
    client: DropboxSession
    most: int
    choice: Choice = EVERYTHING

    def choosing(self, choice: Choice) -> Dropbox:
        return replace(self, choice=choice)

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        pages = listing.list_changes(self.client, tokens, cursor)
        return folders.add_folders(pages, self.client, tokens, self.choice.ids) if self.choice.ids else pages

    def browse(self, tokens: TokenSource, parent: str | None, cursor: str | None) -> Level:
        return folders.list_folder(self.client, tokens, parent, cursor)

    def fetch(self, tokens: TokenSource, item: SourceItem, to: Path) -> RawContent | None:
        return files.fetch_file(self.client, tokens, item, to, self.most)

    def access(self, tokens: TokenSource, external_id: str) -> SourceAccess:
        return sharing.read_access(self.client, tokens, external_id)

    def version(self, tokens: TokenSource, external_id: str) -> str:
        return files.current_version(self.client, tokens, external_id)

    def gone(self, tokens: TokenSource, external_id: str) -> bool:
        return files.is_gone(self.client, tokens, external_id)
