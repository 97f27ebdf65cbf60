"""SharePoint: sites, their document libraries, and changes in them.

GET /me/followedSites (learn.microsoft.com/graph/api/sites-list-followed) and GET /sites/{id}/drives
(learn.microsoft.com/graph/api/drive-list). A library's path is that of its address in a browser, such as
"sites/marketing/Shared Documents": two sites may bear the same name, never the same address.

everything ──▶ feed of each library from its beginning                                    (whole)
    since then ──▶ feed of each library from its place, new libraries from their beginning
                     └─ one of them had to begin anew: everything

Deleted files are known only when all libraries are listed whole in one run. So where one feed cannot say (a
deleted folder, a forgotten place, a week: `microsoft_graph.changes`), where a library is no longer followed, and for
another choice of libraries, everything is listed.
"""

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
from connectors.microsoft_graph.items import GONE, Drive
from retrieval.errors import Fatal, Retryable
from retrieval.ports import Page, SourceItem, TokenSource
from retrieval.sync_filter import SyncFilter, SyncItem

FOLLOWED: Final = "/me/followedSites"
MOST: Final = 500
"""Libraries of one connection: each costs a request of every run."""
CLOSED_SITE: Final = "site that the account may not read"
CLOSED_LIBRARY: Final = "library that the account may not read"
NOT_FOUND: Final = "chosen site or library that the account does not see"
MANY: Final = "library beyond the most of one connection"
_LIBRARY: Final = "documentLibrary"


@dataclass(slots=True)
class Libraries:
    """Paths by the ids of their drives. `whole`: nothing that was requested is missing; `left_out`: the missing ones;
    `sites`: the ids of their sites, where they are known."""

    paths: dict[str, str] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    sites: dict[str, str] = field(default_factory=dict)
    _dropped: set[str] = field(default_factory=set)

    @property
    def whole(self) -> bool:
        return not self.left_out

    def add(self, drive: Mapping[str, Any], site: str = "") -> None:
        if not isinstance(drive.get("id"), str) or drive.get("driveType", _LIBRARY) != _LIBRARY:
            return
        if len(self.paths) < MOST or drive["id"] in self.paths:
            self.paths[drive["id"]] = path_of(str(drive.get("webUrl") or "")) or str(drive.get("name") or "")
            self.sites |= {drive["id"]: site} if site else {}
        else:
            self.left_out[MANY] += 1

    def without(self, choice: SyncFilter) -> Libraries:
        """Those in which anything can be chosen."""
        for drive, path in list(self.paths.items()):
            if not choice.may_hold(SyncItem(drive, path, above=(self.sites.get(drive, ""),))):
                self._dropped.add(drive)
                del self.paths[drive]
        return self

    def has(self, drive_id: str) -> bool | None:
        """Tell whether a library is one of these; None if unknown: an empty list is not believed."""
        if drive_id in self.paths:
            return True
        return False if drive_id in self._dropped or (self.whole and self.paths) else None


