"""What is new in a drive, by Graph's change feed; it lists everything at first, and again where it cannot be sure.

    everything ──▶ changes since ──▶ changes since ──▶ …
        ▲               │
        └───────────────┘   the feed has forgotten the place (410), a folder was deleted, or a week has passed

A deleted folder takes files with it that the feed need not name, and a renamed one changes paths of files that it does
not list at all; both come right with the next listing of everything.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from connectors.sources import onedrive_items as items
from connectors.sources.onedrive_graph import TITLE, Answer, Graph
from connectors.sources.onedrive_items import Folders, Item
from retrieval.errors import Fatal, Retryable
from retrieval.ports import Page, SourceItem, TokenSource

START: Final = "/me/drive/root/delta"
WEEK: Final = 7 * 24 * 3600
"""Seconds after which everything is listed again."""
IDLE_PAGES: Final = 100
"""Pages in a row without anything new, after which a feed is taken to go round in circles."""
RESTARTS: Final = 3
_FORGOTTEN: Final = frozenset({400, 404, 410})


@dataclass(frozen=True, slots=True)
class Place:
    """How far a listing has come. `at`: the next page; `whole`: it began with everything, `begun`: when the last such
    one did, in seconds of the epoch; `again`: it is followed by one."""

    at: str = START
    whole: bool = True
    begun: int = 0
    again: bool = False

    @classmethod
    def of(cls, cursor: str | None) -> Place:
        place = cls(**json.loads(cursor)) if cursor else cls.new()
        between = not place.whole and not place.again
        return cls.new() if between and time.time() - place.begun > WEEK else place

    @classmethod
    def new(cls, at: str = START) -> Place:
        return cls(at, begun=int(time.time()))

    def __str__(self) -> str:
        return json.dumps(asdict(self))


@dataclass(slots=True)
class Rounds:
    """Ends a feed that never would: the same page again, page after page of what was there before, endless restarts."""

    pages: set[str] = field(default_factory=set)
    marks: set[int] = field(default_factory=set)
    idle: int = 0
    restarts: int = 0

    def turn(self, at: str, found: Sequence[Item]) -> None:
        fresh = {hash((item["id"], str(item.get("eTag")))) for item in found} - self.marks
        self.marks |= fresh
        self.idle = 0 if fresh else self.idle + 1
        if at in self.pages or self.idle > IDLE_PAGES:
            raise Retryable(f"{TITLE}'s listing goes round in circles: it names the same page again and again.")
        self.pages.add(at)

    def restart(self) -> None:
        self.restarts += 1
        if self.restarts > RESTARTS:
            raise Retryable(f"{TITLE} starts its listing over and over, and comes to no end.")
        self.pages.clear()
        self.marks.clear()


def pages(graph: Graph, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
    """The feed's pages from the cursor on; what comes last is `done`."""
    place, rounds = Place.of(cursor), Rounds()
    folders = Folders(lambda folder: _item(graph, tokens, folder))
    while True:
        answer = graph.get(tokens, place.at)
        if _is_forgotten(answer, place):
            rounds.restart()
            place = Place.new(graph.path(answer.location) if answer.location else START)
            continue
        found = _found(answer)
        rounds.turn(place.at, found)
        after, done = _after(graph, place, answer, found)
        page = _page(found, folders)
        yield replace(page, cursor=str(after), done=done, whole=done and place.whole)
        if done:
            return
        if after.whole and not place.whole:
            rounds.restart()
        place = after


def _page(found: Sequence[Item], folders: Folders) -> Page[SourceItem]:
    """The same item may be there several times: the last one counts."""
    folders.learn(found)
    here, left_out = [], Counter[str]()
    for item in {item["id"]: item for item in found}.values():
        if items.deleted(item):
            here.append(SourceItem(item["id"], "", deleted=True))
        elif items.is_file(item):
            here.append(items.listed(item, folders.path(item)))
        elif reason := items.left_out(item):
            left_out[reason] += 1
    return Page(here, "", done=False, skipped=left_out)


def _after(graph: Graph, place: Place, answer: Answer, found: Sequence[Item]) -> tuple[Place, bool]:
    """Where to go on, and whether this page was the last one."""
    doubt = not place.whole and any(items.deleted(item) and items.may_hold_others(item) for item in found)
    place = replace(place, again=place.again or doubt)
    if following := answer.body.get("@odata.nextLink"):
        return replace(place, at=graph.path(following)), False
    latest = graph.path(answer.body.get("@odata.deltaLink"))
    if place.again:
        return Place.new(), False
    return replace(place, at=latest, whole=False), True


def _is_forgotten(answer: Answer, place: Place) -> bool:
    return answer.status == 410 or (answer.status in _FORGOTTEN and place.at != START)


def _found(answer: Answer) -> list[Item]:
    if answer.status != 200:
        raise Fatal(
            f"{TITLE} refuses to list the account's files (status {answer.status}): the account has no OneDrive, or"
            " the app lacks the permission Files.Read.All."
        )
    found = answer.body.get("value")
    if not isinstance(found, list):
        raise Retryable(f"{TITLE}'s listing broke off: its answer holds no items.")
    return [item for item in found if isinstance(item, dict) and isinstance(item.get("id"), str)]


def _item(graph: Graph, tokens: TokenSource, item_id: str) -> dict[str, Any] | None:
    answer = graph.get(tokens, items.at(item_id))
    return dict(answer.body) if answer.status == 200 else None
