"""Changes of a drive by Graph's delta feed.

full listing ──▶ changes ──▶ changes ──▶ …
    ▲               │
    └───────────────┘   expired position (410), deleted folder, or a week
"""

# The feed need not name the files of a deleted folder, nor files with new paths below a renamed folder: the next full
# listing corrects both. With a selection, a moved or renamed folder triggers a full listing, because files may have
# left or entered the selection.

from __future__ import annotations

import json
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from connectors.microsoft_graph import items
from connectors.microsoft_graph.client import FILE_MISSING_MESSAGE, Graph, GraphResponse, Session, refusal
from connectors.microsoft_graph.items import Drive, Folders, Item
from retrieval.errors import Fatal, Retryable, Skippable
from retrieval.ports import Page, RawContent, SourceItem, TokenSource
from retrieval.sync_filter import SyncFilter

FULL_LISTING_SECONDS: Final = 7 * 24 * 3600
# Folders remembered by a cursor with a selection.
MAX_FOLDER_MARKS: Final = 1000
# More consecutive pages without a new item mean an endless feed.
MAX_IDLE_PAGES: Final = 100
MAX_RESTARTS: Final = 3
_EXPIRED_STATUSES: Final = frozenset({400, 404, 410})


@dataclass(frozen=True, slots=True)
class ChangesCursor:
    """Stored position of a listing."""

    # Names of fields are keys of stored cursors.
    # Path of the next page.
    at: str
    # A full listing is under way, not one of changes.
    whole: bool = True
    # Start of the last full listing, Unix time.
    begun: int = 0
    # A full listing has to follow.
    again: bool = False
    # Checksum of path and name by folder id.
    folders: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def parse(cls, cursor: str | None, drive: Drive) -> ChangesCursor:
        """Parse a cursor; without a valid one, or a week after a full listing, begin a full listing."""
        position = cls.new(drive.feed)
        with suppress(ValueError, TypeError):
            position = cls(**json.loads(cursor or "null"))
        is_incremental = not position.whole and not position.again
        is_due = time.time() - position.begun > FULL_LISTING_SECONDS
        return cls.new(drive.feed) if is_incremental and is_due else position

    @classmethod
    def new(cls, at: str) -> ChangesCursor:
        """Return the start of a full listing at a path."""
        return cls(at, begun=int(time.time()))

    def __str__(self) -> str:
        fields = asdict(self)
        if not self.folders:
            del fields["folders"]
        return json.dumps(fields)

    def with_folders(self, page_items: Sequence[Item]) -> ChangesCursor:
        """Return the cursor with a page's folders; a moved or renamed one requests a full listing."""
        page_marks = {
            item["id"]: zlib.crc32(location.encode())
            for item in page_items
            if (location := items.parent_and_name(item))
        }
        # A full cursor has forgotten folders: an unknown one may have moved.
        is_full = len(self.folders) >= MAX_FOLDER_MARKS
        has_moved = any(
            is_full if folder_id not in self.folders else self.folders[folder_id] != mark
            for folder_id, mark in page_marks.items()
        )
        other_marks = {folder_id: mark for folder_id, mark in self.folders.items() if folder_id not in page_marks}
        newest_marks = list({**other_marks, **page_marks}.items())[-MAX_FOLDER_MARKS:]
        return replace(self, folders=dict(newest_marks), again=self.again or (has_moved and not self.whole))


@dataclass(slots=True)
class EndlessFeedGuard:
    """Guard against a feed without end. Retryable for a repeated page, and after too many idle pages or restarts."""

    title: str
    page_paths: set[str] = field(default_factory=set)
    # Of ids and versions.
    item_hashes: set[int] = field(default_factory=set)
    idle_pages: int = 0
    restarts: int = 0

    def check_page(self, path: str, page_items: Sequence[Item]) -> None:
        page_hashes = {hash((item["id"], str(item.get("eTag")))) for item in page_items}
        new_hashes = page_hashes - self.item_hashes
        self.item_hashes |= new_hashes
        self.idle_pages = 0 if new_hashes else self.idle_pages + 1
        if path in self.page_paths or self.idle_pages > MAX_IDLE_PAGES:
            raise Retryable(f"{self.title}'s listing goes round in circles: it names the same page again and again.")
        self.page_paths.add(path)

    def count_restart(self) -> None:
        self.restarts += 1
        if self.restarts > MAX_RESTARTS:
            raise Retryable(f"{self.title} starts its listing over and over, and comes to no end.")
        self.page_paths.clear()
        self.item_hashes.clear()


class Unlisted(Fatal):
    """Graph refuses to list the drive (4xx)."""


# A shared item has a home: the drive that owns it, and its id there. By item id in the listed drive.
HomesByItem = MutableMapping[str, tuple[Drive, str]]


