"""Feeds: the newest entries by conditional requests; entries that leave a feed stay."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from connectors.http import responses
from connectors.http.no_authorizer import NoAuthorizer
from connectors.sources.feed.entries import Entry, Feed, find_feed, identify, parse_feed
from connectors.web.builtin.client import Bounds, Fetched, FetchRequest, WebClient, make_client
from connectors.web.builtin.scraper import condition_headers, content_version, make_content, version_address
from retrieval.errors import Fatal, Retryable, Skippable
from retrieval.network import fetch_guard
from retrieval.network.service_urls import require_url
from retrieval.ports import FolderEntry, FolderPage, Page, RawContent, ScrapeOptions, SourceItem, Tokens, TokenSource

if TYPE_CHECKING:
    from retrieval.ports import Authorizer
    from retrieval.settings import Settings

MAX_FEED_BYTES: Final = 16 * 2**20
# Seconds that a feed is kept for entries whose page cannot be read.
KEPT_SECONDS: Final = 300.0
# Entries by which the next listing knows where the new ones end.
MAX_MARKS: Final = 500
ACCEPTED: Final = "application/atom+xml, application/rss+xml, application/rdf+xml, application/xml;q=0.9, */*;q=0.8"
NOT_MODIFIED: Final = 304


def make(_app: Mapping[str, Any], settings: Settings) -> FeedReader:
    """Return the connector of all connections."""
    return FeedReader(make_client(settings), settings.fetch_seconds)


def read_config(config: Mapping[str, Any], settings: Settings) -> Tokens:
    """Check and return the `config` of a connection. ValueError with the field and the problem."""
    url = str(config.get("url") or "").partition("#")[0]
    try:
        require_url(url, ("https", "http"))
        fetch_guard.make_guard(settings).check_url(url)
    except ValueError as error:
        raise ValueError("url", str(error)) from None
    except Fatal as error:
        raise ValueError("url", f"cannot be used: {error}".rstrip(".")) from error
    except Retryable:
        pass
    if unknown := {name for name, value in config.items() if value} - {"url"}:
        raise ValueError(min(unknown), "is not for feeds, which are read without credentials")
    return Tokens(msgspec.json.encode({"url": url}).decode(), account=url)


class Position(msgspec.Struct, frozen=True):
    """Cursor: the feed's address and version, marks of the newest entries, and the next page of a listing."""

    of: str = ""
    feed: str = ""
    version: str = ""
    newest: tuple[str, ...] = ()
    # Of the listing before, at whose entries the pages end.
    previous: tuple[str, ...] = ()
    next_page: str = ""


