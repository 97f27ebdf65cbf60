"""Websites: crawls with the namespace's scraper, and stored versions for conditional requests."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from http.cookiejar import CookieJar
from itertools import count, islice
from pathlib import Path
from typing import Any

from connectors.web.builtin import robots as robots_files
from connectors.web.builtin.client import shared_client
from connectors.web.crawl.page import probe_missing
from connectors.web.crawl.rules import ROBOTS, Rules
from connectors.web.crawl.sitemap import Sitemap
from connectors.web.crawl.walk import Limits, Piece, Walk
from retrieval import settings
from retrieval.database.database import Database
from retrieval.errors import Retryable, Skippable
from retrieval.ingestion.queries import frontier, page_removals
from retrieval.ingestion.queries.frontier import FrontierPage
from retrieval.ports import DiscoveryRequest, FileStore, Page, RawContent, Scope, ScrapeOptions, Scraper, SourceItem


@dataclass(frozen=True, slots=True)
class Stored:
    """Visible version of a page, with the site's version mark."""

    version: str
    raw_key: str
    media_type: str


class PreviousVersions:
    """Previous versions of a scope's pages; thread-safe."""

    def __init__(self, db: Database, files: FileStore, scope: Scope) -> None:
        self._db = db
        self._files = files
        self._scope = scope

    def fetch(self, scraper: Scraper, url: str, options: ScrapeOptions, to: Path) -> tuple[RawContent | None, bool]:
        """Return the page, and True for the stored version."""
        stored = self._find(url)
        raw = scraper.fetch(url, options, to, known_version=stored.version if stored else "")
        if raw is not None or stored is None:
            return raw, False
        # The stored file of an unchanged page, because the crawl follows its links.
        try:
            return self._copy_stored(stored, url, to), True
        except Skippable:  # its file was lost
            return scraper.fetch(url, options, to), False

    def _find(self, url: str) -> Stored | None:
        return self._db.fetch_one(
            Stored,
            """
            select d.properties ->> 'listedVersion' as version, d.raw_key, m.media_type
            from documents d join partitions p on p.id = d.partition_id
            join run_documents m on m.document_id = d.id and m.raw_key = d.raw_key and m.raw_hash is not null
            where p.namespace_id = %(namespace)s and p.tenant = %(tenant)s and d.source = 'WEBSITE'
              and d.external_id = %(url)s and d.deleted_at is null and d.properties ->> 'listedVersion' <> ''
            limit 1
            """,
            {"namespace": self._scope.namespace, "tenant": self._scope.tenant, "url": url},
        )

    def _copy_stored(self, stored: Stored, url: str, to: Path) -> RawContent:
        with self._files.open(stored.raw_key) as source, to.open("wb") as into:
            shutil.copyfileobj(source, into)
        return RawContent(to, url, stored.media_type, to.stat().st_size, version=stored.version, url=url)


MAX_SITEMAPS = 50
# Limit of requests for missing pages, to learn the site's error page.
MAX_PROBES = 3
PIECE_PAGES = 32
PIECE_SECONDS = 2.0
# Waiting pages per fetch; results keep the order of the walk.
PREFETCH_FACTOR = 2
# Consecutive failures before a pause until the next try.
MAX_CONSECUTIVE_FAILURES = 10


def make(scraper: Scraper, files: FileStore, db: Database) -> Website:
    options = settings.load_settings()
    robots = robots_files.shared_robots() if options.fetch_robots else None
    return Website(scraper, db, files, robots, at_once=options.fetch_host_limit)


class Website:
    """Source of a website's pages; the frontier is saved with the pages."""

    def __init__(
        self, scraper: Scraper, db: Database, files: FileStore, robots: robots_files.Robots | None, *, at_once: int
    ) -> None:
        self._scraper = scraper
        self._db = db
        self._files = files
        self._robots = robots
        self._at_once = at_once

    def discover(self, request: DiscoveryRequest, cursor: str | None) -> Iterator[Page[SourceItem]]:
        """List pages with content; the next listing retries failed pages."""
        config = request.config
        depth, links = int(config.get("maxDepth") or 3), int(config.get("maxLinks") or 100)
        limits = Limits(depth, links, sitemap=bool(config.get("useSitemap", True)))
        rules = Rules.of(config, self._robots)
        numbers = count(int(cursor) + 1 if cursor and cursor.isdecimal() else 1)
        options = replace(ScrapeOptions.of(config), check=rules.check, cookies=CookieJar())
        with tempfile.TemporaryDirectory(prefix="crawl-") as folder:
            earlier = PreviousVersions(self._db, self._files, request.scope)
            fetching = Fetching(self._scraper, earlier, options, Path(folder), self._listed(config, rules, limits.seen))
            frontier_pages = frontier.load_frontier(self._db, request.job_run_id)
            known_pages = page_removals.list_known(self._db, request.job_run_id)
            walk = Walk(config["url"], rules, limits, frontier_pages, fetching.probe, known_pages)
            crawl = _Crawl(walk, rules, fetching, self._at_once)
            with closing(crawl.pieces()) as pieces:
                for piece in pieces:
                    yield _page(piece, request.job_run_id, str(next(numbers)))
        if crawl.retry_error:
            raise crawl.retry_error
        yield Page((), str(next(numbers)), done=True)

    def _listed(self, config: Mapping[str, Any], rules: Rules, limit: int) -> Iterator[str]:
        """Yield at most `limit` pages per sitemap of robots.txt; "" for an incomplete list."""
        if self._robots is None or not config.get("useSitemap", True):
            return
        try:
            sitemaps = self._robots.rules(config["url"]).sitemaps
        except Retryable:
            yield ""
            return
        if len(sitemaps) > MAX_SITEMAPS:
            yield ""
        reader = Sitemap(self._scraper, shared_client(), self._robots)
        for address in sitemaps[:MAX_SITEMAPS]:
            yield from islice(reader.iter_pages(address, rules), limit)

    def fetch(self, item: SourceItem, request: DiscoveryRequest, to: Path) -> RawContent | None:
        """Fetch a page after the crawl; None if unchanged."""
        rules = Rules.of(request.config, self._robots)
        rules.widen(item.external_id)
        options = replace(ScrapeOptions.of(request.config), check=rules.check)
        return self._scraper.fetch(item.external_id, options, to, known_version=item.version)


