"""Answers of Box's API, as far as they are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec


class NamedEntity(msgspec.Struct, frozen=True):
    """Folder of a path, or person."""

    id: str
    name: str | None = None
    login: str | None = None


class PathCollection(msgspec.Struct, frozen=True):
    entries: Sequence[NamedEntity] = ()


class Watermark(msgspec.Struct, frozen=True):
    is_watermarked: bool | None = None


class BoxItem(msgspec.Struct, frozen=True):
    """File, folder or web link, as listed or requested. `is_externally_owned`: the owner is outside of the
    enterprise."""

    type: str
    id: str
    name: str | None = None
    size: int | None = None
    sha1: str | None = None
    etag: str | None = None
    item_status: str | None = None
    path_collection: PathCollection | None = None
    owned_by: NamedEntity | None = None
    created_at: str | None = None
    modified_at: str | None = None
    is_externally_owned: bool | None = None
    content_created_at: str | None = None
    content_modified_at: str | None = None
    watermark_info: Watermark | None = None


class SharedLink(msgspec.Struct, frozen=True):
    """Shared link. `effective_access` includes rules of folders and of the enterprise: open, company or
    collaborators. `effective_permission`: rights of a holder, or `no_access`; `unshared_at`: end of the link."""

    effective_access: str | None = None
    effective_permission: str | None = None
    is_password_enabled: bool | None = None
    unshared_at: str | None = None


class SharedItem(msgspec.Struct, frozen=True):
    """Sharing state of a file. `is_externally_owned`: the owner is outside of the account's enterprise."""

    id: str
    owned_by: NamedEntity | None = None
    is_externally_owned: bool | None = None
    path_collection: PathCollection | None = None
    shared_link: SharedLink | None = None


class Collaborator(msgspec.Struct, frozen=True):
    """A user or a group."""

    type: str
    id: str
    login: str | None = None


class Collaboration(msgspec.Struct, frozen=True):
    """Collaboration. `accessible_by` is null for an invited person without an account; `expires_at`: end."""

    role: str | None = None
    status: str | None = None
    expires_at: str | None = None
    accessible_by: Collaborator | None = None

    @classmethod
    def parse(cls, entry: Any) -> Collaboration:
        """Parse an entry; an undocumented form grants nothing."""
        try:
            return msgspec.convert(entry, cls)
        except msgspec.ValidationError:
            return cls()


class Collaborations(msgspec.Struct, frozen=True):
    entries: Sequence[Any]
    next_marker: str | None = None


class FolderPage(msgspec.Struct, frozen=True):
    """Page of a folder; `next_marker` is empty on the last one."""

    entries: Sequence[BoxItem]
    next_marker: str | None = None


class Event(msgspec.Struct, frozen=True):
    """Event; `source` is the changed item, in one of several forms."""

    event_type: str | None = None
    source: Mapping[str, Any] | None = None


class Events(msgspec.Struct, frozen=True):
    entries: Sequence[Event]
    next_stream_position: str | int | None = None


class Person(msgspec.Struct, frozen=True):
    """User of an enterprise. `status`: null for external users."""

    id: str
    login: str | None = None
    status: str | None = None


class PersonPage(msgspec.Struct, frozen=True):
    entries: Sequence[Person]
    next_marker: str | None = None
