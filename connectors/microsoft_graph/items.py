"""Drive items of Microsoft Graph as source items.

Kinds are facets: a file has `file`, a folder `folder`, a notebook `package`, what belongs to another drive
`remoteItem`. The change feed leaves things out: `parentReference.path` always, `cTag` for work accounts, the name of
what was deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote

from connectors.microsoft_graph.client import MALWARE, Graph
from retrieval.errors import Retryable, Skippable
from retrieval.ports import FolderEntry, FolderPage, SourceItem, TokenSource

Item = Mapping[str, Any]
NOTEBOOK: Final = "OneNote notebook"
SHARED_FOLDER: Final = "folder of another drive"
OTHER: Final = "neither file nor folder"
_DEEPEST: Final = 500
_HASHES: Final = ("quickXorHash", "sha256Hash", "sha1Hash")


def as_source_item(item: Item, path: str | None, above: tuple[str, ...] = ()) -> SourceItem:
    """A file as a listing names it. `path`: its folders and name, if they are known; `above`: ids of the folders."""
    file = content_facets(item)
    name, mime = _text(item, "name"), _text(file.get("file"), "mimeType")
    error = MALWARE if item.get("malware") is not None else ""
    item_properties = read_properties(item, path)
    return SourceItem(
        item["id"], name, mime, content_version(item), error=error, properties=item_properties, above=above
    )


def parent_and_name(item: Item) -> str:
    """A folder's parent and name: another one after it was moved or renamed; "" for what is no folder."""
    if item.get("folder") is None or item.get("root") is not None:
        return ""
    return f"{_text(item.get('parentReference'), 'id')}/{_text(item, 'name')}"


def is_deleted(item: Item) -> bool:
    return item.get("deleted") is not None


def may_hold_others(item: Item) -> bool:
    """Tell whether a deleted item may have contained others that the feed does not name: all but known files."""
    return not isinstance(item.get("file"), dict)


def is_file(item: Item) -> bool:
    return isinstance(content_facets(item).get("file"), dict) and item.get("package") is None


def left_out(item: Item) -> str:
    """Reason why an item that is no file is left out, for the count of a job run; "" for folders, which are no loss."""
    remote = item.get("remoteItem")
    if any(isinstance(part, dict) and part.get("package") is not None for part in (item, remote)):
        return NOTEBOOK
    if isinstance(remote, dict):
        return SHARED_FOLDER
    return "" if any(item.get(facet) is not None for facet in ("folder", "root", "bundle")) else OTHER


def content_facets(item: Item) -> Item:
    """Facets that describe an item's content: its own, or those of the item in another drive that it refers to."""
    remote = item.get("remoteItem")
    return remote if isinstance(remote, dict) else item


def content_version(item: Item) -> str:
    """Version of the content: its hash, which is the same in every location; the tags for files without one."""
    facets = content_facets(item)
    file = facets.get("file")
    hashes = file.get("hashes") if isinstance(file, dict) else None
    for name in _HASHES:
        if value := _text(hashes, name):
            return f"{name} {value}"
    tags = ((facets, "cTag"), (item, "cTag"), (facets, "eTag"), (item, "eTag"), (facets, "lastModifiedDateTime"))
    return next((value for tag_holder, name in tags if (value := _text(tag_holder, name))), "")


def content_size(item: Item) -> int | None:
    """Size in bytes; None if unknown, or for a picture that is converted on download: HEIC arrives as JPEG."""
    facets = content_facets(item)
    reported = facets.get("size")
    converted = _text(facets.get("file"), "mimeType").lower() in {"image/heic", "image/heif"}
    return reported if isinstance(reported, int) and not converted else None


def read_properties(item: Item, path: str | None) -> dict[str, str | int]:
    """Under the names of the contract; what is not known is left out."""
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
    """Address of a drive in Graph: the account's own, or one by its id."""

    place: str = "/me/drive"
    id: str = ""
    """"" of the account's own."""

    @classmethod
    def of(cls, drive_id: str) -> Drive:
        return cls(f"/drives/{quote(drive_id, safe='')}", drive_id)

    @property
    def feed(self) -> str:
        """The beginning of its change feed."""
        return f"{self.place}/root/delta"

    def at(self, item_id: str) -> str:
        """Address of an item in Graph."""
        return f"{self.place}/items/{quote(item_id, safe='')}"

    def home(self, item: Item) -> tuple[Drive, str]:
        """The drive that an item belongs to, and its id there: another drive's item has only an entry in this one."""
        remote = item.get("remoteItem")
        if remote is None:
            return self, item["id"]
        remote = remote if isinstance(remote, dict) else {}
        return Drive.of(_text(remote.get("parentReference"), "driveId")), _text(remote, "id")

    def content_at(self, item: Item) -> str:
        """Address of an item's content in Graph; an item of another drive is read there."""
        drive, its = self.home(item)
        return drive.at(its) + "/content"


