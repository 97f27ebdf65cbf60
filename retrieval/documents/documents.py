"""List, count, change and delete the documents of a scope."""

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
from retrieval.documents.metadata import NEW_CHANGES, MetadataChange, serialize_change
from retrieval.documents.queries import archive_members, connection_documents, counts, deletion, hidden_passages
from retrieval.documents.queries import receipts as receipt_queries
from retrieval.errors import ErrorCode, ServiceError
from retrieval.filters import DocumentFilter
from retrieval.ports import Scope
from retrieval.principals import Access, Viewer

# Documents in one answer without paging.
MAX_LISTED_DOCUMENTS = 1_000
MAX_SITES = 100
MAX_COUNTED_PAGES = 100_000


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """Document as listings return it."""

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
    # Every connection that lists the document; `connection_id` is the newest.
    connection_ids: Sequence[str] = ()
    # As `Access.dump` writes it; None: every API key reads the document.
    access: Mapping[str, Any] | None = None
    # Takes effect with the version under ingestion.
    next_access: Mapping[str, Any] | None = None
    # From the container document (`archive_id`).
    inherits_access: bool = False
    # Reason why the content service reports no access list.
    access_reason: str | None = None
    # DOCUMENT, PASSAGES, or None if search shows the whole document.
    hidden: str | None = None


@dataclass(frozen=True, slots=True)
class DocumentStats:
    """Document counts by source and by status."""

    by_source: Mapping[str, int]
    by_status: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class SiteCount:
    """Number of web pages of a site."""

    site: str
    documents: int


@dataclass(frozen=True, slots=True)
class SourceListing:
    """Time of the last complete listing of a source."""

    source: str
    at: datetime


_DOCUMENT_FIELDS: LiteralString = (
    """d.id, d.external_id, d.document_type, d.name, d.source, d.status, d.error, d.metadata,
    d.connection_id, d.job_id, d.job_run_id, d.active_generation, d.raw_key, d.parsed_key, d.properties, d.embedding,
    d.created_at, d.updated_at, d.synced_at, d.archive_id, d.access_reason, d.inherits_access, """
    f"{lists.CURRENT_ACCESS} as access, {lists.PENDING_ACCESS} as next_access, "
    + filters.AWAITS_REMOVAL
    + " as awaiting_removal, "
    + connection_documents.CONNECTION_IDS
    + " as connection_ids, "
    + hidden_passages.HIDDEN_EXTENT
    + " as hidden"
)

IN_SCOPE: LiteralString = """
    d.deleted_at is null and d.partition_id = (
        select p.id from partitions p
        join namespaces n on n.id = p.namespace_id and n.organization_id = %(organization)s and n.deleted_at is null
        where p.namespace_id = %(namespace)s and p.tenant = %(tenant)s
    )
"""


def matching_source(document_filter: DocumentFilter) -> tuple[LiteralString, dict[str, Any]]:
    """Return the `from` clause for the matching documents `d`, and the parameters of the filter."""
    condition, params = document_filter.sql("d")
    source = text_filter.document_source(words=bool(document_filter.words), sites=bool(document_filter.sites))
    return f"{source} where {IN_SCOPE} and {condition}", params


async def list_page(
    db: Database,
    scope: Scope,
    document_filter: DocumentFilter,
    page_size: int = MAX_LISTED_DOCUMENTS,
    cursor: str | None = None,
    *,
    viewer: Viewer | None,
    oldest_first: bool = False,
) -> Page[DocumentRow]:
    """List the matching documents by age, starting after the cursor."""
    matched, params = matching_source(document_filter)
    rows = await reading.fetch_matching(
        DocumentRow,
        db,
        f"select {_DOCUMENT_FIELDS} from {matched}" + pagination.order_by_age("d", oldest_first=oldest_first),
        params | partitions.scope_params(scope) | pagination.age_params(cursor, page_size),
        document_filter,
        viewer,
    )
    documents = await _redact_rows(db, rows, viewer)
    return pagination.take_page(documents, page_size, pagination.age_cursor)


async def _redact_rows(db: Database, rows: list[DocumentRow], viewer: Viewer | None) -> list[DocumentRow]:
    """Remove archive ids and raw files that would reveal documents hidden from the viewer."""
    if viewer is None or not rows:
        return rows
    values = {"ids": [row.id for row in rows], "viewer_names": viewer.names}
    hiding = set(await db.async_fetch(str, archive_members.FIND_HIDING_ARCHIVES, values))
    rows = [replace(row, raw_key=None) if row.id in hiding else row for row in rows]
    archive_ids = {row.archive_id for row in rows} - {None}
    if not archive_ids:
        return rows
    statement: LiteralString = "select id from documents where id = any(%(ids)s)"
    visible_ids = await reading.viewed_database(db, viewer).async_fetch(str, statement, {"ids": list(archive_ids)})
    return [row if row.archive_id in visible_ids else replace(row, archive_id=None) for row in rows]


