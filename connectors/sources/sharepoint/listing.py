"""What is new in SharePoint: the change feed of each library, one after the other.

    everything ──▶ feed of each library from its beginning                                    (whole)
    since then ──▶ feed of each library from its place, new libraries from their beginning
                     └─ one of them had to begin anew: everything

Which files are gone is known only when all libraries are listed whole in one run. So where one feed cannot say (a
deleted folder, a forgotten place, a week: `microsoft_graph.changes`), where a library is not followed any more, and for
another choice of libraries, everything is listed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from connectors.microsoft_graph import changes
from connectors.microsoft_graph.client import Graph
from connectors.microsoft_graph.items import Drive
from connectors.sources.sharepoint.sites import CLOSED_LIBRARY, Libraries
from retrieval.ports import Page, SourceItem, TokenSource
from retrieval.sync_filter import Choice


@dataclass(slots=True)
class LibrariesCursor:
    """How far a listing has come. `places`: of each library in its feed; `left`: those that are still to be listed, the
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
        said = {key: value for key, value in asdict(self).items() if key != "sites" or value}
        return json.dumps(said, separators=(",", ":"))


def begun(before: LibrariesCursor | None, libraries: Libraries, chosen: str) -> LibrariesCursor:
    """The state at the beginning of a listing: of everything, or of what changed since the last one."""
    paths = dict(libraries.paths)
    left = libraries.whole and before is not None and before.places.keys() - paths.keys()
    sites = dict(libraries.sites) if chosen else {}
    if before is None or before.chosen != chosen or left:
        return LibrariesCursor(paths, {}, list(paths), chosen=chosen, sites=sites)
    fresh = [drive for drive in paths if drive not in before.places]
    return LibrariesCursor(paths, before.places, list(paths), fresh, whole=False, chosen=chosen, sites=sites)


def pages(
    graph: Graph, tokens: TokenSource, state: LibrariesCursor, left_out: Counter[str], choice: Choice
) -> Iterator[Page[SourceItem]]:
    """From a state on. `left_out`: what could not be asked, told with the first page."""
    if not state.left:
        yield Page([], str(state), done=True, skipped=left_out, whole=state.whole)
    while state.left:
        library = state.left[0]
        try:
            for page in changes.pages(graph, tokens, Drive.of(library), state.places.get(library), choice):
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
    """The feed of the library has come to its end: `whole` if it began anew, and then all others do, too."""
    state.left.pop(0)
    if whole and not state.whole and library not in state.fresh:
        state.left = [one for one in state.paths if one != library]
        state.places = {library: state.places[library]}
        state.whole = True


def _told(page: Page[SourceItem], state: LibrariesCursor, library: str, left_out: Counter[str]) -> Page[SourceItem]:
    """The page of one library's feed as one of the whole listing."""
    site = state.sites.get(library, "")
    here = [_item(item, library, state.paths[library], site) for item in page.items]
    done = not state.left
    skipped = Counter(page.skipped) + left_out
    return replace(page, items=here, cursor=str(state), done=done, skipped=skipped, whole=done and state.whole)


def _item(item: SourceItem, library: str, above: str, site: str) -> SourceItem:
    """Ids are a library's own, and so are paths."""
    properties: dict[str, Any] = dict(item.properties)
    if "path" in properties:
        properties["path"] = f"{above}/{properties['path']}"
    folders = (*(f"{library}/{one}" for one in item.above), library, *([site] if site else []))
    return replace(item, external_id=f"{library}/{item.external_id}", properties=properties, above=folders)
