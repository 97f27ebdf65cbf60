"""Listing of a Box account, and its changes.

A folder's page names its direct entries and nothing below, so folders are walked, the newest found first: at most one
page of each level waits, and the cursor stays small however wide the account is. (Breadth first, whole levels would
wait.)

The account's events say what may have changed, some of them twice, in any order, each with the item as it was some time
ago. So an event is only a reason to look: a file is requested by its id, whatever happened to it, and is listed as it
is now, or as deleted; a folder is walked with all below it. This makes duplicates and disorder harmless, also across
pages. Box does not report the content of a deleted folder: then everything is listed, so that what is missing shows
which files left, each of which is requested before its document goes. That is one request a folder and no download.

A position is taken before everything is listed, so that nothing falls between. Everything is listed again each week:
for an event that never came, and since Box keeps events for two weeks only, and an older position may silently begin
late.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import structlog

from connectors.sources.box import files as box_files
from connectors.sources.box.client import BoxSession, CursorExpired, Event, Forbidden, NotFound
from retrieval.errors import Fatal, Retryable
from retrieval.ports import Page, SourceItem, TokenSource

log = structlog.get_logger(__name__)
ROOT = "0"
WEEK = 7 * 86400
MOST_REQUESTS = 200_000
MOST_EVENT_PAGES = 2_000
MOST_WAITING = 20_000
_SILENT = ("COMMENT_", "TASK_", "TAG_", "LOCK_", "ANNOTATIONV2_", "ITEM_SHARED", "ITEM_DOWNLOAD", "ITEM_PREVIEW")
"""Events that change neither a file nor its permissions."""
_BIRTHS = frozenset({"ITEM_CREATE", "ITEM_UPLOAD", "ITEM_COPY"})
_REMOVALS = frozenset({"ITEM_TRASH", "ITEM_MOVE"})
"""Events after which a file that is not found is deleted, or out of the account's reach."""
_STUCK = "Box does not go on with the pages of a folder: ingest again, which begins anew."


class Lost(Exception):
    """The changes do not say enough: everything is to be listed."""


