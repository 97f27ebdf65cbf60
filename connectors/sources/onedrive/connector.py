"""OneDrive, of a person or of work: everything in the account's own drive, by Microsoft Graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from connectors.http.oauth import OAuth
from connectors.microsoft_graph import auth, changes, items, sharing
from connectors.microsoft_graph.client import Graph
from connectors.microsoft_graph.items import Drive
from connectors.sources.onedrive import INFO
from retrieval.ports import FolderPage, Page, RawContent, SourceAccess, SourceItem, TokenSource
from retrieval.settings import Settings
from retrieval.sync_filter import SYNC_EVERYTHING, SyncFilter

NAME: Final = "ONEDRIVE"
TITLE: Final = INFO.title
MINE: Final = Drive()


def make(app: Mapping[str, Any], settings: Settings) -> OneDrive:
    """The connector of a namespace's app."""
    flow = auth.make_oauth(
        NAME, TITLE, app, settings, scope="Files.Read.All", more="Files.ReadWrite.All", tenant="common"
    )
    return OneDrive(flow, Graph(NAME, TITLE, settings))


@dataclass(frozen=True, slots=True)
class OneDrive:
    """A `Connector`."""

    authorizer: OAuth
    graph: Graph
    choice: SyncFilter = SYNC_EVERYTHING
    homes: dict[str, changes.Homes] = field(default_factory=dict)
    """By connection: where the items of its newest page belong."""

    def with_choice(self, choice: SyncFilter) -> OneDrive:
        return replace(self, choice=choice, homes={})

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        """Files of the drive and those that others shared into it; no notebooks, no folders of other drives."""
        homes = self.homes[tokens.connection_id] = {}
        return changes.list_changes(self.graph, tokens, MINE, cursor, self.choice, homes)

    def browse(self, tokens: TokenSource, parent: str | None, cursor: str | None) -> FolderPage:
        return items.list_folder(self.graph, tokens, MINE, parent, cursor)

    def access(self, tokens: TokenSource, external_id: str) -> SourceAccess:
        """Access list of an item. One of another drive is read there: its entry here has the list of its folder."""
        home = self.homes.get(tokens.connection_id, {}).get(external_id)
        drive, its = home or changes.find_home(self.graph, tokens, MINE, external_id)
        return sharing.read_access(self.graph, tokens, drive, its)

    def version(self, tokens: TokenSource, external_id: str) -> str:
        return changes.current_version(self.graph, tokens, MINE, external_id)

    def fetch(self, tokens: TokenSource, item: SourceItem, to: Path) -> RawContent | None:
        return self.graph.call(tokens, lambda here: changes.fetch_item(here, MINE, item.external_id, to))

    def is_deleted(self, tokens: TokenSource, external_id: str) -> bool:
        return changes.is_gone(self.graph, tokens, MINE, external_id)
