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


def list_children(graph: Graph, tokens: TokenSource, parent: str | None, cursor: str | None) -> FolderPage:
    """Return a page of sites, of a site's libraries, or of a folder.

    `parent`: None for the sites, a site id (it has commas), a drive id for a library's root, or "drive/item".
    """
    sites = Sites(graph, tokens)
    if parent is None:
        return FolderPage([_folder_entry(site) for site in sites.list_followed_sites()])
    if "," in parent:
        libraries = sites.list_libraries(parent)
        if libraries is None:
            raise Skippable(items.FOLDER_MISSING_MESSAGE)
        return FolderPage([_folder_entry(drive, (parent,)) for drive in libraries])
    drive_id, _, folder_id = parent.partition("/")
    library = sites.read_library(drive_id)
    if library is None:
        raise Skippable(items.FOLDER_MISSING_MESSAGE)
    library_path = path_of(str(library.get("webUrl") or "")) or str(library.get("name") or "")
    page = items.list_folder(graph, tokens, Drive.of(drive_id), folder_id or None, cursor)
    return replace(page, entries=[_with_library(entry, drive_id, library_path) for entry in page.entries])


def _folder_entry(body: Mapping[str, Any], ancestors: tuple[str, ...] = ()) -> FolderEntry:
    """Convert Graph's body of a site or library; `ancestors`: ids from the root."""
    path = path_of(str(body.get("webUrl") or ""))
    name = str(body.get("displayName") or body.get("name") or path)
    return FolderEntry(str(body["id"]), name, is_folder=True, path=path, has_children=True, above=ancestors)


def _with_library(entry: FolderEntry, drive_id: str, library_path: str) -> FolderEntry:
    """Return an entry of a drive with ids and path that are unique across libraries."""
    ancestors = (*(f"{drive_id}/{folder_id}" for folder_id in entry.above), drive_id)
    return replace(entry, id=f"{drive_id}/{entry.id}", path=f"{library_path}/{entry.path}", above=ancestors)


CONNECTOR_NAME: Final = "SHAREPOINT"
CONNECTOR_TITLE: Final = INFO.title


def make(app: Mapping[str, Any], settings: Settings) -> SharePoint:
    """Return the connector with the OAuth2 app of a namespace."""
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
    # By connection id.
    _libraries: dict[str, Libraries] = field(default_factory=dict)

    def with_choice(self, choice: SyncFilter) -> SharePoint:
        return replace(self, choice=choice, _libraries={})

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        position = sites.LibrariesCursor.parse(cursor)
        if position is not None and position.left and position.chosen == self.choice.mark:
            return sites.iter_pages(self.graph, tokens, position, Counter[str](), self.choice)
        libraries = self._libraries[tokens.connection_id] = self._list_libraries(tokens)
        start = sites.start_listing(position, libraries, self.choice.mark)
        return sites.iter_pages(self.graph, tokens, start, libraries.skipped, self.choice)

    def browse(self, tokens: TokenSource, parent: str | None, cursor: str | None) -> FolderPage:
        return list_children(self.graph, tokens, parent, cursor)

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
        has_no_library = libraries.is_complete and not libraries.paths
        if libraries.has(drive) or has_no_library:
            return changes.is_deleted(self.graph, tokens, Drive.of(drive), item_id)
        # None: unknown because of skipped libraries.
        return libraries.has(drive) is False

    def _list_libraries(self, tokens: TokenSource) -> Libraries:
        return Sites(self.graph, tokens).list_selected(self.choice)
