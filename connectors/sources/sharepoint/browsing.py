"""SharePoint for people who choose: sites that the person follows, their libraries, and the folders of each."""

from __future__ import annotations

from dataclasses import replace

from connectors.microsoft_graph import browsing
from connectors.microsoft_graph.client import Graph
from connectors.microsoft_graph.items import Drive
from connectors.sources.sharepoint.sites import Sites, path_of
from retrieval.errors import Skippable
from retrieval.ports import Entry, Level, TokenSource


def level(graph: Graph, tokens: TokenSource, parent: str | None, cursor: str | None) -> Level:
    """The parent: nothing, a site's id (with commas), a library's drive, or an item as documents are called."""
    sites = Sites(graph, tokens)
    if parent is None:
        return Level([_place(str(one["id"]), str(one.get("webUrl") or ""), one) for one in sites.all_followed()])
    if "," in parent:
        libraries = sites.libraries(parent)
        if libraries is None:
            raise Skippable(browsing.NOT_THERE)
        return Level([_place(str(one["id"]), str(one.get("webUrl") or ""), one, (parent,)) for one in libraries])
    drive_id, _, item = parent.partition("/")
    library = sites.library(drive_id)
    if library is None:
        raise Skippable(browsing.NOT_THERE)
    above = path_of(str(library.get("webUrl") or "")) or str(library.get("name") or "")
    found = browsing.level(graph, tokens, Drive.of(drive_id), item or None, cursor)
    return replace(found, entries=[_within(one, drive_id, above) for one in found.entries])


def _place(its: str, address: str, said: object, above: tuple[str, ...] = ()) -> Entry:
    named = said if isinstance(said, dict) else {}
    path = path_of(address)
    name = str(named.get("displayName") or named.get("name") or path)
    return Entry(its, name, is_folder=True, path=path, has_children=True, above=above)


def _within(one: Entry, drive: str, above: str) -> Entry:
    folders = (*(f"{drive}/{folder}" for folder in one.above), drive)
    return replace(one, id=f"{drive}/{one.id}", path=f"{above}/{one.path}", above=folders)
