"""A whole website, found by its links: breadth first, politely, several pages at once, and resumed where it stopped."""

from __future__ import annotations

import tempfile
import time
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from connectors.web.builtin import robots as robots_files
from connectors.web.crawl.previous_versions import PreviousVersions
from connectors.web.crawl.rules import ROBOTS, Rules
from connectors.web.crawl.walk import Limits, Piece, Walk
from retrieval import settings
from retrieval.database.database import Database
from retrieval.errors import Retryable, Skippable
from retrieval.ingestion import discover
from retrieval.ingestion.discover import Seen
from retrieval.ports import DiscoveryRequest, FileStore, Page, RawContent, ScrapeOptions, Scraper, SourceItem

PIECE_PAGES = 32
PIECE_SECONDS = 2.0
AHEAD = 2
"""Pages that wait to be read for each that is fetched: they come back in the order of the walk."""
SILENT = 10
"""Pages in a row that do not answer: then the site is left alone until the next try."""


def make(scraper: Scraper, files: FileStore, db: Database) -> Website:
    options = settings.load()
    robots = robots_files.shared() if options.fetch_robots else None
    return Website(scraper, db, files, robots, at_once=options.fetch_host_limit)


class Website:
    """Fetches with the namespace's scraper. The frontier is stored in the database together with the pages it found."""

    def __init__(
        self, scraper: Scraper, db: Database, files: FileStore, robots: robots_files.Robots | None, *, at_once: int
    ) -> None:
        self._scraper = scraper
        self._db = db
        self._files = files
        self._robots = robots
        self._at_once = at_once

    def discover(self, request: DiscoveryRequest, cursor: str | None) -> Iterator[Page[SourceItem]]:
        """The pages with their content. Pages that did not answer are tried again by the next listing."""
        config = request.config
        limits = Limits(int(config.get("maxDepth") or 3), int(config.get("maxLinks") or 100))
        rules = Rules.of(config, self._robots)
        walk = Walk(config["url"], rules, limits, discover.load(self._db, request.job_run_id))
        numbers = count(int(cursor) + 1 if cursor and cursor.isdecimal() else 1)
        options = replace(ScrapeOptions.of(config), check=rules.check)
        with tempfile.TemporaryDirectory(prefix="crawl-") as folder:
            earlier = PreviousVersions(self._db, self._files, request.scope)
            crawl = _Crawl(walk, rules, Fetching(self._scraper, earlier, options, Path(folder)), self._at_once)
            with closing(crawl.pieces()) as pieces:
                for piece in pieces:
                    yield _page(piece, request.job_run_id, str(next(numbers)))
        if crawl.later:
            raise crawl.later
        yield Page((), str(next(numbers)), done=True)

    def fetch(self, item: SourceItem, request: DiscoveryRequest, to: Path) -> RawContent | None:
        """One page again, after the crawl; None if it is still the item's version."""
        rules = Rules.of(request.config, self._robots)
        rules.widen(item.external_id)
        options = replace(ScrapeOptions.of(request.config), check=rules.check)
        return self._scraper.fetch(item.external_id, options, to, known=item.version)


@dataclass(frozen=True, slots=True)
class Fetching:
    """With what pages are fetched, and where they lie until they are saved."""

    scraper: Scraper
    earlier: PreviousVersions
    options: ScrapeOptions
    folder: Path


class _Crawl:
    """One try of a walk."""

    def __init__(self, walk: Walk, rules: Rules, fetching: Fetching, at_once: int) -> None:
        self.later: Retryable | None = None
        self._walk = walk
        self._rules = rules
        self._with = fetching
        self._at_once = at_once
        self._names = count()
        self._silent = 0
        self._coming: deque[tuple[Seen, Future[tuple[RawContent | None, bool]]]] = deque()

    def pieces(self) -> Generator[Piece, None, None]:
        piece, begun = self._first(), time.monotonic()
        pool = ThreadPoolExecutor(self._at_once, thread_name_prefix="crawl")
        try:
            while self._ask(pool):
                one, future = self._coming.popleft()
                self._take(one, future, piece)
                if len(piece.change.ended) >= PIECE_PAGES or time.monotonic() - begun > PIECE_SECONDS:
                    yield piece
                    self._drop(piece)
                    piece, begun = Piece(), time.monotonic()
            yield piece
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _first(self) -> Piece:
        piece = Piece()
        if self._walk.fresh:
            piece.change.found.append(self._walk.fresh)
        return piece

    def _ask(self, pool: ThreadPoolExecutor) -> bool:
        """Keep the threads busy. Whether anything is on its way."""
        while len(self._coming) < self._at_once * (1 + AHEAD) and self._silent < SILENT:
            one = self._walk.next(len(self._coming))
            if one is None:
                break
            self._coming.append((one, pool.submit(self._fetch, one.key, self._with.folder / str(next(self._names)))))
        return bool(self._coming)

    def _fetch(self, url: str, to: Path) -> tuple[RawContent | None, bool]:
        if not self._rules.by_robots(url):
            raise Skippable(ROBOTS)
        start, options = url == self._walk.start, self._with.options
        asked = replace(options, check=self._rules.check_start) if start else options
        return self._with.earlier.fetch(self._with.scraper, url, asked, to)

    def _take(self, one: Seen, future: Future[tuple[RawContent | None, bool]], piece: Piece) -> None:
        try:
            found, same = future.result()
            raw = self._checked(one, found)
        except Skippable as error:
            if str(error) == ROBOTS and one.key != self._walk.start:
                self._walk.skip(one.key, ROBOTS, piece)
            else:
                self._walk.fail(one.key, str(error), piece)
        except Retryable as error:
            self._silent += 1
            if self._walk.fail(one.key, str(error), piece, later=True):
                self.later = error
        else:
            self._silent = 0
            self._walk.learn(one.key, raw, piece, same=same)

    def _checked(self, one: Seen, raw: RawContent | None) -> RawContent:
        """A service that fetched for us may have been led elsewhere."""
        if raw is None:
            raise Skippable("The site gave no page.")
        if raw.url:
            (self._rules.check_start if one.key == self._walk.start else self._rules.check)(raw.url)
        return raw

    @staticmethod
    def _drop(piece: Piece) -> None:
        """The page was saved: its files have served."""
        for file in piece.files:
            file.unlink(missing_ok=True)


def _page(piece: Piece, job_run_id: str, cursor: str) -> Page[SourceItem]:
    return Page(
        piece.items,
        cursor,
        done=False,
        skipped=piece.skipped,
        save=lambda connection: discover.save(connection, job_run_id, piece.change),
    )
