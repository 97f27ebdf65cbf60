"""Firecrawl as a scraper of single pages: it opens them in a browser and makes Markdown of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.web import fetched_pages
from connectors.web.firecrawl.client import TITLE, FirecrawlSession
from connectors.web.scraping_api import KEY_FIELD, key_of, require_allowed
from retrieval.errors import Fatal
from retrieval.ports import RawContent, ScrapeOptions
from retrieval.settings import Settings

if TYPE_CHECKING:
    from firecrawl.v2.types import Document  # type: ignore[import-untyped]


def make(config: Mapping[str, Any], options: Settings) -> Firecrawl:
    """Firecrawl under a namespace's key, at the operator's endpoint or at its own."""
    return Firecrawl(FirecrawlSession(key_of(config), options))


class Firecrawl:
    """The selectors are applied there, as its includeTags and excludeTags. Every fetch is a whole one."""

    def __init__(self, client: FirecrawlSession) -> None:
        self.client = client
        self.close = client.service.close

    def fetch(self, url: str, options: ScrapeOptions, to: Path, *, known: str = "") -> RawContent | None:  # noqa: ARG002
        """See the port."""
        service = self.client.service
        address = require_allowed(url, service.guard, options)
        with service.turn(address):
            page = self.client.scrape(address, options)
        if final := page.metadata_typed.url or "":
            final = require_allowed(final, service.guard, options)
        return content(page, url, to, service.most, final)

    def check(self) -> None:
        """Ask for the account's credit, which costs nothing."""
        if self.client.credit() <= 0:
            raise Fatal(f"The account at {TITLE} has no credit left: add some there.", field=KEY_FIELD)


def content(page: Document, name: str, to: Path, most: int, final: str) -> RawContent:
    """A page of an answer as content of the document `name`."""
    said = page.metadata_typed
    about = {
        "title": said.title,
        "description": said.description,
        "language": said.language,
        "canonicalUrl": said.extras.get("canonical"),
    }
    return fetched_pages.markdown(page.markdown or "", name, to, most, final, about)
