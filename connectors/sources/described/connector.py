"""Engine of described services: lists by page, follows changes by time, fetches content.

Once a day everything is listed, so that deletions are found; in between, streams with a change field list
changes alone.
"""

from __future__ import annotations

import hashlib
import html
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from connectors.http import responses
from connectors.http.no_authorizer import NoAuthorizer
from connectors.http.responses import Cursors
from connectors.http.retries import ServicePolicy
from connectors.sources.described.description import (
    Comments,
    Content,
    Description,
    Stream,
    fill_address,
    fill_known,
    fill_text,
    has_field,
    is_kept,
    read_description,
    read_field,
)
from connectors.sources.described.endpoints import MAX_KNOWN_ITEMS, EndpointCheck
from connectors.sources.described.permissions import AccessReader, Answers, share_answers
from connectors.sources.described.service import Service, Site, check_address, open_site
from retrieval.errors import Fatal, Retryable, Skippable
from retrieval.network.service_urls import require_url
from retrieval.ports import Entry, Level, Page, RawContent, SourceAccess, SourceItem, Tokens, TokenSource
from retrieval.sync_filter import EVERYTHING, Choice

if TYPE_CHECKING:
    import httpx

    from retrieval.ports import Authorizer
    from retrieval.settings import Settings

OVERLAP: Final = timedelta(minutes=5)
"""Changes are listed from this long before the last listing began: clocks differ, and lists lag behind."""
FULL_LISTING: Final = timedelta(days=1)
NAME: Final = 200
"""Characters of a name."""
COMMENT_PAGES: Final = 100
"""Pages of comments that one document may have."""


def make_described(name: str, settings: Settings) -> Described:
    """The connector of all connections to a described service."""
    about = read_description(name)
    policy = ServicePolicy(about.title, per_minute=about.rate.per_minute, burst=about.rate.burst)
    return Described(about, Service(name, about, settings, policy), settings.max_file_bytes)


def read_config(name: str, config: Mapping[str, Any], settings: Settings) -> Tokens:
    """Check the `config` of a connection. ValueError with the field and what is wrong."""
    about, url = read_description(name), str(config.get("url") or "").rstrip("/")
    try:
        require_url(url, ("https", "http"))
    except ValueError as error:
        raise ValueError("url", str(error)) from None
    if (site := open_site(name, about, url, settings)) is None:
        raise ValueError("url", f"must be the address of what to read, such as {about.example}")
    if unknown := config.keys() - {"url", "credentials"}:
        raise ValueError(min(unknown), "is not for this connector")
    needed, names = site.edition.credentials, set(config.get("credentials") or {})
    if names != needed and (names or not site.edition.public):
        raise ValueError("credentials", f"must hold {' and '.join(sorted(needed))}, and nothing beside")
    check_address(site, settings)
    return Tokens(json.dumps({**config, "url": url}), account=url)


@dataclass(frozen=True, slots=True)
class Position:
    """Edition in a listing. `since`: start of the listing before; `full_at`: start of the last full one, this one if it
    is `full`; `began`: start of this one, "" between listings; `stream` and `next`: its page; `url`: of the
    connection."""

    url: str
    since: str = ""
    full_at: str = ""
    began: str = ""
    full: bool = True
    stream: int = 0
    next: str = ""

    def begin(self) -> Position:
        """Return the start of the next listing, or this place of one that has begun."""
        if self.began:
            return self
        began = datetime.now(UTC).isoformat()
        full = not self.full_at or datetime.fromisoformat(self.full_at) < datetime.now(UTC) - FULL_LISTING
        return replace(self, began=began, full=full, full_at=began if full else self.full_at, stream=0, next="")

    def end(self) -> Position:
        return Position(self.url, since=self.began, full_at=self.full_at)

    @property
    def is_valid(self) -> bool:
        """Tell if a listing can continue from this cursor."""
        try:
            times = [datetime.fromisoformat(time) for time in (self.since, self.full_at, self.began) if time]
        except ValueError:
            return False
        return all(time.tzinfo for time in times) and self.stream >= 0 and bool(self.since or self.full)

    @property
    def changed_after(self) -> datetime | None:
        """Time from which on changes are listed; None where everything is."""
        return None if self.full else datetime.fromisoformat(self.since) - OVERLAP

    def __str__(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True)
