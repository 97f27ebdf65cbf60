"""Changes of a drive by Graph's delta feed; it lists everything at first, and again where it cannot be sure.

    everything ──▶ changes since ──▶ changes since ──▶ …
        ▲               │
        └───────────────┘   the feed has forgotten the place (410), a folder was deleted, or a week has passed

A deleted folder takes files with it that the feed need not name, and a renamed one changes paths of files that it does
not list at all; both come right with the next listing of everything. Where a part of the drive is chosen, a
folder that was moved or renamed is a reason for one, for its content may have left or entered the choice.
"""

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
from connectors.microsoft_graph.client import VANISHED, Graph, GraphResponse, Session, refusal
from connectors.microsoft_graph.items import Drive, Folders, Item
from retrieval.errors import Fatal, Retryable, Skippable
from retrieval.ports import Page, RawContent, SourceItem, TokenSource
from retrieval.sync_filter import SyncFilter

WEEK: Final = 7 * 24 * 3600
"""Seconds after which everything is listed again."""
FOLDERS: Final = 1000
"""Folders whose names and places a cursor remembers, where a part of the drive is chosen."""
IDLE_PAGES: Final = 100
"""Pages in a row without anything new, after which a feed is taken to go round in circles."""
RESTARTS: Final = 3
_FORGOTTEN: Final = frozenset({400, 404, 410})


@dataclass(frozen=True, slots=True)
class ChangesCursor:
    """Position of a listing. `at`: the next page; `whole`: it began with everything, `begun`: when the last such one
    did, in seconds of the epoch; `again`: a full listing follows; `folders`: a mark of each folder that was listed,
    where a part of the drive is chosen, as far as there is room."""

    at: str
    whole: bool = True
    begun: int = 0
    again: bool = False
    folders: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, cursor: str | None, drive: Drive) -> ChangesCursor:
        """A cursor that cannot be read is none: everything is listed anew."""
        position = cls.new(drive.feed)
        with suppress(ValueError, TypeError):
            position = cls(**json.loads(cursor or "null"))
        between = not position.whole and not position.again
        return cls.new(drive.feed) if between and time.time() - position.begun > WEEK else position

    @classmethod
    def new(cls, at: str) -> ChangesCursor:
        return cls(at, begun=int(time.time()))

    def __str__(self) -> str:
        fields = asdict(self)
        return json.dumps(fields if self.folders else {key: value for key, value in fields.items() if key != "folders"})

    def seen(self, found: Sequence[Item]) -> ChangesCursor:
        """After these folders: one of another mark than before was moved or renamed."""
        marks = {
            item["id"]: zlib.crc32(location.encode()) for item in found if (location := items.parent_and_name(item))
        }
        full = len(self.folders) >= FOLDERS
        moved = any(self.folders.get(folder_id, None if full else mark) != mark for folder_id, mark in marks.items())
        folder_marks = {
            **{folder_id: mark for folder_id, mark in self.folders.items() if folder_id not in marks},
            **marks,
        }
        newest = dict(list(folder_marks.items())[-FOLDERS:])
        return replace(self, folders=newest, again=self.again or (moved and not self.whole))


@dataclass(slots=True)
class Rounds:
    """Ends a feed that never would: the same page again, page after page of what was there before, endless restarts."""

    title: str
    pages: set[str] = field(default_factory=set)
    marks: set[int] = field(default_factory=set)
    idle: int = 0
    restarts: int = 0

    def turn(self, at: str, found: Sequence[Item]) -> None:
        fresh = {hash((item["id"], str(item.get("eTag")))) for item in found} - self.marks
        self.marks |= fresh
        self.idle = 0 if fresh else self.idle + 1
        if at in self.pages or self.idle > IDLE_PAGES:
            raise Retryable(f"{self.title}'s listing goes round in circles: it names the same page again and again.")
        self.pages.add(at)

    def restart(self) -> None:
        self.restarts += 1
        if self.restarts > RESTARTS:
            raise Retryable(f"{self.title} starts its listing over and over, and comes to no end.")
        self.pages.clear()
        self.marks.clear()


class Unlisted(Fatal):
    """Graph refuses to list the drive (4xx)."""


Homes = MutableMapping[str, tuple[Drive, str]]
"""By an item's id: the drive that it belongs to, and its id there."""


