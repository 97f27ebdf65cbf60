"""A breadth-first walk of a site: its queue, what was seen, what each page adds. It fetches nothing."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from connectors.http import html
from connectors.web.crawl import markdown_links, page
from connectors.web.crawl.rules import NOT_INCLUDED, Rules
from retrieval.ingestion.discover import Change, Seen
from retrieval.jobs import web_pages
from retrieval.ports import RawContent, SourceItem

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
    """What is to be saved together."""

    items: list[SourceItem] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    change: Change = field(default_factory=Change)
    files: list[Path] = field(default_factory=list)
    """Of pages that were read: they may go once the piece is saved."""

    def skip(self, reason: str) -> None:
        self.skipped[reason] = self.skipped.get(reason, 0) + 1


class Walk:
    """Of one job run; used from one thread."""

    def __init__(self, start: str, rules: Rules, limits: Limits, before: Iterable[Seen]) -> None:
        self.start = page_key(start)
        self.limits = limits
        self._rules = rules
        known = list(before) or [Seen(self.start, 0, done=False)]
        self.fresh = known[0] if len(known) == 1 and not known[0].done else None
        self._depths = {one.key: one.depth for one in known}
        self._done = {one.key for one in known if one.done}
        rules.hosts.update(key.removeprefix(_HOST) for key in self._done if key.startswith(_HOST))
        self._tries = {one.key: one.tries for one in known}
        self.kept = sum(one.kept for one in known)
        self.queue = deque(sorted((one for one in known if not one.done), key=lambda one: one.depth))

    def next(self, in_flight: int) -> Seen | None:
        """What to fetch now; None if there is nothing more, or enough is on its way."""
        while self.queue and self.kept + in_flight < self.limits.links:
            one = self.queue.popleft()
            if one.key not in self._done:
                return one
        return None

    def learn(self, url: str, raw: RawContent, piece: Piece, *, same: bool = False) -> None:
        """Take the page or leave it, and queue what it leads to. `same`: what is stored of `url` is what came."""
        piece.files.append(raw.path)
        final = page_key(raw.url or url)
        if url == self.start and (host := self._rules.widen(final)):
            piece.change.found.append(Seen(_HOST + host, 0, done=True))
        data = raw.path.read_bytes()
        found = _read(data, final, raw.media_type)
        canonical = page_key(found.about.canonical) if found else ""
        name = canonical if canonical and self._is_ours(canonical) else final
        mark = f"sha256 {hashlib.sha256(data).hexdigest()}"
        forbidden = "noindex" in raw.robots or (found is not None and not found.about.index)
        if reason := self._refusal({name, final, url}, mark, name, forbidden=forbidden):
            piece.skip(reason)
        else:
            self.kept += 1
            piece.change.kept.append(url)
            version = raw.version if name == final else ""
            content = None if same and name == url else _named(raw, name, version)
            piece.items.append(SourceItem(name, name, raw.media_type, version, content=content))
        self._end(piece, url, {name, final, mark} if reason != NOT_INDEXED else {final})
        self._follow(found.links if found and "nofollow" not in raw.robots else (), self._depths[url], piece)

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
        piece.items.append(SourceItem(url, url, error=reason))
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

    def _follow(self, links: Iterable[str], depth: int, piece: Piece) -> None:
        if depth >= self.limits.depth:
            return
        for link in links:
            url = page_key(link)
            known = url in self._depths or url in self._done
            if known or len(self._depths) >= self.limits.seen or self._rules.refusal(url):
                continue
            self._depths[url] = depth + 1
            one = Seen(url, depth + 1, done=False)
            piece.change.found.append(one)
            self.queue.append(one)

    def _is_ours(self, url: str) -> bool:
        return self._rules.refusal(url) in ("", NOT_INCLUDED)


def page_key(url: str) -> str:
    """One spelling of a page: without its fragment, with a path, its host in small letters, no port that is usual."""
    address = html.link(url, url)
    if not address:
        return url.partition("#")[0]
    parts = urlsplit(address)
    if "@" in parts.netloc:
        return address
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    usual = parts.port in (None, {"http": 80, "https": 443}[parts.scheme])
    return parts._replace(netloc=f"{host}" if usual else f"{host}:{parts.port}").geturl()


def _read(data: bytes, url: str, media_type: str) -> page.Page | None:
    if page.is_html(media_type):
        return page.read(data, url, media_type)
    if media_type.partition(";")[0].strip() == "text/markdown":
        return markdown_links.read(data, url)
    return None


def _named(raw: RawContent, name: str, version: str) -> RawContent:
    return RawContent(raw.path, name, raw.media_type, raw.size, version, raw.properties, raw.page, raw.url)
