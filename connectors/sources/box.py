"""Box: its authorization."""

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
    name="Box",
    authorize="https://account.box.com/api/oauth2/authorize",
    token="https://api.box.com/oauth2/token",  # noqa: S106
    pkce=False,
    revoke="https://api.box.com/oauth2/revoke",
    revoke_auth=Auth.FORM,
)


def make(app: Mapping[str, Any], settings: Settings) -> Box:
    """The connector of a namespace's app."""
    return Box(oauth.make("BOX", SERVICE, app, settings))


@dataclass(frozen=True, slots=True)
class Box:
    """A `Connector`."""

    authorizer: OAuth

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        raise Fatal("Fetching from the source BOX is not part of this version yet.")

    def fetch(self, tokens: TokenSource, item: SourceItem, to: Path) -> RawContent | None:
        raise Fatal("Fetching from the source BOX is not part of this version yet.")

    def gone(self, tokens: TokenSource, external_id: str) -> bool:
        raise Fatal("Fetching from the source BOX is not part of this version yet.")
