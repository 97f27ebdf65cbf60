"""Browsing of a connection, folder by folder, with the selected entries."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from retrieval.connections import queries, sanitize
from retrieval.connections.connections import Connection
from retrieval.connections.tokens import ConnectionTokens
from retrieval.database.database import Database
from retrieval.errors import ErrorCode, Fatal, Retryable, ServiceError, Skippable
from retrieval.job_config import JobConfig
from retrieval.ports import BrowsableConnector, Connector, FolderEntry
from retrieval.principals import Access
from retrieval.statuses import ConnectionStatus
from retrieval.sync_filter import SyncFilter, SyncItem, media_type


@dataclass(frozen=True, slots=True)
class SelectableEntry:
    """File or folder with its type. `selected`: in the newest request, for a folder including all content."""

    entry: FolderEntry
    media_type: str
    selected: bool


def require_active(connection: Connection) -> None:
    """Raise INVALID_REQUEST for a connection that is not ACTIVE."""
    if connection.status != ConnectionStatus.ACTIVE:
        raise ServiceError(
            ErrorCode.INVALID_REQUEST, "The connection is not ACTIVE: authorize it first.", reason="not_active"
        )


@dataclass(frozen=True, slots=True)
class NewestRequest:
    """Selection and access of the newest ingestion of a connection."""

    choice: SyncFilter
    access: Access | None


async def read_newest_request(db: Database, connection: Connection) -> NewestRequest | None:
    """Return the newest request of a connection, if any."""
    stored = await queries.get_newest_config(db, connection.id)
    if stored is None:
        return None
    config = JobConfig.load(stored)
    return NewestRequest(SyncFilter.of(config.request or {}), config.ingestion.access)


def list_folder(
    tokens: ConnectionTokens,
    connector: Connector,
    parent: str | None,
    cursor: str | None,
    selection: SyncFilter | None,
) -> tuple[list[SelectableEntry], str | None]:
    """Return a page of a folder's entries with the cursor of the next. ServiceError: NOT_FOUND, SERVICE_UNAVAILABLE or
    INVALID_REQUEST by the service's response."""
    if not isinstance(connector, BrowsableConnector):
        raise ServiceError(ErrorCode.INVALID_REQUEST, "This service cannot be browsed.", reason="not_browsable")
    try:
        tokens.token()
        folder = connector.browse(tokens, parent, _parse_cursor(parent, cursor))
    except Skippable as error:
        raise ServiceError(ErrorCode.NOT_FOUND, str(error), field="parentId") from error
    except Retryable as error:
        raise ServiceError(
            ErrorCode.SERVICE_UNAVAILABLE, str(error), reason="vendor", headers={"Retry-After": "5"}
        ) from error
    except Fatal as error:
        raise ServiceError(ErrorCode.INVALID_REQUEST, str(error), reason="vendor_refuses") from error
    entries = [_mark_selected(entry, selection) for entry in folder.entries]
    return entries, None if folder.cursor is None else json.dumps([parent, folder.cursor])


def _parse_cursor(parent: str | None, cursor: str | None) -> str | None:
    if cursor is None:
        return None
    cursor_parent, cursor = json.loads(cursor)
    if cursor_parent != parent:
        raise ServiceError(
            ErrorCode.INVALID_REQUEST,
            "The cursor is of another folder; start again without it.",
            field="cursor",
            reason="bad_cursor",
        )
    return str(cursor)


def _mark_selected(entry: FolderEntry, selection: SyncFilter | None) -> SelectableEntry:
    subject = SyncItem(entry.id, entry.path, entry.media_type, entry.above)
    kind = "" if entry.is_folder else media_type(subject)
    if selection is None:
        return SelectableEntry(_sanitize_name(entry), kind, selected=False)
    selected = selection.takes_folder(subject) if entry.is_folder else selection.takes(subject)
    return SelectableEntry(_sanitize_name(entry), kind, selected)


def _sanitize_name(entry: FolderEntry) -> FolderEntry:
    return replace(entry, name=sanitize.sanitize_name(entry.name) or entry.id)
