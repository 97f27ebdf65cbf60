"""Single pages and crawls by Firecrawl."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.http import html
from connectors.web import scraping_api
from connectors.web.crawl.rules import NOT_INCLUDED, ROBOTS, Rules
from connectors.web.crawl.walk import NOT_INDEXED, Limits, Piece
from connectors.web.firecrawl.client import FIRECRAWL_TITLE, FirecrawlSession, failure_reason
from connectors.web.scraping_api import KEY_FIELD, key_of, require_allowed, site_error
from retrieval.errors import Fatal, Skippable
from retrieval.ingestion.queries.frontier import FrontierPage
from retrieval.jobs import web_pages
from retrieval.network.fetch_guard import Guard
from retrieval.network.page_identity import page_key
from retrieval.ports import DiscoveryRequest, RawContent, ScrapeOptions, SourceItem
from retrieval.settings import Settings

if TYPE_CHECKING:
    from firecrawl.v2.types import CrawlErrorsResponse, Document  # type: ignore[import-untyped]


def make(config: Mapping[str, Any], options: Settings) -> Firecrawl:
    """Build the scraper with a namespace's key."""
    return Firecrawl(FirecrawlSession(key_of(config), options))


class Firecrawl:
    """Scraper with Firecrawl's includeTags and excludeTags for selectors; no conditional requests."""

    def __init__(self, client: FirecrawlSession) -> None:
        self.client = client
        self.close = client.service.close

    def fetch(self, url: str, options: ScrapeOptions, to: Path, *, known_version: str = "") -> RawContent | None:  # noqa: ARG002
        """Fetch a page, see the port."""
        service = self.client.service
        address = require_allowed(url, service.guard, options)
        with service.turn(address):
            page = self.client.scrape(address, options)
        if final := page.metadata_typed.url or "":
            final = require_allowed(final, service.guard, options)
        return make_content(page, url, to, service.max_bytes, final)

    def check(self) -> None:
        """Check the account's credit, free of charge."""
        if self.client.credit() <= 0:
            raise Fatal(f"The account at {FIRECRAWL_TITLE} has no credit left: add credit.", field=KEY_FIELD)


def make_content(page: Document, name: str, to: Path, max_bytes: int, final: str) -> RawContent:
    """Return the content of the document `name`."""
    metadata = page.metadata_typed
    about = {
        "title": metadata.title,
        "description": metadata.description,
        "language": metadata.language,
        "canonicalUrl": metadata.extras.get("canonical"),
    }
    return scraping_api.markdown_page(page.markdown or "", name, to, max_bytes, final, about)


NAMELESS = "Firecrawl does not say where it lies."