@dataclass(frozen=True, slots=True)
class BoxCursor:
    """Position of a listing, as a cursor. `at`: the events' position. `since`: time of the last full listing.

    `waiting`: folders to walk, the next one last, each with the marker of its page, "" for the first. `whole`: the walk
    began at the root. `asked`: pages so far.
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
    def of(cls, cursor: str) -> BoxCursor:
        """Lost for what is no cursor of ours."""
        try:
            position = cls(**json.loads(cursor))
            return replace(position, waiting=tuple((folder, marker) for folder, marker in position.waiting))
        except (ValueError, TypeError) as error:
            raise Lost from error

    def end(self) -> BoxCursor:
        """Position at which the next listing begins."""
        return BoxCursor(self.at, self.since)


@dataclass(frozen=True, slots=True)
class Walk:
    """One listing in the name of a connection."""

    client: BoxSession
    tokens: TokenSource
    asked: set[tuple[str, str]] = field(default_factory=set)
    """Pages of folders, each by its marker."""

    def pages(self, cursor: str | None) -> Iterator[Page[SourceItem]]:
        position: BoxCursor | None = None
        while True:
            try:
                position = position or self._begin(cursor)
                page = self._page(position)
            except Lost:
                log.info("box.full_listing", connection_id=self.tokens.connection_id)
                position = self._everything()
                continue
            yield page
            if page.done:
                return
            position = BoxCursor.of(page.cursor)

    def _begin(self, cursor: str | None) -> BoxCursor:
        if cursor is None:
            return self._everything()
        position = BoxCursor.of(cursor)
        if position.step == "changes" and not position.asked and time.time() - position.since > WEEK:
            raise Lost
        return position

    def _everything(self) -> BoxCursor:
        since = int(time.time())
        try:
            at = _position(self.client.events(self.tokens, "now").next_stream_position)
        except CursorExpired as error:
            raise Fatal("Box does not report changes for this account (400): try another account.") from error
        if at is None:
            raise Retryable("Box returned no position in its events.")
        return BoxCursor(at, since, "walk", whole=True, waiting=((ROOT, ""),))

    def _page(self, place: BoxCursor) -> Page[SourceItem]:
        return self._changes(place) if place.step == "changes" else self._folder(place)

    def _changes(self, place: BoxCursor) -> Page[SourceItem]:
        try:
            events = self.client.events(self.tokens, place.at)
        except CursorExpired as error:
            raise Lost from error
        at = _position(events.next_stream_position)
        files, folders = _named(events.entries, (folder for folder, _ in place.waiting))
        waiting = dict.fromkeys([*place.waiting, *((folder, "") for folder in folders)])
        if at is None or place.asked >= MOST_EVENT_PAGES or len(waiting) > MOST_WAITING:
            raise Lost
        over = not events.entries or at == place.at
        step: Literal["changes", "walk"] = "walk" if over else "changes"
        next_position = replace(place, at=at, step=step, waiting=tuple(waiting), asked=place.asked + 1)
        removed_ids = {_subject(event)[1] for event in events.entries if event.event_type in _REMOVALS}
        items = [self._file(file, is_removed=file in removed_ids) for file in files]
        return self._told(items, next_position, over=over and not waiting)

    def _file(self, file_id: str, *, is_removed: bool) -> SourceItem:
        """Return a file that events name. Lost if it is not found, but no event removed it."""
        try:
            return box_files.as_source_item(self.client.file(self.tokens, file_id))
        except (NotFound, Forbidden) as error:
            if isinstance(error, NotFound) and not is_removed:
                # Its folder was deleted, or Box no longer answers for files: a full listing finds out.
                raise Lost from error
            return SourceItem(file_id, "", deleted=True)

    def _folder(self, place: BoxCursor) -> Page[SourceItem]:
        (folder, marker), waiting = place.waiting[-1], place.waiting[:-1]
        next_position = replace(place, waiting=waiting, asked=place.asked + 1)
        self.asked.add((folder, marker))
        try:
            page = self.client.folder(self.tokens, folder, marker)
        except (NotFound, Forbidden) as error:
            return self._without(folder, next_position, error)
        except CursorExpired as error:
            raise (Fatal(_STUCK) if place.whole else Lost) from error
        if page.next_marker and (folder, page.next_marker) in self.asked:
            raise Fatal(_STUCK)
        further_pages = ((folder, page.next_marker),) if page.next_marker else ()
        below = tuple((entry.id, "") for entry in page.entries if entry.type == "folder")
        next_position = replace(next_position, waiting=(*waiting, *further_pages, *below))
        if len(next_position.waiting) > MOST_WAITING or next_position.asked > MOST_REQUESTS:
            raise Fatal("The Box account has too many folders to be listed: share those that are wanted with another.")
        items = [box_files.as_source_item(entry) for entry in page.entries if entry.type == "file"]
        links = sum(entry.type == "web_link" for entry in page.entries)
        return self._told(
            items, next_position, over=not next_position.waiting, skipped={"web link": links} if links else {}
        )

    def _without(self, folder: str, after: BoxCursor, error: Exception) -> Page[SourceItem]:
        """A folder that left while it waited: everything is to be listed if an event had named it."""
        if not after.whole:
            raise Lost from error
        if folder == ROOT:
            raise Fatal("Box does not show this account's files to the app: check the app's scopes.") from error
        closed = {"folder without access": 1} if isinstance(error, Forbidden) else {}
        return self._told([], after, over=not after.waiting, skipped=closed)

    def _told(
        self, items: Sequence[SourceItem], after: BoxCursor, *, over: bool, skipped: dict[str, int] | None = None
    ) -> Page[SourceItem]:
        cursor = str(after.end() if over else after)
        return Page(items, cursor, done=over, skipped=skipped or {}, whole=over and after.whole)


def _position(said: str | int | None) -> str | None:
    """None for what is no position to go on from: 0 would be everything that Box remembers."""
    text = "" if said is None else str(said)
    return text if text.isascii() and text.isdigit() and int(text) > 0 else None


def _named(events: Iterable[Event], waiting: Iterable[str]) -> tuple[list[str], list[str]]:
    """Files and folders that something happened to, each once. What was made in a folder that is walked is found there.

    Only if that is all that happened to it: where else it went is not to be seen from there.
    """
    places: dict[str, dict[str, list[frozenset[str]]]] = {"file": {}, "folder": {}}
    for event in events:
        kind, its = _subject(event)
        if kind in places:
            is_new = event.event_type in _BIRTHS
            places[kind].setdefault(its, []).append(_above(event.source or {}) if is_new else frozenset())
    walked = {*waiting, *places["folder"]}
    files, folders = (
        [folder_id for folder_id, above in folders_above.items() if not all(map(walked.__and__, above))]
        for folders_above in places.values()
    )
    return files, folders


def _subject(event: Event) -> tuple[str, str]:
    """Kind and id of what it happened to, which Box words in two ways; "" if it does not matter here."""
    source = event.source or {}
    kind, its = source.get("type") or source.get("item_type"), source.get("id") or source.get("item_id")
    matters = isinstance(kind, str) and isinstance(its, str) and not (event.event_type or "").startswith(_SILENT)
    return (str(kind), str(its)) if matters else ("", "")


def _above(source: Mapping[str, Any]) -> frozenset[str]:
    """The folders that it lay in."""
    path = source.get("path_collection")
    entries = path.get("entries") if isinstance(path, dict) else None
    return frozenset(str(entry["id"]) for entry in entries or () if isinstance(entry, dict) and "id" in entry)
