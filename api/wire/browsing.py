"""Folders of a connection's account in requests and responses."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from api.wire.common import DataAnswer, NamespaceId, NextCursor
from retrieval.connections.browsing import SelectableEntry


class BrowseConnection(Struct, rename="camel", kw_only=True):
    """The folder to list; the top of the account without `parentId`."""

    namespace_id: NamespaceId
    parent_id: Annotated[str, Meta(min_length=1, max_length=500, description="The id of a listed entry.")] | None = None
    cursor: Annotated[str | None, Meta(description="The `nextCursor` of the previous page of the same folder.")] = None


class EntryKind(StrEnum):
    """Kinds of entries in an account."""

    FOLDER = "FOLDER"
    FILE = "FILE"


class BrowsedEntry(Struct, rename="camel", kw_only=True):
    """A file or folder of an account."""

    id: Annotated[str, Meta(description="The id at the content service, for `include` and `exclude`.")]
    name: Annotated[str, Meta(description="The display name.")]
    path: Annotated[str, Meta(description="The path for `include` and `exclude`.")]
    kind: Annotated[
        EntryKind, Meta(description="The type of the entry. A page of Notion is a file that may have children.")
    ]
    mime_type: Annotated[str | None, Meta(description="The media type for `include` and `exclude`; null for folders.")]
    size: Annotated[int | None, Meta(description="Size in bytes; null if unknown.")]
    modified_at: Annotated[str | None, Meta(description="Time of the last change in ISO 8601; null if unknown.")]
    has_children: Annotated[bool, Meta(description="Whether the entry may have children; true if unknown.")]
    selected: Annotated[
        bool,
        Meta(
            description="Whether the newest ingestion includes the entry; for a folder, everything in it except "
            "excluded entries. False before the first ingestion."
        ),
    ]

    @classmethod
    def from_browsed(cls, browsed: SelectableEntry) -> BrowsedEntry:
        entry = browsed.entry
        return cls(
            id=entry.id,
            name=entry.name,
            path=entry.path,
            kind=EntryKind.FOLDER if entry.is_folder else EntryKind.FILE,
            mime_type=browsed.media_type or None,
            size=entry.size,
            modified_at=entry.modified_at,
            has_children=entry.has_children,
            selected=browsed.selected,
        )


class BrowsedData(Struct, rename="camel"):
    """A page of a folder's entries, in the content service's order."""

    items: Annotated[list[BrowsedEntry], Meta(description="The direct children of the folder.")]
    has_next_page: Annotated[bool, Meta(description="Whether another page follows.")]
    next_cursor: NextCursor


class BrowsedAnswer(DataAnswer[BrowsedData]):
    """Entries of a folder."""
