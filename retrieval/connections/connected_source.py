"""Source of the items of a connection.

unfinished ──▶ listing ──▶ departures ──▶ the connection's cursor is saved unfinished: items of earlier runs, failed or
cancelled listing: changes at the service, page by page; the cursor of each page is saved in the run departures: items
that were removed, or are missing from a whole listing
"""

# The connection's cursor is saved with the last page only: after an incomplete listing, the next run lists everything
# again, and does not fetch items with a known version.

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
from retrieval.connections.queries_sync import RemovalCounts, UnfinishedItem
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

# Concurrent requests about single items.
CHECK_THREADS = 4
# Items checked for removal before a page is saved, and the run can be cancelled.
CHECKS_PER_PAGE = 100
# Consecutive pages with known items only, after which the listing counts as endless.
MAX_REPEATED_PAGES = 1000
UNREAD_PERMISSIONS_REASON: Final = "The permissions of this service are not read yet."
# Reason of skipped entries in the run's progress.
NOT_SELECTED_REASON = "not chosen by include and exclude"


@dataclass(frozen=True, slots=True)
class SourceCursor:
    """Progress of a run's listing; stored as JSON in the run."""

    step: Literal["unfinished", "listing", "departures"]
    # Cursor of the service; None for its first page.
    at: str | None
    # Whether the service listed all items.
    whole: bool = False
    # Otherwise a regular expression of the external ids of which it listed all.
    whole_pattern: str = ""
    # Stored name of `account_changed`: the connection has another account, so a person must confirm removals.
    moved: bool = False
    # External ids of the last listed items, to check that the service still answers for them.
    known_ids: Sequence[str] = ()

    @classmethod
    def load(cls, cursor: str) -> SourceCursor:
        return cls(**json.loads(cursor))

    def __str__(self) -> str:
        return json.dumps(asdict(self))

    def must_list(self, external_id: str) -> bool:
        """Check if the listing covers this external id."""
        return self.whole or bool(self.whole_pattern and re.fullmatch(self.whole_pattern, external_id))


def _keep_last_ids(ids: Iterable[str], removed_ids: Collection[str]) -> list[str]:
    """Return the last `MAX_KNOWN_ITEMS` distinct ids without removed ones."""
    return [known_id for known_id in dict.fromkeys(ids) if known_id not in removed_ids][-MAX_KNOWN_ITEMS:]


def _listed_ids(items: Iterable[SourceItem]) -> list[str]:
    return [item.external_id for item in items if not item.error]


