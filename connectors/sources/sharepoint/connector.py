"""SharePoint: files of document libraries, by Microsoft Graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from connectors.http.oauth import OAuth
from connectors.microsoft_graph import auth, changes, sharing
from connectors.microsoft_graph.client import Graph
from connectors.microsoft_graph.items import Drive
from connectors.sources.sharepoint import browsing, listing
from connectors.sources.sharepoint.info import INFO
from connectors.sources.sharepoint.sites import Libraries, Sites
from retrieval.ports import Level, Page, RawContent, SourceAccess, SourceItem, TokenSource
from retrieval.settings import Settings
from retrieval.sync_filter import EVERYTHING, Choice

NAME: Final = "SHAREPOINT"
TITLE: Final = INFO.title


def make(app: Mapping[str, Any], settings: Settings) -> SharePoint:
    """The connector of a namespace's app. Private Microsoft accounts have no SharePoint."""
    flow = auth.make(
        NAME, TITLE, app, settings, scope="Sites.Read.All", more="Sites.ReadWrite.All", tenant="organizations"
    )
    return SharePoint(flow, Graph(NAME, TITLE, settings))


@dataclass(frozen=True, slots=True)
class SharePoint:
    """A `Connector`. External ids are "drive/item": an item's id is its library's own.

    A file that is moved to another library is another item there, and deleted here: so Microsoft moves it.
    """

    authorizer: OAuth
    graph: Graph
    choice: Choice = EVERYTHING
    """Libraries in which nothing is chosen are not listed; without `include` those of the sites that the person
    follows are."""
    _known: dict[str, Libraries] = field(default_factory=dict)

    def choosing(self, choice: Choice) -> SharePoint:
        return replace(self, choice=choice, _known={})

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        chosen = self.choice.mark
        state, left_out = listing.LibrariesCursor.of(cursor), Counter[str]()
        if state is None or not state.left or state.chosen != chosen:
            libraries = self._known[tokens.connection_id] = self._libraries(tokens)
            state, left_out = listing.begun(state, libraries, chosen), libraries.left_out
        return listing.pages(self.graph, tokens, state, left_out, self.choice)

    def browse(self, tokens: TokenSource, parent: str | None, cursor: str | None) -> Level:
        return browsing.level(self.graph, tokens, parent, cursor)

    def access(self, tokens: TokenSource, external_id: str) -> SourceAccess:
        drive, _, item_id = external_id.partition("/")
        return sharing.access(self.graph, tokens, Drive.of(drive), item_id)

    def version(self, tokens: TokenSource, external_id: str) -> str:
        drive, _, item_id = external_id.partition("/")
        return changes.version(self.graph, tokens, Drive.of(drive), item_id)

    def fetch(self, tokens: TokenSource, item: SourceItem, to: Path) -> RawContent | None:
        drive, _, item_id = item.external_id.partition("/")
        raw = self.graph.call(tokens, lambda here: changes.fetched(here, Drive.of(drive), item_id, to))
        known = {name: value for name, value in raw.properties.items() if name != "path"}
        return replace(raw, properties=known)  # the path is the listing's, which knows the library's own

    def gone(self, tokens: TokenSource, external_id: str) -> bool:
        """Also true for files in libraries that are not followed, or chosen, any more."""
        drive, _, item_id = external_id.partition("/")
        if tokens.connection_id not in self._known:
            self._known[tokens.connection_id] = self._libraries(tokens)
        libraries = self._known[tokens.connection_id]
        if libraries.has(drive) or (libraries.whole and not libraries.paths):
            return changes.gone(self.graph, tokens, Drive.of(drive), item_id)
        return libraries.has(drive) is False

    def _libraries(self, tokens: TokenSource) -> Libraries:
        return Sites(self.graph, tokens).of(self.choice)
