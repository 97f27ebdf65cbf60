"""Box: files and Box Notes of an account, with the folders that others share with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connectors import oauth
from connectors.oauth import Auth, OAuth, Service
from connectors.sources import box_files
from connectors.sources.box_client import Client, Closed, Missing
from connectors.sources.box_listing import Walk
from retrieval.ports import Page, RawContent, SourceItem, TokenSource
from retrieval.settings import Settings

SERVICE = Service(
    name="Box",
    authorize="https://account.box.com/api/oauth2/authorize",
    token="https://api.box.com/oauth2/token",  # noqa: S106
    pkce=False,
    revoke="https://api.box.com/oauth2/revoke",
    revoke_auth=Auth.FORM,
)


def make(app: Mapping[str, Any], settings: Settings) -> Box:
    """The connector of a namespace's app."""
    client = Client(settings.endpoints.get("BOX"), settings.max_file_bytes)
    return Box(oauth.make("BOX", SERVICE, app, settings), client)


@dataclass(frozen=True, slots=True)
class Box:
    """A `Connector`. An item is a file, by Box's id of it; web links are counted and left out."""

    authorizer: OAuth
    client: Client

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        return Walk(self.client, tokens).pages(cursor)

    def fetch(self, tokens: TokenSource, item: SourceItem, to: Path) -> RawContent | None:
        return box_files.fetch(self.client, tokens, item.external_id, to)

    def gone(self, tokens: TokenSource, external_id: str) -> bool:
        try:
            return box_files.is_gone(self.client.file(tokens, external_id))
        except (Missing, Closed):
            return True
