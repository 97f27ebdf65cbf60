"""Rows as documents: listed whole by each run in the order of their key, with their text."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote

import msgspec

from connectors.http import responses
from connectors.http.no_authorizer import NoAuthorizer
from connectors.http.retries import ServicePolicy
from connectors.sources.sql.database import Database
from connectors.sources.sql.query import PORTS, Query, Row, parse_query
from retrieval.errors import Fatal, ItemMissing
from retrieval.network import fetch_guard
from retrieval.ports import FolderEntry, FolderPage, Page, RawContent, SourceItem, Tokens, TokenSource

if TYPE_CHECKING:
    from retrieval.ports import Authorizer
    from retrieval.settings import Settings

POLICY: Final = ServicePolicy("Database", per_minute=6000, burst=100)
ResultT = TypeVar("ResultT")


def make(_app: Mapping[str, Any], settings: Settings) -> Sql:
    """Return the connector of all connections."""
    return Sql(settings)


def read_config(config: Mapping[str, Any], settings: Settings) -> Tokens:
    """Check and return the `config` of a connection. ValueError with the field and the problem."""
    query = parse_query(config)
    guard = fetch_guard.make_guard(settings, frozenset(PORTS.values()))
    try:
        guard.resolve(query.host, query.port)
    except Fatal as error:
        raise ValueError("url", f"cannot be used: {error}".rstrip(".")) from error
    except OSError:
        pass
    return Tokens(json.dumps(dict(config)), account=query.root.rstrip("/"))


@dataclass(frozen=True, slots=True)
class Sql:
    """A `Connector`."""

    settings: Settings
    authorizer: Authorizer = field(default_factory=NoAuthorizer)
    # By the connection's token: databases keep their connections between calls.
    opened: dict[str, tuple[Query, Database]] = field(default_factory=dict, repr=False)

    def iter_changes(self, tokens: TokenSource, cursor: str | None) -> Iterator[Page[SourceItem]]:
        """List all rows; the cursor is the last key."""
        query, database = self._open(tokens)
        last_key = _read_position(query, cursor)
        with tempfile.TemporaryDirectory(prefix="rows-") as folder:
            while True:
                rows, last_key = _ask(tokens, lambda last_key=last_key: database.list_rows(last_key))  # type: ignore[misc]
                items = [self._deliver(row, Path(folder) / str(number)) for number, row in enumerate(rows)]
                done = last_key is None
                position = json.dumps({"of": query.digest, "after": last_key})
                yield Page(items, position, done=done, whole=done)
                for item in items:
                    if item.content:
                        item.content.path.unlink(missing_ok=True)
                if done:
                    return

    def browse(self, tokens: TokenSource, parent: str | None, cursor: str | None) -> FolderPage:
        """List rows by page; a query has no folders."""
        _, database = self._open(tokens)
        rows, following = ([], None) if parent else _ask(tokens, lambda: database.list_rows(cursor or None))
        return FolderPage([_entry(row.make_item()) for row in rows], following)

    def fetch(self, tokens: TokenSource, item: SourceItem, to: Path) -> RawContent | None:
        row = self._find(tokens, item.external_id)
        if row is None:
            raise ItemMissing("The query no longer returns this row.")
        raw = row.write(to)
        if raw.size > self.settings.max_file_bytes:
            raise responses.too_large(self.settings.max_file_bytes, "The row")
        return raw

    def is_deleted(self, tokens: TokenSource, external_id: str) -> bool:
        return self._find(tokens, external_id) is None

    def _find(self, tokens: TokenSource, external_id: str) -> Row | None:
        query, database = self._open(tokens)
        if not external_id.startswith(query.root):
            return None
        key = unquote(external_id.removeprefix(query.root))
        return _ask(tokens, lambda: database.find_row(key))

    def _deliver(self, row: Row, to: Path) -> SourceItem:
        """Return the item of a row with its text."""
        raw, item = row.write(to), row.make_item()
        if raw.size > self.settings.max_file_bytes:
            to.unlink()
            return replace(item, error=str(responses.too_large(self.settings.max_file_bytes, "The row")))
        return replace(item, content=raw)

    def _open(self, tokens: TokenSource) -> tuple[Query, Database]:
        token = tokens.token()
        if token not in self.opened:
            try:
                query = parse_query(json.loads(token))
            except ValueError as error:
                name, reason = error.args if len(error.args) == 2 else ("config", "cannot be read")
                raise Fatal(f"The connection's {name} {reason}.") from None
            self.opened[token] = query, Database(query, self.settings)
        return self.opened[token]


def _ask(tokens: TokenSource, request: Callable[[], ResultT]) -> ResultT:
    """Repeat requests after transient errors."""
    return POLICY.call(tokens, lambda _token: request())


def _read_position(query: Query, cursor: str | None) -> str | None:
    """Return the cursor's last key; None for the start, also of a cursor of another query."""
    try:
        position = msgspec.json.decode(cursor or "{}", type=dict[str, str | None])
    except msgspec.DecodeError:
        return None
    return position.get("after") if position.get("of") == query.digest else None


def _entry(item: SourceItem) -> FolderEntry:
    path, modified = str(item.properties["path"]), item.properties.get("modifiedAt")
    modified_at = str(modified) if modified else None
    return FolderEntry(item.external_id, item.name, False, path, item.media_type, modified_at=modified_at)  # noqa: FBT003