@dataclass(frozen=True, slots=True)
class Fetching:
    """Scraper, options and temporary folder of a crawl."""

    scraper: Scraper
    earlier: PreviousVersions
    options: ScrapeOptions
    folder: Path
    # Pages of the site's sitemaps.
    listed: Iterable[str] = ()
    # Digests of error pages by folder of the site.
    probes: dict[str, str] = field(default_factory=dict)

    def probe(self, url: str) -> str:
        """Fetch a missing page next to `url`, once per folder; return `PageText.masked`, or "" for an error status."""
        folder = url.partition("?")[0].rpartition("/")[0]
        if folder not in self.probes and len(self.probes) < MAX_PROBES:
            to = self.folder / f"probe-{len(self.probes)}"
            self.probes[folder] = probe_missing(self.scraper, self.options, url, to)
        return self.probes.get(folder, "")


class _Crawl:
    def __init__(self, walk: Walk, rules: Rules, fetching: Fetching, at_once: int) -> None:
        self.retry_error: Retryable | None = None
        self._walk = walk
        self._rules = rules
        self._with = fetching
        self._at_once = at_once
        self._names = count()
        self._failures_in_a_row = 0
        self._coming: deque[tuple[FrontierPage, Future[tuple[RawContent | None, bool]]]] = deque()

    def pieces(self) -> Generator[Piece, None, None]:
        pool = ThreadPoolExecutor(self._at_once, thread_name_prefix="crawl")
        try:
            yield from self._fetched(pool, self._first())
            if not self.retry_error:
                piece = Piece()
                self._walk.add_listed(self._with.listed, piece)
                yield from self._fetched(pool, piece)
            if not self.retry_error:
                piece = Piece()
                self._walk.release(piece)
                self._walk.queue_known_pages()
                yield from self._fetched(pool, piece)
            if not self.retry_error:
                piece = Piece()
                self._walk.report_limits(piece)
                yield piece
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _fetched(self, pool: ThreadPoolExecutor, piece: Piece) -> Generator[Piece, None, None]:
        begun = time.monotonic()
        while self._submit_pages(pool):
            page, future = self._coming.popleft()
            self._record_result(page, future, piece)
            if len(piece.change.ended) >= PIECE_PAGES or time.monotonic() - begun > PIECE_SECONDS:
                yield piece
                self._drop(piece)
                piece, begun = Piece(), time.monotonic()
        yield piece
        self._drop(piece)

    def _first(self) -> Piece:
        piece = Piece()
        if self._walk.fresh:
            piece.change.new_pages.append(self._walk.fresh)
        return piece

    def _submit_pages(self, pool: ThreadPoolExecutor) -> bool:
        """Submit fetches for free threads; return False without pending fetches."""
        while (
            len(self._coming) < self._at_once * (1 + PREFETCH_FACTOR)
            and self._failures_in_a_row < MAX_CONSECUTIVE_FAILURES
        ):
            page = self._walk.next(len(self._coming))
            if page is None:
                break
            self._coming.append((page, pool.submit(self._fetch, page.key, self._with.folder / str(next(self._names)))))
        return bool(self._coming)

    def _fetch(self, url: str, to: Path) -> tuple[RawContent | None, bool]:
        if not self._rules.allowed_by_robots(url):
            raise Skippable(ROBOTS)
        start, options = url == self._walk.start, self._with.options
        fetch_options = replace(options, check=self._rules.check_start) if start else options
        return self._with.earlier.fetch(self._with.scraper, url, fetch_options, to)

    def _record_result(self, page: FrontierPage, future: Future[tuple[RawContent | None, bool]], piece: Piece) -> None:
        try:
            fetched, same = future.result()
            raw = self._checked(page, fetched)
        except Skippable as error:
            if str(error) == ROBOTS and page.key != self._walk.start:
                self._walk.skip(page.key, ROBOTS, piece)
            else:
                self._walk.fail(page.key, str(error), piece)
        except Retryable as error:
            self._failures_in_a_row += 1
            is_tried_again = self._walk.fail(page.key, str(error), piece, may_retry=True)
            if is_tried_again or (
                self._failures_in_a_row >= MAX_CONSECUTIVE_FAILURES and not self._walk.is_unlinked_known(page.key)
            ):
                self.retry_error = error
        else:
            self._failures_in_a_row = 0
            self._walk.learn(page.key, raw, piece, same=same)

    def _checked(self, page: FrontierPage, raw: RawContent | None) -> RawContent:
        """Check the final address of a scraping service."""
        if raw is None:
            raise Skippable("The site gave no page.")
        if raw.url:
            (self._rules.check_start if page.key == self._walk.start else self._rules.check)(raw.url)
        return raw

    @staticmethod
    def _drop(piece: Piece) -> None:
        """Delete the files of a saved piece."""
        for file in piece.files:
            file.unlink(missing_ok=True)


def _page(piece: Piece, job_run_id: str, cursor: str) -> Page[SourceItem]:
    return Page(
        piece.items,
        cursor,
        done=False,
        skipped=piece.skipped,
        save=lambda connection: frontier.save_change(connection, job_run_id, piece.change),
    )