class Pages:
    """Pages of a job run, for one thread."""

    def __init__(
        self, request: DiscoveryRequest, guard: Guard, max_bytes: int, frontier_pages: Iterable[FrontierPage]
    ) -> None:
        config = request.config
        self.start = page_key(config["url"])
        self.limits = Limits(int(config.get("maxDepth") or 3), int(config.get("maxLinks") or 100))
        self.rules = Rules.of(config, None)  # robots.txt binds the service that fetches: it tells what was forbidden
        self._guard = guard
        self._max_bytes = max_bytes
        pages = list(frontier_pages)
        self._done = {page.key for page in pages if page.done}
        self._depths = {page.key: page.depth for page in pages} | {self.start: 0}
        self.stored_count = sum(page.kept for page in pages)
        self._names = count()

    @property
    def full(self) -> bool:
        return self.stored_count >= self.limits.links

    @property
    def empty(self) -> bool:
        return not self._done

    def take(self, pages: Iterable[Document], folder: Path) -> Piece:
        """Process the pages of an answer, without duplicates of earlier answers."""
        piece = Piece()
        for page in pages:
            metadata = page.metadata_typed
            source_address = _address(metadata.source_url or metadata.url)
            if not source_address:
                piece.skip(NAMELESS)
            elif source_address not in self._done:
                self._take(page, source_address, folder / str(next(self._names)), piece)
        return piece

    def complain(self, trouble: CrawlErrorsResponse) -> Piece:
        """Report unreadable and forbidden pages."""
        piece = Piece()
        for error in trouble.errors[: self.limits.seen]:
            url = _address(error.url)
            if url and url not in self._done and not self._refusal(url):
                self._done.add(url)
                piece.items.append(SourceItem(url, url, error=failure_reason(error.code)))
        for blocked in {_address(url) for url in trouble.robots_blocked[: self.limits.seen]}:
            if blocked == self.start:
                piece.items.append(SourceItem(blocked, blocked, error=ROBOTS))
            elif blocked and not self._refusal(blocked):
                piece.skip(ROBOTS)
        return piece

    def _take(self, page: Document, requested_url: str, to: Path, piece: Piece) -> None:
        status = page.metadata_typed.status_code or 200
        if why := self._refusal(requested_url) or (web_pages.BEYOND_LIMIT_REASON if self.full else ""):
            piece.skip(why)
            self._follow(page.links or (), self.limits.depth, piece)
        elif status >= 400:
            piece.items.append(SourceItem(requested_url, requested_url, error=str(site_error(status))))
        else:
            self._follow(page.links or (), self._depths.get(requested_url), piece)
            try:
                self._judge(page, requested_url, to, piece)
            except Skippable as error:
                piece.items.append(SourceItem(requested_url, requested_url, error=str(error)))
        self._end(requested_url, piece)

    def _refusal(self, url: str) -> str:
        """Return the reason against a page; a page without a link has no known depth."""
        if self._depths.get(url, 0) > self.limits.depth:
            return web_pages.TOO_DEEP_REASON
        why = self.rules.refusal(url)
        return "" if url == self.start and why == NOT_INCLUDED else why

    def _judge(self, page: Document, requested_url: str, to: Path, piece: Piece) -> None:
        metadata = page.metadata_typed
        final = _address(metadata.url) or requested_url
        if requested_url == self.start and self.rules.widen(final):
            require_allowed(final, self._guard, ScrapeOptions())
        self.rules.check(final)
        raw = make_content(page, final, to, self._max_bytes, final)
        mark = f"sha256 {hashlib.sha256(raw.path.read_bytes()).hexdigest()}"
        if set((metadata.robots or "").lower().replace(",", " ").split()) & {"noindex", "none"}:
            piece.skip(NOT_INDEXED)
        elif final in self._done:
            piece.skip(web_pages.DUPLICATE_REASON)
        elif mark in self._done:
            piece.skip(web_pages.COPY_REASON)
        elif not self.rules.included(final):
            piece.skip(NOT_INCLUDED)
        else:
            self._keep(raw, requested_url, piece)
            self._end(final, piece)
            self._end(mark, piece)

    def _keep(self, raw: RawContent, requested_url: str, piece: Piece) -> None:
        self.stored_count += 1
        piece.change.stored.append(requested_url)
        piece.items.append(SourceItem(raw.url, raw.url, raw.media_type, content=raw))

    def _end(self, key: str, piece: Piece) -> None:
        if key not in self._done:
            self._done.add(key)
            piece.change.new_pages.append(FrontierPage(key, self._depths.get(key, 0), done=True))
            piece.change.ended.append(key)

    def _follow(self, links: Iterable[str], depth: int | None, piece: Piece) -> None:
        """Learn the depth of linked pages; None for an unknown `depth`."""
        # Not saved: a next worker may find a shorter path. Pages linked only from excluded pages are too deep.
        if depth is None:
            return
        for link in links:
            url = _address(link)
            depth_known = self._depths.get(url)
            if not url or self.rules.refusal(url) or (depth_known is None and len(self._depths) >= self.limits.seen):
                continue
            if depth_known is None or depth + 1 < depth_known:
                self._depths[url] = depth + 1
                if depth < self.limits.depth:
                    piece.change.new_pages.append(FrontierPage(url, depth + 1, done=False))


def _address(value: object) -> str:
    """Normalize an address without the fragment; "" if invalid."""
    text = value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""
    address = html.absolute_link(text, text) if text else ""
    return page_key(address) if address else ""
