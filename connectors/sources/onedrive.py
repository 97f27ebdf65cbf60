"""OneDrive, of a person or of work: everything in the account's own drive, by Microsoft Graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connectors import oauth
from connectors.oauth import OAuth, Service
from connectors.sources import onedrive_auth, onedrive_changes
from connectors.sources import onedrive_items as items
from connectors.sources.onedrive_graph import TITLE, VANISHED, Graph, Session
from retrieval.errors import Skippable
from retrieval.ports import Page, RawContent, SourceItem, TokenSource
from retrieval.settings import Settings

SERVICE = Service(
    name=TITLE,
    authorize=onedrive_auth.AUTHORIZE,
    token=onedrive_auth.TOKEN,
    extra={"scope": " ".join(onedrive_auth.SCOPES), "prompt": "select_account"},
    account=onedrive_auth.ACCOUNT,
    nonce=True,
    rights={onedrive_auth.SCOPES[0]: ("Files.ReadWrite.All",)},
)
_GONE = frozenset({400, 403, 404, 410})
"""What Graph says of an item that is deleted, or of a drive that the account cannot see."""


def make(app: Mapping[str, Any], settings: Settings) -> OneDrive:
    """The connector of a namespace's app."""
    return OneDrive(oauth.make("ONEDRIVE", SERVICE, app, settings, onedrive_auth.send), Graph(settings))


@dataclass(frozen=True, slots=True)
class OneDrive:
    """A `Connector`."""

    authorizer: OAuth
    graph: Graph

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        """Files of the drive and those that others shared into it; no notebooks, no folders of other drives."""
        return onedrive_changes.pages(self.graph, tokens, cursor)

    def fetch(self, tokens: TokenSource, item: SourceItem, to: Path) -> RawContent | None:
        return self.graph.call(tokens, lambda here: _fetched(here, item.external_id, to))

    def gone(self, tokens: TokenSource, external_id: str) -> bool:
        answer = self.graph.get(tokens, items.at(external_id))
        return answer.status in _GONE or items.deleted(answer.body)


def _fetched(here: Session, external_id: str, to: Path) -> RawContent:
    """What the item is at this moment, and its content."""
    answer = here.get(items.at(external_id))
    found = answer.body
    if answer.status != 200 or items.deleted(found) or not items.is_file(found):
        raise Skippable(VANISHED)
    now = items.listed(found, items.Folders(lambda _: None).path(found))
    if now.error:
        raise Skippable(now.error)
    written = here.download(items.content_at(found), to, size=items.size(found), signed=items.signed_at(found))
    return RawContent(to, now.name, now.media_type, written, version=now.version, properties=now.properties)
