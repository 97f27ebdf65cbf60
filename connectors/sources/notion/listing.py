"""Resumable listing of a Notion workspace.

search, newest change first ──▶ (oldest first, if Notion's limit cut the search) ──▶ each database's sources, by row

└─ each changed page: child pages, child databases, files          └──▶ remaining pages
"""

# Notion's search is incomplete, and its order moves during the walk: it finds pages, and absence from it means nothing.
# Rows of a source come in order of creation, which is stable. Blocks are read when their page changes, and all of them
# each week. Pages and databases that only blocks name are stored in the cursor and requested by each listing.

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Literal

import structlog

from connectors.sources.notion import blocks, pages
from connectors.sources.notion.pages import Paths, id_forms
from connectors.sources.notion.transport import Answer, BadRequest, Forbidden, NotFound, RequestSender
from retrieval.errors import Fatal, Retryable
from retrieval.ports import Page, SourceItem
from retrieval.sync_filter import SYNC_EVERYTHING, SyncFilter, SyncItem

# Interval of listings that read the blocks of all pages.
FULL_LISTING_SECONDS = 7 * 86400
TUPLE_FIELDS = ("databases", "sources", "look", "hidden", "kept", "inner")


@dataclass(frozen=True, slots=True)
class NotionCursor:
    """Position of a listing, stored as JSON.

    `at`: Notion's own cursor. `since`: lower bound of the rows' creation time, past Notion's limit of rows. `last`:
    creation time of the last row. `cut`: Notion reported an incomplete result. `look`: pages with unread blocks.
    `hidden`: pages named only by blocks, unvisited; `kept`: the existing ones. `inner`: databases named only by
    blocks. `newest`: latest change at the start of this listing; `looked`: at the start of the previous one, None to
    read all blocks. `full`: time of the last listing of all blocks, in seconds since 1970.
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
    def parse(cls, cursor: str | None) -> NotionCursor:
        """Parse a cursor; an invalid one restarts the listing."""
        try:
            fields = json.loads(cursor or "{}")
            return cls(**{**fields, **{name: tuple(fields.get(name, ())) for name in TUPLE_FIELDS}})
        except (ValueError, TypeError, AttributeError):
            return cls()

    def __str__(self) -> str:
        return json.dumps({name: value for name, value in asdict(self).items() if value})

    @property
    def is_end(self) -> bool:
        return self.step == "rows" and not (self.databases or self.sources or self.look or self.hidden)

    def start(self, now: datetime, page_ids: tuple[str, ...] = ()) -> NotionCursor:
        """Return the start of a listing if this is one; `page_ids` are always requested."""
        # The first listing and one a week read the blocks of all pages.
        if self != NotionCursor(kept=self.kept, inner=self.inner, newest=self.newest, full=self.full):
            return self
        seconds = int(now.timestamp())
        is_due = self.newest is None or seconds - self.full > FULL_LISTING_SECONDS
        return NotionCursor(
            hidden=tuple(dict.fromkeys([*self.kept, *page_ids])),
            databases=tuple(dict.fromkeys([*self.inner, *page_ids])),
            inner=self.inner,
            looked=None if is_due else self.newest,
            full=seconds if is_due else self.full,
        )

    def end(self) -> NotionCursor:
        """Return the start of the next listing."""
        return NotionCursor(kept=self.kept, inner=self.inner, newest=self.newest, full=self.full)

    def is_within(self, other: NotionCursor) -> bool:
        """Return True in the same search, or among the same rows."""
        return replace(self, at=None, last=None) == replace(other, at=None, last=None)


logger = structlog.get_logger()

RESULTS_PER_REQUEST = 100
# Requests without an item before the cursor is saved.
REQUESTS_PER_SAVE = 20
MAX_HIDDEN_PAGES = 10_000
# Limits of the pages and databases in the cursor that only blocks name.
MAX_INNER_DATABASES = 1000
SEARCH_LAG = timedelta(minutes=10)
SKIPPED_NESTED_PAGE = "page in other pages beyond those that are remembered"
SKIPPED_LARGE_PAGE = "page with more blocks than are looked into for files and pages"
_ID_PATTERN = re.compile("[0-9a-fA-F-]{32,36}")
# Requests without an item within a search or the rows of a source: Notion returns at most 10,000 results.
MAX_IDLE_REQUESTS = 500


@dataclass(slots=True)
class NotionListing:
    """One walk through the workspace of a connection."""

    send: RequestSender
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    unchanged: set[str] = field(default_factory=set)
    choice: SyncFilter = SYNC_EVERYTHING
    paths: Paths = field(default_factory=Paths)
    _listed_ids: set[str] = field(default_factory=set)
    _opened_ids: set[str] = field(default_factory=set)
    _seen_positions: set[int] = field(default_factory=set)
    _restarted: bool = False
    _skipped: Counter[str] = field(default_factory=Counter)

    def pages(self, cursor: NotionCursor) -> Iterator[Page[SourceItem]]:
        """Yield pages of items from the cursor to the end of the workspace; the last one is `whole`."""
        # Most databases hold only pages from the search: they get no page of their own.
        chosen_pages = tuple(
            page
            for entry in self.choice.include
            if _ID_PATTERN.fullmatch(page := entry.get("id", "").partition("/")[0])
        )
        idle, cursor = 0, cursor.start(self.now, chosen_pages)
        for number in count(1):
            if hash(cursor) in self._seen_positions:  # places name all databases that are left, and take memory
                raise Retryable("Notion's listing repeats a page and would never end.")
            self._seen_positions.add(hash(cursor))
            previous, (items, cursor) = cursor, self._step(cursor)
            idle = idle + 1 if not items and cursor.is_within(previous) else 0
            if idle > MAX_IDLE_REQUESTS:
                raise Retryable("Notion's listing repeats the same pages and has no end.")
            is_end = cursor.is_end
            if items or is_end or number % REQUESTS_PER_SAVE == 0:
                skipped, self._skipped = self._skipped, Counter()
                yield Page(items, str(cursor.end() if is_end else cursor), done=is_end, skipped=skipped, whole=is_end)
            if is_end:
                return

    def _step(self, cursor: NotionCursor) -> tuple[list[SourceItem], NotionCursor]:
        try:
            if cursor.look:
                return self._read_contents(cursor)
            if cursor.step != "rows":
                return self._search(cursor)
            if cursor.sources or cursor.databases:
                return self._read_rows(cursor) if cursor.sources else self._open_database(cursor)
            return self._read_hidden_page(cursor)
        except BadRequest as error:
            if cursor.at is None or self._restarted:
                raise Retryable("Notion refuses to continue the listing.") from error
            logger.info("notion.cursor_not_accepted", step=cursor.step)
            self._restarted = True
            self._seen_positions.clear()
            return [], replace(cursor, at=None)

    def _search(self, cursor: NotionCursor) -> tuple[list[SourceItem], NotionCursor]:
        direction = "descending" if cursor.step == "newest" else "ascending"
        sort = {"timestamp": "last_edited_time", "direction": direction}
        try:
            answer = self.send(
                lambda client, token: client.search(
                    auth=token, page_size=RESULTS_PER_REQUEST, start_cursor=cursor.at, sort=sort
                )
            )
        except Forbidden as error:
            raise Fatal(
                "Notion does not let the integration read: give it the capability to read content, and authorize again."
            ) from error
        results, next_position = _read_results(answer, cursor)
        if cursor.newest is None:
            next_position = replace(next_position, newest=_latest_change(results))
        items, next_position = self._items(results, self._queue_databases(next_position, results))
        if next_position.at is not None:
            return items, next_position
        if next_position.cut and cursor.step == "newest":
            return items, replace(next_position, step="oldest", cut=False)
        if next_position.cut:
            logger.warning("notion.search_cut", pages=len(self._listed_ids))
        return items, replace(next_position, step="rows", cut=False)

    def _open_database(self, cursor: NotionCursor) -> tuple[list[SourceItem], NotionCursor]:
        """Read the sources of the next database; a deleted or unshared one has none."""
        first, further = cursor.databases[0], cursor.databases[1:]
        self._opened_ids.add(first)
        try:
            answer = self.send(lambda client, token: client.databases.retrieve(first, auth=token))
        except (NotFound, BadRequest, Forbidden):
            return [], replace(cursor, databases=further)
        data_sources = () if pages.is_trashed(answer) else answer.get("data_sources") or ()
        sources = tuple(
            str(data_source["id"]) for data_source in data_sources if str(data_source["id"]) not in self._opened_ids
        )
        return [], replace(cursor, databases=further, sources=sources)

    def _read_rows(self, cursor: NotionCursor) -> tuple[list[SourceItem], NotionCursor]:
        """Read rows of the first source."""
        # Past Notion's limit of rows, the next query begins at the creation of the last row.
        source = cursor.sources[0]
        try:
            answer = self._query(source, cursor)
        except (NotFound, Forbidden):
            return [], self._skip_source(cursor)
        except BadRequest:
            if cursor.at is not None:
                raise
            logger.warning("notion.rows_refused", data_source=source)
            return [], self._skip_source(cursor)
        results, next_position = _read_results(answer, cursor)
        next_position = self._queue_databases(
            next_position, [result for result in results if result.get("object") == "data_source"]
        )
        next_position = replace(
            next_position, last=max([cursor.last or "", *(str(result.get("created_time") or "") for result in results)])
        )
        if (
            next_position.at is None
            and next_position.cut
            and next_position.last
            and next_position.last > (cursor.since or "")
        ):
            next_position = replace(next_position, since=next_position.last, cut=False)
        elif next_position.at is None:
            if next_position.cut:
                logger.warning("notion.rows_cut", data_source=source)
            next_position = self._skip_source(next_position)
        return self._items(results, next_position)

    def _read_contents(self, cursor: NotionCursor) -> tuple[list[SourceItem], NotionCursor]:
        """Read files, child pages and child databases of the next changed page."""
        contents = blocks.list_contents(cursor.look[0], self.send, self.now)
        self._skipped[SKIPPED_LARGE_PAGE] += contents.cut
        known_ids = {*cursor.hidden, *cursor.kept, *self._listed_ids}
        hidden = (*cursor.hidden, *(page_id for page_id in contents.pages if page_id not in known_ids))
        inner = (*cursor.inner, *(page_id for page_id in contents.databases if page_id not in cursor.inner))
        self._skipped[SKIPPED_NESTED_PAGE] += max(0, len(hidden) - MAX_HIDDEN_PAGES) + max(
            0, len(inner) - MAX_INNER_DATABASES
        )
        fresh = (
            page_id
            for page_id in contents.databases
            if page_id not in self._opened_ids and page_id not in cursor.databases
        )
        databases = (*cursor.databases, *fresh)
        next_position = replace(
            cursor,
            look=cursor.look[1:],
            hidden=hidden[:MAX_HIDDEN_PAGES],
            inner=inner[:MAX_INNER_DATABASES],
            databases=databases,
        )
        return self._with_paths(cursor.look[0], contents.files), next_position

    def _read_hidden_page(self, cursor: NotionCursor) -> tuple[list[SourceItem], NotionCursor]:
        """Read the next page that only blocks name."""
        first, remaining = cursor.hidden[0], replace(cursor, hidden=cursor.hidden[1:])
        if first in self._listed_ids:
            return [], remaining
        try:
            page = self.send(lambda client, token: client.pages.retrieve(first, auth=token))
        except (NotFound, BadRequest, Forbidden):
            return [], remaining
        if pages.is_trashed(page):
            return [], remaining
        return self._items([page], replace(remaining, kept=(*remaining.kept, first)))

    def _query(self, source: str, cursor: NotionCursor) -> Answer:
        paging: dict[str, Any] = {}
        if cursor.since:
            paging["filter"] = {"timestamp": "created_time", "created_time": {"on_or_after": cursor.since}}
        sorts = [{"timestamp": "created_time", "direction": "ascending"}]
        return self.send(
            lambda client, token: client.data_sources.query(
                source, auth=token, page_size=RESULTS_PER_REQUEST, start_cursor=cursor.at, sorts=sorts, **paging
            )
        )

    def _skip_source(self, cursor: NotionCursor) -> NotionCursor:
        self._opened_ids.add(cursor.sources[0])
        return replace(cursor, at=None, since=None, last=None, cut=False, sources=cursor.sources[1:])

    def _items(self, results: list[Answer], cursor: NotionCursor) -> tuple[list[SourceItem], NotionCursor]:
        """Convert pages to items without repetition, and queue the changed ones."""
        items, look, seen_ids = [], list(cursor.look), set[str]()
        for result in results:
            if result.get("object") == "page" and result["id"] not in self._listed_ids:
                self._listed_ids.add(result["id"])
                seen_ids.add(str(result["id"]))
                page = result if "last_edited_time" in result else self._read_page(str(result["id"]))
                if page is not None and not pages.is_trashed(page):
                    item, deeper = self._to_item(page)
                    items.append(item)
                    is_new = cursor.looked is None or str(page["last_edited_time"]) >= cursor.looked
                    look += [str(page["id"])] if is_new and deeper else []
                    self.unchanged |= set() if is_new else {str(page["id"])}
        hidden = tuple(result for result in cursor.hidden if result not in seen_ids)
        return items, replace(cursor, look=tuple(look), hidden=hidden)

    def _to_item(self, page: Answer) -> tuple[SourceItem, bool]:
        """Return a page as an item, and True if the selection may include contents of the page."""
        item = pages.page_item(page, self.now)
        if not self.choice:
            return item, True
        path, above = self.paths.locate(page, self.send)
        item = replace(item, properties={**item.properties, "path": path}, above=(*above, *id_forms(item.external_id)))
        inside = any(chosen_id.startswith(f"{item.external_id}/") for chosen_id in self.choice.ids)
        return item, inside or self.choice.may_hold(SyncItem(item.external_id, path, above=item.above), ids=False)

    def _with_paths(self, page_id: str, files: list[SourceItem]) -> list[SourceItem]:
        """Add paths to the files of a page."""
        page = self._read_page(page_id) if files and self.choice else None
        if page is None:
            return files
        path, above = self.paths.locate(page, self.send)
        above = (*id_forms(page_id), *above)
        return [
            replace(file, properties={**file.properties, "path": f"{path}/{file.name}"}, above=above) for file in files
        ]

    def _read_page(self, page_id: str) -> Answer | None:
        """Read a page by id; None if it is missing."""
        try:
            return self.send(lambda client, token: client.pages.retrieve(page_id, auth=token))
        except (NotFound, BadRequest):
            return None

    def _queue_databases(self, cursor: NotionCursor, results: list[Answer]) -> NotionCursor:
        """Queue new databases, and sources without a known database."""
        databases, sources = list(cursor.databases), list(cursor.sources)
        for result in results:
            parent = result.get("parent") or {}
            source = result["id"] if result.get("object") == "data_source" else parent.get("data_source_id")
            parent_id, known_parents = (
                (database, databases) if (database := parent.get("database_id")) else (source, sources)
            )
            if parent_id and parent_id not in self._opened_ids and parent_id not in known_parents:
                known_parents.append(str(parent_id))
        return replace(cursor, databases=tuple(databases), sources=tuple(sources))


def _latest_change(results: list[Answer]) -> str | None:
    """Return the latest change of the results, minus the lag of Notion's search."""
    times = [result["last_edited_time"] for result in results if isinstance(result.get("last_edited_time"), str)]
    try:
        latest = datetime.fromisoformat(max(times)).astimezone(UTC) - SEARCH_LAG
    except ValueError:
        return None
    return latest.strftime("%Y-%m-%dT%H:%M:00.000Z")


def _read_results(answer: Answer, cursor: NotionCursor) -> tuple[list[Answer], NotionCursor]:
    """Return results and the next position. Retryable for an incomplete answer."""
    results, has_more, at = answer.get("results"), answer.get("has_more"), answer.get("next_cursor")
    if not isinstance(results, list) or not isinstance(has_more, bool) or (has_more and not at):
        raise Retryable("Notion's listing breaks off before its end.")
    valid_results = [result for result in results if isinstance(result, dict) and result.get("id")]
    is_cut = cursor.cut or (answer.get("request_status") or {}).get("type") == "incomplete"
    return list(valid_results), replace(cursor, at=str(at) if has_more else None, cut=is_cut)
