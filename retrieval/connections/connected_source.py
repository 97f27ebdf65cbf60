"""Source over a connection: unfinished items of earlier runs, changed items and removed items.

unfinished ──▶ changes of the service, page by page ──▶ departures ──▶ the connection's cursor moves
(failed or         (each page's cursor is saved            (removed, or missing
 cancelled          with its items)                     from a whole listing)
"""

# The connection's cursor moves with the last page only: the next run repeats an incomplete listing and recognizes
# ingested items by their version.

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, Literal

from retrieval.connections import queries_access, queries_sync, sanitize
from retrieval.connections.endpoint_check import MAX_KNOWN_ITEMS, require_endpoint
from retrieval.connections.queries_sync import UnfinishedItem
from retrieval.connections.tokens import ConnectionTokens
from retrieval.database.database import Database
from retrieval.database.rows import Executor
from retrieval.errors import Fatal, ItemMissing, Retryable, Skippable
from retrieval.job_config import FULL_LISTING
from retrieval.ports import (
    Connector,
    DiscoveryRequest,
    Page,
    PermissionConnector,
    RawContent,
    SourceAccess,
    SourceItem,
    TokenSource,
)
from retrieval.ports.sources import SelectiveConnector, SharedWorkspaceConnector
from retrieval.security.secrets import KeyRing
from retrieval.sync_filter import SyncFilter, SyncItem

# Concurrent existence checks of items.
CHECK_THREADS = 4
# Between two saves and checks for cancellation.
CHECKS_PER_PAGE = 100
# More consecutive pages without news are an endless listing.
MAX_IDLE_PAGES = 1000
UNREAD_PERMISSIONS_REASON: Final = "The permissions of this service are not read yet."
# Counted in each listing, not a loss.
NOT_SELECTED_REASON = "not chosen by include and exclude"


@dataclass(frozen=True, slots=True)
class SourceCursor:
    """Progress of a run's listing, with the service's cursor and the last listed items."""

    step: Literal["unfinished", "listing", "departures"]
    at: str | None
    whole: bool = False
    # Regular expression of the external ids that were listed in full, where not all were.
    whole_pattern: str = ""
    # The connection has another account, so a person must confirm removals.
    moved: bool = False
    known_ids: Sequence[str] = ()

    @classmethod
    def of(cls, cursor: str) -> SourceCursor:
        return cls(**json.loads(cursor))

    def __str__(self) -> str:
        return json.dumps(asdict(self))

    def is_listed_whole(self, external_id: str) -> bool:
        """Tell if an item that was not listed is missing."""
        return self.whole or bool(self.whole_pattern and re.fullmatch(self.whole_pattern, external_id))

    def add_known(self, items: Iterable[SourceItem], removed: Collection[str]) -> Sequence[str]:
        """Return the last MAX_KNOWN_ITEMS listed items, including the next page."""
        ids = [*self.known_ids, *(item.external_id for item in items if not item.error)]
        return [known_id for known_id in dict.fromkeys(ids) if known_id not in removed][-MAX_KNOWN_ITEMS:]