class Described:
    """A `Connector`. `max_bytes`: bytes that one document may have."""

    about: Description
    service: Service
    max_bytes: int
    authorizer: Authorizer = field(default_factory=NoAuthorizer)
    choice: Choice = EVERYTHING
    answers: Answers = field(default_factory=share_answers)

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        site = self.service.find_site(tokens.token())
        streams, pages = self._streams(site), Cursors(f"{self.about.title}'s list")
        position = _read_position(cursor, site.location["url"])
        position = (position if position.stream < len(streams) else Position(position.url)).begin()
        resumed, ids = bool(position.next), set[str]()
        self.answers.forget(tokens.connection_id)
        while True:
            stream = streams[position.stream]
            url = position.next or _list_url(stream, site, position.changed_after)
            expired = stream.expired if resumed else ()
            try:
                answer = self.service.get(tokens, url, passing=(*stream.empty, *expired))
            except Skippable as error:
                raise Fatal(f'{error} To leave out the whole list: "exclude": [{{"id": "{stream.name}"}}].') from error
            if answer.status_code in expired:
                position, resumed = Position(position.url).begin(), False
                continue
            resumed = False
            entries = [] if answer.status_code in stream.empty else self._entries(stream, answer)
            items = [_item(stream, site, entry) for entry in entries if is_kept(entry, stream.keep, site.location)]
            following = self.service.next_page(stream.paging, site, answer, entries)
            if following and not _ends_before(stream, entries, position.changed_after):
                pages.follow(following, brought=not ids.issuperset(item.external_id for item in items))
                ids.update(item.external_id for item in items)
                position = replace(position, next=following)
            else:
                position = replace(position, stream=position.stream + 1, next="")
            done = position.stream == len(streams)
            is_whole = done and position.full
            yield Page(items, str(position.end() if done else position), done=done, whole=is_whole)
            if done:
                return

    def choosing(self, choice: Choice) -> Described:
        """Leave out lists that ids of the choice leave out; their items are out of reach then."""
        return replace(self, choice=choice)

    def browse(self, tokens: TokenSource, parent: str | None, cursor: str | None) -> Level:
        """List the streams as folders; their items are not listed one by one."""
        if parent is not None or cursor is not None:
            raise Skippable("There is no such folder.")
        streams = self._streams(self.service.find_site(tokens.token()))
        return Level([Entry(stream.name, stream.name, is_folder=True, path=stream.name) for stream in streams])

    def fetch(self, tokens: TokenSource, item: SourceItem, to: Path) -> RawContent | None:
        site, stream, values = self._find(tokens, item.external_id)
        content = stream.content
        headers = {"Accept": content.accept} if content.accept else {}
        url = site.base + fill_address(content.get, values)
        answer = self.service.get(tokens, url, passing=self.about.missing, headers=headers)
        if answer.status_code in self.about.missing:
            self._check_endpoint(tokens, site, stream).require(content.get, values, answer)
            raise Skippable("It is no longer there, or may not be read with these credentials.")
        data = answer.content
        if content.pages:
            data = b"".join(self._read_pages(tokens, answer, content.pages))
        if content.keep and not is_kept(self.service.read_json(answer), content.keep, values):
            raise Skippable("It is no longer one of the items that are listed.")
        if content.body or content.comments:
            data = "\n\n".join(self._texts(tokens, site, content, values, answer)).encode()
        if len(data) > self.max_bytes:
            raise responses.too_large(self.max_bytes)
        to.write_bytes(data)
        return RawContent(to, item.name, content.media_type, len(data))

    def gone(self, tokens: TokenSource, external_id: str) -> bool:
        try:
            site, stream, values = self._find(tokens, external_id)
        except Skippable:
            return True
        url = site.base + fill_address(stream.exists.get, values)
        try:
            answer = self.service.get(tokens, url, passing=self.about.missing)
        except Skippable:  # it is there, and large
            return False
        if answer.status_code in self.about.missing:
            self._check_endpoint(tokens, site, stream).require(stream.exists.get, values, answer)
            return True
        keep = stream.exists.keep
        fields = self.service.read_json(answer) if keep else {}
        if is_kept(fields, keep, values):
            return False
        if not all(has_field(fields, name) for name in keep):
            raise self.service.unreadable()
        return True

    def access(self, tokens: TokenSource, external_id: str) -> SourceAccess:
        """Return the access list of an item. Skippable, with the reason, if the service does not report it."""
        site, stream, values = self._find(tokens, external_id)
        if stream.permissions is None:
            raise Skippable(f"The permissions of {self.about.title} are not read.")
        check, permissions = self._check_endpoint(tokens, site, stream).require, stream.permissions
        fields = frozenset(stream.fields)
        reader = AccessReader(self.service, tokens, site, permissions, fields, self.answers, check)
        return reader.read(values)

    def version(self, tokens: TokenSource, external_id: str) -> str:
        """Return the version that a list would name now; "" where it cannot be read."""
        try:
            site, stream, values = self._find(tokens, external_id)
            answer = self.service.get(tokens, site.base + fill_address(stream.relist or stream.exists.get, values))
            if not stream.relist:
                return str(read_field(self.service.read_json(answer), stream.version)) if stream.version else ""
            items = [_item(stream, site, entry) for entry in self._entries(stream, answer)]
            return next((item.version for item in items if item.external_id == external_id), "")
        except (Fatal, Skippable):
            return ""

    def _check_endpoint(self, tokens: TokenSource, site: Site, stream: Stream) -> EndpointCheck:
        def list_known() -> list[dict[str, str]]:
            """Return the template values of items on the first page of the stream's list."""
            answer = self.service.get(tokens, _list_url(stream, site, None), passing=stream.empty)
            entries = [] if answer.status_code in stream.empty else self._entries(stream, answer)
            items = [_item(stream, site, entry) for entry in entries if is_kept(entry, stream.keep, site.location)]
            parsed = [stream.parse_id(item.external_id, site.location) for item in items if not item.error]
            return [values for values in parsed if values is not None][: MAX_KNOWN_ITEMS + 1]

        return EndpointCheck(self.service, tokens, site, stream, self.answers, list_known)

    def _streams(self, site: Site) -> list[Stream]:
        streams = [stream for stream in self.about.streams if stream.edition in {"", site.edition.name}]
        names, include = {stream.name for stream in streams}, {entry.get("id") for entry in self.choice.include}
        named = names & include if include <= names and include else names
        named -= {entry.get("id") for entry in self.choice.exclude}
        return [stream for stream in streams if stream.name in named] or streams

    def _find(self, tokens: TokenSource, external_id: str) -> tuple[Site, Stream, dict[str, str]]:
        site = self.service.find_site(tokens.token())
        for stream in self._streams(site):
            if (values := stream.parse_id(external_id, site.location)) is not None:
                return site, stream, values
        raise Skippable("The connection names another place than the one that this document is from.")

    def _read_pages(self, tokens: TokenSource, first: httpx.Response, parameter: str) -> Iterator[bytes]:
        """Yield the pages of a text up to an empty one."""
        yield first.content
        for number in range(2, COMMENT_PAGES):
            url = str(first.url.copy_set_param(parameter, str(number)))
            answer = self.service.get(tokens, url, passing=self.about.missing)
            if answer.status_code != 200 or not answer.content:
                return
            yield answer.content

    def _texts(
        self, tokens: TokenSource, site: Site, content: Content, values: Mapping[str, str], answer: httpx.Response
    ) -> Iterator[str]:
        """Yield title, body and comments, each below its author."""
        fields, is_html = self.service.read_json(answer), content.media_type == "text/html"
        if content.title:
            if not has_field(fields, content.title):
                raise self.service.unreadable()
            yield _heading(1, str(read_field(fields, content.title)), is_html=is_html)
        if body := read_field(fields, content.body) if content.body else "":
            yield str(body)
        comments = content.comments
        for entry in self._comments(tokens, site, comments, values, answer) if comments else ():
            if comments and comments.author:
                yield _heading(2, str(read_field(entry, comments.author)), is_html=is_html)
            yield str(read_field(entry, comments.body if comments else ""))

    def _comments(
        self, tokens: TokenSource, site: Site, comments: Comments, values: Mapping[str, str], answer: httpx.Response
    ) -> Iterator[dict[str, Any]]:
        """Yield the comments that follow the body in this answer, or have a list of their own."""
        if comments.count and not read_field(self.service.read_json(answer), comments.count):
            return
        if comments.get:
            answer = self.service.get(tokens, site.base + fill_address(comments.get, values))
        pages = Cursors(f"{self.about.title}'s list of comments")
        for _ in range(COMMENT_PAGES):
            document = self.service.read_json(answer)
            entries = read_field(document, comments.items) if comments.items else document
            for entry in entries or ():
                if is_kept(entry, comments.keep, values):
                    yield entry
            following = self.service.next_page(comments.paging, site, answer, entries)
            if not following:
                return
            pages.follow(following, brought=True)
            answer = self.service.get(tokens, following)

    def _entries(self, stream: Stream, answer: httpx.Response) -> list[Any]:
        document = self.service.read_json(answer)
        if stream.incomplete and read_field(document, stream.incomplete):
            raise Fatal(f"{self.about.title} does not list all {stream.name}: there are too many.")
        return _as_list(self.about.title, document, stream.items)


