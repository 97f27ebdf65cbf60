"""Box: files and Box Notes of an account, with the folders that others share with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from connectors.http import oauth
from connectors.http.oauth import Auth, OAuth, Service
from connectors.sources.box import INFO, files, sharing
from connectors.sources.box.client import BoxItem, BoxSession, CursorExpired, Forbidden, NotFound
from connectors.sources.box.listing import Walk
from retrieval.errors import Skippable
from retrieval.ports import FolderEntry, FolderPage, Page, RawContent, SourceAccess, SourceItem, TokenSource
from retrieval.settings import Settings

ROOT: Final = "0"
NOT_THERE: Final = "There is no such folder in Box, or the account may not read it."


def list_folder(client: BoxSession, tokens: TokenSource, parent: str | None, cursor: str | None) -> FolderPage:
    """The cursor is Box's marker."""
    if parent is not None and not (parent.isascii() and parent.isdigit()):
        raise Skippable(NOT_THERE)
    try:
        page = client.folder(tokens, parent or ROOT, cursor or "")
    except (NotFound, Forbidden, CursorExpired) as error:
        raise Skippable(NOT_THERE) from error
    entries = [_entry(item) for item in page.entries if item.type in {"file", "folder"} and not files.is_gone(item)]
    return FolderPage(entries, page.next_marker or None)


def _entry(one: BoxItem) -> FolderEntry:
    """Entry of an item. Box does not report whether a folder is empty."""
    is_folder = one.type == "folder"
    item = files.as_source_item(one)
    return FolderEntry(
        one.id,
        one.name or one.id,
        is_folder=is_folder,
        path=str(item.properties["path"]),
        media_type="" if is_folder else item.media_type,
        size=None if is_folder else one.size,
        modified_at=one.content_modified_at or one.modified_at,
        has_children=is_folder,
        above=item.above,
    )


SERVICE = Service(
    name=INFO.title,
    authorize="https://account.box.com/api/oauth2/authorize",
    token="https://api.box.com/oauth2/token",  # noqa: S106
    pkce=False,
    revoke="https://api.box.com/oauth2/revoke",
    revoke_auth=Auth.FORM,
    account="account",
    rights={"root_readonly": ("root_readwrite",)},
)
"""Its token answers do not say whose the tokens are: that is asked for once, when a person has authorized."""


def make(app: Mapping[str, Any], settings: Settings) -> Box:
    """The connector of a namespace's app."""
    endpoint = settings.endpoints.get("BOX")
    client = BoxSession(endpoint, settings.max_file_bytes)
    return Box(
        oauth.make_oauth("BOX", SERVICE, app, settings, partial(_send, client, known=endpoint is not None)), client
    )


def _send(client: BoxSession, flow: OAuth, url: str, content: dict[str, str], *, known: bool) -> Any:
    """Send a request of the flow. A token of another token endpoint is not shown to Box's public API."""
    app = {"client_id": flow.client_id, "client_secret": flow.client_secret}
    answer = oauth.post_form(SERVICE.name, url, data={**content, **app})
    is_first = content.get("grant_type") == "authorization_code" and isinstance(answer, dict)
    if is_first and (known or flow.token_at == SERVICE.token) and isinstance(token := answer.get("access_token"), str):
        return {**answer, "account": client.account(token)}
    return answer


@dataclass(frozen=True, slots=True)
class Box:
    """A `Connector`. An item is a file, by Box's id of it; web links are counted and left out."""

    authorizer: OAuth
    client: BoxSession
    folders: sharing.Folders = field(default_factory=dict)
    """What was read of folders' collaborations, as long as this one lives."""

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        return Walk(self.client, tokens).pages(cursor)

    def browse(self, tokens: TokenSource, parent: str | None, cursor: str | None) -> FolderPage:
        return list_folder(self.client, tokens, parent, cursor)

    def access(self, tokens: TokenSource, external_id: str) -> SourceAccess:
        return sharing.read_access(self.client, tokens, external_id, self.folders)

    def version(self, tokens: TokenSource, external_id: str) -> str:
        try:
            return files.content_version(self.client.file(tokens, external_id))
        except (NotFound, Forbidden):
            return ""

    def fetch(self, tokens: TokenSource, item: SourceItem, to: Path) -> RawContent | None:
        raw = files.fetch_file(self.client, tokens, item.external_id, to)
        self.folders.clear()  # whom a file is shown is asked once more when it is there
        return raw

    def is_deleted(self, tokens: TokenSource, external_id: str) -> bool:
        try:
            return files.is_gone(self.client.file(tokens, external_id))
        except (NotFound, Forbidden):
            return True
