"""OneDrive connector: the account's own drive, private or of work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from connectors.http.oauth import OAuth
from connectors.microsoft_graph import auth, changes, items, sharing, subscriptions
from connectors.microsoft_graph.client import Graph
from connectors.microsoft_graph.items import Drive
from connectors.sources.onedrive import INFO
from retrieval.ports import FolderPage, Page, RawContent, SourceAccess, SourceItem, TokenSource
from retrieval.ports.sources import Subscription
from retrieval.settings import Settings
from retrieval.sync_filter import SYNC_EVERYTHING, SyncFilter

CONNECTOR_NAME: Final = "ONEDRIVE"
CONNECTOR_TITLE: Final = INFO.title
OWN_DRIVE: Final = Drive()


def make(app: Mapping[str, Any], settings: Settings) -> OneDrive:
    """Return the connector of a namespace's app."""
    flow = auth.make_oauth(
        CONNECTOR_NAME,
        CONNECTOR_TITLE,
        app,
        settings,
        scope="Files.Read.All",
        more="Files.ReadWrite.All",
        tenant="common",
    )
    return OneDrive(flow, Graph(CONNECTOR_NAME, CONNECTOR_TITLE, settings))


@dataclass(frozen=True, slots=True)
class OneDrive:
    """`Connector` of OneDrive."""

    authorizer: OAuth
    graph: Graph
    choice: SyncFilter = SYNC_EVERYTHING
    # Owning drives of the newest page's items, by connection.
    homes: dict[str, changes.HomesByItem] = field(default_factory=dict)

    def with_choice(self, choice: SyncFilter) -> OneDrive:
        return replace(self, choice=choice, homes={})

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        # Includes shared files of others, but neither notebooks nor folders of other drives.
        homes = self.homes[tokens.connection_id] = {}
        return changes.list_changes(self.graph, tokens, OWN_DRIVE, cursor, self.choice, homes)

    def browse(self, tokens: TokenSource, parent: str | None, cursor: str | None) -> FolderPage:
        return items.list_folder(self.graph, tokens, OWN_DRIVE, parent, cursor)

    def access(self, tokens: TokenSource, external_id: str) -> SourceAccess:
        """Return the access list of an item."""
        # For an item of another drive, this drive would return the list of the folder.
        home = self.homes.get(tokens.connection_id, {}).get(external_id)
        drive, owned_id = home or changes.find_home(self.graph, tokens, OWN_DRIVE, external_id)
        return sharing.read_access(self.graph, tokens, drive, owned_id)

    def version(self, tokens: TokenSource, external_id: str) -> str:
        return changes.current_version(self.graph, tokens, OWN_DRIVE, external_id)

    def fetch(self, tokens: TokenSource, item: SourceItem, to: Path) -> RawContent | None:
        return self.graph.call(tokens, lambda session: changes.fetch_item(session, OWN_DRIVE, item.external_id, to))

    def is_deleted(self, tokens: TokenSource, external_id: str) -> bool:
        return changes.is_deleted(self.graph, tokens, OWN_DRIVE, external_id)

    def subscribe(self, tokens: TokenSource, address: str, secret: str, state: str | None) -> Subscription:
        return subscriptions.subscribe(self.graph, tokens, subscriptions.DRIVE, address, secret, state)

    def unsubscribe(self, tokens: TokenSource, state: str) -> None:
        subscriptions.unsubscribe(self.graph, tokens, state)
