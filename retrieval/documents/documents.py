"""Documents as clients manage them: listed page by page, their metadata changed, deleted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, LiteralString

from retrieval import filters, ids, settings, text_filter, write_details
from retrieval.access import reading
from retrieval.access.queries import lists
from retrieval.database import pagination, partitions
from retrieval.database.database import Database
from retrieval.database.pagination import Page
from retrieval.database.statements import LoopConnection
from retrieval.documents import metadata, vector_metadata
from retrieval.documents.metadata import KEPT, Change, serialize_change
from retrieval.documents.queries import archive_members, connection_documents, counts, deletion, hidden_passages
from retrieval.documents.queries import receipts as receipt_queries
from retrieval.errors import ErrorCode, ServiceError
from retrieval.filters import DocumentFilter
from retrieval.ports import Scope
from retrieval.principals import Access, Viewer

MOST = 1_000
"""Documents that one answer without paging holds."""
SITES = 100
"""Sites that are counted in one answer."""
SITES_AMONG = 100_000
"""Web pages among which they are counted."""


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """A document as its row has it. `properties` and `embedding` hold what the pipeline found out."""

    id: str
    external_id: str
    document_type: str
    name: str
    source: str
    status: str
    error: str | None
    metadata: Mapping[str, Any]
    connection_id: str | None
    job_id: str
    job_run_id: str
    active_generation: int
    raw_key: str | None
    parsed_key: str | None
    properties: Mapping[str, Any]
    embedding: Mapping[str, Any]
    created_at: datetime
    updated_at: datetime
    synced_at: datetime | None
    archive_id: str | None = None
    awaiting_removal: bool = False
    connection_ids: Sequence[str] = ()
    """All that have it; `connection_id` is one of them."""
    access: Mapping[str, Any] | None = None
    """Whom it is for now, as `principals.Access.dump` has it; None for everyone with a key."""
    next_access: Mapping[str, Any] | None = None
    """The list that comes with the version that is being ingested."""
    inherits_access: bool = False
    """The list is that of the document which it is packed into."""
    access_reason: str | None = None
    """Why its content service's access is not known."""
    hidden: str | None = None
    """What of it is hidden from search: DOCUMENT, PASSAGES, or None."""


@dataclass(frozen=True, slots=True)
class Stats:
    """Numbers of matching documents, by ingestion source and by status."""

    by_source: Mapping[str, int]
    by_status: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class SiteCount:
    """Number of web pages of a site."""

    site: str
    documents: int


@dataclass(frozen=True, slots=True)
class Listed:
    """When the connections of a source were last listed to the end."""

    source: str
    at: datetime


_FIELDS: LiteralString = (
    """d.id, d.external_id, d.document_type, d.name, d.source, d.status, d.error, d.metadata,
    d.connection_id, d.job_id, d.job_run_id, d.active_generation, d.raw_key, d.parsed_key, d.properties, d.embedding,
    d.created_at, d.updated_at, d.synced_at, d.archive_id, d.access_reason, d.inherits_access, """
    f"{lists.CURRENT_ACCESS} as access, {lists.PENDING_ACCESS} as next_access, "
    + filters.AWAITS_REMOVAL
    + " as awaiting_removal, "
    + connection_documents.CONNECTIONS
    + " as connection_ids, "
    + hidden_passages.EXTENT
    + " as hidden"
)

IN_SCOPE: LiteralString = """
    d.deleted_at is null and d.partition_id = (
        select p.id from partitions p
        join namespaces n on n.id = p.namespace_id and n.organization_id = %(organization)s and n.deleted_at is null
        where p.namespace_id = %(namespace)s and p.tenant = %(tenant)s
    )
"""


def of_scope(where: DocumentFilter) -> tuple[LiteralString, dict[str, Any]]:
    """Return the part of a statement after `from`: matching documents `d` of a scope; needs the scope's parameters as
    well."""
    condition, params = where.sql("d")
    source = text_filter.document_source(words=bool(where.words), sites=bool(where.sites))
    return f"{source} where {IN_SCOPE} and {condition}", params


async def list_page(
    db: Database,
    scope: Scope,
    where: DocumentFilter,
    page_size: int = MOST,
    cursor: str | None = None,
    *,
    viewer: Viewer | None,
    oldest_first: bool = False,
) -> Page[DocumentRow]:
    """Documents that match, newest first unless `oldest_first`. A page begins after the cursor's document, whatever
    came in since."""
    matched, params = of_scope(where)
    rows = await reading.fetch_matching(
        DocumentRow,
        db,
        f"select {_FIELDS} from {matched}" + pagination.order_by_age("d", oldest_first=oldest_first),
        params | partitions.scope_params(scope) | pagination.age_params(cursor, page_size),
        where,
        viewer,
    )
    documents = await _as_seen(db, rows, viewer)
    return pagination.take_page(documents, page_size, pagination.age_cursor)


