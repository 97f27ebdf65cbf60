"""Stored versions of crawled pages, for conditional requests."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

from connectors.http import html
from connectors.web.builtin import robots as robots_files
from connectors.web.crawl import page
from connectors.web.crawl.page import NOT_INCLUDED, ROBOTS, Rules
from retrieval import settings
from retrieval.database.database import Database
from retrieval.errors import Retryable, Skippable
from retrieval.ingestion.queries import frontier
from retrieval.ingestion.queries.frontier import Change, Seen
from retrieval.jobs import web_pages
from retrieval.network.page_identity import page_key
from retrieval.ports import DiscoveryRequest, FileStore, Page, RawContent, Scope, ScrapeOptions, Scraper, SourceItem


@dataclass(frozen=True, slots=True)
class Stored:
    """The visible version of a page. `version`: the site's own mark of it."""

    version: str
    raw_key: str
    media_type: str


class PreviousVersions:
    """Previous versions of the pages of one scope; safe to share between threads."""

    def __init__(self, db: Database, files: FileStore, scope: Scope) -> None:
        self._db = db
        self._files = files
        self._scope = scope

    def fetch(self, scraper: Scraper, url: str, options: ScrapeOptions, to: Path) -> tuple[RawContent | None, bool]:
        """The page, and whether it is the stored one: its links are read, whatever has changed."""
        stored = self._find(url)
        raw = scraper.fetch(url, options, to, known=stored.version if stored else "")
        if raw is not None or stored is None:
            return raw, False
        try:
            return self._bring(stored, url, to), True
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

    def _bring(self, stored: Stored, url: str, to: Path) -> RawContent:
        with self._files.open(stored.raw_key) as source, to.open("wb") as into:
            shutil.copyfileobj(source, into)
        return RawContent(to, url, stored.media_type, to.stat().st_size, version=stored.version, url=url)


DUPLICATE = "It is the same page as another one."
NOT_INDEXED = "The page asks machines not to keep it (robots meta tag or X-Robots-Tag)."
TRIES = 3
_HOST = "host "
"""Begins the mark of a host that the start page led to."""


@dataclass(frozen=True, slots=True)
class Limits:
    depth: int
    links: int

    @property
    def seen(self) -> int:
        """Most pages of a frontier, so that a site without an end stays small."""
        return 10 * self.links + 100


@dataclass
class Piece:
    """Results that are saved together."""

    items: list[SourceItem] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    change: Change = field(default_factory=Change)
    files: list[Path] = field(default_factory=list)
    """Of pages that were read: they may go once the piece is saved."""

    def skip(self, reason: str) -> None:
        self.skipped[reason] = self.skipped.get(reason, 0) + 1


class Walk:
    """Walk of one job run; used from one thread."""

    def __init__(self, start: str, rules: Rules, limits: Limits, before: Iterable[Seen]) -> None:
        self.start = page_key(start)
        self.limits = limits
        self._rules = rules
        pages = list(before) or [Seen(self.start, 0, done=False)]
        self.fresh = pages[0] if len(pages) == 1 and not pages[0].done else None
        self._depths = {page.key: page.depth for page in pages}
        self._done = {page.key for page in pages if page.done}
        rules.hosts.update(key.removeprefix(_HOST) for key in self._done if key.startswith(_HOST))
        self._tries = {page.key: page.tries for page in pages}
        self._linked_from = {page.key: page.linked_from for page in pages}
        self.kept = sum(page.kept for page in pages)
        self.queue = deque(sorted((page for page in pages if not page.done), key=lambda one: one.depth))

    def next(self, in_flight: int) -> Seen | None:
        """Next page to fetch; None if there is none, or enough are in progress."""
        while self.queue and self.kept + in_flight < self.limits.links:
            page = self.queue.popleft()
            if page.key not in self._done:
                return page
        return None

    def learn(self, url: str, raw: RawContent, piece: Piece, *, same: bool = False) -> None:
        """Take the page or leave it, and queue what it leads to. `same`: what is stored of `url` is what came."""
        piece.files.append(raw.path)
        final = page_key(raw.url or url)
        if url == self.start and (host := self._rules.widen(final)):
            piece.change.found.append(Seen(_HOST + host, 0, done=True))
        data = raw.path.read_bytes()
        page_links = _read(data, final, raw.media_type)
        canonical = page_key(page_links.about.canonical) if page_links else ""
        name = canonical if canonical and self._is_ours(canonical) else final
        mark = f"sha256 {hashlib.sha256(data).hexdigest()}"
        forbidden = "noindex" in raw.robots or (page_links is not None and not page_links.about.index)
        if reason := self._refusal({name, final, url}, mark, name, forbidden=forbidden):
            piece.skip(reason)
        else:
            self.kept += 1
            piece.change.kept.append(url)
            version = raw.version if name == final else ""
            content = None if same and name == url else _named(raw, name, version)
            piece.items.append(SourceItem(name, name, raw.media_type, version, content=content))
        self._end(piece, url, {name, final, mark} if reason != NOT_INDEXED else {final})
        self._follow(page_links.links if page_links and "nofollow" not in raw.robots else (), url, piece)

    def _refusal(self, marks: set[str], mark: str, name: str, *, forbidden: bool) -> str:
        if forbidden:
            return NOT_INDEXED
        if marks & self._done:
            return DUPLICATE
        if mark in self._done:
            return web_pages.COPY
        return "" if self._rules.included(name) else NOT_INCLUDED

    def skip(self, url: str, reason: str, piece: Piece) -> None:
        piece.skip(reason)
        self._end(piece, url, ())

    def fail(self, url: str, reason: str, piece: Piece, *, later: bool = False) -> bool:
        """The page cannot be had. `later`: it may work then; True if it is to be tried again."""
        self._tries[url] = self._tries.get(url, 0) + 1
        if later and self._tries[url] < TRIES:
            piece.change.failed.append(url)
            return True
        piece.items.append(SourceItem(url, url, error=reason, linked_from=self._linked_from.get(url, "")))
        self._end(piece, url, ())
        return False

    def _end(self, piece: Piece, url: str, names: Iterable[str]) -> None:
        self._done.add(url)
        piece.change.ended.append(url)
        for name in names:
            if name not in self._done:
                self._done.add(name)
                if name in self._depths:
                    piece.change.ended.append(name)
                else:
                    piece.change.found.append(Seen(name, 0, done=True))

    def _follow(self, links: Iterable[str], source: str, piece: Piece) -> None:
        depth = self._depths[source]
        if depth >= self.limits.depth:
            return
        for link in links:
            url = page_key(link)
            is_known = url in self._depths or url in self._done
            if is_known or len(self._depths) >= self.limits.seen or self._rules.refusal(url):
                continue
            self._depths[url] = depth + 1
            self._linked_from[url] = source
            page = Seen(url, depth + 1, done=False, linked_from=source)
            piece.change.found.append(page)
            self.queue.append(page)

    def _is_ours(self, url: str) -> bool:
        return self._rules.refusal(url) in ("", NOT_INCLUDED)


