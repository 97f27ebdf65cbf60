"""Access lists of documents: set by clients and by content services, and changed with new versions.

A document has its own list, or a copy of its container's (`documents.inherits_access`). The list of a new version is in
`run_documents.access` until that version is visible. Until the version ends, the database limits access to the old one
to users that both lists allow (`documents.access_limit`, by `intersect_access`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

from retrieval.database.rows import AsyncExecutor, Executor
from retrieval.principals import Access, stored_access

HELD: LiteralString = "intersect_access(d.access, d.access_limit)"
"""SQL: the current access list of document `d`."""
COMES: LiteralString = """(
    select nullif(m.access, intersect_access(d.access, d.access_limit)) from run_documents m
    where m.document_id = d.id and m.access is not null and m.status in ('QUEUED', 'PROCESSING')
    order by m.generation desc limit 1
)"""
"""SQL: the pending access list of document `d`, of a version that is being ingested; null for none or an equal one."""

ARCHIVE_HASH = "archiveHash"
"""Property of an archive member: the hex digest of the archive file that contained it. It stays with the content when a
later run ingests the member again."""


def list_of_new_version(sent: LiteralString, document: LiteralString) -> LiteralString:
    """Return SQL for the access list of a new version of an existing document. `sent`: the list sent with it, or null.

    A version without a list takes the newest pending list, since it can become visible before that version.
    """
    return f"""case when {document}.access_limit is null then nullif({sent}, {document}.access)
        else coalesce({sent}, (
            select m.access from run_documents m
            where m.document_id = {document}.id and m.access is not null and m.status in ('QUEUED', 'PROCESSING')
            order by m.generation desc limit 1
        )) end"""


_HEIRS: LiteralString = """
    with recursive heirs as (
        select w.id, w.access::jsonb as access, true as is_named
        from unnest(%(documents)s::text[], %(accesses)s::text[]) w (id, access)
        union all
        select d.id, h.access, false from heirs h
        join documents d on d.archive_id = h.id and d.inherits_access and d.deleted_at is null
        where not d.id = any(%(documents)s)
    ),
    held as (
        select d.id, h.access, h.is_named from documents d join heirs h using (id)
        where d.deleted_at is null order by d.id for no key update of d
    )
"""
_SET: LiteralString = (
    _HEIRS
    + """,
    forgotten as (
        update run_documents m set access = null from held h where m.document_id = h.id and m.access is not null
    )
    update documents d set access = h.access, inherits_access = d.inherits_access and not h.is_named,
        access_after = (select max(number) from job_runs where partition_id = d.partition_id),
        access_reason = case when h.is_named then %(reason)s else d.access_reason end, updated_at = clock_timestamp()
    from held h where d.id = h.id
"""
)
_FOLLOW: LiteralString = (
    _HEIRS
    + """,
    forgotten as (
        update run_documents m set access = null from held h where m.document_id = h.id and m.access is not null
    )
    update documents d set access = h.access, updated_at = clock_timestamp() from held h where d.id = h.id
"""
)
_NARROW: LiteralString = (
    _HEIRS
    + """
    update documents d set access = intersect_access(d.access, h.access), updated_at = clock_timestamp()
    from held h where d.id = h.id and d.access is distinct from intersect_access(d.access, h.access)
"""
)
_VERSION_LISTS: LiteralString = """
    select m.document_id, m.access::text as access from run_documents m
    join unnest(%(documents)s::text[], %(generations)s::bigint[]) w (id, generation)
        on m.document_id = w.id and m.generation = w.generation
    where m.access is not null
"""
_HEIRS_BY_CONTENT: LiteralString = """
    with recursive heirs as (
        select w.id, w.access::jsonb as access, true as is_named, %(same)s as is_shown
        from unnest(%(documents)s::text[], %(accesses)s::text[]) w (id, access)
        union all
        select d.id, h.access, false, h.is_shown and coalesce(d.properties ->> 'archiveHash' = (
            select encode(a.raw_hash, 'hex') from run_documents a join documents c on c.id = a.document_id
            where c.id = h.id and a.generation = c.active_generation limit 1
        ), false) from heirs h
        join documents d on d.archive_id = h.id and d.inherits_access and d.deleted_at is null
        where not d.id = any(%(documents)s)
    ),
    held as (
        select d.id, h.access, h.is_named or h.is_shown as is_whole from documents d join heirs h using (id)
        where d.deleted_at is null order by d.id for no key update of d
    )
