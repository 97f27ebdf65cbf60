"""SharePoint connector: followed sites, document libraries and folders."""

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
    """Return a page below `parent`: None, a site id (with commas), a drive id, or "drive/item"."""
    sites = Sites(graph, tokens)
    if parent is None:
        return FolderPage(
            [_entry(str(site["id"]), str(site.get("webUrl") or ""), site) for site in sites.list_followed_sites()]
        )
    if "," in parent:
        libraries = sites.list_libraries(parent)
        if libraries is None:
            raise Skippable(items.FOLDER_MISSING_MESSAGE)
        return FolderPage(
            [_entry(str(drive["id"]), str(drive.get("webUrl") or ""), drive, (parent,)) for drive in libraries]
        )
    drive_id, _, item = parent.partition("/")
    library = sites.read_library(drive_id)
    if library is None:
        raise Skippable(items.FOLDER_MISSING_MESSAGE)
    library_path = path_of(str(library.get("webUrl") or "")) or str(library.get("name") or "")
    level = items.list_folder(graph, tokens, Drive.of(drive_id), item or None, cursor)
    return replace(level, entries=[_with_library(entry, drive_id, library_path) for entry in level.entries])


def _entry(entry_id: str, address: str, body: object, above: tuple[str, ...] = ()) -> FolderEntry:
    labels = body if isinstance(body, dict) else {}
    path = path_of(address)
    name = str(labels.get("displayName") or labels.get("name") or path)
    return FolderEntry(entry_id, name, is_folder=True, path=path, has_children=True, above=above)


def _with_library(entry: FolderEntry, drive: str, library_path: str) -> FolderEntry:
    folders = (*(f"{drive}/{folder}" for folder in entry.above), drive)
    return replace(entry, id=f"{drive}/{entry.id}", path=f"{library_path}/{entry.path}", above=folders)


CONNECTOR_NAME: Final = "SHAREPOINT"
CONNECTOR_TITLE: Final = INFO.title


def make(app: Mapping[str, Any], settings: Settings) -> SharePoint:
    """Return the connector of a namespace's app."""
    # Private Microsoft accounts have no SharePoint.
    flow = auth.make_oauth(
        CONNECTOR_NAME,
        CONNECTOR_TITLE,
        app,
        settings,
        scope="Sites.Read.All",
        more="Sites.ReadWrite.All",
        tenant="organizations",
    )
    return SharePoint(flow, Graph(CONNECTOR_NAME, CONNECTOR_TITLE, settings))


@dataclass(frozen=True, slots=True)
class SharePoint:
    """`Connector` of SharePoint. External ids are "drive/item"."""

    # Ids are unique per library. A move to another library deletes the item and creates another one, as in SharePoint.
    authorizer: OAuth
    graph: Graph
    choice: SyncFilter = SYNC_EVERYTHING
    _libraries: dict[str, Libraries] = field(default_factory=dict)

    def with_choice(self, choice: SyncFilter) -> SharePoint:
        return replace(self, choice=choice, _libraries={})

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        chosen = self.choice.mark
        state, skipped = sites.LibrariesCursor.parse(cursor), Counter[str]()
        if state is None or not state.left or state.chosen != chosen:
            libraries = self._libraries[tokens.connection_id] = self._list_libraries(tokens)
            state, skipped = sites.start_listing(state, libraries, chosen), libraries.skipped
        return sites.iter_pages(self.graph, tokens, state, skipped, self.choice)

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
        raw = self.graph.call(tokens, lambda session: changes.fetch_item(session, Drive.of(drive), item_id, to))
        # Only the listing knows the path of the library.
        properties = {name: value for name, value in raw.properties.items() if name != "path"}
        return replace(raw, properties=properties)

    def is_deleted(self, tokens: TokenSource, external_id: str) -> bool:
        """Return True for a missing file, or a file in an unfollowed or unselected library."""
        drive, _, item_id = external_id.partition("/")
        if tokens.connection_id not in self._libraries:
            self._libraries[tokens.connection_id] = self._list_libraries(tokens)
        libraries = self._libraries[tokens.connection_id]
        if libraries.has(drive) or (libraries.is_complete and not libraries.paths):
            return changes.is_deleted(self.graph, tokens, Drive.of(drive), item_id)
        return libraries.has(drive) is False

    def _list_libraries(self, tokens: TokenSource) -> Libraries:
        return Sites(self.graph, tokens).list_selected(self.choice)