class ConnectedSource:
    """`Source` over a connector, for the connection of the job run."""

    def __init__(self, db: Database, ring: KeyRing, connector: Connector) -> None:
        self._db = db
        self._ring = ring
        self._connector = connector

    def discover(self, request: DiscoveryRequest, cursor: str | None) -> Iterator[Page[SourceItem]]:
        """List the items page by page. Fatal with a reason for an unusable connection."""
        tokens = self._tokens(request)
        tokens.token()
        if self._choice(request) and isinstance(self._connector, SelectiveConnector):
            self._connector = self._connector.with_choice(self._choice(request))
        if not cursor:
            queries_sync.delete_stale_departures(self._db, request)
        position = SourceCursor.of(cursor) if cursor else self._begin(request)
        if position.step == "unfinished":
            yield from self._unfinished(request, position)
            position = replace(position, step="listing")
        if position.step == "listing":
            for page in self._listing(tokens, request, position):
                yield page
                position = SourceCursor.of(page.cursor)
        if position.step != "departures":
            return
        yield from self._departures(tokens, request, position)

    def preview(self, request: DiscoveryRequest) -> Iterator[Page[SourceItem]]:
        """List the changes and removals of the next listing; the `done` page lists missing items."""
        tokens, choice = self._tokens(request), self._choice(request)
        tokens.token()
        if choice and isinstance(self._connector, SelectiveConnector):
            self._connector = self._connector.with_choice(choice)
        position, loops, seen_ids = self._begin(request), _LoopDetector(), set[str]()
        last = SourceCursor("listing", None)
        known_ids: Sequence[str] = ()
        if position.step == "unfinished":
            rows = queries_sync.list_unfinished(self._db, request)
            yield Page([_unfinished_item(row) for row in rows], "", done=False)
        for page in self._connector.iter_changes(tokens, position.at):
            loops.check_page(page)
            items = list({item.external_id: item for item in page.items}.values())
            seen_ids.update(item.external_id for item in items)
            last = SourceCursor("departures", None, whole=page.whole, whole_pattern=page.whole_pattern)
            left_ids = {item.external_id for item in items if not _is_included(choice, item)}
            known_ids = SourceCursor("listing", None, known_ids=known_ids).add_known(
                (item for item in items if item.external_id not in left_ids), left_ids
            )
            removed_items = [
                SourceItem(listed_item.external_id, listed_item.name, deleted=True)
                for listed_item in items
                if not _is_included(choice, listed_item)
            ]
            yield Page(
                [
                    *removed_items,
                    *(sanitize.sanitize_item(item) for item in items if _is_included(choice, item)),
                ],
                "",
                done=False,
            )
        missing = [
            listed_item
            for listed_item in queries_sync.list_present_ids(self._db, request)
            if listed_item not in seen_ids and last.is_listed_whole(listed_item)
        ]
        with ThreadPoolExecutor(CHECK_THREADS, thread_name_prefix="gone") as pool:
            are_gone = pool.map(lambda one: self._connector.is_deleted(tokens, one), missing)
            lost = [listed_item for listed_item, is_gone in zip(missing, are_gone, strict=True) if is_gone]
        if lost:
            require_endpoint(known_ids, lambda known_id: self._connector.is_deleted(tokens, known_id))
        yield Page([SourceItem(listed_item, listed_item, deleted=True) for listed_item in lost], "", done=True)

    def leaving(self, request: DiscoveryRequest, departed: Sequence[str]) -> tuple[int, int]:
        """Count the documents to remove and to hold for confirmation."""
        moved = queries_sync.read_state(self._db, _connection_id(request)).moved
        return queries_sync.count_leaving(self._db, request, departed, moved=moved)

    def fetch(self, item: SourceItem, request: DiscoveryRequest, to: Path) -> RawContent | None:
        tokens = self._tokens(request)
        try:
            raw = self._connector.fetch(tokens, item, to)
        except ItemMissing:
            self._require_endpoint(request, item, lambda other_id: self._connector.is_deleted(tokens, other_id))
            raise
        if raw is None:
            return None
        if queries_sync.read_state(self._db, tokens.connection_id).shares:
            access = read_access(self._connector, tokens, item.external_id)
            if access.missing:
                self._require_endpoint(
                    request, item, lambda other_id: read_access(self._connector, tokens, other_id).missing
                )
            queries_access.limit_fetched(self._db, request, item.external_id, access)
        return sanitize.sanitize_content(raw, item.name)

    def _require_endpoint(self, request: DiscoveryRequest, item: SourceItem, is_missing: Callable[[str], bool]) -> None:
        """Raise Fatal if other documents of the connection are missing as well as the fetched item."""
        known_ids = queries_sync.list_ingested(self._db, request, excluded_id=item.external_id, limit=MAX_KNOWN_ITEMS)
        require_endpoint(known_ids, is_missing)

    def _begin(self, request: DiscoveryRequest) -> SourceCursor:
        """Return the start of the listing; another selection lists everything."""
        state = queries_sync.read_state(self._db, _connection_id(request))
        if request.config.get("pick"):
            return SourceCursor("listing", None, moved=state.moved)
        if state.chosen != self._choice(request).mark:
            return SourceCursor("listing", None, moved=state.moved)
        # No feed reliably reports changes of sharing.
        needs_all = state.shares and not isinstance(self._connector, SharedWorkspaceConnector)
        at = None if needs_all or request.config.get(FULL_LISTING) else state.cursor
        return SourceCursor("unfinished", at, moved=state.moved)

    def _choice(self, request: DiscoveryRequest) -> SyncFilter:
        return SyncFilter.of(request.config)

    def _unfinished(self, request: DiscoveryRequest, position: SourceCursor) -> Iterator[Page[SourceItem]]:
        """List items that earlier runs did not finish."""
        while rows := queries_sync.list_unfinished(self._db, request):
            items = [_unfinished_item(row) for row in rows]
            note = partial(
                queries_sync.record_page, request=request, listed=[item.external_id for item in items], departed=[]
            )
            yield Page(items, str(position), done=False, save=note)

    def _listing(
        self, tokens: ConnectionTokens, request: DiscoveryRequest, position: SourceCursor
    ) -> Iterator[Page[SourceItem]]:
        loops, choice, picks = _LoopDetector(), self._choice(request), bool(request.config.get("pick"))
        has_shares = queries_sync.read_state(self._db, _connection_id(request)).shares
        for page in self._connector.iter_changes(tokens, position.at):
            loops.check_page(page)
            last_items = {
                item.external_id: item for item in page.items
            }.values()  # of one named twice the last word counts
            chosen = [item for item in last_items if not item.deleted and _is_selected(choice, item)]
            chosen_items = [sanitize.sanitize_item(item) for item in chosen]
            removed_ids = [item.external_id for item in last_items if item.deleted or not _is_selected(choice, item)]
            left_ids = [] if picks else removed_ids
            step: Literal["listing", "departures"] = "departures" if page.done else "listing"
            is_whole, known_ids = page.whole and not picks, position.add_known(chosen_items, removed_ids)
            next_cursor = SourceCursor(
                step,
                page.cursor,
                whole=is_whole,
                whole_pattern="" if picks else page.whole_pattern,
                moved=position.moved,
                known_ids=known_ids,
            )
            listed_ids = [item.external_id for item in chosen_items]
            fetchable_ids = [item.external_id for item in chosen_items if not item.error]
            note = partial(
                queries_sync.record_page, request=request, listed=listed_ids, departed=left_ids, fetchable=fetchable_ids
            )
            if has_shares:
                accesses = self._accesses(tokens, listed_ids, known_ids=[*listed_ids, *position.known_ids])
                versions = self._certain(
                    tokens, request, accesses, {item.external_id: item.version for item in chosen_items}
                )
                note = partial(_record_shared_page, note, request, accesses, versions)
            skipped = Counter(page.skipped)
            skipped[NOT_SELECTED_REASON] += sum(not item.deleted for item in last_items) - len(chosen_items)
            yield replace(page, items=chosen_items, cursor=str(next_cursor), done=False, skipped=+skipped, save=note)
            position = next_cursor

    def _accesses(
        self, tokens: ConnectionTokens, external_ids: Sequence[str], *, known_ids: Sequence[str]
    ) -> dict[str, SourceAccess]:
        """Read access lists by external id. Fatal if the service reports all items and known ones as missing."""
        with ThreadPoolExecutor(CHECK_THREADS, thread_name_prefix="shares") as pool:
            results = pool.map(partial(read_access, self._connector, tokens), external_ids)
            accesses = dict(zip(external_ids, results, strict=True))
        if accesses and all(access.missing for access in accesses.values()):
            other_ids = [known_id for known_id in known_ids if known_id != external_ids[0]]
            require_endpoint(
                other_ids,
                lambda other_id: (accesses.get(other_id) or read_access(self._connector, tokens, other_id)).missing,
            )
        return accesses

    def _certain(
        self,
        tokens: ConnectionTokens,
        request: DiscoveryRequest,
        accesses: Mapping[str, SourceAccess],
        versions: Mapping[str, str],
    ) -> Mapping[str, str]:
        """Return the listed versions still current after their permissions were read."""
        # A change in between may be the reason for sharing.
        other_accesses = queries_access.list_uncertain(self._db, request, accesses, versions)
        with ThreadPoolExecutor(CHECK_THREADS, thread_name_prefix="versions") as pool:
            current_versions = dict(
                zip(
                    other_accesses,
                    pool.map(partial(_read_version, self._connector, tokens), other_accesses),
                    strict=True,
                )
            )
        return {
            external_id: version
            for external_id, version in versions.items()
            if current_versions.get(external_id, version) == version
        }

    def _departures(
        self, tokens: ConnectionTokens, request: DiscoveryRequest, position: SourceCursor
    ) -> Iterator[Page[SourceItem]]:
        """Check unlisted items at the service; the last page removes or holds documents."""
        # A pick-only run removes nothing and leaves the cursor.
        if request.config.get("pick"):
            yield Page([], str(position), done=True)
            return
        has_shares = queries_sync.read_state(self._db, _connection_id(request)).shares
        can_miss = position.whole or bool(position.whole_pattern)
        missing = queries_sync.list_missing(self._db, request) if can_miss or has_shares else []
        if not has_shares:
            missing = [external_id for external_id in missing if position.is_listed_whole(external_id)]
        is_checked = False
        with ThreadPoolExecutor(CHECK_THREADS, thread_name_prefix="gone") as pool:
            for start in range(0, len(missing), CHECKS_PER_PAGE):
                part = missing[start : start + CHECKS_PER_PAGE]
                asked_ids = [external_id for external_id in part if position.is_listed_whole(external_id)]
                are_gone = pool.map(lambda one: self._connector.is_deleted(tokens, one), asked_ids)
                departed_ids = [
                    external_id for external_id, is_gone in zip(asked_ids, are_gone, strict=True) if is_gone
                ]
                if departed_ids and not is_checked:
                    require_endpoint(position.known_ids, lambda known_id: self._connector.is_deleted(tokens, known_id))
                    is_checked = True
                noted = partial(queries_sync.record_page, request=request, listed=[], departed=departed_ids)
                stays = [external_id for external_id in part if external_id not in departed_ids]
                if has_shares:
                    accesses = self._accesses(tokens, stays, known_ids=position.known_ids)
                    versions = queries_access.read_visible_versions(self._db, request, stays)
                    current_versions = self._certain(tokens, request, accesses, versions)
                    noted = partial(_record_shared_page, noted, request, accesses, current_versions)
                yield Page([], str(position), done=False, save=noted)
        chosen = self._choice(request).mark
        end = partial(
            queries_sync.finish_listing, request=request, cursor=position.at, chosen=chosen, moved=position.moved
        )
        yield Page([], str(position), done=True, save=partial(_finish_listing, end, request))

    def _tokens(self, request: DiscoveryRequest) -> ConnectionTokens:
        return ConnectionTokens(self._db, self._ring, _connection_id(request), self._connector.authorizer)


