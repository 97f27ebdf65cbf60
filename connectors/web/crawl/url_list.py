"""The URLs of a list: each is one document, known since the request was accepted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from connectors import registry
from retrieval.database.database import Database
from retrieval.namespaces.namespaces import NamespaceConfig
from retrieval.ports import DiscoveryRequest, Page, RawContent, ScrapeOptions, Scraper, SourceItem
from retrieval.security.secrets import KeyRing


def make(config: NamespaceConfig, _db: Database, _ring: KeyRing) -> UrlList:
    return UrlList(registry.scraper(config))


class UrlList:
    """Fetches with the namespace's scraper."""

    def __init__(self, scraper: Scraper) -> None:
        self._scraper = scraper

    def discover(self, _request: DiscoveryRequest, _cursor: str | None) -> Iterator[Page[SourceItem]]:
        """Nothing: a list is complete when it is accepted (D18)."""
        yield Page((), "", done=True)

    def fetch(self, item: SourceItem, request: DiscoveryRequest, to: Path) -> RawContent | None:
        """The page as it is now; None if it is still the item's version."""
        return self._scraper.fetch(item.external_id, ScrapeOptions.of(request.config), to, known=item.version)
