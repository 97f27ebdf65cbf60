"""Website crawled by Firecrawl: started once, polled, resumed by any worker."""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import structlog

from connectors.web.builtin import robots as robots_files
from connectors.web.crawl.rules import Rules
from connectors.web.crawl.walk import Piece
from connectors.web.firecrawl.client import FIRECRAWL_TITLE, NoCrawl
from connectors.web.firecrawl.scraper import Firecrawl, Pages
from connectors.web.scraping_api import require_allowed
from retrieval import settings
from retrieval.database.database import UNAVAILABLE_ERRORS, Database
from retrieval.errors import StepError
from retrieval.ingestion.queries import frontier
from retrieval.jobs.queries import batches
from retrieval.ports import DiscoveryRequest, FileStore, Page, RawContent, ScrapeOptions, Scraper, SourceItem
from retrieval.settings import Settings

if TYPE_CHECKING:
    from firecrawl.v2.types import CrawlJob  # type: ignore[import-untyped]

log = structlog.get_logger(__name__)
# Seconds between polls; each poll checks for a cancellation of the job run.
POLL = 2.0
# Seconds without a new page until a crawl counts as dead.
SILENCE = 900.0
# Limit of a finished crawl's answers without a new page.
BARREN = 50
_ENDS = {
    "completed": "",
    "failed": f"{FIRECRAWL_TITLE} gave the crawl up before its end; the pages that it had are ingested.",
    "cancelled": f"The crawl was ended at {FIRECRAWL_TITLE}; the pages that it had are ingested.",
}
_TOO_LONG = (
    f"{FIRECRAWL_TITLE} had not ended the crawl after {{}}; it was ended there, and the pages that it had are ingested."
)
_NOTHING = f"{FIRECRAWL_TITLE} found no page at the address."


def make(scraper: Scraper, _files: FileStore, db: Database) -> FirecrawlSite:
    return FirecrawlSite(cast("Firecrawl", scraper), db, settings.load_settings())


@dataclass(frozen=True, slots=True)
class CrawlCursor:
    """Cursor of a crawl; `began` and `heard` are Unix times of the start and of the last new page."""

    # `barren`: consecutive answers without a new page; `hosts`: the site's hosts after redirects of the start.

    crawl: str
    began: float
    heard: float
    next: str = ""
    barren: int = 0
    hosts: tuple[str, ...] = ()

    @classmethod
    def read(cls, cursor: str | None) -> CrawlCursor | None:
        """Read a cursor; None for a cursor of another scraper."""
        return cls(**json.loads(cursor)) if cursor and cursor.startswith("{") else None

    def written(self) -> str:
        return json.dumps(asdict(self))

    def after(self, answer: CrawlJob, *, news: bool, hosts: set[str]) -> CrawlCursor:
        return replace(
            self,
            next=answer.next or self.next,
            heard=time.time() if news else self.heard,
            barren=0 if news else self.barren + 1,
            hosts=tuple(sorted(hosts)),
        )