class ConnectedSource:
    """`Source` over a connector, for the connection of the job run."""

    def __init__(self, db: Database, ring: KeyRing, connector: Connector) -> None:
        self._db = db
        self._ring = ring
        self._connector = connector

    def discover(self, request: DiscoveryRequest, cursor: str | None) -> Iterator[Page[SourceItem]]:
        """List the items page by page. Fatal with a reason for an unusable connection."""
        tokens = self._open_tokens(request)
        self._apply_selection(request)
        if not cursor:
            queries_sync.delete_stale_departures(self._db, request)
        position = SourceCursor.load(cursor) if cursor else self._begin(request)
        if position.step == "unfinished":
            yield from self._list_unfinished(request, position)
            position = replace(position, step="listing")
        if position.step == "listing":
            for page in self._list_changes(tokens, request, position):
                yield page
                position = SourceCursor.load(page.cursor)
        if position.step == "departures":
            yield from self._list_departures(tokens, request, position)

    def preview(self, request: DiscoveryRequest) -> Iterator[Page[SourceItem]]:
        """List the changes of the next listing without saving anything; the `done` page has the missing items."""
        tokens, selection = self._open_tokens(request), SyncFilter.of(request.config)
        self._apply_selection(request)
        position, loops, seen_ids = self._begin(request), _LoopDetector(), set[str]()
        end_position = SourceCursor("departures", None)
        known_ids: list[str] = []
        if position.step == "unfinished":
            rows = queries_sync.list_unfinished(self._db, request)
            yield Page([_unfinished_item(row) for row in rows], "", done=False)
        for page in self._connector.iter_changes(tokens, position.at):
            loops.check_page(page)
            items = _last_entries(page.items)
            seen_ids.update(item.external_id for item in items)
            end_position = replace(end_position, whole=page.whole, whole_pattern=page.whole_pattern)
            included = [item for item in items if _is_included(selection, item)]
            removed = [
                SourceItem(item.external_id, item.name, deleted=True)
                for item in items
                if not _is_included(selection, item)
            ]
            removed_ids = {item.external_id for item in removed}
            known_ids = _keep_last_ids([*known_ids, *_listed_ids(included)], removed_ids)
            yield Page([*removed, *(sanitize.sanitize_item(item) for item in included)], "", done=False)
        missing_ids = [
            external_id
            for external_id in queries_sync.list_present_ids(self._db, request)
            if external_id not in seen_ids and end_position.must_list(external_id)
        ]
        deleted_ids = self._find_deleted(tokens, missing_ids)
        if deleted_ids:
            require_endpoint(known_ids, lambda known_id: self._connector.is_deleted(tokens, known_id))
        yield Page([SourceItem(deleted_id, deleted_id, deleted=True) for deleted_id in deleted_ids], "", done=True)

    def count_removals(self, request: DiscoveryRequest, departed_ids: Sequence[str]) -> RemovalCounts:
        """Count the documents to be removed or held by the next listing."""
        account_changed = queries_sync.read_state(self._db, _connection_id(request)).account_changed
        return queries_sync.count_removals(self._db, request, departed_ids, account_changed=account_changed)

    def fetch(self, item: SourceItem, request: DiscoveryRequest, to: Path) -> RawContent | None:
        """Fetch an item and update the access list; None without changed content."""
        tokens = ConnectionTokens(self._db, self._ring, _connection_id(request), self._connector.authorizer)
        try:
            raw = self._connector.fetch(tokens, item, to)
        except ItemMissing:
            self._require_endpoint(request, item, lambda other_id: self._connector.is_deleted(tokens, other_id))
            raise
        if raw is None:
            return None
        if queries_sync.read_state(self._db, tokens.connection_id).has_access_lists:
            access = read_access(self._connector, tokens, item.external_id)
            if access.missing:
                self._require_endpoint(
                    request, item, lambda other_id: read_access(self._connector, tokens, other_id).missing
                )
            queries_access.limit_fetched(self._db, request, item.external_id, access)
        return sanitize.sanitize_content(raw, item.name)

    def _require_endpoint(self, request: DiscoveryRequest, item: SourceItem, is_missing: Callable[[str], bool]) -> None:
        """Raise Fatal if other documents of the connection are missing too, not only the fetched item."""
        known_ids = queries_sync.list_ingested(self._db, request, excluded_id=item.external_id, limit=MAX_KNOWN_ITEMS)
        require_endpoint(known_ids, is_missing)

    def _begin(self, request: DiscoveryRequest) -> SourceCursor:
        """Return the start of the listing."""
        state = queries_sync.read_state(self._db, _connection_id(request))
        is_new_selection = state.chosen != SyncFilter.of(request.config).mark
        if is_new_selection or _is_for_selection(request):
            return SourceCursor("listing", None, moved=state.account_changed)
        # Lists of changes do not reliably contain changes of permissions.
        lists_all_for_access = state.has_access_lists and not isinstance(self._connector, SharedWorkspaceConnector)
        lists_all = lists_all_for_access or bool(request.config.get(FULL_LISTING))
        return SourceCursor("unfinished", None if lists_all else state.cursor, moved=state.account_changed)

    def _list_unfinished(self, request: DiscoveryRequest, position: SourceCursor) -> Iterator[Page[SourceItem]]:
        """List items left unfinished by earlier runs."""
        while rows := queries_sync.list_unfinished(self._db, request):
            items = [_unfinished_item(row) for row in rows]
            listed_ids = [item.external_id for item in items]
            save_page = partial(queries_sync.record_page, request=request, listed=listed_ids, departed=[])
            yield Page(items, str(position), done=False, save=save_page)

    def _list_changes(
        self, tokens: ConnectionTokens, request: DiscoveryRequest, position: SourceCursor
    ) -> Iterator[Page[SourceItem]]:
        """List selected items changed at the service."""
        loops, selection, removes_none = _LoopDetector(), SyncFilter.of(request.config), _is_for_selection(request)
        has_shares = queries_sync.read_state(self._db, _connection_id(request)).has_access_lists
        for page in self._connector.iter_changes(tokens, position.at):
            loops.check_page(page)
            entries = _last_entries(page.items)
            items = [sanitize.sanitize_item(entry) for entry in entries if _is_included(selection, entry)]
            removed_ids = [entry.external_id for entry in entries if not _is_included(selection, entry)]
            listed_ids, fetchable_ids = [item.external_id for item in items], _listed_ids(items)
            next_position = SourceCursor(
                "departures" if page.done else "listing",
                page.cursor,
                whole=page.whole and not removes_none,
                whole_pattern="" if removes_none else page.whole_pattern,
                moved=position.moved,
                known_ids=_keep_last_ids([*position.known_ids, *fetchable_ids], removed_ids),
            )
            save_page = partial(
                queries_sync.record_page,
                request=request,
                listed=listed_ids,
                departed=[] if removes_none else removed_ids,
                fetchable=fetchable_ids,
            )
            if has_shares:
                accesses = self._read_accesses(tokens, listed_ids, known_ids=[*listed_ids, *position.known_ids])
                listed_versions = {item.external_id: item.version for item in items}
                versions = self._select_current(tokens, request, accesses, listed_versions)
                save_page = partial(_record_page_with_access, save_page, request, accesses, versions)
            skipped = Counter(page.skipped)
            skipped[NOT_SELECTED_REASON] += sum(not entry.deleted for entry in entries) - len(items)
            # `+` drops counts of 0.
            yield replace(page, items=items, cursor=str(next_position), done=False, skipped=+skipped, save=save_page)
            position = next_position

    def _read_accesses(
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

    def _select_current(
        self,
        tokens: ConnectionTokens,
        request: DiscoveryRequest,
        accesses: Mapping[str, SourceAccess],
        versions: Mapping[str, str],
    ) -> Mapping[str, str]:
        """Return the listed versions of items unchanged since the listing."""
        # A person may have changed an item before sharing it: the new access list must not apply to the old version.
        changed_ids = queries_access.list_uncertain(self._db, request, accesses, versions)
        with ThreadPoolExecutor(CHECK_THREADS, thread_name_prefix="versions") as pool:
            results = pool.map(partial(_read_version, self._connector, tokens), changed_ids)
            current_versions = dict(zip(changed_ids, results, strict=True))
        return {
            external_id: version
            for external_id, version in versions.items()
            if current_versions.get(external_id, version) == version
        }

    def _list_departures(
        self, tokens: ConnectionTokens, request: DiscoveryRequest, position: SourceCursor
    ) -> Iterator[Page[SourceItem]]:
        """Check unlisted items at the service, and their access lists; the last page removes or holds documents."""
        if _is_for_selection(request):
            # Without `save`: nothing is removed, and the connection's cursor stays.
            yield Page([], str(position), done=True)
            return
        has_shares = queries_sync.read_state(self._db, _connection_id(request)).has_access_lists
        lists_whole = position.whole or bool(position.whole_pattern)
        unlisted_ids = queries_sync.list_missing(self._db, request) if lists_whole or has_shares else []
        if not has_shares:
            unlisted_ids = [external_id for external_id in unlisted_ids if position.must_list(external_id)]
        is_endpoint_checked = False
        for start in range(0, len(unlisted_ids), CHECKS_PER_PAGE):
            page_ids = unlisted_ids[start : start + CHECKS_PER_PAGE]
            departed_ids = self._find_deleted(tokens, [page_id for page_id in page_ids if position.must_list(page_id)])
            if departed_ids and not is_endpoint_checked:
                require_endpoint(position.known_ids, lambda known_id: self._connector.is_deleted(tokens, known_id))
                is_endpoint_checked = True
            save_page = partial(queries_sync.record_page, request=request, listed=[], departed=departed_ids)
            if has_shares:
                present_ids = [external_id for external_id in page_ids if external_id not in departed_ids]
                accesses = self._read_accesses(tokens, present_ids, known_ids=position.known_ids)
                visible_versions = queries_access.read_visible_versions(self._db, request, present_ids)
                versions = self._select_current(tokens, request, accesses, visible_versions)
                save_page = partial(_record_page_with_access, save_page, request, accesses, versions)
            yield Page([], str(position), done=False, save=save_page)
        yield Page([], str(position), done=True, save=partial(_finish_listing, request, position))

    def _find_deleted(self, tokens: ConnectionTokens, external_ids: Sequence[str]) -> list[str]:
        """Return the items deleted at the service."""
        with ThreadPoolExecutor(CHECK_THREADS, thread_name_prefix="gone") as pool:
            results = pool.map(partial(self._connector.is_deleted, tokens), external_ids)
            return [external_id for external_id, is_deleted in zip(external_ids, results, strict=True) if is_deleted]

    def _open_tokens(self, request: DiscoveryRequest) -> ConnectionTokens:
        """Return the connection's tokens. Fatal for unusable tokens."""
        tokens = ConnectionTokens(self._db, self._ring, _connection_id(request), self._connector.authorizer)
        tokens.token()
        return tokens

    def _apply_selection(self, request: DiscoveryRequest) -> None:
        """Let a `SelectiveConnector` list only selected items."""
        selection = SyncFilter.of(request.config)
        if selection and isinstance(self._connector, SelectiveConnector):
            self._connector = self._connector.with_choice(selection)


class _LoopDetector:
    """Detector of endless listings."""

    def __init__(self) -> None:
        self._known_hashes: set[int] = set()
        self._repeated_pages = 0

    def check_page(self, page: Page[SourceItem]) -> None:
        """Raise Retryable after `MAX_REPEATED_PAGES` consecutive pages without a new item."""
        hashes = {hash((item.external_id, item.version, item.deleted)) for item in page.items}
        if hashes - self._known_hashes:
            self._repeated_pages = 0
        elif page.items:  # connectors detect endless empty pages
            self._repeated_pages += 1
        self._known_hashes |= hashes
        if self._repeated_pages > MAX_REPEATED_PAGES:
            raise Retryable("The service's listing repeats the same items and comes to no end.")


def _is_for_selection(request: DiscoveryRequest) -> bool:
    """Check for a run listing items only for selection by a person."""
    return bool(request.config.get("pick"))


def _last_entries(items: Iterable[SourceItem]) -> list[SourceItem]:
    """Return the last entry of each item of a page."""
    return list({item.external_id: item for item in items}.values())


def _is_included(selection: SyncFilter, item: SourceItem) -> bool:
    """Check for an existing, selected item."""
    if item.deleted:
        return False
    path = str(item.properties.get("path") or item.name)
    return not selection or selection.takes(SyncItem(item.external_id, path, item.media_type, item.above))


def _record_page_with_access(
    record: Callable[[Executor], None],
    request: DiscoveryRequest,
    accesses: Mapping[str, SourceAccess],
    versions: Mapping[str, str],
    connection: Executor,
) -> None:
    """Record a page's items and their access lists in one transaction."""
    record(connection)
    queries_access.apply_access(connection, request, accesses, versions)


def _finish_listing(request: DiscoveryRequest, position: SourceCursor, connection: Executor) -> None:
    """Save the connection's cursor, remove departed documents, and hide documents held for confirmation."""
    mark = SyncFilter.of(request.config).mark
    queries_sync.finish_listing(connection, request, cursor=position.at, chosen=mark, account_changed=position.moved)
    queries_access.hide_departed(connection, _connection_id(request))


def _connection_id(request: DiscoveryRequest) -> str:
    if request.connection_id is None:
        raise Fatal("The job run names no connection: ingest again with a connectionId.")
    return request.connection_id


def read_access(connector: Connector, tokens: TokenSource, external_id: str) -> SourceAccess:
    """Read an item's access list at the service; `unknown` has the reason if unreadable."""
    if not isinstance(connector, PermissionConnector):
        return SourceAccess(unknown=UNREAD_PERMISSIONS_REASON)
    try:
        return connector.access(tokens, external_id)
    except Skippable as error:
        return SourceAccess(unknown=str(error), missing=isinstance(error, ItemMissing))


def _read_version(connector: Connector, tokens: TokenSource, external_id: str) -> str:
    """Read the current version of an item at the service; "" for connectors without permissions."""
    return connector.version(tokens, external_id) if isinstance(connector, PermissionConnector) else ""


def _unfinished_item(row: UnfinishedItem) -> SourceItem:
    return SourceItem(row.external_id, row.name, row.media_type, row.version, properties=row.properties)
