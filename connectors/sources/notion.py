"""Notion: its authorization."""

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
    name="Notion",
    authorize="https://api.notion.com/v1/oauth/authorize",
    token="https://api.notion.com/v1/oauth/token",  # noqa: S106
    extra={"owner": "user"},
    pkce=False,
    auth=Auth.BASIC,
    revoke="https://api.notion.com/v1/oauth/revoke",
    revoke_auth=Auth.BASIC,
    account="workspace_id",
)


def make(app: Mapping[str, Any], settings: Settings) -> Notion:
    """The connector of a namespace's app."""
    return Notion(oauth.make("NOTION", SERVICE, app, settings))


@dataclass(frozen=True, slots=True)
class Notion:
    """A `Connector`."""

    authorizer: OAuth

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        raise Fatal("Fetching from the source NOTION is not part of this version yet.")

    def fetch(self, tokens: TokenSource, item: SourceItem, to: Path) -> RawContent | None:
        raise Fatal("Fetching from the source NOTION is not part of this version yet.")

    def gone(self, tokens: TokenSource, external_id: str) -> bool:
        raise Fatal("Fetching from the source NOTION is not part of this version yet.")