def list_changes(
    graph: Graph,
    tokens: TokenSource,
    drive: Drive,
    cursor: str | None,
    choice: SyncFilter | None = None,
    homes: Homes | None = None,
) -> Iterator[Page[SourceItem]]:
    """List the feed's pages from the cursor on; the last one is `done`. Unlisted, a Fatal, if the drive has none.

    `homes` holds those of the newest page's items.
    """
    choice = choice or SyncFilter()
    position, rounds = ChangesCursor.of(cursor, drive), Rounds(graph.title)
    folders = Folders(lambda folder: _item(graph, tokens, drive, folder))
    while True:
        answer = graph.get(tokens, position.at)
        if _is_forgotten(answer, position, drive):
            rounds.restart()
            position = ChangesCursor.new(graph.path(answer.location) if answer.location else drive.feed)
            continue
        raw_items = _found(graph, answer)
        rounds.turn(position.at, raw_items)
        if homes is not None:
            homes.clear()
            homes.update((item["id"], drive.home(item)) for item in raw_items)
        position = position.seen(raw_items) if choice.has_places else position
        next_position, done = _after(graph, drive, position, answer, raw_items)
        page = _page(raw_items, folders, deep=bool(choice.ids))
        yield replace(page, cursor=str(next_position), done=done, whole=done and position.whole)
        if done:
            return
        if next_position.whole and not position.whole:
            rounds.restart()
        position = next_position


def _page(found: Sequence[Item], folders: Folders, *, deep: bool) -> Page[SourceItem]:
    """Build a page. The same item may occur several times: the last one counts. `deep`: with the ids of folders."""
    folders.learn(found)
    page_items, left_out = [], Counter[str]()
    for item in {item["id"]: item for item in found}.values():
        if items.is_deleted(item):
            page_items.append(SourceItem(item["id"], "", deleted=True))
        elif items.is_file(item):
            page_items.append(items.as_source_item(item, folders.path(item), folders.above(item) if deep else ()))
        elif reason := items.left_out(item):
            left_out[reason] += 1
    return Page(page_items, "", done=False, skipped=left_out)


def _after(
    graph: Graph, drive: Drive, place: ChangesCursor, answer: GraphResponse, found: Sequence[Item]
) -> tuple[ChangesCursor, bool]:
    """Next position, and whether this page was the last one."""
    doubt = not place.whole and any(items.is_deleted(item) and items.may_hold_others(item) for item in found)
    place = replace(place, again=place.again or doubt)
    if following := answer.body.get("@odata.nextLink"):
        return replace(place, at=graph.path(following)), False
    latest = graph.path(answer.body.get("@odata.deltaLink"))
    if place.again:
        return replace(ChangesCursor.new(drive.feed), folders=place.folders), False
    return replace(place, at=latest, whole=False), True


def _is_forgotten(answer: GraphResponse, place: ChangesCursor, drive: Drive) -> bool:
    return answer.status == 410 or (answer.status in _FORGOTTEN and place.at != drive.feed)


def _found(graph: Graph, answer: GraphResponse) -> list[Item]:
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
    """Drive that an item belongs to, and its id there; requested, since no page has just named it."""
    item = _item(graph, tokens, drive, item_id)
    return drive.home({**item, "id": item_id}) if item else (drive, item_id)


def _item(graph: Graph, tokens: TokenSource, drive: Drive, item_id: str) -> dict[str, Any] | None:
    answer = graph.get(tokens, drive.at(item_id))
    return dict(answer.body) if answer.status == 200 else None


def current_version(graph: Graph, tokens: TokenSource, drive: Drive, item_id: str) -> str:
    """Version as a listing names it now; "" if the item cannot be read."""
    item = _item(graph, tokens, drive, item_id)
    return items.content_version(item) if item else ""


def fetch_item(here: Session, drive: Drive, item_id: str, to: Path) -> RawContent:
    """Current item and its content. Skippable if it cannot be read."""
    answer = here.get(drive.at(item_id))
    item = answer.body
    if answer.status != 200 or items.is_deleted(item) or not items.is_file(item):
        raise refusal(answer.status, VANISHED)
    current = items.as_source_item(item, Folders(lambda _: None).path(item))
    if current.error:
        raise Skippable(current.error)
    written = here.download(drive.content_at(item), to, size=items.content_size(item), signed=items.signed_at(item))
    return RawContent(
        to, current.name, current.media_type, written, version=current.version, properties=current.properties
    )


def is_gone(graph: Graph, tokens: TokenSource, drive: Drive, item_id: str) -> bool:
    answer = graph.get(tokens, drive.at(item_id))
    return answer.status in items.GONE or items.is_deleted(answer.body)
