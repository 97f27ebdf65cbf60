"""Listing of a Box account, and of changes."""

# A folder's page names only direct entries: folders are walked, the newest first, so at most one page of each level
# waits and the cursor stays small in wide accounts. Events come twice, in any order, with an old state of the item:
# each only causes a request for the current state of a file, or a walk of a folder. Box does not report the content of
# a deleted folder: then a full listing without downloads finds the missing files. The position of events is read before
# a full listing, so that no change is lost. Everything is listed each week: Box keeps events for two weeks, and an
# older position may silently start late.

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import structlog

from connectors.sources.box import files as box_files
from connectors.sources.box.answers import Event
from connectors.sources.box.client import BoxSession, CursorExpired, Forbidden, NotFound
from retrieval.errors import Fatal, Retryable
from retrieval.ports import Page, SourceItem, TokenSource

logger = structlog.get_logger(__name__)
ROOT_FOLDER_ID = "0"
FULL_LISTING_SECONDS = 7 * 86400
MAX_REQUESTS = 200_000
MAX_EVENT_PAGES = 2_000
MAX_WAITING_PAGES = 20_000
# Events that change neither a file nor its permissions.
_IGNORED_EVENTS = (
    "COMMENT_",
    "TASK_",
    "TAG_",
    "LOCK_",
    "ANNOTATIONV2_",
    "ITEM_SHARED",
    "ITEM_DOWNLOAD",
    "ITEM_PREVIEW",
)
_CREATION_EVENTS = frozenset({"ITEM_CREATE", "ITEM_UPLOAD", "ITEM_COPY"})
# Events that explain a missing file.
_REMOVAL_EVENTS = frozenset({"ITEM_TRASH", "ITEM_MOVE"})
OUTSIDE_OWNER = "file or folder that an account outside of the enterprise owns"
_STUCK_MESSAGE = "Box does not return the next page of a folder: ingest again, and the listing starts over."


class FullListingRequired(Exception):
    """Changes are incomplete: list everything."""


class AccountClosed(Fatal):
    """Box does not show the account's files."""

    def __init__(self) -> None:
        super().__init__("Box does not show this account's files to the app: check the app's scopes.")