async def count_documents(
    db: Database, scope: Scope, document_filter: DocumentFilter, *, viewer: Viewer | None
) -> DocumentStats:
    """Count the matching documents by source and status."""
    if viewer is None and not document_filter.can_exclude():
        # A trigger maintains these counts.
        document_counts = await counts.read_counts(db, scope)
    else:
        matched, params = matching_source(document_filter)
        document_counts = await reading.fetch_matching(
            counts.SourceStatusCount,
            db,
            f"select d.source, d.status, count(*) as documents from {matched}"
            " group by d.source, d.status order by d.source, d.status",
            params | partitions.scope_params(scope),
            document_filter,
            viewer,
        )
    by_source, by_status = Counter[str](), Counter[str]()
    for count in document_counts:
        by_source[count.source] += count.documents
        by_status[count.status] += count.documents
    return DocumentStats(dict(by_source), dict(by_status))


async def read_sync_times(db: Database, scope: Scope) -> Mapping[str, datetime]:
    """Return the last complete listing of each source: the earliest of its connections, none until every connection was
    listed."""
    return {
        row.source: row.at for row in await db.async_fetch(SourceListing, _SYNC_TIMES, partitions.scope_params(scope))
    }


_SYNC_TIMES: LiteralString = """
    select c.connector as source, min(c.listed_at) as at from connections c
    join partitions p on p.id = c.partition_id and p.namespace_id = %(namespace)s and p.tenant = %(tenant)s
    join namespaces n on n.id = p.namespace_id and n.organization_id = %(organization)s and n.deleted_at is null
    where c.status = 'ACTIVE' group by c.connector having count(*) = count(c.listed_at)
"""


async def count_sites(
    db: Database, scope: Scope, document_filter: DocumentFilter, *, viewer: Viewer | None
) -> Mapping[str, int]:
    """Count the newest MAX_COUNTED_PAGES web pages by site, most frequent sites first."""
    matched, params = matching_source(document_filter)
    site_counts = await reading.fetch_matching(
        SiteCount,
        db,
        f"select site, count(*) as documents from (select {text_filter.SITE_COLUMN} as site from {matched}"
        " and d.document_type = 'URL' order by d.created_at desc limit %(candidates)s) pages where site is not null"
        " group by site order by documents desc, site limit %(limit)s",
        params | partitions.scope_params(scope) | {"limit": MAX_SITES, "candidates": MAX_COUNTED_PAGES},
        document_filter,
        viewer,
    )
    return {count.site: count.documents for count in site_counts}


@dataclass(frozen=True, slots=True)
class NewAccess:
    """Access list to set. `access` None: every API key; `inherited`: the list of the container document."""

    access: Access | None
    inherited: bool = False


async def patch_metadata(
    db: Database,
    scope: Scope,
    document_filter: DocumentFilter,
    set_: Mapping[str, Any],
    append: Mapping[str, Any],
    remove: Mapping[str, Any],
    *,
    access: NewAccess | None = None,
) -> list[DocumentRow]:
    """Change metadata or access of all matching documents and return them, newest first."""
    require_restriction(document_filter)
    code, field = ErrorCode.INVALID_FILTER_CONFIG, "data.metadata"
    change = MetadataChange(*(metadata.normalize_keys(part, code, field) for part in (set_, append, remove)))
    async with db.async_transaction() as connection:
        rows = await lock_matching(connection, scope, document_filter)
        write_details.record_objects([row.id for row in rows])
        if access is not None:
            access_before = {row.id: row.access for row in rows}
            if access.inherited:
                _require_containers(rows)
            rows = await _set_access(connection, [row.id for row in rows], access)
            for row in rows:
                write_details.record_change(row.id, access_before[row.id], row.access)
        if not change:
            return sort_newest_first(rows)
        merged = {row.id: change.applied(row.metadata) for row in rows}
        for metadata_row in merged.values():
            _refuse_operators(metadata_row)
            metadata.check_metadata(metadata_row, settings.load_settings(), code, field)
        changed = await connection.async_fetch(
            DocumentRow,
            f"""
            update documents d set metadata = c.metadata::jsonb, changes = {NEW_CHANGES}, updated_at = clock_timestamp()
            from unnest(%(ids)s::text[], %(metadata)s::text[]) c(id, metadata)
            where d.id = c.id returning {_DOCUMENT_FIELDS}
            """,
            {
                "ids": list(merged),
                "metadata": [json.dumps(metadata_row) for metadata_row in merged.values()],
                "change": serialize_change(change),
            },
        )
        await connection.execute(*vector_metadata.schedule_update(list(merged)))
        return sort_newest_first(changed)


