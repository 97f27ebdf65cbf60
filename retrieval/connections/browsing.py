"""Browsing of a connection: one folder at a time, and which entries are selected now."""

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
from retrieval.sync_filter import Choice, Subject, media_type


@dataclass(frozen=True, slots=True)
class Shown:
    """File or folder with its type as in a selection; `selected`: the newest request includes it (a folder: all below
    it, except for exclusions)."""

    entry: FolderEntry
    media_type: str
    selected: bool


def require_active(connection: Connection) -> None:
    """Refuse a connection that is not authorized, or has ended, with INVALID_REQUEST."""
    if connection.status != ConnectionStatus.ACTIVE:
        raise ServiceError(
            ErrorCode.INVALID_REQUEST, "The connection is not ACTIVE: authorize it first.", reason="not_active"
        )


@dataclass(frozen=True, slots=True)
class Asked:
    """Selection and access of the newest ingestion of a connection."""

    choice: Choice
    access: Access | None


async def newest_request(db: Database, connection: Connection) -> Asked | None:
    """None before the first."""
    stored = await queries.get_newest_config(db, connection.id)
    if stored is None:
        return None
    config = JobConfig.load(stored)
    return Asked(Choice.of(config.request or {}), config.ingestion.access)


def list_folder(
    tokens: ConnectionTokens,
    connector: Connector,
    parent: str | None,
    place: str | None,
    chosen: Choice | None,
) -> tuple[list[Shown], str | None]:
    """A page of a folder's entries, and the place of the next. ServiceError: NOT_FOUND for a folder that is not
    there, SERVICE_UNAVAILABLE where the service does not answer, INVALID_REQUEST where it refuses.

    `place`: of the page before, of this folder alone.
    """
    if not isinstance(connector, BrowsableConnector):
        raise ServiceError(ErrorCode.INVALID_REQUEST, "This service cannot be browsed.", reason="not_browsable")
    try:
        tokens.token()
        folder = connector.browse(tokens, parent, _place(parent, place))
    except Skippable as error:
        raise ServiceError(ErrorCode.NOT_FOUND, str(error), field="parentId") from error
    except Retryable as error:
        raise ServiceError(
            ErrorCode.SERVICE_UNAVAILABLE, str(error), reason="vendor", headers={"Retry-After": "5"}
        ) from error
    except Fatal as error:
        raise ServiceError(ErrorCode.INVALID_REQUEST, str(error), reason="vendor_refuses") from error
    entries = [_shown(entry, chosen) for entry in folder.entries]
    return entries, None if folder.cursor is None else json.dumps([parent, folder.cursor])


def _place(parent: str | None, place: str | None) -> str | None:
    if place is None:
        return None
    folder, cursor = json.loads(place)
    if folder != parent:
        raise ServiceError(
            ErrorCode.INVALID_REQUEST,
            "The cursor is of another folder; start again without it.",
            field="cursor",
            reason="bad_cursor",
        )
    return str(cursor)


def _shown(entry: FolderEntry, chosen: Choice | None) -> Shown:
    subject = Subject(entry.id, entry.path, entry.media_type, entry.above)
    kind = "" if entry.is_folder else media_type(subject)
    if chosen is None:
        return Shown(_named(entry), kind, selected=False)
    selected = chosen.takes_folder(subject) if entry.is_folder else chosen.takes(subject)
    return Shown(_named(entry), kind, selected)


def _named(entry: FolderEntry) -> FolderEntry:
    return replace(entry, name=sanitize.sanitize_name(entry.name) or entry.id)
