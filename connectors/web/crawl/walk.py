"""Walk over the pages of a site: select pages and queue links."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from connectors.web.crawl.page import FetchedPage, read_content
from connectors.web.crawl.page_text import says_missing
from connectors.web.crawl.parameters import IdleParameters
from connectors.web.crawl.rules import NOT_INCLUDED, Rules
from retrieval.failure_causes import GONE_PAGE, MISSING_PAGE
from retrieval.ingestion.queries.frontier import FrontierChange, FrontierPage
from retrieval.ingestion.queries.page_removals import KnownPage
from retrieval.jobs import web_pages
from retrieval.network.page_identity import page_key
from retrieval.ports import RawContent, SourceItem

FRAMESET = "It only holds frames, which are pages of their own."
NOT_INDEXED = "The page asks machines not to keep it (robots meta tag or X-Robots-Tag)."
MAX_PAGE_TRIES = 3
# Prefix of the mark of a host that the start page redirects to.
_HOST_PREFIX = "host "
# Mark of a crawl without all links of the site.
_UNREAD_MARK = "unread links"
# Mark of a crawl with links beyond the depth; a resumed crawl no longer knows them.
_DEEPER_MARK = "deeper links"
# Prefixes of marks of content; `linked_from` of a mark is the stored address.
_CONTENT_PREFIXES = ("text ", "sha256 ")


@dataclass(frozen=True, slots=True)
class Limits:
    depth: int
    links: int
    sitemap: bool = True

    @property
    def seen(self) -> int:
        """Largest number of pages of a frontier, for endless sites."""
        return 10 * self.links + 100


@dataclass
class Piece:
    """Results to save together."""

    items: list[SourceItem] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    change: FrontierChange = field(default_factory=FrontierChange)
    # Files of pages; deletable after saving.
    files: list[Path] = field(default_factory=list)

    def skip(self, reason: str) -> None:
        self.skipped[reason] = self.skipped.get(reason, 0) + 1


class Walk:
    """Walk of a job run, for one thread. `probe` returns the digest of the site's page for a missing address."""

    def __init__(
        self,
        start: str,
        rules: Rules,
        limits: Limits,
        frontier_pages: Iterable[FrontierPage],
        probe: Callable[[str], str] = lambda _: "",
        known_pages: Iterable[KnownPage] = (),
    ) -> None:
        self.start = page_key(start)
        self.limits = limits
        self._rules = rules
        pages = list(frontier_pages) or [FrontierPage(self.start, 0, done=False)]
        self.fresh = pages[0] if len(pages) == 1 and not pages[0].done else None
        self._depths = {page.key: page.depth for page in pages}
        self._done = {page.key for page in pages if page.done}
        rules.hosts.update(key.removeprefix(_HOST_PREFIX) for key in self._done if key.startswith(_HOST_PREFIX))
        self._tries = {page.key: page.tries for page in pages}
        self._linked_from = {page.key: page.linked_from for page in pages}
        self._names = {page.key: page.linked_from for page in pages if page.key.startswith(_CONTENT_PREFIXES)}
        self._known_pages = {page.address: page for page in known_pages}
        self._unlinked_known = set[str]()
        self._known_queue = deque[str]()
        self._beyond = set[str]()
        self._documents = dict[str, str]()
        self._masked_pages = dict[str, str]()
        self._probe = probe
        self._parameters = IdleParameters()
        self._is_partial = bool({_UNREAD_MARK, _DEEPER_MARK} & self._done)
        self._started = set[str]()
        self._postponed = dict[str, list[FetchedPage]]()
        self.stored_count = sum(page.kept for page in pages)
        self.queue = deque(sorted((page for page in pages if not page.done), key=lambda page: page.depth))

    def next(self, in_flight: int) -> FrontierPage | None:
        """Return the next page to fetch, or None."""
        while self.queue and self.stored_count + in_flight < self.limits.links:
            page = self.queue.popleft()
            stripped = self._parameters.strip(page.key)
            if stripped != page.key and (stripped in self._depths or stripped in self._done):
                continue
            if page.key not in self._done and page.key not in self._started:
                self._started.add(page.key)
                return page
        return FrontierPage(self._known_queue.popleft(), self.limits.depth, done=False) if self._known_queue else None

    def add_listed(self, addresses: Iterable[str], piece: Piece) -> None:
        """Queue unlinked pages of the sitemaps; "" stands for an unreadable sitemap."""
        for address in addresses:
            url = self._parameters.strip(address)
            if url in self._depths or url in self._done:
                continue
            if not url or len(self._depths) >= self.limits.seen:
                self.mark_partial(piece)
                continue
            self._beyond.discard(url)
            # At the largest depth, so their links are not followed.
            self.queue.append(self._add(url, self.limits.depth, "", piece))

    def mark_partial(self, piece: Piece) -> None:
        """Record unknown links, for a resumed crawl too."""
        if not self._is_partial:
            self._is_partial = True
            piece.change.new_pages.append(FrontierPage(_UNREAD_MARK, 0, done=True))

    def report_limits(self, piece: Piece) -> None:
        """Record how many known pages were not fetched, by reason."""
        waiting = {page.key for page in self.queue} - self._done - self._started
        beyond = {url for url in self._beyond if url not in self._done and url not in self._depths}
        for reason, pages in ((web_pages.BEYOND_LIMIT_REASON, waiting), (web_pages.TOO_DEEP_REASON, beyond)):
            if pages:
                piece.skipped[reason] = len(pages)

    def queue_known_pages(self) -> None:
        """Queue unlinked pages of earlier runs, to check for removals."""
        # Pages in the queue are linked, and not fetched because of maxLinks.
        unreached = [
            address for address in self._known_pages if address not in self._done and address not in self._depths
        ]
        self._depths.update(dict.fromkeys(unreached, self.limits.depth))
        self._unlinked_known.update(unreached)
        self._known_queue.extend(unreached)

    def is_unlinked_known(self, url: str) -> bool:
        """Return True for a page fetched only because of an earlier run."""
        return url in self._unlinked_known

    def learn(self, url: str, raw: RawContent, piece: Piece, *, same: bool = False) -> None:
        """Store or skip a fetched page, and queue its links. `same`: the stored content is unchanged."""
        final = page_key(raw.url or url)
        if url == self.start and (host := self._rules.widen(final)):
            piece.change.new_pages.append(FrontierPage(_HOST_PREFIX + host, 0, done=True))
        fetched = FetchedPage(url, final, raw, same, read_content(raw, final))
        # A fetched page with a text of its own is one, whatever was learned of its parameters.
        if (stripped := self._parameters.strip(final)) not in self._done or fetched.mark() in self._done:
            fetched = replace(fetched, final=stripped)
            final = stripped
        self._follow(fetched.links, url, piece)
        if self.is_unlinked_known(url) and final == url and not self._names.get(fetched.mark()):
            self._learn_unlinked(fetched, piece)
            return
        # A canonical address counts only where it has the same text, so it is fetched first.
        if fetched.canonical not in (final, url) and self._will_fetch(fetched.canonical, url, piece):
            self._postponed.setdefault(fetched.canonical, []).append(fetched)
            self._done.add(url)
        else:
            self._judge(fetched, piece)

    def _learn_unlinked(self, fetched: FetchedPage, piece: Piece) -> None:
        """Report an existing, unlinked page as missed, if the crawl knows all links."""
        piece.files.append(fetched.raw.path)
        has_all = not self.queue and not self._is_partial
        is_whole = has_all and (
            self._known_pages[fetched.url].same_limits or (self.limits.sitemap and not self._beyond)
        )
        if reason := self._gate(fetched, is_repeated=False):
            piece.skip(reason)
            if reason == web_pages.MISSING_REASON:
                piece.change.missed[fetched.url] = reason
        elif is_whole and fetched.url not in self._beyond:
            piece.change.missed[fetched.url] = web_pages.UNLINKED_REASON
        self._end(piece, fetched.url, ())

    def release(self, piece: Piece) -> None:
        """Decide on pages without a fetched canonical address."""
        for address in list(self._postponed):
            self._release(address, piece)

    def _release(self, address: str, piece: Piece) -> None:
        for fetched in self._postponed.pop(address, ()):
            self._done.discard(fetched.url)
            self._judge(fetched, piece)

    def _will_fetch(self, canonical: str, url: str, piece: Piece) -> bool:
        """Queue the canonical address of a page first; False if done, of another site or above maxLinks."""
        if canonical in self._done or not self._is_ours(canonical) or self.stored_count >= self.limits.links:
            return False
        if canonical not in self._depths:
            self._add(canonical, self._depths[url], url, piece)
        self.queue.appendleft(FrontierPage(canonical, self._depths[canonical], done=False))
        return True

    def _judge(self, fetched: FetchedPage, piece: Piece) -> None:
        url, final, raw, mark = fetched.url, fetched.final, fetched.raw, fetched.mark()
        piece.files.append(raw.path)
        if reason := self._refusal(fetched, mark):
            piece.skip(reason)
            # A known page may answer with an error page once.
            is_new_copy = reason == web_pages.COPY_REASON and final == url
            if url in self._known_pages and (is_new_copy or reason == web_pages.MISSING_REASON):
                piece.change.missed[url] = reason
            elif url in self._known_pages and final != url and raw.is_temporary:
                piece.change.missed[url] = web_pages.MOVED_REASON
            if reason == web_pages.SIGN_IN_REASON:
                self._lose_links(url, piece)
        else:
            self.stored_count += 1
            piece.change.stored.append(url)
            content = None if fetched.same and final == url else _named(raw, final, raw.version)
            piece.items.append(SourceItem(final, final, raw.media_type, raw.version, content=content))
        document = final if not reason else self._names.get(mark) or self._documents.get(final, "")
        is_missed = url in piece.change.missed
        if document and not is_missed and reason not in (NOT_INDEXED, NOT_INCLUDED, *web_pages.GATE_REASONS):
            self._documents[url] = self._documents[final] = document
            versions = {final: "", url: raw.version}
            piece.change.aliases += [
                (document, address, mark) for address, mark in versions.items() if address != document
            ]
        self._end(
            piece, url, {final} if reason in (NOT_INDEXED, *web_pages.GATE_REASONS) else {final, mark}, name=final
        )
        for address in {url, final}:
            self._release(address, piece)

    def _refusal(self, fetched: FetchedPage, mark: str) -> str:
        if fetched.is_forbidden:
            return NOT_INDEXED
        if fetched.text.is_frameset:
            return FRAMESET
        document = self._names.get(mark, "")
        if gate := self._gate(fetched, is_repeated=bool(document)):
            return gate
        self._parameters.observe(fetched.final, mark)
        if {fetched.final, fetched.url} & self._done:
            return web_pages.DUPLICATE_REASON
        if mark in self._done:
            # A canonical address or other parameters name the same page; other addresses may be a fault of the site.
            paths = {address.partition("?")[0] for address in (document, fetched.final)}
            return (
                web_pages.DUPLICATE_REASON
                if document == fetched.canonical or len(paths) == 1
                else web_pages.COPY_REASON
            )
        return "" if self._rules.included(fetched.final) else NOT_INCLUDED

    def _gate(self, fetched: FetchedPage, *, is_repeated: bool) -> str:
        """Return the reason for a sign-in or error page; "" otherwise."""
        text = fetched.text
        first = self._masked_pages.setdefault(text.masked, fetched.final) if text.masked else fetched.final
        is_elsewhere = first != fetched.final
        if text.certainly or (text.signs_in and fetched.final != fetched.url):
            return web_pages.SIGN_IN_REASON
        if text.demands_sign_in and (is_repeated or is_elsewhere):
            return web_pages.SIGN_IN_REASON
        if text.says_missing:
            if is_elsewhere or self._probe(fetched.final) == text.masked:
                return web_pages.MISSING_REASON
            known_page = self._known_pages.get(fetched.url)
            if known_page and known_page.title and text.is_titled_missing and not says_missing(known_page.title):
                return web_pages.MISSING_REASON
        return ""

    def _lose_links(self, url: str, piece: Piece) -> None:
        """Record that a page's links, followed by earlier runs, are unreadable."""
        if url == self.start or url in self._known_pages:
            self.mark_partial(piece)

    def skip(self, url: str, reason: str, piece: Piece) -> None:
        if not self.is_unlinked_known(url):
            self._lose_links(url, piece)
        piece.skip(reason)
        self._end(piece, url, ())
        self._release(url, piece)

    def fail(self, url: str, reason: str, piece: Piece, *, may_retry: bool = False) -> bool:
        """Record a failed page; True for another try, possible only with `may_retry`."""
        # A known page without links to it is not tried again: the next crawl fetches it anyway.
        if self.is_unlinked_known(url):
            piece.skip(reason)
            if reason in (GONE_PAGE, MISSING_PAGE):
                piece.change.missed[url] = reason
            self._end(piece, url, ())
            return False
        self._tries[url] = self._tries.get(url, 0) + 1
        if may_retry and self._tries[url] < MAX_PAGE_TRIES:
            piece.change.failed.append(url)
            return True
        if may_retry:
            self.mark_partial(piece)
        elif url == self.start or reason not in (GONE_PAGE, MISSING_PAGE):
            self._lose_links(url, piece)
        piece.items.append(SourceItem(url, url, error=reason, linked_from=self._linked_from.get(url, "")))
        self._end(piece, url, ())
        self._release(url, piece)
        return False

    def _end(self, piece: Piece, url: str, keys: Iterable[str], name: str = "") -> None:
        """Mark a page and further keys as done; content marks refer to the address `name`."""
        self._done.add(url)
        piece.change.ended.append(url)
        for key in keys:
            if key not in self._done:
                self._done.add(key)
                if key.startswith(_CONTENT_PREFIXES):
                    self._names[key] = name
                if key in self._depths:
                    piece.change.ended.append(key)
                else:
                    piece.change.new_pages.append(FrontierPage(key, 0, done=True, linked_from=self._names.get(key, "")))

    def _follow(self, links: Iterable[str], source: str, piece: Piece) -> None:
        depth = self._depths[source]
        for link in links:
            url = self._parameters.strip(page_key(link))
            if url in self._depths or url in self._done or self._rules.refusal(url):
                continue
            if len(self._depths) + len(self._beyond) >= self.limits.seen:
                self.mark_partial(piece)
                return
            if depth >= self.limits.depth:
                if not self._beyond:
                    piece.change.new_pages.append(FrontierPage(_DEEPER_MARK, 0, done=True))
                self._beyond.add(url)
                continue
            self._beyond.discard(url)
            self.queue.append(self._add(url, depth + 1, source, piece))

    def _add(self, url: str, depth: int, source: str, piece: Piece) -> FrontierPage:
        self._depths[url], self._linked_from[url] = depth, source
        page = FrontierPage(url, depth, done=False, linked_from=source)
        piece.change.new_pages.append(page)
        return page

    def _is_ours(self, url: str) -> bool:
        return self._rules.refusal(url) in ("", NOT_INCLUDED)


def _named(raw: RawContent, name: str, version: str) -> RawContent:
    return RawContent(raw.path, name, raw.media_type, raw.size, version, raw.properties, raw.page, raw.url)
