"""Walk over the pages of a site: which are kept, and where they lead."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from connectors.web.crawl.page import NOT_INCLUDED, FetchedPage, Rules, read_content
from connectors.web.crawl.page_text import says_missing
from connectors.web.crawl.parameters import IdleParameters
from retrieval.failure_causes import GONE_PAGE, MISSING_PAGE
from retrieval.ingestion.queries.frontier import FrontierChange, FrontierPage
from retrieval.ingestion.queries.page_removals import KnownPage
from retrieval.jobs import web_pages
from retrieval.network.page_identity import page_key
from retrieval.ports import RawContent, SourceItem

DUPLICATE = "It is the same page as another one."
NOT_INDEXED = "The page asks machines not to keep it (robots meta tag or X-Robots-Tag)."
TRIES = 3
_HOST = "host "
"""Begins the mark of a host that the start page led to."""
_UNREAD = "unread links"
"""Mark of a crawl that does not know all links of the site."""
_DEEPER = "deeper links"
"""Mark of a crawl that found links beyond its depth; a resumed crawl no longer knows which."""
_MARKS = ("text ", "sha256 ")
"""Begin the marks of a content; `linked_from` of a mark is the address that was kept."""


@dataclass(frozen=True, slots=True)
class Limits:
    depth: int
    links: int
    sitemap: bool = True

    @property
    def seen(self) -> int:
        """Most pages of a frontier, so that a site without an end stays small."""
        return 10 * self.links + 100


@dataclass
class Piece:
    """Results that are saved together."""

    items: list[SourceItem] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    change: FrontierChange = field(default_factory=FrontierChange)
    files: list[Path] = field(default_factory=list)
    """Of pages that were read: they may go once the piece is saved."""

    def skip(self, reason: str) -> None:
        self.skipped[reason] = self.skipped.get(reason, 0) + 1


class Walk:
    """Walk of one job run; used from one thread. `probe`: digest of the page for missing ones next to an address."""

    def __init__(
        self,
        start: str,
        rules: Rules,
        limits: Limits,
        before: Iterable[FrontierPage],
        probe: Callable[[str], str] = lambda _: "",
        known: Iterable[KnownPage] = (),
    ) -> None:
        self.start = page_key(start)
        self.limits = limits
        self._rules = rules
        pages = list(before) or [FrontierPage(self.start, 0, done=False)]
        self.fresh = pages[0] if len(pages) == 1 and not pages[0].done else None
        self._depths = {page.key: page.depth for page in pages}
        self._done = {page.key for page in pages if page.done}
        rules.hosts.update(key.removeprefix(_HOST) for key in self._done if key.startswith(_HOST))
        self._tries = {page.key: page.tries for page in pages}
        self._linked_from = {page.key: page.linked_from for page in pages}
        self._names = {page.key: page.linked_from for page in pages if page.key.startswith(_MARKS)}
        self._known = {page.address: page for page in known}
        self._asked = set[str]()
        self._asks = deque[str]()
        self._beyond = set[str]()
        self._document = dict[str, str]()
        self._missing = dict[str, str]()
        self._probe = probe
        self._parameters = IdleParameters()
        self._is_partial = bool({_UNREAD, _DEEPER} & self._done)
        self._taken = set[str]()
        self._held = dict[str, list[FetchedPage]]()
        self.kept = sum(page.kept for page in pages)
        self.queue = deque(sorted((page for page in pages if not page.done), key=lambda one: one.depth))

    def next(self, in_flight: int) -> FrontierPage | None:
        """Next page to fetch; None if there is none, or enough are in progress."""
        while self.queue and self.kept + in_flight < self.limits.links:
            page = self.queue.popleft()
            stripped = self._parameters.strip(page.key)
            if stripped != page.key and (stripped in self._depths or stripped in self._done):
                continue
            if page.key not in self._done and page.key not in self._taken:
                self._taken.add(page.key)
                return page
        return FrontierPage(self._asks.popleft(), self.limits.depth, done=False) if self._asks else None

    def add_listed(self, addresses: Iterable[str], piece: Piece) -> None:
        """Queue pages of the site's sitemaps that no page led to; "" stands for pages that cannot be read.

        Their own links lie beyond the depth.
        """
        for address in addresses:
            url = self._parameters.strip(address)
            if url in self._depths or url in self._done:
                continue
            if not url or len(self._depths) >= self.limits.seen:
                self.mark_partial(piece)
                continue
            self._beyond.discard(url)
            self.queue.append(self._add(url, self.limits.depth, "", piece))

    def mark_partial(self, piece: Piece) -> None:
        """Note that pages may be linked though this crawl does not find them; a resumed crawl knows it too."""
        if not self._is_partial:
            self._is_partial = True
            piece.change.new_pages.append(FrontierPage(_UNREAD, 0, done=True))

    def report_limits(self, piece: Piece) -> None:
        """Count the pages that were found and not fetched."""
        waiting = {page.key for page in self.queue} - self._done - self._taken
        beyond = {url for url in self._beyond if url not in self._done and url not in self._depths}
        for reason, pages in ((web_pages.BEYOND_LIMIT_REASON, waiting), (web_pages.TOO_DEEP_REASON, beyond)):
            if pages:
                piece.skipped[reason] = len(pages)

    def ask_known(self) -> None:
        """Fetch the pages of earlier runs that no page led to, to see what became of them."""
        # Pages in the queue are linked, and not fetched because of maxLinks.
        unreached = [address for address in self._known if address not in self._done and address not in self._depths]
        self._depths.update(dict.fromkeys(unreached, self.limits.depth))
        self._asked.update(unreached)
        self._asks.extend(unreached)

    def is_asked(self, url: str) -> bool:
        """Tell whether the page is fetched only because an earlier run has ingested it."""
        return url in self._asked

    def learn(self, url: str, raw: RawContent, piece: Piece, *, same: bool = False) -> None:
        """Take the page or leave it, and queue what it leads to. `same`: what is stored of `url` is what came."""
        final = self._parameters.strip(page_key(raw.url or url))
        if url == self.start and (host := self._rules.widen(final)):
            piece.change.new_pages.append(FrontierPage(_HOST + host, 0, done=True))
        fetched = FetchedPage(url, final, raw, same, read_content(raw, final))
        self._follow(fetched.links, url, piece)
        if self.is_asked(url) and final == url and not self._names.get(fetched.mark()):
            self._learn_unlinked(fetched, piece)
            return
        # A canonical address counts only where it has the same text, so it is fetched first.
        if fetched.canonical not in (final, url) and self._will_fetch(fetched.canonical, url, piece):
            self._held.setdefault(fetched.canonical, []).append(fetched)
            self._done.add(url)
        else:
            self._judge(fetched, piece)

    def _learn_unlinked(self, fetched: FetchedPage, piece: Piece) -> None:
        """Miss a page that exists and that no page leads to, unless the crawl does not know all links."""
        piece.files.append(fetched.raw.path)
        has_all = not self.queue and not self._is_partial
        is_whole = has_all and (self._known[fetched.url].same_limits or (self.limits.sitemap and not self._beyond))
        if reason := self._gate(fetched, is_repeated=False):
            piece.skip(reason)
            if reason == web_pages.MISSING_REASON:
                piece.change.missed[fetched.url] = reason
        elif is_whole and fetched.url not in self._beyond:
            piece.change.missed[fetched.url] = web_pages.UNLINKED_REASON
        self._end(piece, fetched.url, ())

    def release(self, piece: Piece) -> None:
        """Judge the pages whose canonical address was not fetched."""
        for address in list(self._held):
            self._release(address, piece)

    def _release(self, address: str, piece: Piece) -> None:
        for fetched in self._held.pop(address, ()):
            self._done.discard(fetched.url)
            self._judge(fetched, piece)

    def _will_fetch(self, canonical: str, url: str, piece: Piece) -> bool:
        """Queue the canonical address of a page as the next one, unless it is known already or not of this site."""
        if canonical in self._done or not self._is_ours(canonical) or self.kept >= self.limits.links:
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
            # A page that had a text of its own may answer with an error once.
            is_new_copy = reason == web_pages.COPY_REASON and final == url
            if url in self._known and (is_new_copy or reason == web_pages.MISSING_REASON):
                piece.change.missed[url] = reason
            if reason == web_pages.SIGN_IN_REASON:
                self._lose_links(url, piece)
        else:
            self.kept += 1
            piece.change.stored.append(url)
            content = None if fetched.same and final == url else _named(raw, final, raw.version)
            piece.items.append(SourceItem(final, final, raw.media_type, raw.version, content=content))
        document = final if not reason else self._names.get(mark) or self._document.get(final, "")
        is_missed = url in piece.change.missed
        if document and not is_missed and reason not in (NOT_INDEXED, NOT_INCLUDED, *web_pages.GATE_REASONS):
            self._document[url] = self._document[final] = document
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
        document = self._names.get(mark, "")
        if gate := self._gate(fetched, is_repeated=bool(document)):
            return gate
        self._parameters.observe(fetched.final, mark)
        if {fetched.final, fetched.url} & self._done:
            return DUPLICATE
        if mark in self._done:
            # A canonical address or other parameters are one more name of the page; anything else may be a fault.
            paths = {address.partition("?")[0] for address in (document, fetched.final)}
            return DUPLICATE if document == fetched.canonical or len(paths) == 1 else web_pages.COPY_REASON
        return "" if self._rules.included(fetched.final) else NOT_INCLUDED

    def _gate(self, fetched: FetchedPage, *, is_repeated: bool) -> str:
        """Return the reason of a page with which the site answers instead of the one at the address."""
        text = fetched.text
        if text.signs_in and (text.certainly or is_repeated or fetched.final != fetched.url):
            return web_pages.SIGN_IN_REASON
        if text.missing:
            first = self._missing.setdefault(text.missing, fetched.final)
            if first != fetched.final or self._probe(fetched.final) == text.missing:
                return web_pages.MISSING_REASON
            known_page = self._known.get(fetched.url)
            if known_page and known_page.title and text.is_titled_missing and not says_missing(known_page.title):
                return web_pages.MISSING_REASON
        return ""

    def _lose_links(self, url: str, piece: Piece) -> None:
        """Note that the links of this page cannot be read, which earlier runs have followed."""
        if url == self.start or url in self._known:
            self.mark_partial(piece)

    def skip(self, url: str, reason: str, piece: Piece) -> None:
        if not self.is_asked(url):
            self._lose_links(url, piece)
        piece.skip(reason)
        self._end(piece, url, ())
        self._release(url, piece)

    def fail(self, url: str, reason: str, piece: Piece, *, later: bool = False) -> bool:
        """The page cannot be had. `later`: it may work then; True if it is to be tried again."""
        if self.is_asked(url):  # the next crawl fetches it again
            piece.skip(reason)
            if reason in (GONE_PAGE, MISSING_PAGE):
                piece.change.missed[url] = reason
            self._end(piece, url, ())
            return False
        self._tries[url] = self._tries.get(url, 0) + 1
        if later and self._tries[url] < TRIES:
            piece.change.failed.append(url)
            return True
        if later:
            self.mark_partial(piece)
        elif url == self.start or reason not in (GONE_PAGE, MISSING_PAGE):
            self._lose_links(url, piece)
        piece.items.append(SourceItem(url, url, error=reason, linked_from=self._linked_from.get(url, "")))
        self._end(piece, url, ())
        self._release(url, piece)
        return False

    def _end(self, piece: Piece, url: str, keys: Iterable[str], name: str = "") -> None:
        """Note that the page is done, and further keys of it; `name`: the address that its marks refer to."""
        self._done.add(url)
        piece.change.ended.append(url)
        for key in keys:
            if key not in self._done:
                self._done.add(key)
                if key.startswith(_MARKS):
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
                    piece.change.new_pages.append(FrontierPage(_DEEPER, 0, done=True))
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
