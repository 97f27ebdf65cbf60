"""Listing of SharePoint's sites, document libraries and changes.

full listing ──▶ feed of each library from the start
changes      ──▶ feed of each library from its position, new libraries from the start
                   └─ one feed restarted: full listing
"""

# GET /me/followedSites (learn.microsoft.com/graph/api/sites-list-followed) and GET /sites/{id}/drives
# (learn.microsoft.com/graph/api/drive-list). The path of a library comes from its web address, such as
# "sites/marketing/Shared Documents": names of sites are not unique, addresses are.
#
# Only a full listing of all libraries in one run shows deleted files. Everything is listed again after a deleted
# folder, an expired position or a week (`microsoft_graph.changes`), an unfollowed library, or a new selection.

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import takewhile
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from connectors.http.responses import Cursors
from connectors.microsoft_graph import changes
from connectors.microsoft_graph.client import Graph
from connectors.microsoft_graph.items import GONE_STATUSES, Drive
from retrieval.errors import Fatal, Retryable
from retrieval.ports import Page, SourceItem, TokenSource
from retrieval.sync_filter import SyncFilter, SyncItem

FOLLOWED_SITES_PATH: Final = "/me/followedSites"
# Per connection; each library costs a request in every run.
MAX_LIBRARIES: Final = 500
CLOSED_SITE: Final = "site that the account may not read"
CLOSED_LIBRARY: Final = "library that the account may not read"
MISSING_SELECTION: Final = "chosen site or library that the account does not see"
EXCESS_LIBRARY: Final = "library beyond the most of one connection"
_LIBRARY_TYPE: Final = "documentLibrary"


@dataclass(slots=True)
class Libraries:
    """Libraries of a connection: `paths` and known site ids by drive id, and counts of skipped libraries."""

    paths: dict[str, str] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    sites: dict[str, str] = field(default_factory=dict)
    _dropped: set[str] = field(default_factory=set)

    @property
    def is_complete(self) -> bool:
        return not self.skipped

    def add(self, drive: Mapping[str, Any], site: str = "") -> None:
        if not isinstance(drive.get("id"), str) or drive.get("driveType", _LIBRARY_TYPE) != _LIBRARY_TYPE:
            return
        if len(self.paths) < MAX_LIBRARIES or drive["id"] in self.paths:
            self.paths[drive["id"]] = path_of(str(drive.get("webUrl") or "")) or str(drive.get("name") or "")
            self.sites |= {drive["id"]: site} if site else {}
        else:
            self.skipped[EXCESS_LIBRARY] += 1

    def drop_unselected(self, choice: SyncFilter) -> Libraries:
        """Remove libraries outside of the selection."""
        for drive, path in list(self.paths.items()):
            if not choice.may_hold(SyncItem(drive, path, above=(self.sites.get(drive, ""),))):
                self._dropped.add(drive)
                del self.paths[drive]
        return self

    def has(self, drive_id: str) -> bool | None:
        """Return True for a listed library, False for a removed one, None if unknown."""
        # An empty listing is no evidence of a removal.
        if drive_id in self.paths:
            return True
        return False if drive_id in self._dropped or (self.is_complete and self.paths) else None