class _LoopDetector:
    """Detector of listings that repeat themselves."""

    def __init__(self) -> None:
        self._known_hashes: set[int] = set()
        self._idle = 0

    def check_page(self, page: Page[SourceItem]) -> None:
        """Raise Retryable after too many pages with known items."""
        # Pages without items are the connector's concern.
        fresh = {hash((item.external_id, item.version, item.deleted)) for item in page.items} - self._known_hashes
        self._known_hashes |= fresh
        self._idle = 0 if fresh else self._idle + bool(page.items)
        if self._idle > MAX_IDLE_PAGES:
            raise Retryable("The service's listing repeats the same items and comes to no end.")


def _is_included(choice: SyncFilter, item: SourceItem) -> bool:
    return not item.deleted and _is_selected(choice, item)


def _is_selected(choice: SyncFilter, item: SourceItem) -> bool:
    path = str(item.properties.get("path") or item.name)
    return not choice or choice.takes(SyncItem(item.external_id, path, item.media_type, item.above))


def _record_shared_page(
    record: Callable[[Executor], None],
    request: DiscoveryRequest,
    accesses: Mapping[str, SourceAccess],
    versions: Mapping[str, str],
    connection: Executor,
) -> None:
    """Record a page's items and their access lists in one transaction."""
    record(connection)
    queries_access.apply_access(connection, request, accesses, versions)


