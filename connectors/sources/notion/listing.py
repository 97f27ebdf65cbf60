"""Listing of Notion: its cursor, which another process can continue from.

search, newest change first ──▶ (oldest first, where Notion's limit cut it off) ──▶ each database's sources, by row
      └─ each page that changed: its blocks name child pages, child databases, files          └──▶ pages left over

Blocks are looked into once, and again when their page changes; everything is looked into each week. Pages and databases
that only blocks name are remembered, and requested by each listing.
Search is not complete and its order moves while it is walked: it finds pages, and nothing is concluded from what it
leaves out. A source's rows come in the order of their creation, which is stable.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Literal

import structlog

from connectors.sources.notion import blocks, pages
from connectors.sources.notion.pages import Paths, join_path
from connectors.sources.notion.transport import Answer, BadRequest, Forbidden, NotFound, Request
from retrieval.errors import Fatal, Retryable
from retrieval.ports import Page, SourceItem
from retrieval.sync_filter import EVERYTHING, Choice, Subject

WEEK = 7 * 86400
"""Seconds after which a listing looks into all pages again."""
_TUPLES = ("databases", "sources", "look", "hidden", "kept", "inner")


@dataclass(frozen=True, slots=True)
class NotionCursor:
    """Position of a listing. `at`: Notion's own cursor; `since`: rows created from then on, past its limit.

    `last`: creation time of the last row; `cut`: Notion reported that it does not give all of what is walked.

    `look`: pages to look into; `hidden`: pages that blocks name and no listing has so far; `kept`: those of them that
    are there; `inner`: databases that blocks name. `newest`: the latest change that this listing began with; `looked`:
    that of the last listing, None where everything is looked into; `full`: when that was, in seconds since 1970.
    """

    step: Literal["newest", "oldest", "rows"] = "newest"
    at: str | None = None
    databases: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    since: str | None = None
    last: str | None = None
    cut: bool = False
    look: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()
    newest: str | None = None
    looked: str | None = None
    full: int = 0

    @classmethod
    def of(cls, cursor: str | None) -> NotionCursor:
        """A cursor that cannot be read is none: everything is listed anew."""
        try:
            fields = json.loads(cursor or "{}")
            return cls(**{**fields, **{name: tuple(fields.get(name, ())) for name in _TUPLES}})
        except (ValueError, TypeError, AttributeError):
            return cls()

    def __str__(self) -> str:
        return json.dumps({name: value for name, value in asdict(self).items() if value})

    @property
    def is_end(self) -> bool:
        return self.step == "rows" and not (self.databases or self.sources or self.look or self.hidden)

    def begun(self, now: datetime, named: tuple[str, ...] = ()) -> NotionCursor:
        """Return the cursor at the beginning of a listing; it looks into everything at first and each week. `named`:
        ids of pages and databases that are always requested."""
        if self != NotionCursor(kept=self.kept, inner=self.inner, newest=self.newest, full=self.full):
            return self
        seconds = int(now.timestamp())
        is_due = self.newest is None or seconds - self.full > WEEK
        return NotionCursor(
            hidden=tuple(dict.fromkeys([*self.kept, *named])),
            databases=tuple(dict.fromkeys([*self.inner, *named])),
            inner=self.inner,
            looked=None if is_due else self.newest,
            full=seconds if is_due else self.full,
        )

    def end(self) -> NotionCursor:
        """Position at which the next listing begins."""
        return NotionCursor(kept=self.kept, inner=self.inner, newest=self.newest, full=self.full)

    def is_within(self, other: NotionCursor) -> bool:
        """Tell whether the position is in the same search, or among the same rows."""
        return replace(self, at=None, last=None) == replace(other, at=None, last=None)


log = structlog.get_logger()

PAGE = 100
QUIET = 20
"""Requests that may bring nothing before the place is saved."""
HIDDEN = 10_000
DATABASES = 1000
"""Pages, and databases, that only blocks name and that are remembered."""
OVERLAP = timedelta(minutes=10)
MANY_PAGES = "page in other pages beyond those that are remembered"
LARGE_PAGE = "page with more blocks than are looked into for files and pages"
_ID = re.compile("[0-9a-fA-F-]{32,36}")
IDLE = 500
"""Requests within one search, or one database's rows, that may bring nothing new: Notion gives 10,000 in all."""
Ask = Callable[[Request], Answer]