"""
"""Like `_HEIRS`. `is_whole`: the visible content came from the visible version of the container."""
_UPDATE: LiteralString = """
    update documents d set updated_at = clock_timestamp(),
        access = case when h.is_whole then h.access else intersect_access(d.access, h.access) end
    from held h where d.id = h.id
"""
_SHOW: LiteralString = (
    _HEIRS_BY_CONTENT
    + """,
    shown as (
        update run_documents m set access = null
        from unnest(%(documents)s::text[], %(generations)s::bigint[]) w (id, generation)
        where m.document_id = w.id and m.generation = w.generation
    )
"""
    + _UPDATE
)
_APPLY: LiteralString = (
    _HEIRS_BY_CONTENT
    + """,
    forgotten as (
        update run_documents m set access = null from held h
        where m.document_id = h.id and h.is_whole and m.access is not null
    )
"""
    + _UPDATE
)
_INHERIT: LiteralString = """
    update documents d set inherits_access = true, access_reason = null, updated_at = clock_timestamp()
    from documents c where d.id = any(%(documents)s) and c.id = d.archive_id
    returning d.id as document_id, c.access::text as access
"""


@dataclass(frozen=True, slots=True)
class VersionAccess:
    """Access list, as JSON, of a version or of a container; None is open to all keys."""

    document_id: str
    access: str | None


def set_lists(connection: Executor, accesses: Mapping[str, Access | None], *, reason: str | None = None) -> None:
    """Set lists of documents, by id, at once; None opens one. Documents that inherit from them follow.

    Runs in the caller's transaction and replaces pending lists of new versions. `reason`: why the list of a content
    service is unreadable.
    """
    if accesses:
        connection.execute(_SET, {**_values(accesses), "reason": reason})


async def async_set_lists(connection: AsyncExecutor, accesses: Mapping[str, Access | None]) -> None:
    """Set lists of documents, on the event loop."""
    await connection.async_execute(_SET, {**_values(accesses), "reason": None})


async def async_inherit(connection: AsyncExecutor, documents: Sequence[str]) -> None:
    """Remove the own lists of archive members, which then inherit the container's list."""
    for document in documents:
        heir = await connection.async_fetch_one(VersionAccess, _INHERIT, {"documents": [document]})
        if heir is not None:
            await connection.async_execute(_FOLLOW, {"documents": [document], "accesses": [heir.access]})


def apply_lists(connection: Executor, accesses: Mapping[str, Access | None]) -> None:
    """Apply lists to the visible content of documents.

    Members that inherit and came from that content follow. Members with older content are limited to users that both
    lists allow.
    """
    if accesses:
        connection.execute(_APPLY, {**_values(accesses), "same": True})


def narrow_lists(connection: Executor, accesses: Mapping[str, Access | None]) -> None:
    """Limit the documents, and those that inherit from them, to users that the current and the new list allow."""
    if accesses:
        connection.execute(_NARROW, _values(accesses))


def show_versions(connection: Executor, versions: Sequence[tuple[str, int]], *, same: bool) -> None:
    """Apply the lists of versions (document, generation) that become visible, in the caller's transaction.

    Documents that inherit get the list with their own next version; until then they are limited to users that
    both lists allow. `same`: the content has not changed, so that its members get the list at once, too.
    """
    generations = dict(versions)
    values: dict[str, Any] = {"documents": list(generations), "generations": list(generations.values())}
    version_lists = connection.fetch(VersionAccess, _VERSION_LISTS, values)
    if not version_lists:
        return
    values = {
        "documents": [version_list.document_id for version_list in version_lists],
        "accesses": [version_list.access for version_list in version_lists],
        "generations": [generations[version_list.document_id] for version_list in version_lists],
        "same": same,
    }
    connection.execute(_SHOW, values)


def _values(accesses: Mapping[str, Access | None]) -> dict[str, Any]:
    ids = sorted(accesses)
    return {"documents": ids, "accesses": [stored_access(accesses[name]) for name in ids]}
