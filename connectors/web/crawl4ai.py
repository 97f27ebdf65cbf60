"""Pages by a crawl4ai server over HTTP (https://docs.crawl4ai.com/core/self-hosting/): HTML of a browser."""
# Its SDK brings a browser; the server takes one POST for a page.

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from connectors.web import scraping_api
from connectors.web.scraping_api import ScrapeResponse, Service, is_file, require_allowed, site_error
from retrieval.errors import Fatal, Skippable
from retrieval.ports import RawContent, ScrapeOptions

PAGE_SECONDS: Final = 60
REQUEST_TIMEOUT_SECONDS: Final = 120.0
CHECK_SECONDS: Final = 30.0
HTML: Final = "text/html; charset=utf-8"
_UNREAD: Final = "crawl4ai could not read the page."


class Crawl4ai:
    """Scraper with scripts; neither files nor conditional requests."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.close = service.close

    def fetch(self, url: str, options: ScrapeOptions, to: Path, *, known_version: str = "") -> RawContent | None:  # noqa: ARG002
        """Fetch a page, see the port."""
        address = require_allowed(url, self._service.guard, options)
        if is_file(address):
            raise Skippable("crawl4ai reads no files: use the scraper BUILTIN for this address.")
        with self._service.turn(address):
            page = self._service.ask(lambda: self._read(address))
        final = _text(page, "redirected_url")
        if final:
            final = require_allowed(final, self._service.guard, options)
        html = _text(page, "html").encode()
        content = scraping_api.file_page(html, url, to, self._service.max_bytes, HTML, final or address)
        return scraping_api.html_page(content, options)

    def check(self) -> None:
        """Read the server's health. Fatal for another server."""
        self._service.ask(self._read_health)

    def _read_health(self) -> None:
        answer = self._service.send("GET", f"{self._service.base_url}/health", seconds=CHECK_SECONDS)
        self._service.refuse(answer.status_code, answer.headers)
        try:
            is_healthy = answer.ok and "status" in answer.json()
        except (ValueError, TypeError):
            is_healthy = False
        if not is_healthy:
            raise Fatal(
                "The server does not answer as crawl4ai does (/health): check webScraperConfig.url and api.",
                field="webScraperConfig.url",
            )

    def _read(self, url: str) -> Mapping[str, Any]:
        """Return the result of one page."""
        # Without a cache: a page that has changed must be seen.
        crawler = {"type": "CrawlerRunConfig", "params": {"cache_mode": "bypass", "page_timeout": PAGE_SECONDS * 1000}}
        body = {"urls": [url], "crawler_config": crawler}
        answer = self._service.send(
            "POST", f"{self._service.base_url}/crawl", seconds=REQUEST_TIMEOUT_SECONDS, json=body
        )
        return self._understand(answer)

    def _understand(self, answer: ScrapeResponse) -> Mapping[str, Any]:
        self._service.refuse(answer.status_code, answer.headers)
        if not answer.ok:
            raise Skippable(f"{_UNREAD[:-1]} ({answer.status_code}).")
        try:
            page = answer.json()["results"][0]
        except (ValueError, LookupError, TypeError) as error:
            raise self._service.unreadable() from error
        if not isinstance(page, dict):
            raise self._service.unreadable()
        status = page.get("status_code")
        if isinstance(status, int) and status >= 400:
            raise site_error(status)
        if page.get("success") is not True:
            raise Skippable(_UNREAD)
        return page


def _text(page: Mapping[str, Any], name: str) -> str:
    value = page.get(name)
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""