@dataclass(frozen=True, slots=True)
class Sites:
    """Reader of sites and libraries for one connection."""

    graph: Graph
    tokens: TokenSource

    def list_selected(self, choice: SyncFilter) -> Libraries:
        """List the libraries of a selection. Fatal if the followed sites cannot be listed."""
        # An empty selection, a type, and a pattern without a fixed start of the path select among the followed sites.
        addresses = [address for entry in choice.include if (address := _site_address(entry))]
        if choice.include and len(addresses) == len(choice.include):
            return self.add_addresses(addresses).drop_unselected(choice)
        libraries = self.list_followed()
        if addresses:
            self.add_addresses(addresses, libraries)
        return libraries.drop_unselected(choice)

    def list_followed(self) -> Libraries:
        """List the libraries of all followed sites. Fatal if Graph refuses."""
        sites = self._list_all(FOLLOWED_SITES_PATH)
        if sites is None:
            raise Fatal(
                f"{self.graph.title} refuses to list the sites that the account follows: it is no account of work or"
                " school, or the app lacks the permission Sites.Read.All."
            )
        libraries = Libraries()
        for site in sites:
            if not self._add_site(site["id"], libraries):
                libraries.skipped[CLOSED_SITE] += 1
        return libraries

    def list_followed_sites(self) -> list[Mapping[str, Any]]:
        """Return the followed sites, [] if Graph refuses."""
        return self._list_all(FOLLOWED_SITES_PATH) or []

    def list_libraries(self, site_id: str) -> list[Mapping[str, Any]] | None:
        """Return the libraries of a site, None if it is missing."""
        drives = self._list_all(f"/sites/{quote(site_id, safe=',')}/drives")
        return (
            None
            if drives is None
            else [drive for drive in drives if drive.get("driveType", _LIBRARY_TYPE) == _LIBRARY_TYPE]
        )

    def read_library(self, drive_id: str) -> Mapping[str, Any] | None:
        return self._read(Drive.of(drive_id).place)

    def add_addresses(self, addresses: Sequence[Mapping[str, str]], libraries: Libraries | None = None) -> Libraries:
        """Add sites with all libraries, and single libraries, by id or by path of the web address."""
        libraries, hosts = libraries or Libraries(), list[str]()
        for address in addresses:
            is_present = (
                self._add_by_id(address["id"], libraries)
                if address.get("id")
                else self._add_by_path(address["path"], libraries, hosts)
            )
            if not is_present:
                libraries.skipped[MISSING_SELECTION] += 1
        return libraries

    def _add_by_id(self, entry_id: str, libraries: Libraries) -> bool:
        # A site's id is "host,collection,site"; a library's id is the id of its drive.
        if "," in entry_id:
            return self._add_site(entry_id, libraries)
        drive = self._read(Drive.of(entry_id).place)
        if drive is None:
            return False
        libraries.add(drive)
        return drive.get("id") in libraries.paths

    def _add_by_path(self, path: str, libraries: Libraries, hosts: list[str]) -> bool:
        """Add the site at the longest prefix of the path, or its library at the rest."""
        names = path_of(path).split("/")
        if not hosts:
            root = self._read("/sites/root") or {}
            hosts.append(urlsplit(str(root.get("webUrl") or "")).hostname or "")
        for end in range(len(names), -1, -1):
            site_path = "/".join(quote(name, safe="") for name in names[:end])
            site = self._read(f"/sites/{hosts[0]}:/{site_path}") if end else self._read("/sites/root")
            if site is not None and isinstance(site.get("id"), str):
                return self._add_site(site["id"], libraries, "/".join(names) if end < len(names) else "")
        return False

    def _add_site(self, site_id: str, libraries: Libraries, path: str = "") -> bool:
        """Add a site's libraries, or the library of a path; False if there is none."""
        drives = self._list_all(f"/sites/{quote(site_id, safe=',')}/drives")
        selected = [
            drive for drive in drives or () if not path or _contains(path_of(str(drive.get("webUrl") or "")), path)
        ]
        for drive in selected:
            libraries.add(drive, site_id)
        return drives is not None and (bool(selected) or not path)

    def _list_all(self, path: str) -> list[Mapping[str, Any]] | None:
        """List all pages of a collection; None if Graph refuses."""
        cursors = Cursors(f"{self.graph.title}'s listing")
        entries: list[Mapping[str, Any]] = []
        while True:
            answer = self.graph.get(self.tokens, path)
            if answer.status != 200:
                return None
            page_entries = list(_iter_entries(answer.body.get("value"), self.graph.title))
            entries += page_entries
            link = answer.body.get("@odata.nextLink")
            if not link:
                return entries
            path = self.graph.path(link)
            cursors.follow(path, brought=bool(page_entries))

    def _read(self, path: str) -> Mapping[str, Any] | None:
        answer = self.graph.get(self.tokens, path)
        if answer.status == 200:
            return answer.body
        if answer.status not in GONE_STATUSES:
            raise Retryable(f"{self.graph.title} did not report whether a site exists (status {answer.status}).")
        return None


def path_of(address: str) -> str:
    """Return the path of a web address, or a path, without slashes at the ends."""
    parts = urlsplit(address) if "://" in address else None
    return unquote(parts.path if parts else address).strip("/")


def _contains(library: str, path: str) -> bool:
    # SharePoint's addresses are case-insensitive.
    return bool(library) and f"{path}/".casefold().startswith(f"{library}/".casefold())