def _read_position(cursor: str | None, url: str) -> Position:
    """Return the place that a cursor names, the start for that of another address or version."""
    try:
        position = msgspec.json.decode(cursor or "{}", type=Position)
    except msgspec.DecodeError:
        return Position(url)
    return position if position.url == url and position.is_valid else Position(url)


def _as_list(title: str, document: Any, name: str) -> list[Any]:
    entries = read_field(document, name) if name else document
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise Retryable(str(responses.unreadable_answer(title)))
    return entries


def _list_url(stream: Stream, site: Site, changed_after: datetime | None) -> str:
    import httpx

    query, moment = dict(stream.query), dict[str, str]()
    if changed_after is not None:
        query |= stream.since
        minutes = (datetime.now(UTC) - changed_after) // timedelta(minutes=1) + 1
        time, unix = changed_after.strftime("%Y-%m-%dT%H:%M:%SZ"), str(int(changed_after.timestamp()))
        moment = {"time": time, "unix": unix, "minutes": str(minutes)}
    values = {name: fill_known(text, {**site.location, **moment}) for name, text in query.items()}
    return str(httpx.URL(site.base + fill_address(stream.list, site.location), params=values or None))


def _ends_before(stream: Stream, entries: Sequence[Any], changed_after: datetime | None) -> bool:
    """Tell if a list that begins with the newest item has reached items of the last listing; times that cannot be
    read do not count."""
    if not stream.newest or changed_after is None or not entries:
        return False
    try:
        times = [datetime.fromisoformat(str(read_field(entry, stream.newest))) for entry in entries]
    except ValueError:
        return False
    return all(time.replace(tzinfo=time.tzinfo or UTC) < changed_after for time in times)