@dataclass(frozen=True, slots=True)
class BoxCursor:
    """Position of a listing, stored as JSON. `at`: position of events; `since`: time of the last full listing.

    `waiting`: folders to walk, the next one last, each with the marker of a page, "" for the first; `whole`: the
    walk began at the root; `asked`: number of pages so far.
    """

    at: str
    since: int
    step: Literal["changes", "walk"] = "changes"
    whole: bool = False
    waiting: tuple[tuple[str, str], ...] = ()
    asked: int = 0

    def __str__(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def parse(cls, cursor: str) -> BoxCursor:
        """Parse a cursor. FullListingRequired for an invalid one."""
        try:
            position = cls(**json.loads(cursor))
            return replace(position, waiting=tuple((folder, marker) for folder, marker in position.waiting))
        except (ValueError, TypeError) as error:
            raise FullListingRequired from error

    def end(self) -> BoxCursor:
        """Return the start of the next listing."""
        return BoxCursor(self.at, self.since)


@dataclass(frozen=True, slots=True)
class BoxListing:
    """Listing for one connection. `owner_id`: list only this user's own items."""

    client: BoxSession
    tokens: TokenSource
    owner_id: str | None = None
    # Visited pages: folder and marker.
    visited_pages: set[tuple[str, str]] = field(default_factory=set)

    def pages(self, cursor: str | None) -> Iterator[Page[SourceItem]]:
        position: BoxCursor | None = None
        while True:
            try:
                position = position or self._begin(cursor)
                page = self._read_page(position)
            except FullListingRequired:
                logger.info("box.full_listing", connection_id=self.tokens.connection_id)
                position = self._begin_full()
                continue
            yield page
            if page.done:
                return
            position = BoxCursor.parse(page.cursor)

    def _begin(self, cursor: str | None) -> BoxCursor:
        if cursor is None:
            return self._begin_full()
        position = BoxCursor.parse(cursor)
        if position.step == "changes" and not position.asked and time.time() - position.since > FULL_LISTING_SECONDS:
            raise FullListingRequired
        return position

    def _begin_full(self) -> BoxCursor:
        since = int(time.time())
        try:
            at = _parse_position(self.client.list_events(self.tokens, "now").next_stream_position)
        except CursorExpired as error:
            raise Fatal("Box does not report changes for this account (400): try another account.") from error
        except (NotFound, Forbidden) as error:
            raise AccountClosed from error
        if at is None:
            raise Retryable("Box returned no position in its events.")
        return BoxCursor(at, since, "walk", whole=True, waiting=((ROOT_FOLDER_ID, ""),))

    def _read_page(self, cursor: BoxCursor) -> Page[SourceItem]:
        return self._list_changes(cursor) if cursor.step == "changes" else self._list_folder(cursor)

    def _list_changes(self, cursor: BoxCursor) -> Page[SourceItem]:
        try:
            events = self.client.list_events(self.tokens, cursor.at)
        except CursorExpired as error:
            raise FullListingRequired from error
        except (NotFound, Forbidden) as error:
            raise AccountClosed from error
        at = _parse_position(events.next_stream_position)
        files, folders = _changed_items(events.entries, (folder for folder, _ in cursor.waiting))
        waiting = dict.fromkeys([*cursor.waiting, *((folder, "") for folder in folders)])
        if at is None or cursor.asked >= MAX_EVENT_PAGES or len(waiting) > MAX_WAITING_PAGES:
            raise FullListingRequired
        is_last_page = not events.entries or at == cursor.at
        step: Literal["changes", "walk"] = "walk" if is_last_page else "changes"
        next_position = replace(cursor, at=at, step=step, waiting=tuple(waiting), asked=cursor.asked + 1)
        removed_ids = {_event_item(event)[1] for event in events.entries if event.event_type in _REMOVAL_EVENTS}
        items = [self._read_file(file, is_removed=file in removed_ids) for file in files]
        return self._make_page(items, next_position, is_end=is_last_page and not waiting)

    def _read_file(self, file_id: str, *, is_removed: bool) -> SourceItem:
        """Return a file named by events. FullListingRequired if it is missing without a removal."""
        try:
            entry = self.client.read_file(self.tokens, file_id)
            if box_files.is_owned(entry, self.owner_id):
                return box_files.as_source_item(entry)
        except (NotFound, Forbidden) as error:
            if isinstance(error, NotFound) and not is_removed:
                # The file's folder was deleted, or Box no longer answers for files: a full listing shows which.
                raise FullListingRequired from error
        return SourceItem(file_id, "", deleted=True)

    def _list_folder(self, cursor: BoxCursor) -> Page[SourceItem]:
        (folder, marker), waiting = cursor.waiting[-1], cursor.waiting[:-1]
        next_position = replace(cursor, waiting=waiting, asked=cursor.asked + 1)
        self.visited_pages.add((folder, marker))
        try:
            page = self.client.list_folder(self.tokens, folder, marker)
        except (NotFound, Forbidden) as error:
            return self._skip_folder(folder, next_position, error)
        except CursorExpired as error:
            raise (Fatal(_STUCK_MESSAGE) if cursor.whole else FullListingRequired) from error
        if page.next_marker and (folder, page.next_marker) in self.visited_pages:
            raise Fatal(_STUCK_MESSAGE)
        further_pages = ((folder, page.next_marker),) if page.next_marker else ()
        entries = [entry for entry in page.entries if box_files.is_owned(entry, self.owner_id)]
        below = tuple((entry.id, "") for entry in entries if entry.type == "folder")
        next_position = replace(next_position, waiting=(*waiting, *further_pages, *below))
        if len(next_position.waiting) > MAX_WAITING_PAGES or next_position.asked > MAX_REQUESTS:
            raise Fatal("The Box account has too many folders to be listed: share those that are wanted with another.")
        items = [box_files.as_source_item(entry) for entry in entries if entry.type == "file"]
        skipped = Counter("web link" for entry in entries if entry.type == "web_link")
        if self.owner_id is not None:
            skipped[OUTSIDE_OWNER] += sum(entry.is_externally_owned is True for entry in page.entries)
        return self._make_page(items, next_position, is_end=not next_position.waiting, skipped=dict(+skipped))

    def _skip_folder(self, folder: str, cursor: BoxCursor, error: Exception) -> Page[SourceItem]:
        """Skip a folder gone or closed since the listing. FullListingRequired for a folder named by an event."""
        if not cursor.whole:
            raise FullListingRequired from error
        if folder == ROOT_FOLDER_ID:
            raise AccountClosed from error
        closed = {"folder without access": 1} if isinstance(error, Forbidden) else {}
        return self._make_page([], cursor, is_end=not cursor.waiting, skipped=closed)

    def _make_page(
        self, items: Sequence[SourceItem], cursor: BoxCursor, *, is_end: bool, skipped: dict[str, int] | None = None
    ) -> Page[SourceItem]:
        saved_cursor = str(cursor.end() if is_end else cursor)
        return Page(items, saved_cursor, done=is_end, skipped=skipped or {}, whole=is_end and cursor.whole)


def _parse_position(position: str | int | None) -> str | None:
    """Return a position of events; None for an invalid one."""
    # From 0, Box would return all events it stores.
    text = "" if position is None else str(position)
    return text if text.isascii() and text.isdigit() and int(text) > 0 else None


def _changed_items(events: Iterable[Event], waiting: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return changed files and folders, without items created in a walked folder."""
    # An item with another event stays: it may have left the folder.
    events_by_kind: dict[str, dict[str, list[frozenset[str]]]] = {"file": {}, "folder": {}}
    for event in events:
        kind, item_id = _event_item(event)
        if kind in events_by_kind:
            is_new = event.event_type in _CREATION_EVENTS
            events_by_kind[kind].setdefault(item_id, []).append(
                _folders_above(event.source or {}) if is_new else frozenset()
            )
    walked = {*waiting, *events_by_kind["folder"]}
    files, folders = (
        [folder_id for folder_id, above in folders_above.items() if not all(map(walked.__and__, above))]
        for folders_above in events_by_kind.values()
    )
    return files, folders


def _event_item(event: Event) -> tuple[str, str]:
    """Return kind and id of the changed item, in either of Box's forms; "" for an irrelevant event."""
    source = event.source or {}
    kind, item_id = source.get("type") or source.get("item_type"), source.get("id") or source.get("item_id")
    matters = (
        isinstance(kind, str) and isinstance(item_id, str) and not (event.event_type or "").startswith(_IGNORED_EVENTS)
    )
    return (str(kind), str(item_id)) if matters else ("", "")


def _folders_above(source: Mapping[str, Any]) -> frozenset[str]:
    """Return the folders above the item at the time of the event."""
    path = source.get("path_collection")
    entries = path.get("entries") if isinstance(path, dict) else None
    return frozenset(str(entry["id"]) for entry in entries or () if isinstance(entry, dict) and "id" in entry)