def _site_address(entry: Mapping[str, str]) -> Mapping[str, str]:
    """Return the site or library of a selection entry; {} for a type, or a path without fixed start."""
    # An item's id is "library/item".
    if "id" in entry:
        return {"id": entry["id"].partition("/")[0]}
    names = path_of(entry["path"]).split("/") if "path" in entry else []
    fixed = list(takewhile(lambda name: "*" not in name, names))
    if fixed == names:
        return entry if names else {}
    return {"path": "/".join(fixed)} if len(fixed) > 1 else {}


def _iter_entries(entries: Any, title: str) -> Iterator[Mapping[str, Any]]:
    if not isinstance(entries, list):
        raise Retryable(f"{title}'s listing broke off: its answer holds no entries.")
    yield from (entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("id"), str))


@dataclass(slots=True)
class LibrariesCursor:
    """Stored position of a listing: feed positions by library, remaining and new libraries, mark of the selection."""

    # Names of fields are keys of stored cursors. The first library of `left` is in progress.
    paths: dict[str, str]
    places: dict[str, str]
    left: list[str]
    fresh: list[str] = field(default_factory=list)
    whole: bool = True
    chosen: str = ""
    sites: dict[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, cursor: str | None) -> LibrariesCursor | None:
        """Parse a cursor; None for a missing or invalid one."""
        try:
            return cls(**json.loads(cursor or "null"))
        except (ValueError, TypeError):
            return None

    def __str__(self) -> str:
        fields = {key: value for key, value in asdict(self).items() if key != "sites" or value}
        return json.dumps(fields, separators=(",", ":"))


def start_listing(previous: LibrariesCursor | None, libraries: Libraries, choice_mark: str) -> LibrariesCursor:
    """Return the start of a full listing, or of a listing of changes."""
    paths = dict(libraries.paths)
    removed_libraries = libraries.is_complete and previous is not None and previous.places.keys() - paths.keys()
    sites = dict(libraries.sites) if choice_mark else {}
    if previous is None or previous.chosen != choice_mark or removed_libraries:
        return LibrariesCursor(paths, {}, list(paths), chosen=choice_mark, sites=sites)
    fresh = [drive for drive in paths if drive not in previous.places]
    return LibrariesCursor(paths, previous.places, list(paths), fresh, whole=False, chosen=choice_mark, sites=sites)


def iter_pages(
    graph: Graph, tokens: TokenSource, state: LibrariesCursor, skipped: Counter[str], choice: SyncFilter
) -> Iterator[Page[SourceItem]]:
    """Yield pages from `state`; the first one reports the `skipped` libraries."""
    if not state.left:
        yield Page([], str(state), done=True, skipped=skipped, whole=state.whole)
    while state.left:
        library = state.left[0]
        try:
            for page in changes.list_changes(graph, tokens, Drive.of(library), state.places.get(library), choice):
                state.places[library] = page.cursor
                if page.done:
                    _finish_library(state, library, is_whole=page.whole)
                yield _convert_page(page, state, library, skipped)
                skipped = Counter()
        except changes.Unlisted:
            state.left.pop(0)
            state.places.pop(library, None)
            state.whole = False
            page_skipped, skipped = skipped + Counter({CLOSED_LIBRARY: 1}), Counter()
            yield Page([], str(state), done=not state.left, skipped=page_skipped)


def _finish_library(state: LibrariesCursor, library: str, *, is_whole: bool) -> None:
    """Finish a library; restart all others after a full listing of a known library."""
    state.left.pop(0)
    if is_whole and not state.whole and library not in state.fresh:
        state.left = [drive for drive in state.paths if drive != library]
        state.places = {library: state.places[library]}
        state.whole = True


def _convert_page(
    page: Page[SourceItem], state: LibrariesCursor, library: str, extra_skipped: Counter[str]
) -> Page[SourceItem]:
    """Convert a page of a library's feed to a page of the listing."""
    site = state.sites.get(library, "")
    page_items = [_item(item, library, state.paths[library], site) for item in page.items]
    done = not state.left
    skipped = Counter(page.skipped) + extra_skipped
    return replace(page, items=page_items, cursor=str(state), done=done, skipped=skipped, whole=done and state.whole)


def _item(item: SourceItem, library: str, library_path: str, site: str) -> SourceItem:
    # Ids and paths in a feed are relative to the library.
    properties: dict[str, Any] = dict(item.properties)
    if "path" in properties:
        properties["path"] = f"{library_path}/{properties['path']}"
    folders = (*(f"{library}/{folder_id}" for folder_id in item.above), library, *([site] if site else []))
    return replace(item, external_id=f"{library}/{item.external_id}", properties=properties, above=folders)
