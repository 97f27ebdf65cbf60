"""Sitemap files, XML or text, read as a stream without document types and entities."""

from __future__ import annotations

import codecs
import gzip
import re
import tempfile
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO, cast
from xml.parsers import expat

import structlog

from connectors.charsets import decoding
from connectors.http import html
from connectors.web.builtin import client as clients
from connectors.web.builtin import robots as robots_files
from connectors.web.builtin.client import Bounds, FetchRequest, WebClient
from connectors.web.crawl.page import ListedGates
from connectors.web.crawl.rules import OTHER_HOST, ROBOTS, Rules
from retrieval import settings
from retrieval.database.database import Database
from retrieval.errors import Retryable, Skippable
from retrieval.failure_causes import GONE_PAGE, MISSING_PAGE
from retrieval.ingestion.queries import page_removals
from retrieval.network.page_identity import page_key
from retrieval.ports import DiscoveryRequest, FileStore, Page, RawContent, ScrapeOptions, Scraper, SourceItem

log = structlog.get_logger(__name__)
# Unpacked; the protocol's limit is 50 MB.
MAX_BYTES = 64 * 1024 * 1024
_READ_CHUNK_BYTES = 64 * 1024
_MAX_ELEMENT_CHARACTERS = 4096
_LISTED = re.compile(r"https?://", re.IGNORECASE)
_ROOTS = ("urlset", "sitemapindex")


@dataclass(frozen=True, slots=True)
class SitemapEntry:
    """Entry of a sitemap; `index` for another sitemap."""

    url: str
    modified: str
    index: bool


@dataclass
class _Reader:
    ready: list[SitemapEntry] = field(default_factory=list)
    path: list[str] = field(default_factory=list)
    text: dict[str, str] = field(default_factory=dict)

    def start(self, name: str, _attributes: dict[str, str]) -> None:
        if len(self.path) > 20:
            raise Skippable("The sitemap is nested too deeply.")
        self.path.append(name.rpartition(" ")[2].lower())
        if len(self.path) == 1 and self.path[0] not in _ROOTS:
            raise _other()
        if self.path[-1] in ("url", "sitemap"):
            self.text = {}

    def data(self, data: str) -> None:
        if len(self.path) > 1 and self.path[-1] in ("loc", "lastmod") and self.path[-2] in ("url", "sitemap"):
            self.text[self.path[-1]] = (self.text.get(self.path[-1], "") + data)[:_MAX_ELEMENT_CHARACTERS]

    def end(self, _name: str) -> None:
        ended = self.path.pop()
        address = self.text.get("loc", "").strip()
        if ended in ("url", "sitemap") and address:
            self.ready.append(SitemapEntry(address, self.text.get("lastmod", "").strip()[:100], ended == "sitemap"))


def read_sitemap(file: Path, media_type: str = "") -> Iterator[SitemapEntry]:
    """Yield the entries in order. Skippable for an invalid, incomplete or oversized sitemap."""
    pieces = _characters(file, media_type)
    first = next(pieces, "").lstrip("\ufeff \t\r\n")  # nothing may stand before XML, but often does
    stream = chain([first], pieces)
    yield from _lines(stream) if _LISTED.match(first) else _entries(stream)


def _characters(file: Path, media_type: str) -> Iterator[str]:
    """Yield UTF-8 in pieces, or the whole file in the detected charset."""
    try:
        decoder = codecs.getincrementaldecoder("utf-8")()
        for piece in _pieces(file):
            decoder.decode(piece)
        decoder.decode(b"", True)  # noqa: FBT003 - a codec's signature
    except UnicodeDecodeError:
        yield decoding.decode_text(b"".join(_pieces(file)), decoding.read_charset(media_type), markup=True)
        return
    yield from codecs.iterdecode(_pieces(file), "utf-8")


def _lines(pieces: Iterable[str]) -> Iterator[SitemapEntry]:
    """Addresses of a text file, one per line."""
    remainder = ""
    for piece in pieces:
        *lines, remainder = (remainder + piece).replace("\r", "\n").split("\n")
        remainder = remainder[:_MAX_ELEMENT_CHARACTERS]
        yield from _listed(lines)
    yield from _listed([remainder])


