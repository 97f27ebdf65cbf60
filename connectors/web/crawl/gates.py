"""Sign-in and error pages among listed pages, which a site sends with status 200."""

from __future__ import annotations

import secrets
import tempfile
import threading
from dataclasses import replace
from pathlib import Path, PurePosixPath
from urllib.parse import urljoin, urlsplit

from connectors.web.crawl.page import host_of, read_content
from retrieval.errors import Retryable, Skippable
from retrieval.jobs import web_pages
from retrieval.network.page_identity import page_key
from retrieval.ports import RawContent, ScrapeOptions, Scraper

# Hosts with a remembered error page.
MAX_HOSTS = 256


def probe_missing(scraper: Scraper, options: ScrapeOptions, url: str, to: Path) -> str:
    """Fetch a missing page next to `url`; return `PageText.masked`, or "" for an error status."""
    address = urljoin(url, f"{secrets.token_hex(8)}{PurePosixPath(urlsplit(url).path).suffix}")
    try:
        raw = scraper.fetch(address, options, to)
    except (Skippable, Retryable):
        return ""
    page = read_content(raw, page_key(raw.url or address)) if raw else None
    return page.text.masked if page else ""


class ListedGates:
    """Refuse the gates of listed pages and mark their texts; thread-safe, with one probe per host."""

    def __init__(self, scraper: Scraper) -> None:
        self._scraper = scraper
        self._missing_by_host: dict[str, str] = {}
        self._lock = threading.Lock()

    def mark_text(self, raw: RawContent | None, url: str, options: ScrapeOptions) -> RawContent | None:
        """Return the content with its main text's digest. Skippable for a sign-in page or an error page."""
        final = page_key(raw.url or url) if raw else ""
        page = read_content(raw, final) if raw else None
        if raw is None or page is None:
            return raw
        text = page.text
        if text.signs_in and (text.certainly or final != page_key(url)):
            raise Skippable(web_pages.SIGN_IN_REASON)
        if text.says_missing and text.masked == self._read_missing(final, options):
            raise Skippable(web_pages.MISSING_REASON)
        # Selectors may leave out what differs.
        digest = "" if options.include else text.digest
        marks = {web_pages.MAIN_TEXT_PROPERTY: digest, "canonicalUrl": page_key(page.about.canonical)}
        return replace(raw, properties={**raw.properties, **{name: mark for name, mark in marks.items() if mark}})

    def _read_missing(self, url: str, options: ScrapeOptions) -> str:
        host = host_of(url)
        with self._lock:
            if host not in self._missing_by_host:
                if len(self._missing_by_host) >= MAX_HOSTS:
                    self._missing_by_host.clear()
                with tempfile.TemporaryDirectory(prefix="probe-") as folder:
                    plain = replace(options, check=None)
                    self._missing_by_host[host] = probe_missing(self._scraper, plain, url, Path(folder) / "page")
            return self._missing_by_host[host]
