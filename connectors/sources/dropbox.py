"""Dropbox: its authorization."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connectors import oauth
from connectors.oauth import Auth, OAuth, Service
from retrieval.errors import Fatal
from retrieval.ports import Page, RawContent, SourceItem, TokenSource
from retrieval.settings import Settings

SERVICE = Service(
    name="Dropbox",
    authorize="https://www.dropbox.com/oauth2/authorize",
    token="https://api.dropboxapi.com/oauth2/token",  # noqa: S106
    extra={"scope": "account_info.read files.metadata.read files.content.read", "token_access_type": "offline"},
    revoke="https://api.dropboxapi.com/2/auth/token/revoke",
    revoke_auth=Auth.BEARER,
    account="account_id",
)


def make(app: Mapping[str, Any], settings: Settings) -> Dropbox:
    """The connector of a namespace's app."""
    return Dropbox(oauth.make("DROPBOX", SERVICE, app, settings))


@dataclass(frozen=True, slots=True)
class Dropbox:
    """A `Connector`."""

    authorizer: OAuth

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        raise Fatal("Fetching from the source DROPBOX is not part of this version yet.")

    def fetch(self, tokens: TokenSource, item: SourceItem, to: Path) -> RawContent | None:
        raise Fatal("Fetching from the source DROPBOX is not part of this version yet.")

    def gone(self, tokens: TokenSource, external_id: str) -> bool:
        raise Fatal("Fetching from the source DROPBOX is not part of this version yet.")
