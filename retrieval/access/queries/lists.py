"""Access lists of documents, from clients and content services.

A document has its own list or a copy of its container's (`documents.inherits_access`). `run_documents.access` holds the
list of a new version; until activation only users of both lists see the old version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

from retrieval.database.rows import AsyncExecutor, Executor
from retrieval.principals import Access, stored_access

# Current access list of document `d`.
CURRENT_ACCESS: LiteralString = "intersect_access(d.access, d.access_limit)"
# Access list of the version under ingestion; null if absent or equal.
PENDING_ACCESS: LiteralString = """(
    select nullif(m.access, intersect_access(d.access, d.access_limit)) from run_documents m
    where m.document_id = d.id and m.access is not null and m.status in ('QUEUED', 'PROCESSING')
    order by m.generation desc limit 1
)"""

# Property of an archive member: hex digest of its archive.
ARCHIVE_HASH = "archiveHash"


def new_version_access(sent: LiteralString, document: LiteralString) -> LiteralString:
    """Return SQL for the access list of a new version. `sent`: list of the request, or null."""
    # A version without a list takes the newest pending list: it can become visible before the pending version.
    return f"""case when {document}.access_limit is null then nullif({sent}, {document}.access)
        else coalesce({sent}, (
            select m.access from run_documents m
            where m.document_id = {document}.id and m.access is not null and m.status in ('QUEUED', 'PROCESSING')
            order by m.generation desc limit 1
        )) end"""


_LOCK_HEIRS: LiteralString = """
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
_SET_LISTS: LiteralString = (
    _LOCK_HEIRS
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
_UPDATE_HEIRS: LiteralString = (
    _LOCK_HEIRS
    + """,
    forgotten as (
        update run_documents m set access = null from held h where m.document_id = h.id and m.access is not null
    )
    update documents d set access = h.access, updated_at = clock_timestamp() from held h where d.id = h.id
"""
)
_NARROW_LISTS: LiteralString = (
    _LOCK_HEIRS
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
# Like `_LOCK_HEIRS`. `is_whole`: the visible content came from the visible version of the container.
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
_UPDATE_ACCESS: LiteralString = """
    update documents d set updated_at = clock_timestamp(),
        access = case when h.is_whole then h.access else intersect_access(d.access, h.access) end
    from held h where d.id = h.id
"""
_SHOW_VERSIONS: LiteralString = (
    _HEIRS_BY_CONTENT
    + """,
    shown as (
        update run_documents m set access = null
        from unnest(%(documents)s::text[], %(generations)s::bigint[]) w (id, generation)
        where m.document_id = w.id and m.generation = w.generation
    )
"""
    + _UPDATE_ACCESS
)
_APPLY_LISTS: LiteralString = (
    _HEIRS_BY_CONTENT
    + """,
    forgotten as (
        update run_documents m set access = null from held h
        where m.document_id = h.id and h.is_whole and m.access is not null
    )
"""
    + _UPDATE_ACCESS
)
_INHERIT_ACCESS: LiteralString = """
    update documents d set inherits_access = true, access_reason = null, updated_at = clock_timestamp()
    from documents c where d.id = any(%(documents)s) and c.id = d.archive_id
    returning d.id as document_id, c.access::text as access
"""


@dataclass(frozen=True, slots=True)
class VersionAccess:
    """Access list of a version or container as JSON; None is open to all keys."""

    document_id: str
    access: str | None


def set_lists(connection: Executor, accesses: Mapping[str, Access | None], *, reason: str | None = None) -> None:
    """Set access lists by document id (None: open), including pending lists and heirs.

    `reason`: why the list of a content service is unreadable.
    """
    if accesses:
        connection.execute(_SET_LISTS, {**_values(accesses), "reason": reason})


async def async_set_lists(connection: AsyncExecutor, accesses: Mapping[str, Access | None]) -> None:
    """Set access lists by document id on the event loop."""
    await connection.async_execute(_SET_LISTS, {**_values(accesses), "reason": None})


async def async_inherit(connection: AsyncExecutor, documents: Sequence[str]) -> None:
    """Make archive members inherit the list of their container."""
    for document in documents:
        heir = await connection.async_fetch_one(VersionAccess, _INHERIT_ACCESS, {"documents": [document]})
        if heir is not None:
            await connection.async_execute(_UPDATE_HEIRS, {"documents": [document], "accesses": [heir.access]})


def apply_lists(connection: Executor, accesses: Mapping[str, Access | None]) -> None:
    """Apply lists to visible documents and to members from the same content; limit older members to both lists."""
    if accesses:
        connection.execute(_APPLY_LISTS, {**_values(accesses), "same": True})


def narrow_lists(connection: Executor, accesses: Mapping[str, Access | None]) -> None:
    """Limit documents and their heirs to users of both the current and the new list."""
    if accesses:
        connection.execute(_NARROW_LISTS, _values(accesses))


def show_versions(connection: Executor, versions: Sequence[tuple[str, int]], *, is_unchanged: bool) -> None:
    """Apply the lists of versions (document, generation) at their activation.

    `is_unchanged`: same content, so members get the list now instead of with their next version.
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
        "same": is_unchanged,
    }
    connection.execute(_SHOW_VERSIONS, values)


def _values(accesses: Mapping[str, Access | None]) -> dict[str, Any]:
    ids = sorted(accesses)
    return {"documents": ids, "accesses": [stored_access(accesses[name]) for name in ids]}
