"""Positions of a listing: the cursor between pages, and the requested lists."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from connectors.sources.described.description import Stream

OVERLAP: Final = timedelta(minutes=5)
"""Changes are listed from this long before the last listing began: clocks differ, and lists lag behind."""


@dataclass(frozen=True, slots=True)
class Position:
    """Place in a listing of the connection `url`.

    `since`: start of the previous listing; `full_at`: start of the latest full listing; `began`: start of this listing,
    "" between listings; `full`: this listing is full; `stream`, `parent`, `next`: current page; `skip`: first group of
    that page; `parents`: marks of previously listed parents; `patterns`: of ids listed in full; `totals`: numbers of
    items by list, with times; `tags`: entity tags of lists; `created`: items of the list newer than the total;
    `has_lost`: a list has fewer items than expected.
    """

    url: str
    since: str = ""
    full_at: str = ""
    began: str = ""
    full: bool = True
    stream: int = 0
    parent: str = ""
    next: str = ""
    skip: str = ""
    parents: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    totals: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    created: int = 0
    has_lost: bool = False

    @classmethod
    def read_cursor(cls, cursor: str | None, url: str, streams: int) -> Position:
        """Return the position of a cursor, or the start for another address or version."""
        try:
            position = msgspec.json.decode(cursor or "{}", type=Position)
        except msgspec.DecodeError:
            return cls(url)
        return position if position.url == url and position.stream < streams and position.is_valid else cls(url)

    def begin(self, full_listing: timedelta) -> Position:
        """Return the start of the next listing, a full one after `full_listing`; or this position within a listing."""
        if self.began:
            return self
        began = datetime.now(UTC).isoformat()
        full = not self.full_at or datetime.fromisoformat(self.full_at) < datetime.now(UTC) - full_listing
        return replace(self, began=began, full_at=began if full else self.full_at, stream=0, next="", full=full)

    def end(self, parents: Sequence[str]) -> Position:
        """Return the start of the next listing."""
        return Position(
            self.url,
            since=self.began,
            full_at=self.full_at,
            parents=tuple(parents),
            totals=self.totals,
            tags=self.tags,
        )

    def begin_full(self) -> Position:
        """Return the start of a full listing."""
        return replace(
            self, full=True, full_at=self.began, stream=0, parent="", next="", skip="", patterns=(), has_lost=False
        )

    def enter(self, target: Target) -> Position:
        """Return the position at the start of a list, or this position within the list."""
        if (self.stream, self.parent) == (target.number, target.parent):
            return self
        is_counted_together = bool(target.stream.changes) and self.stream == target.number
        created = self.created if is_counted_together else 0
        return replace(self, stream=target.number, parent=target.parent, next="", skip="", created=created)

    def expect(self, target: Target) -> int:
        """Return the number of items that a list has if none was deleted."""
        return self.created + (0 if self.full else self.totals.get(target.mark, (0, ""))[0])

    def count(self, target: Target, total: int | None) -> Position:
        """Return this position with the number of items of a finished list."""
        if total is None:
            return replace(self, totals={key: value for key, value in self.totals.items() if key != target.mark})
        expected, now = self.expect(target), datetime.now(UTC).isoformat()
        has_lost = not self.full and target.mark in self.totals and total < expected
        totals = {**self.totals, target.mark: (total, now)}
        return replace(self, totals=totals, created=0, has_lost=self.has_lost or has_lost)

    @property
    def is_valid(self) -> bool:
        """Check if a listing can continue from this cursor."""
        try:
            times = [datetime.fromisoformat(time) for time in (self.since, self.full_at, self.began) if time]
        except ValueError:
            return False
        return all(time.tzinfo for time in times) and self.stream >= 0 and bool(self.since or self.full)

    @property
    def changed_after(self) -> datetime | None:
        """Start time of listed changes; None for a full list."""
        return None if self.full else datetime.fromisoformat(self.since) - OVERLAP

    def __str__(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True)
class Target:
    """List of a stream to request, for a parent if the stream has parents.

    `values`: template values with the parent's fields; `path`: of the parent in a choice; `changed_at`: time of the
    parent's latest change, "" if not reported; `parents`: values by parent, for a list of all parents' changes.
    """

    number: int
    stream: Stream
    values: Mapping[str, str]
    parent: str = ""
    path: str = ""
    changed_at: str = ""
    parents: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def mark(self) -> str:
        """Key of the list in a cursor."""
        return hashlib.sha256(f"{self.stream.name}/{self.parent}".encode()).hexdigest()[:10]
