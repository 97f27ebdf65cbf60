"""Conversion of Microsoft Graph's drive items to source items."""

# Facets name the kind: `file`, `folder`, `package` for a notebook, `remoteItem` for an item of another drive. The
# change feed omits `parentReference.path`, `cTag` for work accounts, and names of deleted items.

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote

from connectors.microsoft_graph.client import MALWARE_MESSAGE, Graph
from retrieval.errors import Retryable, Skippable
from retrieval.ports import FolderEntry, FolderPage, SourceItem, TokenSource

Item = Mapping[str, Any]
SKIPPED_NOTEBOOK: Final = "OneNote notebook"
SKIPPED_FOREIGN_FOLDER: Final = "folder of another drive"
SKIPPED_OTHER: Final = "neither file nor folder"
_MAX_DEPTH: Final = 500
_HASH_NAMES: Final = ("quickXorHash", "sha256Hash", "sha1Hash")


def as_source_item(item: Item, path: str | None, above: tuple[str, ...] = ()) -> SourceItem:
    """Convert a file to a source item; `above` are ids of its folders."""
    file = content_facets(item)
    name, mime = _text(item, "name"), _text(file.get("file"), "mimeType")
    error = MALWARE_MESSAGE if item.get("malware") is not None else ""
    item_properties = read_properties(item, path)
    return SourceItem(
        item["id"], name, mime, content_version(item), error=error, properties=item_properties, above=above
    )


def parent_and_name(item: Item) -> str:
    """Return a folder's parent and name, changed by a move or a renaming; "" for other items."""
    if item.get("folder") is None or item.get("root") is not None:
        return ""
    return f"{_text(item.get('parentReference'), 'id')}/{_text(item, 'name')}"


def is_deleted(item: Item) -> bool:
    return item.get("deleted") is not None


def may_hold_others(item: Item) -> bool:
    # The feed need not name files of a deleted folder.
    return not isinstance(item.get("file"), dict)


def is_file(item: Item) -> bool:
    return isinstance(content_facets(item).get("file"), dict) and item.get("package") is None


def skip_reason(item: Item) -> str:
    """Return the reason to skip an item, for counters of a job run; "" for folders."""
    remote = item.get("remoteItem")
    if any(isinstance(part, dict) and part.get("package") is not None for part in (item, remote)):
        return SKIPPED_NOTEBOOK
    if isinstance(remote, dict):
        return SKIPPED_FOREIGN_FOLDER
    return "" if any(item.get(facet) is not None for facet in ("folder", "root", "bundle")) else SKIPPED_OTHER


def content_facets(item: Item) -> Item:
    """Return the facets of an item, or of its target in another drive."""
    remote = item.get("remoteItem")
    return remote if isinstance(remote, dict) else item


def content_version(item: Item) -> str:
    """Return the hash of the content, or a tag without a hash."""
    # The hash is the same in every location.
    facets = content_facets(item)
    file = facets.get("file")
    hashes = file.get("hashes") if isinstance(file, dict) else None
    for name in _HASH_NAMES:
        if value := _text(hashes, name):
            return f"{name} {value}"
    tags = ((facets, "cTag"), (item, "cTag"), (facets, "eTag"), (item, "eTag"), (facets, "lastModifiedDateTime"))
    return next((value for tag_holder, name in tags if (value := _text(tag_holder, name))), "")


def content_size(item: Item) -> int | None:
    """Return the size in bytes; None if unknown."""
    # Graph converts HEIC pictures to JPEG on download.
    facets = content_facets(item)
    reported = facets.get("size")
    converted = _text(facets.get("file"), "mimeType").lower() in {"image/heic", "image/heif"}
    return reported if isinstance(reported, int) and not converted else None


def read_properties(item: Item, path: str | None) -> dict[str, str | int]:
    """Return the known properties under the contract's names."""
    facets = content_facets(item)
    fields = {
        "url": _text(item, "webUrl") or _text(facets, "webUrl"),
        "path": path,
        "owner": _person(facets.get("createdBy")) or _person(item.get("createdBy")),
        "createdAt": _text(facets, "createdDateTime") or _text(item, "createdDateTime"),
        "modifiedAt": _text(facets, "lastModifiedDateTime") or _text(item, "lastModifiedDateTime"),
    }
    return {name: value for name, value in fields.items() if value}


@dataclass(frozen=True, slots=True)
class Drive:
    """Drive in Graph: the account's own with an empty id, or another one."""

    place: str = "/me/drive"
    id: str = ""

    @classmethod
    def of(cls, drive_id: str) -> Drive:
        return cls(f"/drives/{quote(drive_id, safe='')}", drive_id)

    @property
    def feed(self) -> str:
        """Path of the change feed's start."""
        return f"{self.place}/root/delta"

    def item_path(self, item_id: str) -> str:
        return f"{self.place}/items/{quote(item_id, safe='')}"

    def home(self, item: Item) -> tuple[Drive, str]:
        """Return the owning drive of an item, and the id in it."""
        # An item of another drive has only an entry in this one.
        remote = item.get("remoteItem")
        if remote is None:
            return self, item["id"]
        remote = remote if isinstance(remote, dict) else {}
        return Drive.of(_text(remote.get("parentReference"), "driveId")), _text(remote, "id")

    def content_path(self, item: Item) -> str:
        """Return the path of an item's content in the owning drive."""
        drive, item_id = self.home(item)
        return drive.item_path(item_id) + "/content"