@dataclass(frozen=True, slots=True)
class Sites:
    """Reader of sites and libraries for one connection."""

    graph: Graph
    tokens: TokenSource

    def of(self, choice: SyncFilter) -> Libraries:
        """In which anything can be chosen: those that `include` leads to, and of the followed sites where it names a
        type or an open beginning of paths, or is not there. Fatal if they cannot be listed."""
        addresses = [address for entry in choice.include if (address := _place(entry))]
        if choice.include and len(addresses) == len(choice.include):
            return self.chosen(addresses).without(choice)
        libraries = self.followed()
        if addresses:
            self.chosen(addresses, libraries)
        return libraries.without(choice)

    def followed(self) -> Libraries:
        """Libraries of all sites that the person follows. Fatal if they cannot be listed."""
        sites = self._every(FOLLOWED)
        if sites is None:
            raise Fatal(
                f"{self.graph.title} refuses to list the sites that the account follows: it is no account of work or"
                " school, or the app lacks the permission Sites.Read.All."
            )
        libraries = Libraries()
        for site in sites:
            if not self._take(site["id"], libraries):
                libraries.left_out[CLOSED_SITE] += 1
        return libraries

    def all_followed(self) -> list[Mapping[str, Any]]:
        """The sites that the person follows, none where they cannot be listed."""
        return self._every(FOLLOWED) or []

    def libraries(self, site_id: str) -> list[Mapping[str, Any]] | None:
        """Those of a site; None where there is no such site."""
        drives = self._every(f"/sites/{quote(site_id, safe=',')}/drives")
        return None if drives is None else [drive for drive in drives if drive.get("driveType", _LIBRARY) == _LIBRARY]

    def library(self, drive_id: str) -> Mapping[str, Any] | None:
        return self._one(Drive.of(drive_id).place)

    def chosen(self, include: Sequence[Mapping[str, str]], found: Libraries | None = None) -> Libraries:
        """Sites, that is all libraries of each, and single libraries: by id, or by the path of their address."""
        found, hosts = found or Libraries(), list[str]()
        for address in include:
            is_there = (
                self._by_id(address["id"], found) if address.get("id") else self._by_path(address["path"], found, hosts)
            )
            if not is_there:
                found.left_out[NOT_FOUND] += 1
        return found

    def _by_id(self, wanted: str, found: Libraries) -> bool:
        """A site's id names its host, its collection and itself; a library's is that of its drive."""
        if "," in wanted:
            return self._take(wanted, found)
        drive = self._one(Drive.of(wanted).place)
        if drive is None:
            return False
        found.add(drive)
        return drive.get("id") in found.paths

    def _by_path(self, wanted: str, found: Libraries, hosts: list[str]) -> bool:
        """The longest beginning of the path that is a site; what follows is a library's path, or leads into one."""
        names = path_of(wanted).split("/")
        if not hosts:
            root = self._one("/sites/root") or {}
            hosts.append(urlsplit(str(root.get("webUrl") or "")).hostname or "")
        for end in range(len(names), -1, -1):
            site_path = "/".join(quote(name, safe="") for name in names[:end])
            site = self._one(f"/sites/{hosts[0]}:/{site_path}") if end else self._one("/sites/root")
            if site is not None and isinstance(site.get("id"), str):
                return self._take(site["id"], found, "/".join(names) if end < len(names) else "")
        return False

    def _take(self, site_id: str, found: Libraries, library: str = "") -> bool:
        """Add all libraries of a site, or the one with this path; returns whether there are any."""
        drives = self._every(f"/sites/{quote(site_id, safe=',')}/drives")
        chosen_drives = [
            drive for drive in drives or () if not library or _leads(library, path_of(str(drive.get("webUrl") or "")))
        ]
        for drive in chosen_drives:
            found.add(drive, site_id)
        return drives is not None and (bool(chosen_drives) or not library)

    def _every(self, path: str) -> list[Mapping[str, Any]] | None:
        """List all pages of a collection; None if Graph refuses."""
        cursors = Cursors(f"{self.graph.title}'s listing")
        entries: list[Mapping[str, Any]] = []
        while True:
            answer = self.graph.get(self.tokens, path)
            if answer.status != 200:
                return None
            all_entries = list(_entries(answer.body.get("value"), self.graph.title))
            entries += all_entries
            link = answer.body.get("@odata.nextLink")
            if not link:
                return entries
            path = self.graph.path(link)
            cursors.follow(path, brought=bool(all_entries))

    def _one(self, path: str) -> Mapping[str, Any] | None:
        answer = self.graph.get(self.tokens, path)
        if answer.status == 200:
            return answer.body
        if answer.status not in GONE:
            raise Retryable(f"{self.graph.title} does not say whether a site is there (status {answer.status}).")
        return None


def path_of(address: str) -> str:
    """The path of an address in a browser, or of a part of one, without slashes at its ends."""
    parts = urlsplit(address) if "://" in address else None
    return unquote(parts.path if parts else address).strip("/")


def _leads(path: str, library: str) -> bool:
    """Tell whether a path is a library's, or below it. SharePoint's addresses are case-insensitive."""
    return bool(library) and f"{path}/".casefold().startswith(f"{library}/".casefold())


def _place(entry: Mapping[str, str]) -> Mapping[str, str]:
    """Return the site or library of an entry of `include`; nothing for a type, or a path that names none before its
    first star. An item's id begins with its library's."""
    if "id" in entry:
        return {"id": entry["id"].partition("/")[0]}
    names = path_of(entry["path"]).split("/") if "path" in entry else []
    fixed = list(takewhile(lambda name: "*" not in name, names))
    if fixed == names:
        return entry if names else {}
    return {"path": "/".join(fixed)} if len(fixed) > 1 else {}


