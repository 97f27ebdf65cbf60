"""Jina's Reader over HTTP (https://jina.ai/reader): HTML of pages in a browser."""
# HTML instead of Markdown keeps selectors, links, canonical addresses and robots meta tags.

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from connectors.web import scraping_api
from connectors.web.scraping_api import ScrapeResponse, Service, is_file, key_of, require_allowed, site_error
from retrieval.errors import Skippable
from retrieval.ports import RawContent, ScrapeOptions
from retrieval.settings import Settings

SCRAPER_TITLE: Final = "Jina Reader"
BASE_URL: Final = "https://r.jina.ai"
REQUEST_TIMEOUT_SECONDS: Final = 120.0
HTML: Final = "text/html; charset=utf-8"
CHECKED: Final = "https://example.com/"
_WARNING: Final = re.compile(r"returned error (\d{3})")


def make(config: Mapping[str, Any], options: Settings) -> Jina:
    """Build the scraper with a namespace's key."""
    headers = {"Authorization": f"Bearer {key_of(config)}", "Accept": "application/json", "DNT": "1"}
    return Jina(Service("JINA_READER", SCRAPER_TITLE, BASE_URL, headers, options))


class Jina:
    """Jina's Reader, without conditional requests."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.close = service.close

    def fetch(self, url: str, options: ScrapeOptions, to: Path, *, known_version: str = "") -> RawContent | None:  # noqa: ARG002
        """Fetch a page, see the port; PDF and Office files arrive as Markdown."""
        address = require_allowed(url, self._service.guard, options)
        with self._service.turn(address):
            answer = self._service.ask(lambda: self._read(address))
        final = _text(answer, "url")
        if final:
            final = require_allowed(final, self._service.guard, options)
        if page := _text(answer, "html"):
            return scraping_api.html_page(
                scraping_api.file_page(page.encode(), url, to, self._service.max_bytes, HTML, final), options
            )
        return scraping_api.markdown_page(_text(answer, "content"), url, to, self._service.max_bytes, final, answer)

    def check(self) -> None:
        """Read a small page to verify the key."""
        # The Reader has no cheaper call with a key.
        self._service.ask(lambda: self._read(CHECKED))

    def _read(self, url: str) -> Mapping[str, Any]:
        """Return the `data` of the answer."""
        headers = {"X-No-Cache": "true"} | ({} if is_file(url) else {"X-Return-Format": "html"})
        answer = self._service.send(
            "POST", f"{self._service.base_url}/", seconds=REQUEST_TIMEOUT_SECONDS, json={"url": url}, headers=headers
        )
        return self._understood(answer)

    def _understood(self, answer: ScrapeResponse) -> Mapping[str, Any]:
        self._service.refuse(answer.status_code, answer.headers)
        if not answer.ok:
            raise Skippable(
                f"{SCRAPER_TITLE} could not read the page ({answer.status_code}): it is not there, or not for it."
            )
        try:
            data = answer.json()["data"]
        except (ValueError, LookupError, TypeError) as error:
            raise self._service.unreadable() from error
        if not isinstance(data, dict):
            raise self._service.unreadable()
        if (warning := _WARNING.search(_text(data, "warning"))) and int(warning[1]) >= 400:
            raise site_error(int(warning[1]))
        return data


def _text(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""
