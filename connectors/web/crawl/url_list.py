"""The URLs of a list: each is one document, known since the request was accepted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from retrieval.database.database import Database
from retrieval.ports import DiscoveryRequest, FileStore, Page, RawContent, ScrapeOptions, Scraper, SourceItem


def make(scraper: Scraper, _files: FileStore, _db: Database) -> UrlList:
    return UrlList(scraper)


class UrlList:
    """Fetches with the namespace's scraper."""

    def __init__(self, scraper: Scraper) -> None:
        self._scraper = scraper

    def discover(self, _request: DiscoveryRequest, _cursor: str | None) -> Iterator[Page[SourceItem]]:
        """Nothing: a list is complete when it is accepted."""
        yield Page((), "", done=True)

    def fetch(self, item: SourceItem, request: DiscoveryRequest, to: Path) -> RawContent | None:
        """The page as it is now; None if it is still the item's version."""
        return self._scraper.fetch(item.external_id, ScrapeOptions.of(request.config), to, known=item.version)