async def _set_access(connection: LoopConnection, ids: Sequence[str], access: NewAccess) -> list[DocumentRow]:
    if access.inherited:
        await lists.async_inherit(connection, ids)
    else:
        await lists.async_set_lists(connection, dict.fromkeys(ids, access.access))
    return await connection.async_fetch(DocumentRow, _DOCUMENTS_BY_ID, {"ids": ids})


_DOCUMENTS_BY_ID: LiteralString = f"select {_DOCUMENT_FIELDS} from documents d where d.id = any(%(ids)s)"


@dataclass(frozen=True, slots=True)
class DeletionResult:
    """Number of deleted documents and the receipt id."""

    documents: int
    deletion_id: str


async def delete_documents(db: Database, scope: Scope, document_filter: DocumentFilter) -> DeletionResult:
    """Delete the matching documents and their archive members, and open a receipt."""
    require_restriction(document_filter)
    # Answers omit the documents at once; garbage collection empties the stores. The row lock keeps a running job run
    # from restoring a document.
    async with db.async_transaction() as connection:
        rows = await lock_matching(connection, scope, document_filter)
        deletion_id = ids.deletion_id()
        deleted = await deletion.async_delete_documents(connection, [row.id for row in rows], deletion_id)
        await receipt_queries.open_receipt(connection, deletion_id, scope, deleted)
        write_details.record_objects(deleted)
    return DeletionResult(len(deleted), deletion_id)


async def lock_matching(connection: LoopConnection, scope: Scope, document_filter: DocumentFilter) -> list[DocumentRow]:
    """Lock the matching documents in the order of their ids. Raises DOCUMENTS_NOT_FOUND."""
    condition, params = document_filter.sql("d")
    id_condition: LiteralString = ""
    if document_filter.words or document_filter.sites:
        matched, _ = matching_source(document_filter)
        params["candidates"] = await connection.async_fetch(
            str, f"select d.id from {matched}", params | partitions.scope_params(scope)
        )
        id_condition = " and d.id = any(%(candidates)s)"
    rows = await connection.async_fetch(
        DocumentRow,
        f"select {_DOCUMENT_FIELDS} from documents d where {IN_SCOPE} and {condition}{id_condition}"
        " order by d.id for no key update",
        params | partitions.scope_params(scope),
    )
    if not rows:
        raise ServiceError(ErrorCode.DOCUMENTS_NOT_FOUND, "No documents match the filter.", field="filterConfig")
    return rows


def require_restriction(document_filter: DocumentFilter) -> None:
    """Raise INVALID_FILTER_CONFIG for a filter without any restriction."""
    # An empty filter would change the whole namespace by mistake.
    if not document_filter.is_selective():
        message = "The filter restricts nothing; name at least one id, type, source, status or metadata value."
        raise ServiceError(ErrorCode.INVALID_FILTER_CONFIG, message, field="filterConfig")
    for key in document_filter.empty_lists:
        field = f"filterConfig.metadata.{key}"
        message = "An empty list of values matches no document; name a value, or leave the key out."
        raise ServiceError(ErrorCode.INVALID_FILTER_CONFIG, message, field=field, reason="empty_list")


def _require_containers(rows: Sequence[DocumentRow]) -> None:
    """Raise INVALID_FILTER_CONFIG for a document outside of an archive."""
    name = next((row.id for row in rows if row.archive_id is None), None)
    if name is not None:
        message = f"The document {name} is not packed into another one, whose access it could inherit: send a list."
        raise ServiceError(ErrorCode.INVALID_FILTER_CONFIG, message, field="data.access", reason="not_packed")


def _refuse_operators(merged: Mapping[str, Any]) -> None:
    if any(key.startswith("$") for key in merged):
        message = "A metadata key must not start with `$`; the operators stand next to `metadata`, not in it."
        raise ServiceError(ErrorCode.INVALID_FILTER_CONFIG, message, field="data.metadata")


def sort_newest_first(rows: Sequence[DocumentRow]) -> list[DocumentRow]:
    return sorted(rows, key=lambda row: (row.created_at, row.id), reverse=True)