GONE: Final = frozenset({400, 403, 404, 410})
"""What Graph says of an item that is deleted, or of a drive that the account cannot see."""


def signed_at(item: Item) -> str:
    """Signed, short-lived address of the content, if Graph reports it; "" otherwise."""
    return _text(item, "@microsoft.graph.downloadUrl")


@dataclass(frozen=True, slots=True)
class _Place:
    """Location of an item. `path`: its own, name included, if reported; "" for the drive's root."""

    name: str
    parent: str
    path: str | None


class Folders:
    """Folders of a listing, for the paths of files. `ask`: an item by its id, None if it is missing."""

    def __init__(self, ask: Callable[[str], Item | None]) -> None:
        self._ask = ask
        self._known: dict[str, _Place | None] = {}

    def learn(self, items: Iterable[Item]) -> None:
        for item in items:
            if not is_deleted(item) and (item.get("folder") is not None or item.get("root") is not None):
                self._known[item["id"]] = _place(item)

    def path(self, item: Item) -> str | None:
        """Folders and name, "plans/2026/launch.txt"; None if a folder cannot be found out."""
        parent: _Place | None = _place(item)
        names: list[str] = []
        for _ in range(_DEEPEST):
            if parent is None:
                return None
            if parent.path is not None:
                return "/".join(filter(None, [parent.path, *reversed(names)]))
            names.append(parent.name)
            parent = self._parent(parent.parent)
        return None

    def above(self, item: Item) -> tuple[str, ...]:
        """Ids of the folders that contain the item, the drive's root last, as far as they can be read."""
        folder_ids: list[str] = []
        parent: _Place | None = _place(item)
        while parent is not None and parent.parent and parent.parent not in folder_ids and len(folder_ids) < _DEEPEST:
            folder_ids.append(parent.parent)
            parent = self._parent(parent.parent)
        return tuple(folder_ids)

    def _parent(self, folder_id: str) -> _Place | None:
        if folder_id not in self._known:
            folder = self._ask(folder_id) if folder_id else None
            self._known[folder_id] = _place(folder) if folder is not None else None
        return self._known[folder_id]


def _place(item: Item) -> _Place:
    """An item's place. Of a parent's path everything up to the colon is how Graph addresses the drive."""
    parent = item.get("parentReference")
    name = _text(item, "name")
    if item.get("root") is not None:
        return _Place(name, "", "")
    above = _text(parent, "path").partition("root:")
    path = "/".join(filter(None, [unquote(above[2]).strip("/"), name])) if above[1] else None
    return _Place(name, _text(parent, "id"), path)


def _person(identities: Any) -> str:
    user = identities.get("user") if isinstance(identities, dict) else None
    return _text(user, "displayName") or _text(user, "email")


def _text(holder: Any, name: str) -> str:
    value = holder.get(name) if isinstance(holder, Mapping) else None
    return value if isinstance(value, str) else ""


NOT_THERE: Final = "There is no such folder, or the account may not read it."


def list_folder(graph: Graph, tokens: TokenSource, drive: Drive, parent: str | None, cursor: str | None) -> FolderPage:
    """The cursor: what of Graph's own link follows its address."""
    address = cursor or (f"{drive.at(parent)}/children" if parent else f"{drive.place}/root/children")
    answer = graph.get(tokens, address)
    if answer.status != 200:
        raise Skippable(NOT_THERE)
    values = answer.body.get("value")
    if not isinstance(values, list):
        raise Retryable(f"{graph.title}'s listing broke off: its answer holds no items.")

    def ask(folder: str) -> Mapping[str, Any] | None:
        about = graph.get(tokens, drive.at(folder))
        return about.body if about.status == 200 else None

    folders = Folders(ask)
    children = [item for item in values if isinstance(item, dict) and isinstance(item.get("id"), str)]
    link = answer.body.get("@odata.nextLink")
    entries = [_entry(item, folders) for item in children if not is_deleted(item) and _is_brought(item)]
    return FolderPage(entries, graph.path(link) if link else None)


def _is_brought(item: Item) -> bool:
    return is_file(item) or (isinstance(item.get("folder"), dict) and item.get("package") is None)


def _entry(item: Item, folders: Folders) -> FolderEntry:
    is_folder = not is_file(item)
    source_item = as_source_item(item, folders.path(item), folders.above(item))
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