async def _as_seen(db: Database, rows: list[DocumentRow], viewer: Viewer | None) -> list[DocumentRow]:
    """Restrict rows for a viewer: hidden archives are not named, and a raw file with a hidden member is removed."""
    if viewer is None or not rows:
        return rows
    values = {"ids": [row.id for row in rows], "viewer_names": viewer.names}
    hiding = set(await db.async_fetch(str, archive_members.HIDING, values))
    rows = [replace(row, raw_key=None) if row.id in hiding else row for row in rows]
    archive_ids = {row.archive_id for row in rows} - {None}
    if not archive_ids:
        return rows
    statement: LiteralString = "select id from documents where id = any(%(ids)s)"
    visible_ids = await reading.viewed_database(db, viewer).async_fetch(str, statement, {"ids": list(archive_ids)})
    return [row if row.archive_id in visible_ids else replace(row, archive_id=None) for row in rows]


async def count_documents(db: Database, scope: Scope, where: DocumentFilter, *, viewer: Viewer | None) -> Stats:
    """Counts of the documents that match, in one statement; those of all documents are kept by a trigger."""
    if viewer is None and not where.narrows():
        document_counts = await counts.read_counts(db, scope)
    else:
        matched, params = of_scope(where)
        document_counts = await reading.fetch_matching(
            counts.Count,
            db,
            f"select d.source, d.status, count(*) as documents from {matched}"
            " group by d.source, d.status order by d.source, d.status",
            params | partitions.scope_params(scope),
            where,
            viewer,
        )
    by_source, by_status = Counter[str](), Counter[str]()
    for count in document_counts:
        by_source[count.source] += count.documents
        by_status[count.status] += count.documents
    return Stats(dict(by_source), dict(by_status))


async def sync_times(db: Database, scope: Scope) -> Mapping[str, datetime]:
    """Read when the connections of each source were last listed to the end: of several the earliest, none before all
    of them were."""
    return {row.source: row.at for row in await db.async_fetch(Listed, _SYNC_TIMES, partitions.scope_params(scope))}


_SYNC_TIMES: LiteralString = """
    select c.connector as source, min(c.listed_at) as at from connections c
    join partitions p on p.id = c.partition_id and p.namespace_id = %(namespace)s and p.tenant = %(tenant)s
    join namespaces n on n.id = p.namespace_id and n.organization_id = %(organization)s and n.deleted_at is null
    where c.status = 'ACTIVE' group by c.connector having count(*) = count(c.listed_at)
"""


async def count_sites(db: Database, scope: Scope, where: DocumentFilter, *, viewer: Viewer | None) -> Mapping[str, int]:
    """The sites of the newest SITES_AMONG web pages that match, most pages first, then by name; at most SITES."""
    matched, params = of_scope(where)
    site_counts = await reading.fetch_matching(
        SiteCount,
        db,
        f"select site, count(*) as documents from (select {text_filter.SITE} as site from {matched}"
        " and d.document_type = 'URL' order by d.created_at desc limit %(among)s) found where site is not null"
        " group by site order by documents desc, site limit %(most)s",
        params | partitions.scope_params(scope) | {"most": SITES, "among": SITES_AMONG},
        where,
        viewer,
    )
    return {count.site: count.documents for count in site_counts}


@dataclass(frozen=True, slots=True)
class NewAccess:
    """New access list of documents; None: open to every API key. `inherited`: the list of their container."""

    access: Access | None
    inherited: bool = False


async def patch_metadata(
    db: Database,
    scope: Scope,
    where: DocumentFilter,
    set_: Mapping[str, Any],
    append: Mapping[str, Any],
    remove: Mapping[str, Any],
    *,
    access: NewAccess | None = None,
) -> list[DocumentRow]:
    """Change the metadata, or the access, of the documents that match and answer them, newest first; all or none."""
    require_restriction(where)
    code, field = ErrorCode.INVALID_FILTER_CONFIG, "data.metadata"
    change = Change(*(metadata.normalize_keys(part, code, field) for part in (set_, append, remove)))
    async with db.async_transaction() as connection:
        rows = await lock_matching(connection, scope, where)
        write_details.record_objects([row.id for row in rows])
        if access is not None:
            access_before = {row.id: row.access for row in rows}
            if access.inherited:
                _require_containers(rows)
            rows = await _set_access(connection, [row.id for row in rows], access)
            for row in rows:
                write_details.record_change(row.id, access_before[row.id], row.access)
        if not change:
            return newest_first(rows)
        merged = {row.id: change.applied(row.metadata) for row in rows}
        for metadata_row in merged.values():
            _refuse_operators(metadata_row)
            metadata.check_metadata(metadata_row, settings.load_settings(), code, field)
        changed = await connection.async_fetch(
            DocumentRow,
            f"""
            update documents d set metadata = c.metadata::jsonb, changes = {KEPT}, updated_at = clock_timestamp()
            from unnest(%(ids)s::text[], %(metadata)s::text[]) c(id, metadata)
            where d.id = c.id returning {_FIELDS}
            """,
            {
                "ids": list(merged),
                "metadata": [json.dumps(metadata_row) for metadata_row in merged.values()],
                "change": serialize_change(change),
            },
        )
        await connection.execute(*vector_metadata.schedule_update(list(merged)))
        return newest_first(changed)


