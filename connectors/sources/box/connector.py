"""Box connector: files and Box Notes of an account, including folders shared by other accounts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from connectors.http import oauth
from connectors.http.oauth import Auth, OAuth, Service
from connectors.sources.box import INFO, files, sharing
from connectors.sources.box.answers import BoxItem
from connectors.sources.box.client import BoxSession, CursorExpired, Forbidden, NotFound
from connectors.sources.box.listing import BoxListing
from retrieval.errors import Skippable
from retrieval.ports import Authorizer, FolderEntry, FolderPage, Page, RawContent, SourceAccess, SourceItem, TokenSource
from retrieval.settings import Settings

ROOT_FOLDER_ID: Final = "0"
FOLDER_MISSING_MESSAGE: Final = "There is no such folder in Box, or the account may not read it."


def list_folder(client: BoxSession, tokens: TokenSource, parent: str | None, cursor: str | None) -> FolderPage:
    """Return a page of a folder from `cursor`, Box's marker."""
    if parent is not None and not (parent.isascii() and parent.isdigit()):
        raise Skippable(FOLDER_MISSING_MESSAGE)
    try:
        page = client.list_folder(tokens, parent or ROOT_FOLDER_ID, cursor or "")
    except (NotFound, Forbidden, CursorExpired) as error:
        raise Skippable(FOLDER_MISSING_MESSAGE) from error
    entries = [_entry(item) for item in page.entries if item.type in {"file", "folder"} and not files.is_trashed(item)]
    return FolderPage(entries, page.next_marker or None)


def _entry(entry: BoxItem) -> FolderEntry:
    """Convert an item to an entry."""
    # Box does not report whether a folder is empty.
    is_folder = entry.type == "folder"
    item = files.as_source_item(entry)
    return FolderEntry(
        entry.id,
        entry.name or entry.id,
        is_folder=is_folder,
        path=str(item.properties["path"]),
        media_type="" if is_folder else item.media_type,
        size=None if is_folder else entry.size,
        modified_at=entry.content_modified_at or entry.modified_at,
        has_children=is_folder,
        above=item.above,
    )


# Token answers of Box do not name the account: it is requested once, after a person authorizes.
OAUTH_SERVICE = Service(
    name=INFO.title,
    authorize="https://account.box.com/api/oauth2/authorize",
    token="https://api.box.com/oauth2/token",  # noqa: S106
    pkce=False,
    revoke="https://api.box.com/oauth2/revoke",
    revoke_auth=Auth.FORM,
    account="account",
    rights={"root_readonly": ("root_readwrite",)},
)


def make(app: Mapping[str, Any], settings: Settings) -> Box:
    """Return the connector of a namespace's app."""
    endpoint = settings.endpoints.get("BOX")
    client = BoxSession(endpoint, settings.max_file_bytes)
    return Box(
        oauth.make_oauth(
            "BOX", OAUTH_SERVICE, app, settings, partial(_send, client, is_own_endpoint=endpoint is not None)
        ),
        client,
    )


def _send(client: BoxSession, flow: OAuth, url: str, content: dict[str, str], *, is_own_endpoint: bool) -> Any:
    """Send a request of the flow."""
    # A token of another token endpoint must not reach Box's public API.
    app = {"client_id": flow.client_id, "client_secret": flow.client_secret}
    answer = oauth.post_form(OAUTH_SERVICE.name, url, data={**content, **app})
    is_first = content.get("grant_type") == "authorization_code" and isinstance(answer, dict)
    if (
        is_first
        and (is_own_endpoint or flow.token_at == OAUTH_SERVICE.token)
        and isinstance(token := answer.get("access_token"), str)
    ):
        return {**answer, "account": client.read_account_id(token)}
    return answer


@dataclass(frozen=True, slots=True)
class Box:
    """`Connector` of Box. An item is a file, by Box's id; web links are only counted."""

    authorizer: Authorizer
    client: BoxSession
    # Cache of folders' collaborations.
    folders: sharing.FolderCollaborations = field(default_factory=dict)

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        return BoxListing(self.client, tokens).pages(cursor)

    def browse(self, tokens: TokenSource, parent: str | None, cursor: str | None) -> FolderPage:
        return list_folder(self.client, tokens, parent, cursor)

    def access(self, tokens: TokenSource, external_id: str) -> SourceAccess:
        return sharing.read_access(self.client, tokens, external_id, self.folders)

    def version(self, tokens: TokenSource, external_id: str) -> str:
        try:
            return files.content_version(self.client.read_file(tokens, external_id))
        except (NotFound, Forbidden):
            return ""

    def fetch(self, tokens: TokenSource, item: SourceItem, to: Path) -> RawContent | None:
        raw = files.fetch_file(self.client, tokens, item.external_id, to)
        self.folders.clear()  # access of the fetched file is read anew
        return raw

    def is_deleted(self, tokens: TokenSource, external_id: str) -> bool:
        try:
            return files.is_trashed(self.client.read_file(tokens, external_id))
        except (NotFound, Forbidden):
            return True