def _listed(lines: Iterable[str]) -> Iterator[SitemapEntry]:
    addresses = (line.strip()[:_MAX_ELEMENT_CHARACTERS] for line in lines)
    return (SitemapEntry(address, "", index=False) for address in addresses if address)


def _entries(pieces: Iterable[str]) -> Iterator[SitemapEntry]:
    reader, parser = _Reader(), expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = reader.start, reader.end
    parser.CharacterDataHandler = reader.data
    parser.StartDoctypeDeclHandler = _refuse
    try:
        for piece in pieces:
            parser.Parse(piece, False)  # noqa: FBT003 - expat's signature
            yield from reader.ready
            reader.ready.clear()
        parser.Parse("", True)  # noqa: FBT003
    except expat.ExpatError as error:
        raise Skippable("The sitemap is no well-formed XML.") from error


def _other() -> Skippable:
    return Skippable("There is no sitemap at the address, but another page. Name a sitemap, or ingest it as a website.")


def _refuse(name: str, *_declared: object) -> None:
    if name.lower() == "html":
        raise _other()
    raise Skippable("The sitemap declares a document type, which is not allowed.")


def _pieces(file: Path) -> Iterator[bytes]:
    size = 0
    with file.open("rb") as plain:
        packed = plain.read(2) == b"\x1f\x8b"
        plain.seek(0)
        source = cast("BinaryIO", gzip.GzipFile(fileobj=plain)) if packed else plain
        try:
            while piece := source.read(_READ_CHUNK_BYTES):
                size += len(piece)
                if size > MAX_BYTES:
                    raise Skippable(f"The sitemap is larger than {MAX_BYTES // 2**20} MiB unpacked.")
                yield piece
        except (OSError, EOFError, zlib.error) as error:
            raise Skippable("The sitemap's compressed content cannot be decompressed.") from error


PIECE_ENTRIES = 500
MAX_SITEMAP_FILES = 1000
BOUNDS = Bounds(bytes=MAX_BYTES, seconds=120)
OTHER_SITEMAP = "ingest the sitemap of that host."
MALFORMED = "Its address cannot be read."


def make(scraper: Scraper, _files: FileStore, _db: Database) -> Sitemap:
    robots = robots_files.shared_robots() if settings.load_settings().fetch_robots else None
    return Sitemap(scraper, clients.shared_client(), robots)


@dataclass
class _Found:
    """Results since the last piece; `passed` is the count of entries for the cursor."""

    items: list[SourceItem] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    passed: int = 0
    is_broken: bool = False
    # Addresses refused by robots.txt.
    refused: set[str] = field(default_factory=set)
    other_hosts: int = 0

    def piece(self, *, done: bool = False) -> Page[SourceItem]:
        page = Page(tuple(self.items), str(self.passed), done=done, skipped=self.skipped)
        self.items, self.skipped = [], {}
        return page


