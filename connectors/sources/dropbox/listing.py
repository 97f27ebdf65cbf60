"""Listing of Dropbox: everything at first, then changes, by its cursor.

A change names a path, while documents go by file ids, which outlive moves. What a change took away is therefore looked
up: the revisions of a path name the files that were there, also when another file is there now, and a request for each
of them shows whether it still exists. That costs two requests or so a changed path, so where it cannot
answer (a folder was deleted or moved), or there is much to look up, everything is listed instead: 2000 files a request,
and what is missing then was deleted. Revisions are kept for 30 days at least; each week everything is listed anyway.
"""

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

PAGE = 2000
"""Entries a request: the most that Dropbox gives."""
LOOKUPS = 200
"""Changed paths of one listing that are looked up; with more, everything is listed."""
THREADS = 4
WEEK = 7 * 86400.0
REVISIONS = 100
EMPTY = 1000
"""Pages without a file, one after the other, that are taken for a listing that leads nowhere."""
STARTS = 3
"""How often one listing may begin from the start."""


@dataclass(frozen=True, slots=True)
class DropboxCursor:
    """Position of a listing. `at`: Dropbox's cursor, None before the first page; `whole`: of everything.

    `since`: when the last listing of everything began, as seconds since 1970; 0 if the next one is due at once.
    `looked`: paths that were looked up so far.
    """

    at: str | None = None
    whole: bool = True
    since: float = 0.0
    looked: int = 0

    @classmethod
    def of(cls, cursor: str | None) -> DropboxCursor:
        """A cursor that cannot be read is none: everything is listed anew."""
        position = cls()
        with suppress(ValueError, TypeError):
            position = cls(**json.loads(cursor or "{}"))
        overdue = not position.whole and time.time() - position.since > WEEK
        return cls() if overdue else position

    def __str__(self) -> str:
        return json.dumps(asdict(self))


def list_changes(client: DropboxSession, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
    """See `Connector.iter_changes`."""
    position, starts, empty, seen_cursors = DropboxCursor.of(cursor), 0, 0, set[str]()
    while True:
        answer = _next(client, tokens, position)
        if answer is None:
            starts += 1
            if starts > STARTS:
                raise Retryable("Dropbox has reset its listing several times in a row.")
            position = DropboxCursor()
            continue
        page, position = answer
        yield page
        if page.done:
            return
        empty = 0 if page.items else empty + 1
        if position.at is None or position.at in seen_cursors or empty > EMPTY:
            raise Retryable("Dropbox's listing does not come to an end.")
        seen_cursors.add(position.at)


def _next(
    client: DropboxSession, tokens: TokenSource, place: DropboxCursor
) -> tuple[Page[SourceItem], DropboxCursor] | None:
    """The page behind a place and the place behind that; None if everything has to be listed from the start."""
    since = time.time() if place.at is None else place.since
    try:
        answer = client.ask(tokens, lambda sdk: _ask(sdk, place))
    except CursorExpired:
        return None
    paths = _changed(answer.entries, place)
    looked = place.looked + len(paths)
    moved_ids = _left(client, tokens, paths) if looked <= LOOKUPS else None
    if moved_ids is None:
        if not place.whole:
            return None
        moved_ids, since = set(), 0.0  # deleted while everything was being listed: seen when that is done again
    next_position = DropboxCursor(answer.cursor, place.whole, since, looked)
    done = not answer.has_more
    saved = DropboxCursor(answer.cursor, whole=False, since=since) if done else next_position
    page = _page(answer.entries, moved_ids)
    return replace(page, cursor=str(saved), done=done, whole=done and place.whole), next_position


def _ask(sdk: Any, place: DropboxCursor) -> Any:
    from dropbox.exceptions import ApiError

    try:
        if place.at is not None:
            return sdk.files_list_folder_continue(place.at)
        return sdk.files_list_folder("", recursive=True, include_mounted_folders=True, limit=PAGE)
    except ApiError as error:
        if place.at is not None and error.error.is_reset():
            raise CursorExpired from error
        raise Fatal("Dropbox refuses to list this account's files.") from error


def _page(entries: Sequence[Any], left: set[str]) -> Page[SourceItem]:
    from dropbox.files import FileMetadata

    files_found = [files.as_source_item(entry) for entry in entries if isinstance(entry, FileMetadata)]
    items = {file_item.external_id: file_item for file_item in files_found if isinstance(file_item, SourceItem)}
    items |= {file_item: SourceItem(file_item, "", deleted=True) for file_item in left}
    return Page(
        list(items.values()),
        "",
        done=False,
        skipped=Counter(file_item for file_item in files_found if isinstance(file_item, str)),
    )


def _changed(entries: Sequence[Any], place: DropboxCursor) -> dict[str, str | None]:
    """Paths at which another file may have been before, with the id of the current file.

    A listing of everything needs to know only what was deleted meanwhile.
    """
    from dropbox.files import DeletedMetadata, FileMetadata

    paths: dict[str, str | None] = {}
    for entry in entries:
        if isinstance(entry, DeletedMetadata):
            paths[entry.path_lower] = None
        elif isinstance(entry, FileMetadata) and entry.path_lower and not place.whole:
            paths[entry.path_lower] = entry.id
    return paths


def _left(client: DropboxSession, tokens: TokenSource, paths: Mapping[str, str | None]) -> set[str] | None:
    """Return the ids of deleted files that were at these paths; None if they cannot be determined one by one."""

    def ids_at(path: str) -> set[str]:
        return client.ask(tokens, lambda sdk: _ids_at(sdk, path))

    def is_gone(external_id: str) -> bool:
        return files.is_gone(client, tokens, external_id)

    if not paths:
        return set()
    with ThreadPoolExecutor(THREADS, thread_name_prefix="dropbox") as pool:
        ids_by_path = list(pool.map(ids_at, paths))
        if any(not ids and current_id is None for ids, current_id in zip(ids_by_path, paths.values(), strict=True)):
            return None
        former_ids = sorted(
            set().union(*(ids - {current_id} for ids, current_id in zip(ids_by_path, paths.values(), strict=True)))
        )
        return {file_id for file_id, went in zip(former_ids, pool.map(is_gone, former_ids), strict=True) if went}


def _ids_at(sdk: Any, path: str) -> set[str]:
    """Return the ids of current and earlier files at a path; none if it is a folder's, or unknown to Dropbox."""
    from dropbox.exceptions import ApiError

    try:
        return {revision.id for revision in sdk.files_list_revisions(path, limit=REVISIONS).entries}
    except ApiError:
        return set()