def _item(stream: Stream, site: Site, entry: Mapping[str, Any]) -> SourceItem:
    values = {**site.location, **{name: str(read_field(entry, path)) for name, path in stream.fields.items()}}
    if (unnamed := stream.find_unnamed(entry)) is not None:
        name = str(read_field(entry, stream.item_name))[:NAME] or stream.name
        listed_id = f"{site.location['url']}#{stream.name}-{_digest(entry)[:16]}"
        return SourceItem(
            listed_id, name, error=f"The service lists it without its {unnamed}, so it cannot be fetched."
        )
    external_id = fill_address(stream.id, values)
    about = {name: value for name, path in stream.properties.items() if (value := read_field(entry, path))}
    path = fill_text(stream.path, values)
    name = " ".join(str(read_field(entry, stream.item_name)).split())
    name = name.rpartition("/")[2] if name == path else name
    properties = {"url": fill_address(stream.link, values) or external_id, "path": path, **about}
    version = str(read_field(entry, stream.version)) if stream.version else _digest(entry)
    media_type = stream.content.media_type
    name = html.unescape(name) if media_type == "text/html" else name
    return SourceItem(
        external_id, name[:NAME] or path, media_type, version, properties=properties, above=(stream.name,)
    )


def _digest(entry: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()


def _heading(level: int, text: str, *, is_html: bool) -> str:
    return f"<h{level}>{html.escape(html.unescape(text))}</h{level}>" if is_html else f"{'#' * level} {text}"