class Sitemap:
    """Source of a sitemap's pages."""

    # Sitemaps are read by this service's client, pages by the namespace's scraper.

    def __init__(self, scraper: Scraper, client: WebClient, robots: robots_files.Robots | None) -> None:
        self._scraper = scraper
        self._client = client
        self._robots = robots
        self._gates = ListedGates(scraper)

    def discover(self, request: DiscoveryRequest, cursor: str | None) -> Iterator[Page[SourceItem]]:
        """List pages after the cursor, with `lastmod` as version."""
        rules, limit = Rules.of(request.config, self._robots), int(request.config.get("maxLinks") or 1000)
        state, done_entries, taken_keys = _Found(), int(cursor or 0), set[str]()
        for entry, error in self._entries(request.config["url"], rules):
            url = page_key(entry.url)
            state.is_broken = state.is_broken or bool(error)
            reason = error or _refusal(rules, url)
            state.other_hosts += reason == OTHER_HOST
            if reason == ROBOTS:
                state.refused.add(url)
            fresh = url not in taken_keys
            if not reason and fresh:
                taken_keys.add(url)
            state.passed += 1
            # A resumed listing reads the sitemaps again, but skips the entries up to the cursor.
            if state.passed > done_entries:
                _sort(state, entry, url, error=error, reason=reason, fresh=fresh)
            if len(taken_keys) >= limit:
                break
            if len(state.items) >= PIECE_ENTRIES:
                yield state.piece()
        whole = len(taken_keys) < limit and not state.is_broken
        if not taken_keys and (elsewhere := state.other_hosts):
            reason = f"All {elsewhere:,} pages of the sitemap lie on another host than the sitemap: {OTHER_SITEMAP}"
            state.items.append(SourceItem(request.config["url"], request.config["url"], error=reason))
        end = partial(page_removals.miss_unlisted, job_run_id=request.job_run_id, refused=sorted(state.refused))
        yield replace(state.piece(done=True), save=end if whole else None)

    def fetch(self, item: SourceItem, request: DiscoveryRequest, to: Path) -> RawContent | None:
        """Fetch a page; None if unchanged."""
        rules = Rules.of(request.config, self._robots)
        rules.widen(item.external_id)
        if not rules.allowed_by_robots(item.external_id):
            raise Skippable(ROBOTS)
        options = replace(ScrapeOptions.of(request.config), check=rules.check)
        raw = self._scraper.fetch(item.external_id, options, to, known_version=item.version)
        return self._gates.mark_text(raw, item.external_id, options)

    def iter_pages(self, start: str, rules: Rules) -> Iterator[str]:
        """Yield the addresses of pages; "" for an unreadable sitemap."""
        # A sitemap may lie on another host; the pages of that host are not the site's.
        sitemap_rules = replace(rules, hosts=set(rules.hosts))
        try:
            for entry, error in self._entries(start, sitemap_rules):
                if error or not _refusal(rules, page_key(entry.url)):
                    yield "" if error else page_key(entry.url)
        except (Skippable, Retryable) as error:
            log.info("crawl.sitemap_unread", url=start, reason=str(error))
            if str(error) not in (GONE_PAGE, MISSING_PAGE):
                yield ""

    def _entries(self, start: str, rules: Rules) -> Iterator[tuple[SitemapEntry, str]]:
        """Yield the entries of pages in order; an unreadable further sitemap is an entry with the reason."""
        queue, seen_keys = deque([start]), {page_key(start)}
        while queue:
            url = queue.popleft()
            try:
                for entry in self._file(url, rules, first=url == start):
                    if not entry.index:
                        yield entry, ""
                        continue
                    key = page_key(entry.url)
                    if key not in seen_keys and len(seen_keys) < MAX_SITEMAP_FILES:
                        seen_keys.add(key)
                        queue.append(key)
            except Skippable as error:
                if url == start:
                    raise
                yield SitemapEntry(url, "", index=True), str(error)

    def _file(self, url: str, rules: Rules, *, first: bool) -> Iterator[SitemapEntry]:
        """Fetch a sitemap; a redirect of the first sitemap adds a host to the site."""
        with tempfile.TemporaryDirectory(prefix="sitemap-") as folder:
            file = Path(folder) / "sitemap"
            with file.open("w+b") as into:
                delay = self._robots.delay(url) if self._robots else 0.0
                check = None if first else rules.check_host
                answer = self._client.get(url, into, FetchRequest(bounds=BOUNDS, delay=delay, check=check))
            rules.widen(answer.url)
            for entry in read_sitemap(file, answer.media_type):
                yield (
                    replace(entry, url=html.absolute_link(answer.url, entry.url))
                    if entry.url.startswith("/")
                    else entry
                )


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
    return rules.refusal(url) or ("" if rules.allowed_by_robots(url) else ROBOTS)


def make_url_list(scraper: Scraper, _files: FileStore, _db: Database) -> UrlList:
    return UrlList(scraper)


class UrlList:
    """Source of listed pages, with the namespace's scraper."""

    def __init__(self, scraper: Scraper) -> None:
        self._scraper = scraper
        self._gates = ListedGates(scraper)

    def discover(self, _request: DiscoveryRequest, _cursor: str | None) -> Iterator[Page[SourceItem]]:
        """Yield no items: the listed addresses became items when the list was accepted."""
        yield Page((), "", done=True)

    def fetch(self, item: SourceItem, request: DiscoveryRequest, to: Path) -> RawContent | None:
        """Fetch a page; None if unchanged."""
        options = ScrapeOptions.of(request.config)
        raw = self._scraper.fetch(item.external_id, options, to, known_version=item.version)
        return self._gates.mark_text(raw, item.external_id, options)