def _entries(found: Any, title: str) -> Iterator[Mapping[str, Any]]:
    if not isinstance(found, list):
        raise Retryable(f"{title}'s listing broke off: its answer holds no entries.")
    yield from (entry for entry in found if isinstance(entry, dict) and isinstance(entry.get("id"), str))


@dataclass(slots=True)
class LibrariesCursor:
    """Position of a listing. `places`: of each library in its feed; `left`: those that are still to be listed, the
    first one under way; `fresh`: those that are listed for the first time; `chosen`: the mark of the choice."""

    paths: dict[str, str]
    places: dict[str, str]
    left: list[str]
    fresh: list[str] = field(default_factory=list)
    whole: bool = True
    chosen: str = ""
    sites: dict[str, str] = field(default_factory=dict)
    """Ids of the libraries' sites, where they are known."""

    @classmethod
    def of(cls, cursor: str | None) -> LibrariesCursor | None:
        """None for none, and for one that cannot be read."""
        try:
            return cls(**json.loads(cursor or "null"))
        except (ValueError, TypeError):
            return None

    def __str__(self) -> str:
        fields = {key: value for key, value in asdict(self).items() if key != "sites" or value}
        return json.dumps(fields, separators=(",", ":"))


def begin_listing(before: LibrariesCursor | None, libraries: Libraries, chosen: str) -> LibrariesCursor:
    """The state at the beginning of a listing: of everything, or of what changed since the last one."""
    paths = dict(libraries.paths)
    removed_libraries = libraries.whole and before is not None and before.places.keys() - paths.keys()
    sites = dict(libraries.sites) if chosen else {}
    if before is None or before.chosen != chosen or removed_libraries:
        return LibrariesCursor(paths, {}, list(paths), chosen=chosen, sites=sites)
    fresh = [drive for drive in paths if drive not in before.places]
    return LibrariesCursor(paths, before.places, list(paths), fresh, whole=False, chosen=chosen, sites=sites)


def iter_pages(
    graph: Graph, tokens: TokenSource, state: LibrariesCursor, left_out: Counter[str], choice: SyncFilter
) -> Iterator[Page[SourceItem]]:
    """List pages from a state on. `left_out`: unreadable libraries, reported with the first page."""
    if not state.left:
        yield Page([], str(state), done=True, skipped=left_out, whole=state.whole)
    while state.left:
        library = state.left[0]
        try:
            for page in changes.list_changes(graph, tokens, Drive.of(library), state.places.get(library), choice):
                state.places[library] = page.cursor
                if page.done:
                    _done(state, library, whole=page.whole)
                yield _told(page, state, library, left_out)
                left_out = Counter()
        except changes.Unlisted:
            state.left.pop(0)
            state.places.pop(library, None)
            state.whole = False
            skipped, left_out = left_out + Counter({CLOSED_LIBRARY: 1}), Counter()
            yield Page([], str(state), done=not state.left, skipped=skipped)


def _done(state: LibrariesCursor, library: str, *, whole: bool) -> None:
    """Mark the feed of the library as finished: `whole` if it began anew, and then all others do, too."""
    state.left.pop(0)
    if whole and not state.whole and library not in state.fresh:
        state.left = [path_library for path_library in state.paths if path_library != library]
        state.places = {library: state.places[library]}
        state.whole = True


def _told(page: Page[SourceItem], state: LibrariesCursor, library: str, left_out: Counter[str]) -> Page[SourceItem]:
    """The page of one library's feed as one of the whole listing."""
    site = state.sites.get(library, "")
    page_items = [_item(item, library, state.paths[library], site) for item in page.items]
    done = not state.left
    skipped = Counter(page.skipped) + left_out
    return replace(page, items=page_items, cursor=str(state), done=done, skipped=skipped, whole=done and state.whole)


def _item(item: SourceItem, library: str, above: str, site: str) -> SourceItem:
    """Ids are a library's own, and so are paths."""
    properties: dict[str, Any] = dict(item.properties)
    if "path" in properties:
        properties["path"] = f"{above}/{properties['path']}"
    folders = (*(f"{library}/{folder_id}" for folder_id in item.above), library, *([site] if site else []))
    return replace(item, external_id=f"{library}/{item.external_id}", properties=properties, above=folders)
