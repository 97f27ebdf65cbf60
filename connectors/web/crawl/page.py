"""Pages of a crawl with their links, and sign-in or error pages that a site sends with status 200."""

from __future__ import annotations

import hashlib
import re
import secrets
import tempfile
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from urllib.parse import urljoin, urlsplit

from connectors.charsets import decoding
from connectors.http import html
from connectors.http.html import About
from connectors.web.crawl.page_text import PageText, read_text
from connectors.web.crawl.rules import host_of
from retrieval.errors import Retryable, Skippable
from retrieval.jobs import web_pages
from retrieval.network.page_identity import page_key
from retrieval.ports import RawContent, ScrapeOptions, Scraper


@dataclass(frozen=True, slots=True)
class Page:
    """Page with absolute http(s) links, without fragments, duplicates and nofollow links."""

    about: About
    links: tuple[str, ...]
    text: PageText = field(default_factory=PageText)


def read_page(data: bytes, url: str, media_type: str = "") -> Page:
    """Read an HTML page from the final `url`."""
    parsed = html.parse_page(data, media_type)
    about = html.read_about(parsed, url)
    links = tuple(html.find_links(parsed, about))
    return Page(about, links, read_text(parsed, about.title, url))


_MARKDOWN_LINK = re.compile(
    r"(?<!!)\[[^\]\n]{0,500}\]\(\s*<?([^\s<>()]{1,2048}(?:\([^\s()]*\))?[^\s<>()]*)>?[^)\n]{0,300}\)"
)


def read_markdown(data: bytes, url: str) -> Page:
    """Read the absolute http(s) links of Markdown, without fragments and duplicates."""
    text = decoding.decode_text(data)
    links = {html.absolute_link(url, match[1]): None for match in _MARKDOWN_LINK.finditer(text)}
    links.pop("", None)
    return Page(About("", "", "", "", url), tuple(links))


def read_content(raw: RawContent, url: str) -> Page | None:
    """Read a page from `url`; None for a file without links."""
    if html.is_html(raw.media_type) and raw.size <= html.MAX_PAGE_BYTES:
        return read_page(raw.path.read_bytes(), url, raw.media_type)
    if raw.media_type.partition(";")[0].strip() == "text/markdown":
        return read_markdown(raw.path.read_bytes(), url)
    return None


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """Fetched page with queued and final address; `same` for the stored version."""

    url: str
    final: str
    raw: RawContent
    same: bool
    page: Page | None

    @property
    def text(self) -> PageText:
        return self.page.text if self.page else PageText()

    @property
    def links(self) -> tuple[str, ...]:
        return self.page.links if self.page and "nofollow" not in self.raw.robots else ()

    @property
    def canonical(self) -> str:
        """Return the canonical address."""
        return page_key(self.page.about.canonical) if self.page and self.page.about.canonical else self.final

    @property
    def is_forbidden(self) -> bool:
        return "noindex" in self.raw.robots or (self.page is not None and not self.page.about.index)

    def mark(self) -> str:
        """Return the digest of the main text, or else of the bytes."""
        if self.text.digest and not (self.raw.page and self.raw.page.include):
            return f"text {self.text.digest}"
        return f"sha256 {hashlib.sha256(self.raw.path.read_bytes()).hexdigest()}"


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
