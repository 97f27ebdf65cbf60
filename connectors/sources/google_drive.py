"""Google Drive: its authorization."""

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
    name="Google Drive",
    authorize="https://accounts.google.com/o/oauth2/v2/auth",
    token="https://oauth2.googleapis.com/token",  # noqa: S106
    extra={
        "scope": "https://www.googleapis.com/auth/drive.readonly",
        "access_type": "offline",
        "prompt": "consent",
        "include_granted_scopes": "true",
    },
    revoke="https://oauth2.googleapis.com/revoke",
)


def make(app: Mapping[str, Any], settings: Settings) -> GoogleDrive:
    """The connector of a namespace's app."""
    return GoogleDrive(oauth.make("GOOGLE_DRIVE", SERVICE, app, settings))


@dataclass(frozen=True, slots=True)
class GoogleDrive:
    """A `Connector`."""

    authorizer: OAuth

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        raise Fatal("Fetching from the source GOOGLE_DRIVE is not part of this version yet.")

    def fetch(self, tokens: TokenSource, item: SourceItem, to: Path) -> RawContent | None:
        raise Fatal("Fetching from the source GOOGLE_DRIVE is not part of this version yet.")

    def gone(self, tokens: TokenSource, external_id: str) -> bool:
        raise Fatal("Fetching from the source GOOGLE_DRIVE is not part of this version yet.")
