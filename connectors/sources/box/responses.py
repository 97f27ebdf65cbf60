"""The fields that are read of Box's responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec


class Named(msgspec.Struct, frozen=True):
    """A folder of a path, or a person."""

    id: str
    name: str | None = None
    login: str | None = None


class PathCollection(msgspec.Struct, frozen=True):
    entries: Sequence[Named] = ()


class Watermark(msgspec.Struct, frozen=True):
    is_watermarked: bool | None = None


class BoxItem(msgspec.Struct, frozen=True):
    """A file, a folder or a web link, as listed or asked for."""

    type: str
    id: str
    name: str | None = None
    size: int | None = None
    sha1: str | None = None
    etag: str | None = None
    item_status: str | None = None
    path_collection: PathCollection | None = None
    owned_by: Named | None = None
    created_at: str | None = None
    modified_at: str | None = None
    content_created_at: str | None = None
    content_modified_at: str | None = None
    watermark_info: Watermark | None = None


class SharedLink(msgspec.Struct, frozen=True):
    """`effective_access`: after the folders' and the enterprise's rules; open, company or collaborators.
    `effective_permission`: what who has the link may do, `no_access` if nothing; `unshared_at`: when it ends.
    """

    effective_access: str | None = None
    effective_permission: str | None = None
    is_password_enabled: bool | None = None
    unshared_at: str | None = None


class SharedItem(msgspec.Struct, frozen=True):
    """Of a file, whom it may be shown. `is_externally_owned`: by somebody outside of the account's enterprise."""

    id: str
    owned_by: Named | None = None
    is_externally_owned: bool | None = None
    path_collection: PathCollection | None = None
    shared_link: SharedLink | None = None


class Collaborator(msgspec.Struct, frozen=True):
    """A user or a group."""

    type: str
    id: str
    login: str | None = None


class Collaboration(msgspec.Struct, frozen=True):
    """`accessible_by` is null of somebody who was invited and has no account yet; `expires_at`: when it ends."""

    role: str | None = None
    status: str | None = None
    expires_at: str | None = None
    accessible_by: Collaborator | None = None

    @classmethod
    def of(cls, entry: Any) -> Collaboration:
        """One that shows nobody anything for an entry that is not as it is described: the others count."""
        try:
            return msgspec.convert(entry, cls)
        except msgspec.ValidationError:
            return cls()


class Collaborations(msgspec.Struct, frozen=True):
    entries: Sequence[Any]
    next_marker: str | None = None


class FolderPage(msgspec.Struct, frozen=True):
    """A page of a folder. `next_marker` is empty on its last."""

    entries: Sequence[BoxItem]
    next_marker: str | None = None


class Event(msgspec.Struct, frozen=True):
    """`source`: what it happened to, in one of several shapes, or nothing."""

    event_type: str | None = None
    source: Mapping[str, Any] | None = None


class Events(msgspec.Struct, frozen=True):
    entries: Sequence[Event]
    next_stream_position: str | int | None = None
