"""Objects: listed by page in order of keys, fetched as a stream, each checked for deletion."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from urllib.parse import quote, unquote

import msgspec

from connectors.http import responses
from connectors.http.no_authorizer import NoAuthorizer
from connectors.http.retries import RateLimited, ServicePolicy, TransientError
from connectors.sources.objects.location import Location, open_location, parse_location
from connectors.sources.objects.storage import UNKNOWN, Batch, Storage, StoredObject
from retrieval.errors import Retryable, Skippable
from retrieval.ports import FolderEntry, FolderPage, Page, RawContent, SourceItem, Tokens, TokenSource
from retrieval.settings import Settings

if TYPE_CHECKING:
    from retrieval.ports import Authorizer

# Module and function that make the storage, by the scheme of the URL.
MAKERS: Final = {
    "s3": "bucket:make_bucket",
    "gs": "bucket:make_bucket",
    "azure": "azure:make_container",
    "webdav+https": "webdav:make_webdav",
    "webdav+http": "webdav:make_webdav",
    "sftp": "sftp:make_sftp",
    "smb": "smb:make_share",
    "ftps": "ftp:make_ftp",
    "ftp": "ftp:make_ftp",
    "imaps": "imap:make_mailbox",
    "imap": "imap:make_mailbox",
    "file": "tree:make_folder",
}

ResultT = TypeVar("ResultT")

POLICY: Final = ServicePolicy("Object storage", per_minute=60_000, burst=1000)
# Seconds that the content of one object may take.
DOWNLOAD_TIMEOUT_SECONDS: Final = 600.0
READ_CHUNK_BYTES: Final = 1 << 20
# Characters of a name from the storage, such as a mail's subject.
NAME: Final = 200
LINKS: Final = "symbolic links"
# Names of files are bytes: Python reads those that are no UTF-8 in this way, and a URL holds them as they are.
NAME_ERRORS: Final = "surrogateescape"


def make(_app: Mapping[str, Any], settings: Settings) -> Objects:
    """Return the connector of all connections."""
    return Objects(settings)


def read_config(config: Mapping[str, Any], settings: Settings) -> Tokens:
    """Check and return the `config` of a connection. ValueError as in `parse_location`."""
    if "fullListingMinutes" in config:
        raise ValueError("fullListingMinutes", "is not for storages: each listing of a storage is full")
    location = parse_location(config, settings)
    return Tokens(json.dumps(dict(config)), account=location.root + location.prefix)


@dataclass(frozen=True, slots=True)
class Objects:
    """A `Connector`."""

    settings: Settings
    authorizer: Authorizer = field(default_factory=NoAuthorizer)
    # By the connection's token: clients keep their connections between calls.
    opened: dict[str, tuple[Location, Storage]] = field(default_factory=dict, repr=False)

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        """List all objects; the cursor is the last key."""
        # A storage has no feed of changes.
        location, storage = self._open(tokens)
        listing = _Listing(storage, _read_position(location, cursor))
        while True:
            batch = _ask(tokens, listing.read)
            yield _page(location, batch)
            if batch.last is None:
                return

    def browse(self, tokens: TokenSource, parent: str | None, cursor: str | None) -> FolderPage:
        """List a folder; ids of folders are their paths. Skippable for a missing folder."""
        location, storage = self._open(tokens)
        folder = f"{location.prefix}{parent.strip('/')}/" if parent else location.prefix
        batch = _ask(tokens, lambda: storage.list_folder(folder, cursor or ""))
        if parent and not cursor and not batch.objects:
            raise Skippable("There is no such folder.")
        return FolderPage([_entry(location, stored) for stored in batch.objects], batch.last)

    def fetch(self, tokens: TokenSource, item: SourceItem, to: Path) -> RawContent | None:
        location, storage = self._open(tokens)
        key = _key(location, item.external_id)
        if key is None:
            raise Skippable("The connection names another storage than the one that this file is from.")
        return _ask(tokens, lambda: _save(location, storage, key, to, self.settings.max_file_bytes))

    def is_deleted(self, tokens: TokenSource, external_id: str) -> bool:
        location, storage = self._open(tokens)
        key = _key(location, external_id)
        return key is None or _ask(tokens, lambda: storage.find(key)) is None

    def _open(self, tokens: TokenSource) -> tuple[Location, Storage]:
        token = tokens.token()
        if token not in self.opened:
            location = open_location(token, self.settings)
            self.opened[token] = location, _make_storage(location, self.settings)
        return self.opened[token]


class _Listing:
    """Listing that resumes behind the last key after an error."""

    def __init__(self, storage: Storage, after: str) -> None:
        self._storage = storage
        self._after = after
        self._batches: Iterator[Batch] | None = None

    def read(self) -> Batch:
        self._batches = self._batches or self._storage.list_objects(self._after)
        try:
            batch = next(self._batches)
        except BaseException:
            self._batches = None
            raise
        self._after = batch.last or ""
        return batch


def _make_storage(location: Location, settings: Settings) -> Storage:
    """Return the storage of a location."""
    # Libraries of storages that no connection uses are not imported.
    module, _, name = MAKERS[location.scheme].partition(":")
    make_storage = getattr(importlib.import_module(f"connectors.sources.objects.{module}"), name)
    return cast("Storage", make_storage(location, settings))


def _ask(tokens: TokenSource, request: Callable[[], ResultT]) -> ResultT:
    """Repeat requests after transient and Retryable errors."""

    def ask(_token: str) -> ResultT:
        try:
            return request()
        except Retryable as error:
            raise (TransientError(str(error)) if error.after is None else RateLimited(error.after)) from error

    return POLICY.call(tokens, ask)


def _read_position(location: Location, cursor: str | None) -> str:
    """Return the cursor's last key; "" for a cursor of another location or version."""
    try:
        position = msgspec.json.decode(cursor or "{}", type=dict[str, str])
    except msgspec.DecodeError:
        return ""
    return position.get("after", "") if position.get("of") == location.root + location.prefix else ""


