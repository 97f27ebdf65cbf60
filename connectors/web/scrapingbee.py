"""HTML API of ScrapingBee over HTTP (https://www.scrapingbee.com/documentation/)."""
# The key is a query parameter; a site's error is a 404 or 500 with the site's status in a header.

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from connectors.http import html
from connectors.web import scraping_api
from connectors.web.scraping_api import KEY_FIELD, ScrapeResponse, Service, is_file, key_of, require_allowed, site_said
from retrieval.errors import Fatal, Skippable
from retrieval.ports import RawContent, ScrapeOptions
from retrieval.settings import Settings

SCRAPER_TITLE: Final = "ScrapingBee"
BASE_URL: Final = "https://app.scrapingbee.com/api/v1"
# ScrapingBee's own limit is 140 s.
REQUEST_TIMEOUT_SECONDS: Final = 150.0


def make(config: Mapping[str, Any], options: Settings) -> ScrapingBee:
    """Build the scraper with a namespace's key."""
    return ScrapingBee(Service("SCRAPINGBEE", SCRAPER_TITLE, BASE_URL, {}, options), key_of(config))


class ScrapingBee:
    """Scraper with scripts, except for files; no conditional requests."""

    def __init__(self, service: Service, key: str) -> None:
        self._service = service
        self._key = key
        self.close = service.close

    def fetch(self, url: str, options: ScrapeOptions, to: Path, *, known_version: str = "") -> RawContent | None:  # noqa: ARG002
        """Fetch a page, see the port."""
        address = require_allowed(url, self._service.guard, options)
        with self._service.turn(address):
            answer = self._service.ask(lambda: self._page(address))
        final = answer.headers.get("spb-resolved-url", "")
        if final:
            final = require_allowed(final, self._service.guard, options)
        media_type = answer.headers.get("spb-content-type") or answer.headers.get("content-type", "")
        content = scraping_api.file_page(answer.content, url, to, self._service.max_bytes, media_type, final)
        return scraping_api.html_page(content, options) if html.is_html(media_type) else content

    def check(self) -> None:
        """Check the account's credit, free of charge."""
        self._service.ask(self._usage)

    def _usage(self) -> None:
        answer = self._service.send("GET", f"{self._service.base_url}/usage", seconds=30, params={"api_key": self._key})
        self._refuse(answer)
        try:
            credit_left = answer.json()["max_api_credit"] - answer.json()["used_api_credit"]
        except (ValueError, LookupError, TypeError) as error:
            raise self._service.unreadable() from error
        if credit_left <= 0:
            self._service.refuse(402, {})

    def _page(self, url: str) -> ScrapeResponse:
        parameters = {"api_key": self._key, "url": url, "render_js": "false" if is_file(url) else "true"}
        answer = self._service.send(
            "GET", f"{self._service.base_url}/", seconds=REQUEST_TIMEOUT_SECONDS, params=parameters
        )
        status = answer.headers.get("spb-initial-status-code", "")
        if not answer.ok and status.isdecimal() and int(status) >= 400:
            raise site_said(int(status))
        if answer.status_code == 404:
            raise site_said(404)
        self._refuse(answer)
        if "spb-cost" not in answer.headers:
            raise self._service.unreadable()
        return answer

    def _refuse(self, answer: ScrapeResponse) -> None:
        """Raise the error for a refusal."""
        # 401 means a wrong key or an account without credit.
        if answer.status_code == 401:
            raise Fatal(
                f"{SCRAPER_TITLE} refuses the key in {KEY_FIELD}, or its account has no credit left: check both.",
                field=KEY_FIELD,
            )
        self._service.refuse(answer.status_code, answer.headers)
        if not answer.ok:
            raise Skippable(f"{SCRAPER_TITLE} could not read the page ({answer.status_code}).")
