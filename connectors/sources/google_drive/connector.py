"""Google Drive: what the account owns and was given, and the shared drives that it belongs to."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from connectors.http import oauth
from connectors.http.oauth import OAuth, Service
from connectors.sources.google_drive.info import INFO
from retrieval.errors import Skippable
from retrieval.ports import Level, Page, RawContent, SourceAccess, SourceItem, TokenSource
from retrieval.settings import Settings

if TYPE_CHECKING:
    from connectors.sources.google_drive.client import Drive
    from connectors.sources.google_drive.transport import Wires

READ = "https://www.googleapis.com/auth/drive.readonly"
SERVICE = Service(
    name=INFO.title,
    authorize="https://accounts.google.com/o/oauth2/v2/auth",
    token="https://oauth2.googleapis.com/token",  # noqa: S106
    extra={
        "scope": f"openid {READ}",
        "access_type": "offline",
        "prompt": "consent",
        "include_granted_scopes": "true",
    },
    revoke="https://oauth2.googleapis.com/revoke",
    account="account",
    rights={READ: ("https://www.googleapis.com/auth/drive",)},
)
"""`openid` gives no right, but a word in the token answer that says whose tokens these are."""


def make(app: Mapping[str, Any], settings: Settings) -> GoogleDrive:
    """The connector of a namespace's app. Its API key is for choosing files in a browser and is not used here."""
    return GoogleDrive(oauth.make("GOOGLE_DRIVE", SERVICE, app, settings, send), settings)


def send(flow: OAuth, url: str, content: dict[str, str]) -> Any:
    """A request of the flow, as `connectors.http.oauth.Send`; its answer with the account that it is about."""
    app = {"client_id": flow.client_id, "client_secret": flow.client_secret} if "grant_type" in content else {}
    answer = oauth.post(flow.service.name, url, data={**content, **app})
    return {**answer, "account": _subject(answer)} if isinstance(answer, dict) else answer


def _subject(answer: Mapping[str, Any]) -> str | None:
    """Of the id token (OpenID Connect): from the token endpoint itself, so that its signature proves no more."""
    try:
        claims = str(answer["id_token"]).split(".")[1]
        subject = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["sub"]
    except (LookupError, TypeError, ValueError, RecursionError):
        return None
    return subject if isinstance(subject, str) else None


class GoogleDrive:
    """A `Connector`. The vendor's SDK is loaded when something is first asked of it."""

    def __init__(self, authorizer: OAuth, settings: Settings) -> None:
        self.authorizer = authorizer
        self._settings = settings
        self._wires: Wires | None = None
        self._lock = Lock()

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        """See `connectors.sources.google_drive.listing`."""
        from connectors.sources.google_drive.listing import DriveListing

        return DriveListing(self._drive(tokens)).pages(cursor)

    def browse(self, tokens: TokenSource, parent: str | None, cursor: str | None) -> Level:
        from connectors.sources.google_drive import browsing

        return browsing.level(self._drive(tokens), parent, cursor)

    def access(self, tokens: TokenSource, external_id: str) -> SourceAccess:
        from connectors.sources.google_drive import sharing

        return sharing.access(self._drive(tokens), external_id)

    def version(self, tokens: TokenSource, external_id: str) -> str:
        from connectors.sources.google_drive import items

        try:
            return items.version(self._drive(tokens).file(external_id, "id,md5Checksum,headRevisionId,modifiedTime"))
        except Skippable:
            return ""

    def fetch(self, tokens: TokenSource, item: SourceItem, to: Path) -> RawContent | None:
        """Always the content: what has not changed since is known from the listing, and not asked for."""
        from connectors.sources.google_drive import content as google_drive_content

        return google_drive_content.fetch(self._drive(tokens), item.external_id, to, self._settings.max_file_bytes)

    def gone(self, tokens: TokenSource, external_id: str) -> bool:
        from connectors.sources.google_drive.errors import Missing

        try:
            return bool(self._drive(tokens).file(external_id, "id,trashed").get("trashed"))
        except Missing:
            return True
        except Skippable:
            return False

    def _drive(self, tokens: TokenSource) -> Drive:
        from connectors.sources.google_drive.client import Drive
        from connectors.sources.google_drive.transport import Wires

        with self._lock:
            if self._wires is None:
                self._wires = Wires(self._settings.endpoints.get("GOOGLE_DRIVE"))
        return Drive(self._wires, tokens)