class FirecrawlSite:
    """Crawl by Firecrawl, with our limits applied to the results."""

    def __init__(self, scraper: Firecrawl, db: Database, options: Settings) -> None:
        self._scraper = scraper
        self._client = scraper.client
        self._db = db
        self._options = options

    def discover(self, request: DiscoveryRequest, cursor: str | None) -> Iterator[Page[SourceItem]]:
        """List the pages of a crawl."""
        position = CrawlCursor.read(cursor)
        state = position or self._started(request)
        try:
            # The crawl's id is saved first: a new worker resumes without a second charge.
            if not position:
                yield Page((), state.written(), done=False)
            yield from self._followed(request, state)
        except GeneratorExit:
            self._leave(request, state.crawl)
            raise

    def fetch(self, item: SourceItem, request: DiscoveryRequest, to: Path) -> RawContent | None:
        """Fetch a page after the crawl."""
        rules = Rules.of(request.config, robots_files.shared_robots() if self._options.fetch_robots else None)
        rules.widen(item.external_id)
        options = replace(ScrapeOptions.of(request.config), check=rules.check)
        return self._scraper.fetch(item.external_id, options, to, known_version=item.version)

    def _started(self, request: DiscoveryRequest) -> CrawlCursor:
        config, options = request.config, ScrapeOptions.of(request.config)
        url = require_allowed(config["url"], self._client.service.guard, options)
        crawl = self._client.start(url, options, **_limits(config))
        log.info("crawl.started", job_run_id=request.job_run_id, crawl=crawl)
        return CrawlCursor(crawl, began=time.time(), heard=time.time())

    def _followed(self, request: DiscoveryRequest, state: CrawlCursor) -> Iterator[Page[SourceItem]]:
        service = self._client.service
        pages = Pages(request, service.guard, service.max_bytes, frontier.load_frontier(self._db, request.job_run_id))
        pages.rules.hosts.update(state.hosts)
        over: str | None = None
        with tempfile.TemporaryDirectory(prefix="crawl-") as folder:
            while over is None:
                answer = self._client.pages(state.crawl, state.next)
                piece = pages.take(answer.data, Path(folder))
                news = bool(piece.change.ended)
                state = state.after(answer, news=news, hosts=pages.rules.hosts)
                over = self._over(answer, state, pages)
                yield _page(piece, request, state)
                _drop(piece)
                if over is None and not news:
                    time.sleep(POLL)
        if answer.status == "scraping":
            self._cancel(state.crawl)
        yield self._last(request, state, pages, over)

    def _over(self, answer: CrawlJob, state: CrawlCursor, pages: Pages) -> str | None:
        """Return the notice of an ended crawl, mostly empty; None while running."""
        current = time.time()
        if answer.status in _ENDS and (not answer.next or not answer.data or state.barren > BARREN):
            return _ENDS[answer.status]
        if pages.full:
            return ""
        if current - state.began > self._options.crawl_seconds:
            return _TOO_LONG.format(_spoken(self._options.crawl_seconds))
        if current - state.heard > SILENCE:
            return _TOO_LONG.format(f"{_spoken(SILENCE)} without a new page")
        return None

    def _last(self, request: DiscoveryRequest, state: CrawlCursor, pages: Pages, over: str) -> Page[SourceItem]:
        try:
            piece = pages.complain(self._client.errors(state.crawl))
        except NoCrawl:
            piece = Piece()
        if not over and pages.empty and not piece.items and not piece.skipped:
            over = _NOTHING
        if over:
            piece.items.append(SourceItem(pages.start, pages.start, error=over))
        return _page(piece, request, state, done=True)

    def _leave(self, request: DiscoveryRequest, crawl: str) -> None:
        """Cancel the crawl of a cancelled job run, to avoid further cost."""
        try:
            cancelled = batches.is_cancelled(self._db, request.job_run_id)
        except UNAVAILABLE_ERRORS:
            return
        if cancelled:
            self._cancel(crawl)

    def _cancel(self, crawl: str) -> None:
        try:
            self._client.cancel(crawl)
        except NoCrawl:
            return
        except StepError as error:
            log.warning("crawl.not_cancelled", crawl=crawl, reason=str(error))
        else:
            log.info("crawl.cancelled", crawl=crawl)


def _limits(config: Any) -> dict[str, Any]:
    """Translate limits to Firecrawl's parameters, with paths as regular expressions."""
    include, exclude = (list(config.get(name) or ()) for name in ("includePaths", "excludePaths"))
    start_is_extra = bool(include) and not Rules.of(config, None).included(config["url"])
    return {
        "include_paths": [f".*{re.escape(part)}.*" for part in include] or None,
        "exclude_paths": [f".*{re.escape(part)}.*" for part in exclude] or None,
        "regex_on_full_url": True,
        "max_discovery_depth": int(config.get("maxDepth") or 3),
        "limit": int(config.get("maxLinks") or 100) + start_is_extra,
        "sitemap": "skip",
        "crawl_entire_domain": True,
        "allow_external_links": False,
        "allow_subdomains": False,
        "ignore_robots_txt": False,
    }


def _page(piece: Piece, request: DiscoveryRequest, state: CrawlCursor, *, done: bool = False) -> Page[SourceItem]:
    return Page(
        piece.items,
        state.written(),
        done=done,
        skipped=piece.skipped,
        save=lambda connection: frontier.save_change(connection, request.job_run_id, piece.change),
    )


def _drop(piece: Piece) -> None:
    """Delete the files of a saved piece."""
    for item in piece.items:
        if item.content:
            item.content.path.unlink(missing_ok=True)


def _spoken(seconds: float) -> str:
    return f"{seconds / 3600:,.0f} hours" if seconds >= 7200 else f"{max(seconds / 60, 1):,.0f} minutes"
