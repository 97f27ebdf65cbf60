"""OneDrive: its authorization."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connectors import oauth
from connectors.oauth import OAuth, Service
from retrieval.errors import Fatal
from retrieval.ports import Page, RawContent, SourceItem, TokenSource
from retrieval.settings import Settings

SERVICE = Service(
    name="OneDrive",
    authorize="https://login.microsoftonline.com/common/oauth2/v2.0/authorize",
    token="https://login.microsoftonline.com/common/oauth2/v2.0/token",  # noqa: S106
    extra={"scope": "Files.Read.All offline_access", "prompt": "select_account"},
)


def make(app: Mapping[str, Any], settings: Settings) -> OneDrive:
    """The connector of a namespace's app."""
    return OneDrive(oauth.make("ONEDRIVE", SERVICE, app, settings))


@dataclass(frozen=True, slots=True)
class OneDrive:
    """A `Connector`."""

    authorizer: OAuth

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        raise Fatal("Fetching from the source ONEDRIVE is not part of this version yet.")

    def fetch(self, tokens: TokenSource, item: SourceItem, to: Path) -> RawContent | None:
        raise Fatal("Fetching from the source ONEDRIVE is not part of this version yet.")

    def gone(self, tokens: TokenSource, external_id: str) -> bool:
        raise Fatal("Fetching from the source ONEDRIVE is not part of this version yet.")