def _read(data: bytes, url: str, media_type: str) -> page.Page | None:
    if html.is_html(media_type):
        return page.read_page(data, url, media_type)
    if media_type.partition(";")[0].strip() == "text/markdown":
        return page.read_markdown(data, url)
    return None


def _named(raw: RawContent, name: str, version: str) -> RawContent:
    return RawContent(raw.path, name, raw.media_type, raw.size, version, raw.properties, raw.page, raw.url)


PIECE_PAGES = 32
PIECE_SECONDS = 2.0
AHEAD = 2
"""Pages that wait to be read for each that is fetched: they come back in the order of the walk."""
SILENT = 10
"""Pages in a row that do not answer: then the site is left alone until the next try."""


def make(scraper: Scraper, files: FileStore, db: Database) -> Website:
    options = settings.load_settings()
    robots = robots_files.shared_robots() if options.fetch_robots else None
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
        walk = Walk(config["url"], rules, limits, frontier.load_frontier(self._db, request.job_run_id))
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
    """Tools that fetch pages, and the folder for them until they are saved."""

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
                page, future = self._coming.popleft()
                self._take(page, future, piece)
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
            page = self._walk.next(len(self._coming))
            if page is None:
                break
            self._coming.append((page, pool.submit(self._fetch, page.key, self._with.folder / str(next(self._names)))))
        return bool(self._coming)

    def _fetch(self, url: str, to: Path) -> tuple[RawContent | None, bool]:
        if not self._rules.by_robots(url):
            raise Skippable(ROBOTS)
        start, options = url == self._walk.start, self._with.options
        fetch_options = replace(options, check=self._rules.check_start) if start else options
        return self._with.earlier.fetch(self._with.scraper, url, fetch_options, to)

    def _take(self, page: Seen, future: Future[tuple[RawContent | None, bool]], piece: Piece) -> None:
        try:
            fetched, same = future.result()
            raw = self._checked(page, fetched)
        except Skippable as error:
            if str(error) == ROBOTS and page.key != self._walk.start:
                self._walk.skip(page.key, ROBOTS, piece)
            else:
                self._walk.fail(page.key, str(error), piece)
        except Retryable as error:
            self._silent += 1
            if self._walk.fail(page.key, str(error), piece, later=True):
                self.later = error
        else:
            self._silent = 0
            self._walk.learn(page.key, raw, piece, same=same)

    def _checked(self, page: Seen, raw: RawContent | None) -> RawContent:
        """A service that fetched for us may have been led elsewhere."""
        if raw is None:
            raise Skippable("The site gave no page.")
        if raw.url:
            (self._rules.check_start if page.key == self._walk.start else self._rules.check)(raw.url)
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
        save=lambda connection: frontier.save_change(connection, job_run_id, piece.change),
    )