def _finish_listing(finish: Callable[[Executor], None], request: DiscoveryRequest, connection: Executor) -> None:
    """Record the last page: remove documents, hide held ones."""
    finish(connection)
    queries_access.hide_departed(connection, _connection_id(request))


def _connection_id(request: DiscoveryRequest) -> str:
    if request.connection_id is None:
        raise Fatal("The job run names no connection: ingest again with a connectionId.")
    return request.connection_id


def read_access(connector: Connector, tokens: TokenSource, external_id: str) -> SourceAccess:
    """Read an item's access list at its service; unreadable permissions become `unknown`."""
    if not isinstance(connector, PermissionConnector):
        return SourceAccess(unknown=UNREAD_PERMISSIONS_REASON)
    try:
        return connector.access(tokens, external_id)
    except Skippable as error:
        return SourceAccess(unknown=str(error), missing=isinstance(error, ItemMissing))


def _read_version(connector: Connector, tokens: TokenSource, external_id: str) -> str:
    """Read the current version of an item at the service, or ""."""
    return connector.version(tokens, external_id) if isinstance(connector, PermissionConnector) else ""


def _unfinished_item(row: UnfinishedItem) -> SourceItem:
    return SourceItem(row.external_id, row.name, row.media_type, row.version, properties=row.properties)
