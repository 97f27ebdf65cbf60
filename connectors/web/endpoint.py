"""Server of the user's own with the API of Firecrawl or crawl4ai.

The fetch guard dials: a private address needs RETRIEVAL_FETCH_ALLOW.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from connectors.web.crawl import website
from connectors.web.crawl4ai import Crawl4ai
from connectors.web.firecrawl import site
from connectors.web.firecrawl.client import FirecrawlSession
from connectors.web.firecrawl.scraper import Firecrawl
from connectors.web.scraping_api import Service, key_of
from retrieval.errors import Fatal

if TYPE_CHECKING:
    from retrieval.database.database import Database
    from retrieval.ports import FileStore, Scraper, Source
    from retrieval.settings import Settings

SERVER_TITLE: Final = "The scraping server"
# Id of an unknown crawl: the answer distinguishes a Firecrawl from another server.
_CHECK_PATH: Final = "/v2/crawl/00000000-0000-0000-0000-000000000000"
_CHECK_SECONDS: Final = 30.0


def make(config: Mapping[str, Any], options: Settings) -> OwnFirecrawl | Crawl4ai:
    """Make the scraper at the `url` of a `webScraperConfig` by its `api`."""
    url = config["url"].rstrip("/")
    headers = {"Accept": "application/json"}
    if config.get("apiKey"):
        headers["Authorization"] = f"Bearer {key_of(config)}"
    service = Service(
        "ENDPOINT", SERVER_TITLE, url if "://" in url else f"https://{url}", headers, options, is_own=True
    )
    if config.get("api") == "CRAWL4AI":
        return Crawl4ai(service)
    return OwnFirecrawl(FirecrawlSession(config.get("apiKey") or "", options, service))


def make_site(scraper: Scraper, files: FileStore, db: Database) -> Source:
    """Make the source of websites: Firecrawl crawls itself."""
    if isinstance(scraper, Firecrawl):
        return site.make(scraper, files, db)
    return website.make(scraper, files, db)


class OwnFirecrawl(Firecrawl):
    """Firecrawl without accounts and credit."""

    def check(self) -> None:
        """Ask for an unknown crawl. Fatal for another server."""
        service = self.client.service
        service.ask(self._ask_unknown)

    def _ask_unknown(self) -> None:
        service = self.client.service
        answer = service.send("GET", f"{service.base_url}{_CHECK_PATH}", seconds=_CHECK_SECONDS)
        service.refuse(answer.status_code, answer.headers)
        try:
            is_firecrawl = "success" in answer.json()
        except (ValueError, TypeError):
            is_firecrawl = False
        if not is_firecrawl:
            raise Fatal(
                "The server does not answer as Firecrawl does (/v2/crawl): check webScraperConfig.url and api.",
                field="webScraperConfig.url",
            )
