"""Listing of Dropbox by its cursor: everything at first, then changes."""

# A change names a path, but documents have file ids, which survive moves. So revisions of a changed path name its
# earlier files, and a request for each shows whether it still exists: about two requests per path. After a deleted or
# moved folder, or many changes, everything is listed instead, 2000 files per request. Revisions are kept for 30 days at
# least; each week everything is listed anyway.

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from connectors.sources.dropbox import files
from connectors.sources.dropbox.client import CursorExpired
from retrieval.errors import Fatal, Retryable
from retrieval.ports import Page, SourceItem

if TYPE_CHECKING:
    from connectors.sources.dropbox.client import DropboxSession
    from retrieval.ports import TokenSource

# Dropbox's largest page.
ENTRIES_PER_PAGE = 2000
# Changed paths of a listing with a look-up; beyond, everything is listed.
MAX_LOOKUPS = 200
LOOKUP_THREADS = 4
FULL_LISTING_SECONDS = 7 * 86400.0
MAX_REVISIONS = 100
# Consecutive pages without a file before a listing counts as endless.
MAX_EMPTY_PAGES = 1000
# Restarts of one listing.
MAX_STARTS = 3


@dataclass(frozen=True, slots=True)
class DropboxCursor:
    """Position of a listing, stored as JSON. `at`: Dropbox's cursor, None before the first page; `whole`: a full
    listing.

    `since`: start of the last full listing in seconds since 1970, 0 if the next one is due; `looked`: number of
    looked-up paths.
    """

    at: str | None = None
    whole: bool = True
    since: float = 0.0
    looked: int = 0

    @classmethod
    def parse(cls, cursor: str | None) -> DropboxCursor:
        """Parse a cursor; an invalid or overdue one starts a full listing."""
        position = cls()
        with suppress(ValueError, TypeError):
            position = cls(**json.loads(cursor or "{}"))
        overdue = not position.whole and time.time() - position.since > FULL_LISTING_SECONDS
        return cls() if overdue else position

    def __str__(self) -> str:
        return json.dumps(asdict(self))


class ListingRefused(Fatal):
    """Dropbox does not list the files."""


def list_changes(client: DropboxSession, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
    """Implement `Connector.iter_changes`."""
    position, starts, empty, seen_cursors = DropboxCursor.parse(cursor), 0, 0, set[str]()
    while True:
        answer = _read_page(client, tokens, position)
        if answer is None:
            starts += 1
            if starts > MAX_STARTS:
                raise Retryable("Dropbox has reset its listing several times in a row.")
            position = DropboxCursor()
            continue
        page, position = answer
        yield page
        if page.done:
            return
        empty = 0 if page.items else empty + 1
        if position.at is None or position.at in seen_cursors or empty > MAX_EMPTY_PAGES:
            raise Retryable("Dropbox's listing does not come to an end.")
        seen_cursors.add(position.at)


def _read_page(
    client: DropboxSession, tokens: TokenSource, cursor: DropboxCursor
) -> tuple[Page[SourceItem], DropboxCursor] | None:
    """Return the next page and position; None if a full listing is necessary."""
    since = time.time() if cursor.at is None else cursor.since
    try:
        answer = client.call(tokens, lambda sdk: _request_page(sdk, cursor, has_mounts=client.space is None))
    except CursorExpired:
        return None
    paths = _changed_paths(answer.entries, cursor)
    looked = cursor.looked + len(paths)
    moved_ids = _deleted_ids(client, tokens, paths) if looked <= MAX_LOOKUPS else None
    if moved_ids is None:
        if not cursor.whole:
            return None
        moved_ids, since = set(), 0.0  # the next full listing finds files deleted during this one
    next_position = DropboxCursor(answer.cursor, cursor.whole, since, looked)
    done = not answer.has_more
    saved = DropboxCursor(answer.cursor, whole=False, since=since) if done else next_position
    page = _make_page(answer.entries, moved_ids)
    return replace(page, cursor=str(saved), done=done, whole=done and cursor.whole), next_position


def _request_page(sdk: Any, cursor: DropboxCursor, *, has_mounts: bool) -> Any:
    from dropbox.exceptions import ApiError

    try:
        if cursor.at is not None:
            return sdk.files_list_folder_continue(cursor.at)
        return sdk.files_list_folder("", recursive=True, include_mounted_folders=has_mounts, limit=ENTRIES_PER_PAGE)
    except ApiError as error:
        if cursor.at is not None and error.error.is_reset():
            raise CursorExpired from error
        raise ListingRefused("Dropbox refuses to list this account's files.") from error


def _make_page(entries: Sequence[Any], deleted_ids: set[str]) -> Page[SourceItem]:
    from dropbox.files import FileMetadata

    files_found = [files.as_source_item(entry) for entry in entries if isinstance(entry, FileMetadata)]
    items = {file_item.external_id: file_item for file_item in files_found if isinstance(file_item, SourceItem)}
    items |= {file_item: SourceItem(file_item, "", deleted=True) for file_item in deleted_ids}
    return Page(
        list(items.values()),
        "",
        done=False,
        skipped=Counter(file_item for file_item in files_found if isinstance(file_item, str)),
    )


def _changed_paths(entries: Sequence[Any], cursor: DropboxCursor) -> dict[str, str | None]:
    """Return changed paths with the id of the current file."""
    # A full listing needs only deletions.
    from dropbox.files import DeletedMetadata, FileMetadata

    paths: dict[str, str | None] = {}
    for entry in entries:
        if isinstance(entry, DeletedMetadata):
            paths[entry.path_lower] = None
        elif isinstance(entry, FileMetadata) and entry.path_lower and not cursor.whole:
            paths[entry.path_lower] = entry.id
    return paths


def _deleted_ids(client: DropboxSession, tokens: TokenSource, paths: Mapping[str, str | None]) -> set[str] | None:
    """Return the ids of files deleted at these paths; None if not all can be determined."""

    def ids_at(path: str) -> set[str]:
        return client.call(tokens, lambda sdk: _file_ids_at(sdk, path))

    def is_deleted(external_id: str) -> bool:
        return files.is_deleted(client, tokens, external_id)

    if not paths:
        return set()
    with ThreadPoolExecutor(LOOKUP_THREADS, thread_name_prefix="dropbox") as pool:
        ids_by_path = list(pool.map(ids_at, paths))
        if any(not ids and current_id is None for ids, current_id in zip(ids_by_path, paths.values(), strict=True)):
            return None
        former_ids = sorted(
            set().union(*(ids - {current_id} for ids, current_id in zip(ids_by_path, paths.values(), strict=True)))
        )
        return {
            file_id for file_id, deleted in zip(former_ids, pool.map(is_deleted, former_ids), strict=True) if deleted
        }


def _file_ids_at(sdk: Any, path: str) -> set[str]:
    """Return ids of current and earlier files at a path; none for a folder or an unknown path."""
    from dropbox.exceptions import ApiError

    try:
        return {revision.id for revision in sdk.files_list_revisions(path, limit=MAX_REVISIONS).entries}
    except ApiError:
        return set()