# Answers for a deleted item or an invisible drive.
GONE_STATUSES: Final = frozenset({400, 403, 404, 410})


def download_url(item: Item) -> str:
    """Return the signed, short-lived address of the content; "" if absent."""
    return _text(item, "@microsoft.graph.downloadUrl")


@dataclass(frozen=True, slots=True)
class _Location:
    """Location of an item. `path` includes the name; "" for the drive's root, None if unknown."""

    name: str
    parent: str
    path: str | None


class Folders:
    """Cache of a listing's folders for paths of files; `read_item` returns None for a missing item."""

    def __init__(self, read_item: Callable[[str], Item | None]) -> None:
        self._read_item = read_item
        self._locations: dict[str, _Location | None] = {}

    def add(self, items: Iterable[Item]) -> None:
        for item in items:
            if not is_deleted(item) and (item.get("folder") is not None or item.get("root") is not None):
                self._locations[item["id"]] = _location(item)

    def path(self, item: Item) -> str | None:
        """Return folders and name, "plans/2026/launch.txt"; None for an unknown folder."""
        parent: _Location | None = _location(item)
        names: list[str] = []
        for _ in range(_MAX_DEPTH):
            if parent is None:
                return None
            if parent.path is not None:
                return "/".join(filter(None, [parent.path, *reversed(names)]))
            names.append(parent.name)
            parent = self._parent(parent.parent)
        return None

    def ancestor_ids(self, item: Item) -> tuple[str, ...]:
        """Return ids of readable folders above the item, the drive's root last."""
        folder_ids: list[str] = []
        parent: _Location | None = _location(item)
        while parent is not None and parent.parent and parent.parent not in folder_ids and len(folder_ids) < _MAX_DEPTH:
            folder_ids.append(parent.parent)
            parent = self._parent(parent.parent)
        return tuple(folder_ids)

    def _parent(self, folder_id: str) -> _Location | None:
        if folder_id not in self._locations:
            folder = self._read_item(folder_id) if folder_id else None
            self._locations[folder_id] = _location(folder) if folder is not None else None
        return self._locations[folder_id]


def _location(item: Item) -> _Location:
    parent = item.get("parentReference")
    name = _text(item, "name")
    if item.get("root") is not None:
        return _Location(name, "", "")
    # A parent's path is "/drives/ID/root:/folder/folder".
    _, root, folder_path = _text(parent, "path").partition("root:")
    path = "/".join(filter(None, [unquote(folder_path).strip("/"), name])) if root else None
    return _Location(name, _text(parent, "id"), path)


def _person(identities: Any) -> str:
    user = identities.get("user") if isinstance(identities, dict) else None
    return _text(user, "displayName") or _text(user, "email")


def _text(holder: Any, name: str) -> str:
    value = holder.get(name) if isinstance(holder, Mapping) else None
    return value if isinstance(value, str) else ""


FOLDER_MISSING_MESSAGE: Final = "There is no such folder, or the account may not read it."


def list_folder(graph: Graph, tokens: TokenSource, drive: Drive, parent: str | None, cursor: str | None) -> FolderPage:
    """Return a page of a folder from `cursor`, the path of Graph's next link."""
    address = cursor or (f"{drive.item_path(parent)}/children" if parent else f"{drive.place}/root/children")
    answer = graph.get(tokens, address)
    if answer.status != 200:
        raise Skippable(FOLDER_MISSING_MESSAGE)
    values = answer.body.get("value")
    if not isinstance(values, list):
        raise Retryable(f"{graph.title}'s listing broke off: its answer holds no items.")

    def read_folder(folder_id: str) -> Mapping[str, Any] | None:
        folder = graph.get(tokens, drive.item_path(folder_id))
        return folder.body if folder.status == 200 else None

    folders = Folders(read_folder)
    children = [item for item in values if isinstance(item, dict) and isinstance(item.get("id"), str)]
    link = answer.body.get("@odata.nextLink")
    entries = [_entry(item, folders) for item in children if not is_deleted(item) and _is_supported(item)]
    return FolderPage(entries, graph.path(link) if link else None)


def _is_supported(item: Item) -> bool:
    return is_file(item) or (isinstance(item.get("folder"), dict) and item.get("package") is None)


def _entry(item: Item, folders: Folders) -> FolderEntry:
    is_folder = not is_file(item)
    source_item = as_source_item(item, folders.path(item), folders.ancestor_ids(item))
    children = item["folder"].get("childCount") if is_folder else 0
    return FolderEntry(
        item["id"],
        source_item.name,
        is_folder=is_folder,
        path=str(source_item.properties.get("path") or source_item.name),
        media_type="" if is_folder else source_item.media_type,
        size=None if is_folder else content_size(item),
        modified_at=str(source_item.properties.get("modifiedAt") or "") or None,
        has_children=is_folder and children != 0,
        above=source_item.above,
    )
