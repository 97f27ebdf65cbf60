"""One folder of Box for people who choose."""

from __future__ import annotations

from typing import Final

from connectors.sources.box import files
from connectors.sources.box.client import BoxSession, Closed, Missing, Outdated
from connectors.sources.box.responses import BoxItem
from retrieval.errors import Skippable
from retrieval.ports import Entry, Level, TokenSource

ROOT: Final = "0"
NOT_THERE: Final = "There is no such folder in Box, or the account may not read it."


def level(client: BoxSession, tokens: TokenSource, parent: str | None, cursor: str | None) -> Level:
    """The cursor is Box's marker."""
    if parent is not None and not (parent.isascii() and parent.isdigit()):
        raise Skippable(NOT_THERE)
    try:
        found = client.folder(tokens, parent or ROOT, cursor or "")
    except (Missing, Closed, Outdated) as error:
        raise Skippable(NOT_THERE) from error
    entries = [_entry(one) for one in found.entries if one.type in {"file", "folder"} and not files.is_gone(one)]
    return Level(entries, found.next_marker or None)


def _entry(one: BoxItem) -> Entry:
    """Whether a folder is empty is not said."""
    is_folder = one.type == "folder"
    item = files.item(one)
    return Entry(
        one.id,
        one.name or one.id,
        is_folder=is_folder,
        path=str(item.properties["path"]),
        media_type="" if is_folder else item.media_type,
        size=None if is_folder else one.size,
        modified_at=one.content_modified_at or one.modified_at,
        has_children=is_folder,
        above=item.above,
    )