def list_changes(
    graph: Graph,
    tokens: TokenSource,
    drive: Drive,
    cursor: str | None,
    choice: SyncFilter | None = None,
    homes: HomesByItem | None = None,
) -> Iterator[Page[SourceItem]]:
    """Yield the feed's pages from the cursor. Unlisted for a refused drive.

    `homes` receives the homes of the items on the page last yielded.
    """
    choice = choice or SyncFilter()
    position, guard = ChangesCursor.parse(cursor, drive), EndlessFeedGuard(graph.title)
    folders = Folders(lambda folder: _read_item(graph, tokens, drive, folder))
    while True:
        answer = graph.get(tokens, position.at)
        if _is_expired(answer, position, drive):
            guard.count_restart()
            position = ChangesCursor.new(graph.path(answer.location) if answer.location else drive.feed)
            continue
        raw_items = _read_items(graph, answer)
        guard.check_page(position.at, raw_items)
        if homes is not None:
            homes.clear()
            homes.update((item["id"], drive.home(item)) for item in raw_items)
        position = position.with_folders(raw_items) if choice.has_places else position
        next_position, done = _advance(graph, drive, position, answer, raw_items)
        page = _make_page(raw_items, folders, include_ancestors=bool(choice.ids))
        yield replace(page, cursor=str(next_position), done=done, whole=done and position.whole)
        if done:
            return
        if next_position.whole and not position.whole:
            guard.count_restart()
        position = next_position


def _make_page(raw_items: Sequence[Item], folders: Folders, *, include_ancestors: bool) -> Page[SourceItem]:
    folders.add(raw_items)
    page_items, skipped = [], Counter[str]()
    # The last version of a repeated item counts.
    for item in {item["id"]: item for item in raw_items}.values():
        if items.is_deleted(item):
            page_items.append(SourceItem(item["id"], "", deleted=True))
        elif items.is_file(item):
            ancestors = folders.ancestor_ids(item) if include_ancestors else ()
            page_items.append(items.as_source_item(item, folders.path(item), ancestors))
        elif reason := items.skip_reason(item):
            skipped[reason] += 1
    return Page(page_items, "", done=False, skipped=skipped)


def _advance(
    graph: Graph, drive: Drive, cursor: ChangesCursor, answer: GraphResponse, raw_items: Sequence[Item]
) -> tuple[ChangesCursor, bool]:
    """Return the next position, and whether the listing is done."""
    # The feed need not name the items in a deleted folder.
    has_deleted_folder = any(items.is_deleted(item) and items.may_hold_others(item) for item in raw_items)
    cursor = replace(cursor, again=cursor.again or (has_deleted_folder and not cursor.whole))
    if next_link := answer.body.get("@odata.nextLink"):
        return replace(cursor, at=graph.path(next_link)), False
    delta_path = graph.path(answer.body.get("@odata.deltaLink"))
    if cursor.again:
        return replace(ChangesCursor.new(drive.feed), folders=cursor.folders), False
    return replace(cursor, at=delta_path, whole=False), True


def _is_expired(answer: GraphResponse, cursor: ChangesCursor, drive: Drive) -> bool:
    # At the start of the feed, 400 and 404 are refusals of the drive.
    return answer.status == 410 or (answer.status in _EXPIRED_STATUSES and cursor.at != drive.feed)


def _read_items(graph: Graph, answer: GraphResponse) -> list[Item]:
    if answer.status != 200:
        raise Unlisted(
            f"{graph.title} refuses to list the account's files (status {answer.status}): the account has no OneDrive,"
            " or the app lacks the permission Files.Read.All."
        )
    values = answer.body.get("value")
    if not isinstance(values, list):
        raise Retryable(f"{graph.title}'s listing broke off: its answer holds no items.")
    return [item for item in values if isinstance(item, dict) and isinstance(item.get("id"), str)]


def find_home(graph: Graph, tokens: TokenSource, drive: Drive, item_id: str) -> tuple[Drive, str]:
    """Request the owning drive of an item, and the item's id there; the listed drive and id if unreadable."""
    item = _read_item(graph, tokens, drive, item_id)
    return drive.home({**item, "id": item_id}) if item else (drive, item_id)


def _read_item(graph: Graph, tokens: TokenSource, drive: Drive, item_id: str) -> dict[str, Any] | None:
    """Return the metadata of an item; None if unreadable."""
    answer = graph.get(tokens, drive.item_path(item_id))
    return dict(answer.body) if answer.status == 200 else None


def current_version(graph: Graph, tokens: TokenSource, drive: Drive, item_id: str) -> str:
    """Return the current version of an item; "" if unreadable."""
    item = _read_item(graph, tokens, drive, item_id)
    return items.content_version(item) if item else ""


def fetch_item(session: Session, drive: Drive, item_id: str, to: Path) -> RawContent:
    """Download the current content of an item. Skippable if unreadable."""
    answer = session.get(drive.item_path(item_id))
    item = answer.body
    if answer.status != 200 or items.is_deleted(item) or not items.is_file(item):
        raise refusal(answer.status, FILE_MISSING_MESSAGE)
    current = items.as_source_item(item, Folders(lambda _: None).path(item))
    if current.error:
        raise Skippable(current.error)
    written = session.download(
        drive.content_path(item), to, size=items.content_size(item), signed_url=items.download_url(item)
    )
    return RawContent(
        to, current.name, current.media_type, written, version=current.version, properties=current.properties
    )


def is_deleted(graph: Graph, tokens: TokenSource, drive: Drive, item_id: str) -> bool:
    answer = graph.get(tokens, drive.item_path(item_id))
    return answer.status in items.GONE_STATUSES or items.is_deleted(answer.body)