async def _set_access(connection: LoopConnection, ids: Sequence[str], access: NewAccess) -> list[DocumentRow]:
    """Give the documents this access; what inherits from them follows."""
    if access.inherited:
        await lists.async_inherit(connection, ids)
    else:
        await lists.async_set_lists(connection, dict.fromkeys(ids, access.access))
    return await connection.async_fetch(DocumentRow, _OF_IDS, {"ids": ids})


_OF_IDS: LiteralString = f"select {_FIELDS} from documents d where d.id = any(%(ids)s)"


@dataclass(frozen=True, slots=True)
class Deleted:
    """Number of deleted documents, and the id of the receipt."""

    documents: int
    deletion_id: str


async def delete(db: Database, scope: Scope, where: DocumentFilter) -> Deleted:
    """Delete the matching documents and what was packed into them.

    They disappear from all responses at once; garbage collection empties the stores. A job run that is working on one
    of them cannot restore it.
    """
    require_restriction(where)
    async with db.async_transaction() as connection:
        rows = await lock_matching(connection, scope, where)
        deletion_id = ids.deletion_id()
        deleted = await deletion.async_delete(connection, [row.id for row in rows], deletion_id)
        await receipt_queries.open_receipt(connection, deletion_id, scope, deleted)
        write_details.record_objects(deleted)
    return Deleted(len(deleted), deletion_id)


async def lock_matching(connection: LoopConnection, scope: Scope, where: DocumentFilter) -> list[DocumentRow]:
    """The documents that match, locked in the order of their ids; DOCUMENTS_NOT_FOUND if there are none."""
    condition, params = where.sql("d")
    among: LiteralString = ""
    if where.words or where.sites:
        matched, _ = of_scope(where)
        params["among"] = await connection.async_fetch(
            str, f"select d.id from {matched}", params | partitions.scope_params(scope)
        )
        among = " and d.id = any(%(among)s)"
    rows = await connection.async_fetch(
        DocumentRow,
        f"select {_FIELDS} from documents d where {IN_SCOPE} and {condition}{among} order by d.id for no key update",
        params | partitions.scope_params(scope),
    )
    if not rows:
        raise ServiceError(ErrorCode.DOCUMENTS_NOT_FOUND, "No documents match the filter.", field="filterConfig")
    return rows


def require_restriction(where: DocumentFilter) -> None:
    """A change needs a filter that can match: without one it would hit the whole namespace by a slip."""
    if not where.restricts():
        message = "The filter restricts nothing; name at least one id, type, source, status or metadata value."
        raise ServiceError(ErrorCode.INVALID_FILTER_CONFIG, message, field="filterConfig")
    for key in where.empty_lists:
        field = f"filterConfig.metadata.{key}"
        message = "An empty list of values matches no document; name a value, or leave the key out."
        raise ServiceError(ErrorCode.INVALID_FILTER_CONFIG, message, field=field, reason="empty_list")


def _require_containers(rows: Sequence[DocumentRow]) -> None:
    """Refuse to let a document inherit that is packed into no other."""
    name = next((row.id for row in rows if row.archive_id is None), None)
    if name is not None:
        message = f"The document {name} is not packed into another one, whose access it could inherit: send a list."
        raise ServiceError(ErrorCode.INVALID_FILTER_CONFIG, message, field="data.access", reason="not_packed")


def _refuse_operators(merged: Mapping[str, Any]) -> None:
    if any(key.startswith("$") for key in merged):
        message = "A metadata key must not start with `$`; the operators stand beside `metadata`, not in it."
        raise ServiceError(ErrorCode.INVALID_FILTER_CONFIG, message, field="data.metadata")


def newest_first(rows: Sequence[DocumentRow]) -> list[DocumentRow]:
    return sorted(rows, key=lambda row: (row.created_at, row.id), reverse=True)