def _page(location: Location, batch: Batch) -> Page[SourceItem]:
    done = batch.last is None
    cursor = json.dumps({"of": location.root + location.prefix, "after": batch.last or ""})
    skipped = {LINKS: batch.links} if batch.links else {}
    items = [_item(location, stored) for stored in batch.objects]
    return Page(items, cursor, done=done, skipped=skipped, whole=done)


def _save(location: Location, storage: Storage, key: str, to: Path, most: int) -> RawContent:
    with storage.open(key) as (stored, stream):
        if stored.size > most:
            raise responses.too_large(most)
        pieces = iter(lambda: stream.read(READ_CHUNK_BYTES), b"")
        size = responses.save_file(pieces, to, max_bytes=most, seconds=DOWNLOAD_TIMEOUT_SECONDS, service="The storage")
    if stored.size not in {size, UNKNOWN}:
        raise TransientError("The file changed, or its download broke off.")
    item = _item(location, stored)
    return RawContent(to, item.name, item.media_type, size, version=stored.version, properties=item.properties)


def _item(location: Location, stored: StoredObject) -> SourceItem:
    """`external_id`: URL of the object; `path`: from the prefix on."""
    path = _readable(stored.key.removeprefix(location.prefix))
    quoted = quote(stored.key, errors=NAME_ERRORS)
    folders = path.split("/")[:-1]
    above = tuple("/".join(folders[:depth]) for depth in range(1, len(folders) + 1))
    properties = {"url": location.page_root + quoted, "path": path} | (
        {"modifiedAt": stored.modified_at} if stored.modified else {}
    )
    url, name = location.root + quoted, stored.name[:NAME] or path.rpartition("/")[2]
    return SourceItem(url, name, stored.media_type, stored.version, properties=properties, above=above)


def _entry(location: Location, stored: StoredObject) -> FolderEntry:
    path = _readable(stored.key.removeprefix(location.prefix).rstrip("/"))
    name = path.rpartition("/")[2]
    if stored.key.endswith("/"):
        return FolderEntry(path, name, is_folder=True, path=path, has_children=True)
    item = _item(location, stored)
    modified_at = stored.modified_at or None
    return FolderEntry(
        item.external_id,
        item.name,
        is_folder=False,
        path=path,
        media_type=item.media_type,
        size=stored.size,
        modified_at=modified_at,
        above=item.above,
    )


def _key(location: Location, external_id: str) -> str | None:
    """Return the key of an object; None outside of the storage or prefix."""
    key = unquote(external_id.removeprefix(location.root), errors=NAME_ERRORS)
    return key if external_id.startswith(location.root) and key.startswith(location.prefix) else None


def _readable(path: str) -> str:
    """Replace bytes outside of UTF-8 in a displayed path."""
    return path.encode(errors=NAME_ERRORS).decode(errors="replace")