@dataclass(slots=True)
class NotionListing:
    """One walk through a workspace. `ask` makes a request in the name of the connection."""

    ask: Ask
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    unchanged: set[str] = field(default_factory=set)
    choice: Choice = EVERYTHING
    paths: Paths = field(default_factory=Paths)
    _listed: set[str] = field(default_factory=set)
    _opened: set[str] = field(default_factory=set)
    _been: set[int] = field(default_factory=set)
    _began_again: bool = False
    _skipped: Counter[str] = field(default_factory=Counter)

    def pages(self, place: NotionCursor) -> Iterator[Page[SourceItem]]:
        """From `place` to the end, whose page is `whole`; its cursor is the beginning of the next walk.

        Most databases hold nothing that search has not named: not each of them is worth a page.
        """
        chosen_pages = tuple(
            page for entry in self.choice.include if _ID.fullmatch(page := entry.get("id", "").partition("/")[0])
        )
        idle, place = 0, place.begun(self.now, chosen_pages)
        for number in count(1):
            if hash(place) in self._been:  # places name all databases that are left, and take memory
                raise Retryable("Notion's listing repeats a page and would never end.")
            self._been.add(hash(place))
            previous, (items, place) = place, self._step(place)
            idle = idle + 1 if not items and place.is_within(previous) else 0
            if idle > IDLE:
                raise Retryable("Notion's listing repeats the same pages and has no end.")
            is_end = place.is_end
            if items or is_end or number % QUIET == 0:
                skipped, self._skipped = self._skipped, Counter()
                yield Page(items, str(place.end() if is_end else place), done=is_end, skipped=skipped, whole=is_end)
            if is_end:
                return

    def _step(self, place: NotionCursor) -> tuple[list[SourceItem], NotionCursor]:
        try:
            if place.look:
                return self._looked_into(place)
            if place.step != "rows":
                return self._searched(place)
            if place.sources or place.databases:
                return self._queried(place) if place.sources else self._opened_next(place)
            return self._asked_next(place)
        except BadRequest as error:
            if place.at is None or self._began_again:
                raise Retryable("Notion refuses to continue the listing.") from error
            log.info("notion.cursor_not_accepted", step=place.step)
            self._began_again = True
            self._been.clear()
            return [], replace(place, at=None)

    def _searched(self, place: NotionCursor) -> tuple[list[SourceItem], NotionCursor]:
        direction = "descending" if place.step == "newest" else "ascending"
        sort = {"timestamp": "last_edited_time", "direction": direction}
        try:
            answer = self.ask(
                lambda client, token: client.search(auth=token, page_size=PAGE, start_cursor=place.at, sort=sort)
            )
        except Forbidden as error:
            raise Fatal(
                "Notion does not let the integration read: give it the capability to read content, and authorize again."
            ) from error
        results, next_position = _read(answer, place)
        if place.newest is None:
            next_position = replace(next_position, newest=_before(results))
        items, next_position = self._items(results, self._told(next_position, results))
        if next_position.at is not None:
            return items, next_position
        if next_position.cut and place.step == "newest":
            return items, replace(next_position, step="oldest", cut=False)
        if next_position.cut:
            log.warning("notion.search_cut", pages=len(self._listed))
        return items, replace(next_position, step="rows", cut=False)

    def _opened_next(self, place: NotionCursor) -> tuple[list[SourceItem], NotionCursor]:
        """Read the sources of the next database; a deleted or unshared one has none."""
        first, further = place.databases[0], place.databases[1:]
        self._opened.add(first)
        try:
            answer = self.ask(lambda client, token: client.databases.retrieve(first, auth=token))
        except (NotFound, BadRequest, Forbidden):
            return [], replace(place, databases=further)
        data_sources = () if pages.is_out(answer) else answer.get("data_sources") or ()
        sources = tuple(
            str(data_source["id"]) for data_source in data_sources if str(data_source["id"]) not in self._opened
        )
        return [], replace(place, databases=further, sources=sources)

    def _queried(self, place: NotionCursor) -> tuple[list[SourceItem], NotionCursor]:
        """Rows of the first source. Past Notion's limit of rows another query begins at the last one's creation."""
        source = place.sources[0]
        try:
            answer = self._query(source, place)
        except (NotFound, Forbidden):
            return [], self._behind(place)
        except BadRequest:
            if place.at is not None:
                raise
            log.warning("notion.rows_refused", data_source=source)
            return [], self._behind(place)
        results, next_position = _read(answer, place)
        next_position = self._told(
            next_position, [result for result in results if result.get("object") == "data_source"]
        )
        next_position = replace(
            next_position, last=max([place.last or "", *(str(result.get("created_time") or "") for result in results)])
        )
        if (
            next_position.at is None
            and next_position.cut
            and next_position.last
            and next_position.last > (place.since or "")
        ):
            next_position = replace(next_position, since=next_position.last, cut=False)
        elif next_position.at is None:
            if next_position.cut:
                log.warning("notion.rows_cut", data_source=source)
            next_position = self._behind(next_position)
        return self._items(results, next_position)

    def _looked_into(self, place: NotionCursor) -> tuple[list[SourceItem], NotionCursor]:
        """Read the files of the first waiting page, and its other contents."""
        contents = blocks.list_contents(place.look[0], self.ask, self.now)
        self._skipped[LARGE_PAGE] += contents.cut
        known_ids = {*place.hidden, *place.kept, *self._listed}
        hidden = (*place.hidden, *(page_id for page_id in contents.pages if page_id not in known_ids))
        inner = (*place.inner, *(page_id for page_id in contents.databases if page_id not in place.inner))
        self._skipped[MANY_PAGES] += max(0, len(hidden) - HIDDEN) + max(0, len(inner) - DATABASES)
        fresh = (
            page_id for page_id in contents.databases if page_id not in self._opened and page_id not in place.databases
        )
        databases = (*place.databases, *fresh)
        next_position = replace(
            place, look=place.look[1:], hidden=hidden[:HIDDEN], inner=inner[:DATABASES], databases=databases
        )
        return self._inside(place.look[0], contents.files), next_position

    def _asked_next(self, place: NotionCursor) -> tuple[list[SourceItem], NotionCursor]:
        """The first page that no listing names, if it is there."""
        first, remaining = place.hidden[0], replace(place, hidden=place.hidden[1:])
        if first in self._listed:
            return [], remaining
        try:
            page = self.ask(lambda client, token: client.pages.retrieve(first, auth=token))
        except (NotFound, BadRequest, Forbidden):
            return [], remaining
        if pages.is_out(page):
            return [], remaining
        return self._items([page], replace(remaining, kept=(*remaining.kept, first)))

    def _query(self, source: str, place: NotionCursor) -> Answer:
        paging: dict[str, Any] = {}
        if place.since:
            paging["filter"] = {"timestamp": "created_time", "created_time": {"on_or_after": place.since}}
        sorts = [{"timestamp": "created_time", "direction": "ascending"}]
        return self.ask(
            lambda client, token: client.data_sources.query(
                source, auth=token, page_size=PAGE, start_cursor=place.at, sorts=sorts, **paging
            )
        )

    def _behind(self, place: NotionCursor) -> NotionCursor:
        self._opened.add(place.sources[0])
        return replace(place, at=None, since=None, last=None, cut=False, sources=place.sources[1:])

    def _items(self, found: list[Answer], place: NotionCursor) -> tuple[list[SourceItem], NotionCursor]:
        """The pages that are there and were not listed before; those that changed are to be looked into."""
        items, look, seen_ids = [], list(place.look), set[str]()
        for result in found:
            if result.get("object") == "page" and result["id"] not in self._listed:
                self._listed.add(result["id"])
                seen_ids.add(str(result["id"]))
                page = result if "last_edited_time" in result else self._whole(str(result["id"]))
                if page is not None and not pages.is_out(page):
                    item, deeper = self._placed(page)
                    items.append(item)
                    is_new = place.looked is None or str(page["last_edited_time"]) >= place.looked
                    look += [str(page["id"])] if is_new and deeper else []
                    self.unchanged |= set() if is_new else {str(page["id"])}
        hidden = tuple(result for result in place.hidden if result not in seen_ids)
        return items, replace(place, look=tuple(look), hidden=hidden)

    def _placed(self, page: Answer) -> tuple[SourceItem, bool]:
        """A page as an item, and whether it is looked into: not where nothing in it is chosen."""
        item = pages.page_item(page, self.now)
        if not self.choice:
            return item, True
        path, above = self.paths.place(page, self.ask)
        item = replace(item, properties={**item.properties, "path": path}, above=(*above, *join_path(item.external_id)))
        inside = any(chosen_id.startswith(f"{item.external_id}/") for chosen_id in self.choice.ids)
        return item, inside or self.choice.may_hold(Subject(item.external_id, path, above=item.above), ids=False)

    def _inside(self, page_id: str, files: list[SourceItem]) -> list[SourceItem]:
        """Files of a page, with their paths."""
        page = self._whole(page_id) if files and self.choice else None
        if page is None:
            return files
        path, above = self.paths.place(page, self.ask)
        above = (*join_path(page_id), *above)
        return [
            replace(file, properties={**file.properties, "path": f"{path}/{file.name}"}, above=above) for file in files
        ]

    def _whole(self, page_id: str) -> Answer | None:
        """Read a page of which a listing gave the id alone."""
        try:
            return self.ask(lambda client, token: client.pages.retrieve(page_id, auth=token))
        except (NotFound, BadRequest):
            return None

    def _told(self, place: NotionCursor, found: list[Answer]) -> NotionCursor:
        """Queue databases that were not opened before, and sources whose database is unknown."""
        databases, sources = list(place.databases), list(place.sources)
        for result in found:
            parent = result.get("parent") or {}
            source = result["id"] if result.get("object") == "data_source" else parent.get("data_source_id")
            parent_id, known_parents = (
                (database, databases) if (database := parent.get("database_id")) else (source, sources)
            )
            if parent_id and parent_id not in self._opened and parent_id not in known_parents:
                known_parents.append(str(parent_id))
        return replace(place, databases=tuple(databases), sources=tuple(sources))


def _before(found: list[Answer]) -> str | None:
    """The latest change of these, less what Notion's search may lag behind."""
    times = [result["last_edited_time"] for result in found if isinstance(result.get("last_edited_time"), str)]
    try:
        latest = datetime.fromisoformat(max(times)).astimezone(UTC) - OVERLAP
    except ValueError:
        return None
    return latest.strftime("%Y-%m-%dT%H:%M:00.000Z")


def _read(answer: Answer, place: NotionCursor) -> tuple[list[Answer], NotionCursor]:
    """Results of a page of a listing, and the next position. Retryable if it breaks off."""
    results, has_more, at = answer.get("results"), answer.get("has_more"), answer.get("next_cursor")
    if not isinstance(results, list) or not isinstance(has_more, bool) or (has_more and not at):
        raise Retryable("Notion's listing breaks off before its end.")
    valid_results = [result for result in results if isinstance(result, dict) and result.get("id")]
    is_cut = place.cut or (answer.get("request_status") or {}).get("type") == "incomplete"
    return list(valid_results), replace(place, at=str(at) if has_more else None, cut=is_cut)
