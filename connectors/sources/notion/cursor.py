"""How far a listing of Notion has come: its cursor, which another process can go on from."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Literal

WEEK = 7 * 86400
"""Seconds after which a listing looks into all pages again."""
_TUPLES = ("databases", "sources", "look", "hidden", "kept", "inner")


@dataclass(frozen=True, slots=True)
class NotionCursor:
    """How far a listing has come. `at`: Notion's own place; `since`: rows created from then on, past its limit.

    `last`: when the row was created that came last; `cut`: Notion said that it does not give all of what is walked.

    `look`: pages to look into; `hidden`: pages that blocks name and no listing has so far; `kept`: those of them that
    are there; `inner`: databases that blocks name. `newest`: the latest change that this listing began with; `looked`:
    that of the last listing, None where everything is looked into; `full`: when that was, in seconds since 1970.
    """

    step: Literal["newest", "oldest", "rows"] = "newest"
    at: str | None = None
    databases: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    since: str | None = None
    last: str | None = None
    cut: bool = False
    look: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()
    newest: str | None = None
    looked: str | None = None
    full: int = 0

    @classmethod
    def of(cls, cursor: str | None) -> NotionCursor:
        """A cursor that cannot be read is none: everything is listed anew."""
        try:
            found = json.loads(cursor or "{}")
            return cls(**{**found, **{name: tuple(found.get(name, ())) for name in _TUPLES}})
        except (ValueError, TypeError, AttributeError):
            return cls()

    def __str__(self) -> str:
        return json.dumps({name: value for name, value in asdict(self).items() if value})

    @property
    def is_end(self) -> bool:
        return self.step == "rows" and not (self.databases or self.sources or self.look or self.hidden)

    def begun(self, now: datetime, named: tuple[str, ...] = ()) -> NotionCursor:
        """The beginning of a listing; it looks into everything at first and each week. `named`: ids of pages and
        databases that are asked for by all means."""
        if self != NotionCursor(kept=self.kept, inner=self.inner, newest=self.newest, full=self.full):
            return self
        seconds = int(now.timestamp())
        again = self.newest is None or seconds - self.full > WEEK
        return NotionCursor(
            hidden=tuple(dict.fromkeys([*self.kept, *named])),
            databases=tuple(dict.fromkeys([*self.inner, *named])),
            inner=self.inner,
            looked=None if again else self.newest,
            full=seconds if again else self.full,
        )

    def end(self) -> NotionCursor:
        """Where the next listing begins."""
        return NotionCursor(kept=self.kept, inner=self.inner, newest=self.newest, full=self.full)

    def is_within(self, other: NotionCursor) -> bool:
        """Whether it is in the same search, or among the same rows."""
        return replace(self, at=None, last=None) == replace(other, at=None, last=None)
