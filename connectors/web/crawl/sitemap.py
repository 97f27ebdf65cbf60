"""The pages that a sitemap names, with those of the sitemaps that it names in turn."""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from connectors.http import html
from connectors.web.builtin import client as clients
from connectors.web.builtin import robots as robots_files
from connectors.web.builtin.client import Bounds, FetchRequest, WebClient
from connectors.web.crawl import sitemap_parser
from connectors.web.crawl.rules import OTHER_HOST, ROBOTS, Rules
from connectors.web.crawl.sitemap_parser import SitemapEntry
from connectors.web.crawl.walk import page_key
from retrieval import settings
from retrieval.database.database import Database
from retrieval.errors import Skippable
from retrieval.ports import DiscoveryRequest, FileStore, Page, RawContent, ScrapeOptions, Scraper, SourceItem

PIECE = 500
MOST_FILES = 1000
BOUNDS = Bounds(bytes=sitemap_parser.MOST_BYTES, seconds=120)
MALFORMED = "Its address cannot be read."


def make(scraper: Scraper, _files: FileStore, _db: Database) -> Sitemap:
    robots = robots_files.shared() if settings.load().fetch_robots else None
    return Sitemap(scraper, clients.shared(), robots)


@dataclass
class _Found:
    """What has been read since the last piece. `passed`: all entries so far, which is where a listing goes on."""

    items: list[SourceItem] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    passed: int = 0

    def piece(self, *, done: bool = False) -> Page[SourceItem]:
        page = Page(tuple(self.items), str(self.passed), done=done, skipped=self.skipped)
        self.items, self.skipped = [], {}
        return page


class Sitemap:
    """Lists with the service's own client; the pages are fetched with the namespace's scraper."""

    def __init__(self, scraper: Scraper, client: WebClient, robots: robots_files.Robots | None) -> None:
        self._scraper = scraper
        self._client = client
        self._robots = robots

    def discover(self, request: DiscoveryRequest, cursor: str | None) -> Iterator[Page[SourceItem]]:
        """Reads the sitemaps again up to the cursor, which costs no page. `lastmod` is the version of a page."""
        rules, most = Rules.of(request.config, self._robots), int(request.config.get("maxLinks") or 1000)
        found, before, taken = _Found(), int(cursor or 0), set[str]()
        for entry, error in self._entries(request.config["url"], rules):
            url = page_key(entry.url)
            reason = error or _refusal(rules, url)
            fresh = url not in taken
            if not reason and fresh:
                taken.add(url)
            found.passed += 1
            if found.passed > before:
                _sort(found, entry, url, error=error, reason=reason, fresh=fresh)
            if len(taken) >= most:
                break
            if len(found.items) >= PIECE:
                yield found.piece()
        yield found.piece(done=True)

    def fetch(self, item: SourceItem, request: DiscoveryRequest, to: Path) -> RawContent | None:
        """The page as it is now; None if it is still the item's version. robots.txt binds."""
        rules = Rules.of(request.config, self._robots)
        rules.widen(item.external_id)
        if not rules.by_robots(item.external_id):
            raise Skippable(ROBOTS)
        options = replace(ScrapeOptions.of(request.config), check=rules.check)
        return self._scraper.fetch(item.external_id, options, to, known=item.version)

    def _entries(self, start: str, rules: Rules) -> Iterator[tuple[SitemapEntry, str]]:
        """Those of pages, in order. A further sitemap that cannot be read is one entry with the reason."""
        queue, seen = deque([start]), {page_key(start)}
        while queue:
            url = queue.popleft()
            try:
                for entry in self._file(url, rules, first=url == start):
                    if not entry.index:
                        yield entry, ""
                        continue
                    key = page_key(entry.url)
                    if key not in seen and len(seen) < MOST_FILES:
                        seen.add(key)
                        queue.append(key)
            except Skippable as error:
                if url == start:
                    raise
                yield SitemapEntry(url, "", index=True), str(error)

    def _file(self, url: str, rules: Rules, *, first: bool) -> Iterator[SitemapEntry]:
        """The first one may lead to another host, which is the site's then."""
        with tempfile.TemporaryDirectory(prefix="sitemap-") as folder:
            file = Path(folder) / "sitemap"
            with file.open("w+b") as into:
                delay = self._robots.delay(url) if self._robots else 0.0
                check = None if first else rules.check_host
                found = self._client.get(url, into, FetchRequest(bounds=BOUNDS, delay=delay, check=check))
            rules.widen(found.url)
            for entry in sitemap_parser.read(file, found.media_type):
                yield replace(entry, url=html.link(found.url, entry.url)) if entry.url.startswith("/") else entry


def _sort(found: _Found, entry: SitemapEntry, url: str, *, error: str, reason: str, fresh: bool) -> None:
    if error and reason != OTHER_HOST:
        found.items.append(SourceItem(url, url, error=error))
    elif reason:
        found.skipped[reason] = found.skipped.get(reason, 0) + 1
    elif fresh:
        version = f"lastmod {entry.modified}" if entry.modified else ""
        found.items.append(SourceItem(url, url, version=version))


def _refusal(rules: Rules, url: str) -> str:
    if not url.startswith(("http://", "https://")):
        return MALFORMED
    return rules.refusal(url) or ("" if rules.by_robots(url) else ROBOTS)
