"""Scraper by the HTML API of ScrapingBee (https://www.scrapingbee.com/documentation/)."""

# The key is a query parameter. For an error of the site, ScrapingBee answers 404 or 500 with the site's status in the
# header `spb-initial-status-code`.

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from connectors.http import html
from connectors.web import scraping_api
from connectors.web.scraping_api import KEY_FIELD, ScrapeResponse, Service, is_file, key_of, require_allowed, site_error
from retrieval.errors import Fatal, Skippable
from retrieval.ports import RawContent, ScrapeOptions
from retrieval.settings import Settings

SCRAPER_TITLE: Final = "ScrapingBee"
BASE_URL: Final = "https://app.scrapingbee.com/api/v1"
# ScrapingBee's own limit is 140 s.
REQUEST_TIMEOUT_SECONDS: Final = 150.0


def make(config: Mapping[str, Any], settings: Settings) -> ScrapingBee:
    """Return the scraper with the key in a namespace's configuration."""
    return ScrapingBee(Service("SCRAPINGBEE", SCRAPER_TITLE, BASE_URL, {}, settings), key_of(config))


class ScrapingBee:
    """`Scraper` running the scripts of pages, and downloading files. Makes no conditional requests."""

    def __init__(self, service: Service, key: str) -> None:
        self._service = service
        self._key = key
        self.close = service.close

    def fetch(self, url: str, options: ScrapeOptions, to: Path, *, known_version: str = "") -> RawContent | None:  # noqa: ARG002
        allowed_url = require_allowed(url, self._service.guard, options)
        with self._service.turn(allowed_url):
            answer = self._service.ask(lambda: self._request_page(allowed_url))
        final_url = answer.headers.get("spb-resolved-url", "")
        if final_url:
            final_url = require_allowed(final_url, self._service.guard, options)
        media_type = answer.headers.get("spb-content-type") or answer.headers.get("content-type", "")
        content = scraping_api.file_page(answer.content, url, to, self._service.max_bytes, media_type, final_url)
        return scraping_api.html_page(content, options) if html.is_html(media_type) else content

    def check(self) -> None:
        """Check key and credit of the account, free of charge."""
        self._service.ask(self._require_credit)

    def _require_credit(self) -> None:
        answer = self._service.send("GET", f"{self._service.base_url}/usage", seconds=30, params={"api_key": self._key})
        self._require_success(answer)
        try:
            credit_left = answer.json()["max_api_credit"] - answer.json()["used_api_credit"]
        except (ValueError, LookupError, TypeError) as error:
            raise self._service.unreadable() from error
        if credit_left <= 0:
            self._service.refuse(402, {})

    def _request_page(self, url: str) -> ScrapeResponse:
        parameters = {"api_key": self._key, "url": url, "render_js": "false" if is_file(url) else "true"}
        answer = self._service.send(
            "GET", f"{self._service.base_url}/", seconds=REQUEST_TIMEOUT_SECONDS, params=parameters
        )
        site_status = answer.headers.get("spb-initial-status-code", "")
        if not answer.ok and site_status.isdecimal() and int(site_status) >= 400:
            raise site_error(int(site_status))
        if answer.status_code == 404:
            raise site_error(404)
        self._require_success(answer)
        # ScrapingBee names the cost of each page.
        if "spb-cost" not in answer.headers:
            raise self._service.unreadable()
        return answer

    def _require_success(self, answer: ScrapeResponse) -> None:
        """Raise the error for a status other than 2xx of ScrapingBee."""
        # 401 means a wrong key or an account without credit.
        if answer.status_code == 401:
            raise Fatal(
                f"{SCRAPER_TITLE} refuses the key in {KEY_FIELD}, or its account has no credit left: check both.",
                field=KEY_FIELD,
            )
        self._service.refuse(answer.status_code, answer.headers)
        if not answer.ok:
            raise Skippable(f"{SCRAPER_TITLE} could not read the page ({answer.status_code}).")