@dataclass(frozen=True, slots=True)
class FeedReader:
    """A `Connector`; `seconds`: limit of a request."""

    client: WebClient
    seconds: float
    authorizer: Authorizer = field(default_factory=NoAuthorizer)
    recent_feeds: dict[str, tuple[float, Feed]] = field(default_factory=dict, repr=False)

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        """List new and changed entries. No page is `whole`: a feed shows only its newest entries."""
        url = _read_url(tokens)
        position, cursors = _read_position(url, cursor), responses.Cursors("The listing of the feed")
        with tempfile.TemporaryDirectory(prefix="feed-") as folder:
            while True:
                feed, position = self._read_page(position)
                items = [] if feed is None else [_deliver(entry, url, Path(folder)) for entry in feed.entries]
                yield Page(items, msgspec.json.encode(position).decode(), done=not position.next_page)
                for item in items:
                    if item.content:
                        item.content.path.unlink(missing_ok=True)
                if not position.next_page:
                    return
                cursors.follow(position.next_page, brought=bool(items))

    def browse(self, tokens: TokenSource, parent: str | None, cursor: str | None) -> FolderPage:
        """List the newest entries; a feed has no folders."""
        if parent or cursor:
            raise Skippable("There is no such folder.")
        url = _read_url(tokens)
        items = [entry.make_item(url) for entry in self._read_recent(url).entries]
        return FolderPage([_list_item(item) for item in items])

    def fetch(self, tokens: TokenSource, item: SourceItem, to: Path) -> RawContent | None:
        """Fetch the text of an entry from the feed, or else from the entry's page; a summary's page comes first."""
        url, link = _read_url(tokens), str(item.properties.get("url") or "")
        attempts = [partial(self._write_entry, url, item, to)]
        if link not in {"", url}:
            # The name of an entry with a summary only is the address of its page.
            attempts.insert(0 if item.name == link else 1, partial(self._fetch_page, link, item, to))
        problems = []
        for attempt in attempts:
            try:
                return attempt()
            except Skippable as error:
                problems.append(str(error))
        raise Skippable(" ".join(problems))

    def is_deleted(self, tokens: TokenSource, external_id: str) -> bool:
        """Return True for entries of another feed; entries dropped by this feed stay."""
        return not external_id.startswith(identify(_read_url(tokens), ""))

    def _fetch_page(self, link: str, item: SourceItem, to: Path) -> RawContent:
        with to.open("w+b") as into:
            fetched = self.client.get(link, into)
        raw = make_content(fetched, link, ScrapeOptions(), to)
        if raw is None:
            raise Skippable("The page of the entry is empty.")
        return replace(raw, version=item.version, properties={**item.properties, **raw.properties})

    def _write_entry(self, url: str, item: SourceItem, to: Path) -> RawContent:
        entries = self._read_recent(url).entries
        entry = next((entry for entry in entries if identify(url, entry.key) == item.external_id), None)
        if entry is None:
            raise Skippable("The feed no longer shows this entry.")
        return _write(entry, to)

    def _read_recent(self, url: str) -> Feed:
        """Return the first page of a feed, which may be a few minutes old."""
        read_at, feed = self.recent_feeds.get(url, (0.0, None))
        if feed is None or time.monotonic() - read_at > KEPT_SECONDS:
            feed, _ = self._read_page(Position(url, url))
            feed = feed or Feed([], "", is_broken=False)
            self.recent_feeds[url] = time.monotonic(), feed
        return feed

    def _read_page(self, position: Position) -> tuple[Feed | None, Position]:
        """Read the next page of a listing, None for an unchanged feed. Fatal for anything but a feed."""
        address = position.next_page or position.feed
        fetched, data = self._get(address, "" if position.next_page else position.version)
        if fetched.status == NOT_MODIFIED:
            return None, position
        feed = parse_feed(data, fetched.url, fetched.media_type)
        if feed is None:
            alternative = find_feed(data, fetched.url, fetched.media_type) if address == position.of else ""
            if not alternative or alternative == address:
                raise Fatal(
                    "The address answers with no RSS or Atom feed, and its page names none:"
                    " send the address of the feed."
                )
            return self._read_page(_move(position, feed=alternative, version=""))
        marks = tuple(entry.mark for entry in feed.entries[:MAX_MARKS])
        is_last = not feed.next_page or bool(set(marks) & set(position.previous)) or feed.is_broken
        newest = position.newest if position.next_page else marks
        version = position.version
        if not position.next_page:
            # A page that breaks off is read again.
            version = "" if feed.is_broken else content_version(fetched, address)
        if is_last:
            return feed, _move(position, version=version, previous=newest, newest=(), next_page="")
        return feed, _move(position, version=version, newest=newest, next_page=feed.next_page)

    def _get(self, address: str, version: str) -> tuple[Fetched, bytes]:
        """Return an answer with its body. Fatal for a refusal."""
        bounds = Bounds(MAX_FEED_BYTES, self.seconds)
        try:
            into = BytesIO()
            headers = {"Accept": ACCEPTED, **condition_headers(version)}
            fetched = self.client.get(address, into, FetchRequest(headers, bounds))
            if fetched.status == NOT_MODIFIED and fetched.url != version_address(version, address):
                fetched = self.client.get(address, into, FetchRequest({"Accept": ACCEPTED}, bounds))
        except Skippable as error:
            raise Fatal(f"The feed cannot be read: {error}") from error
        return fetched, into.getvalue()


def _move(position: Position, **changes: Any) -> Position:
    return msgspec.structs.replace(position, **changes)


def _read_url(tokens: TokenSource) -> str:
    return str(msgspec.json.decode(tokens.token())["url"])


def _read_position(url: str, cursor: str | None) -> Position:
    """Return the position of a cursor; the start for none, or one of another feed or version."""
    try:
        position = msgspec.json.decode(cursor or "{}", type=Position)
    except msgspec.DecodeError:
        position = Position()
    return position if position.of == url else Position(url, url)


def _deliver(entry: Entry, url: str, folder: Path) -> SourceItem:
    """Return the item of an entry, with content unless the feed has only a summary."""
    item = entry.make_item(url)
    return item if entry.is_summary else replace(item, content=_write(entry, folder / entry.mark))


def _write(entry: Entry, to: Path) -> RawContent:
    data = entry.text.encode("utf-8", "replace")
    to.write_bytes(data)
    return RawContent(to, entry.title, "text/html", len(data), properties={"title": entry.title, **entry.properties})


def _list_item(item: SourceItem) -> FolderEntry:
    title, modified = str(item.properties["title"]), item.properties.get("modifiedAt")
    path = str(item.properties["path"])
    modified_at = str(modified) if modified else None
    return FolderEntry(item.external_id, title, False, path, item.media_type, modified_at=modified_at)  # noqa: FBT003
