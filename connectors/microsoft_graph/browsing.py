"""One folder of a drive of Microsoft Graph for people who choose: GET …/children (learn.microsoft.com/graph/api/
driveitem-list-children)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from connectors.microsoft_graph import items
from connectors.microsoft_graph.client import Graph
from connectors.microsoft_graph.items import Drive, Folders, Item
from retrieval.errors import Retryable, Skippable
from retrieval.ports import Entry, Level, TokenSource

NOT_THERE: Final = "There is no such folder, or the account may not read it."


def level(graph: Graph, tokens: TokenSource, drive: Drive, parent: str | None, cursor: str | None) -> Level:
    """The cursor: what of Graph's own link follows its address."""
    place = cursor or (f"{drive.at(parent)}/children" if parent else f"{drive.place}/root/children")
    answer = graph.get(tokens, place)
    if answer.status != 200:
        raise Skippable(NOT_THERE)
    found = answer.body.get("value")
    if not isinstance(found, list):
        raise Retryable(f"{graph.title}'s listing broke off: its answer holds no items.")

    def ask(folder: str) -> Mapping[str, Any] | None:
        about = graph.get(tokens, drive.at(folder))
        return about.body if about.status == 200 else None

    folders = Folders(ask)
    shown = [item for item in found if isinstance(item, dict) and isinstance(item.get("id"), str)]
    link = answer.body.get("@odata.nextLink")
    entries = [_entry(item, folders) for item in shown if not items.deleted(item) and _is_brought(item)]
    return Level(entries, graph.path(link) if link else None)


def _is_brought(item: Item) -> bool:
    return items.is_file(item) or (isinstance(item.get("folder"), dict) and item.get("package") is None)


def _entry(item: Item, folders: Folders) -> Entry:
    is_folder = not items.is_file(item)
    seen = items.listed(item, folders.path(item), folders.above(item))
    children = item["folder"].get("childCount") if is_folder else 0
    return Entry(
        item["id"],
        seen.name,
        is_folder=is_folder,
        path=str(seen.properties.get("path") or seen.name),
        media_type="" if is_folder else seen.media_type,
        size=None if is_folder else items.size(item),
        modified_at=str(seen.properties.get("modifiedAt") or "") or None,
        has_children=is_folder and children != 0,
        above=seen.above,
    )
