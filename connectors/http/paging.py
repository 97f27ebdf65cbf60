"""Detects vendor pagination that never ends: repeated cursors, or pages without anything new."""

from __future__ import annotations

from typing import Final

from retrieval.errors import Retryable

IDLE_PAGES: Final = 1000
"""Pages in a row without anything new that are believed."""


class Cursors:
    """The cursors of one listing. `listing`: what it is called to people, "The vector index's listing"."""

    def __init__(self, listing: str) -> None:
        self._listing = listing
        self._seen: set[str] = set()
        self._idle = 0

    def follow(self, cursor: str, *, brought: bool) -> None:
        """Call before each next page. `brought`: whether the last page had anything new. Retryable if the cursor was
        used before, or if too many pages in a row had nothing new."""
        self._idle = 0 if brought else self._idle + 1
        if cursor in self._seen or self._idle > IDLE_PAGES:
            raise Retryable(f"{self._listing} leads in a circle, or on without anything new: it would never end.")
        self._seen.add(cursor)
