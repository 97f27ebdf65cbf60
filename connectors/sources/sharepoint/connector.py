"""SharePoint for people who choose: sites that the person follows, their libraries, and the folders of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from connectors.http.oauth import OAuth
from connectors.microsoft_graph import auth, changes, items, sharing
from connectors.microsoft_graph.client import Graph
from connectors.microsoft_graph.items import Drive
from connectors.sources.sharepoint import INFO, sites
from connectors.sources.sharepoint.sites import Libraries, Sites, path_of
from retrieval.errors import Skippable
from retrieval.ports import FolderEntry, FolderPage, Page, RawContent, SourceAccess, SourceItem, TokenSource
from retrieval.settings import Settings
from retrieval.sync_filter import SYNC_EVERYTHING, SyncFilter


def list_level(graph: Graph, tokens: TokenSource, parent: str | None, cursor: str | None) -> FolderPage:
    """The parent: nothing, a site's id (with commas), a library's drive, or an item as documents are called."""
    sites = Sites(graph, tokens)
    if parent is None:
        return FolderPage(
            [_place(str(site["id"]), str(site.get("webUrl") or ""), site) for site in sites.all_followed()]
        )
    if "," in parent:
        libraries = sites.libraries(parent)
        if libraries is None:
            raise Skippable(items.NOT_THERE)
        return FolderPage(
            [_place(str(site["id"]), str(site.get("webUrl") or ""), site, (parent,)) for site in libraries]
        )
    drive_id, _, item = parent.partition("/")
    library = sites.library(drive_id)
    if library is None:
        raise Skippable(items.NOT_THERE)
    above = path_of(str(library.get("webUrl") or "")) or str(library.get("name") or "")
    level = items.list_folder(graph, tokens, Drive.of(drive_id), item or None, cursor)
    return replace(level, entries=[_within(site, drive_id, above) for site in level.entries])


def _place(its: str, address: str, said: object, above: tuple[str, ...] = ()) -> FolderEntry:
    labels = said if isinstance(said, dict) else {}
    path = path_of(address)
    name = str(labels.get("displayName") or labels.get("name") or path)
    return FolderEntry(its, name, is_folder=True, path=path, has_children=True, above=above)


def _within(one: FolderEntry, drive: str, above: str) -> FolderEntry:
    folders = (*(f"{drive}/{folder}" for folder in one.above), drive)
    return replace(one, id=f"{drive}/{one.id}", path=f"{above}/{one.path}", above=folders)


NAME: Final = "SHAREPOINT"
TITLE: Final = INFO.title


def make(app: Mapping[str, Any], settings: Settings) -> SharePoint:
    """The connector of a namespace's app. Private Microsoft accounts have no SharePoint."""
    flow = auth.make_oauth(
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
    choice: SyncFilter = SYNC_EVERYTHING
    """Libraries in which nothing is chosen are not listed; without `include` those of the sites that the person
    follows are."""
    _known: dict[str, Libraries] = field(default_factory=dict)

    def with_choice(self, choice: SyncFilter) -> SharePoint:
        return replace(self, choice=choice, _known={})

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        chosen = self.choice.mark
        state, left_out = sites.LibrariesCursor.of(cursor), Counter[str]()
        if state is None or not state.left or state.chosen != chosen:
            libraries = self._known[tokens.connection_id] = self._libraries(tokens)
            state, left_out = sites.begin_listing(state, libraries, chosen), libraries.left_out
        return sites.iter_pages(self.graph, tokens, state, left_out, self.choice)

    def browse(self, tokens: TokenSource, parent: str | None, cursor: str | None) -> FolderPage:
        return list_level(self.graph, tokens, parent, cursor)

    def access(self, tokens: TokenSource, external_id: str) -> SourceAccess:
        drive, _, item_id = external_id.partition("/")
        return sharing.read_access(self.graph, tokens, Drive.of(drive), item_id)

    def version(self, tokens: TokenSource, external_id: str) -> str:
        drive, _, item_id = external_id.partition("/")
        return changes.current_version(self.graph, tokens, Drive.of(drive), item_id)

    def fetch(self, tokens: TokenSource, item: SourceItem, to: Path) -> RawContent | None:
        drive, _, item_id = item.external_id.partition("/")
        raw = self.graph.call(tokens, lambda here: changes.fetch_item(here, Drive.of(drive), item_id, to))
        properties = {name: value for name, value in raw.properties.items() if name != "path"}
        return replace(raw, properties=properties)  # the path is the listing's, which knows the library's own

    def is_deleted(self, tokens: TokenSource, external_id: str) -> bool:
        """Tell whether a file is missing; also True for files in libraries that are not followed, or chosen, now."""
        drive, _, item_id = external_id.partition("/")
        if tokens.connection_id not in self._known:
            self._known[tokens.connection_id] = self._libraries(tokens)
        libraries = self._known[tokens.connection_id]
        if libraries.has(drive) or (libraries.whole and not libraries.paths):
            return changes.is_gone(self.graph, tokens, Drive.of(drive), item_id)
        return libraries.has(drive) is False

    def _libraries(self, tokens: TokenSource) -> Libraries:
        return Sites(self.graph, tokens).of(self.choice)
