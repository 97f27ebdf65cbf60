"""Resync: ingest documents again from stored content, as new runs of their jobs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, LiteralString, NamedTuple

from retrieval import ids, job_config, origin
from retrieval.database.database import Database
from retrieval.database.statements import LoopConnection
from retrieval.documents import documents
from retrieval.documents.documents import DocumentRow
from retrieval.documents.queries import archive_members, connection_documents, counts, deletion
from retrieval.documents.queries.counts import StoredSize
from retrieval.filters import DocumentFilter
from retrieval.jobs.queries import acceptance, passwords
from retrieval.jobs.queries.passwords import Seal
from retrieval.ports import Scope
from retrieval.sources import CONNECTED_SOURCES, FETCHED_SOURCES
from retrieval.statuses import DocumentStatus

QUEUED_STATUS = DocumentStatus.QUEUED_FOR_RESYNC
NOT_ELIGIBLE_STATUS = "NOT_ELIGIBLE_FOR_RESYNC"
REMOVED_STATUS = "REMOVED"

_RESTING_STATUSES = frozenset(
    {DocumentStatus.BACKLOG, DocumentStatus.SUCCESS, DocumentStatus.FAILED, DocumentStatus.CANCELLED}
)


@dataclass(frozen=True, slots=True)
class ResyncResult:
    """Result for a matching document. `error`: the reason if not eligible."""

    id: str
    status: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Resync:
    """Matching documents, newest first, one job run per job, and the stored size of queued documents."""

    documents: list[ResyncResult]
    job_runs: list[str] = field(default_factory=list)
    size: StoredSize | None = None

    @property
    def queued(self) -> int:
        return sum(document.status == QUEUED_STATUS for document in self.documents)


async def start_resync(
    db: Database,
    scope: Scope,
    where: DocumentFilter,
    *,
    confirm_deletions: bool = False,
    changes: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    seal: Seal | None = None,
) -> Resync:
    """Queue matching, eligible documents; a `dry_run` only measures them."""
    # `confirm_deletions` removes documents held for confirmation. `changes` to the configuration move documents to
    # copies of their jobs.
    documents.require_restriction(where)
    async with db.async_transaction() as connection:
        rows = await documents.lock_matching(connection, scope, where)
        departed_ids = [row.id for row in rows if row.awaiting_removal]
        if confirm_deletions:
            if not dry_run:
                await deletion.async_delete_documents(connection, departed_ids)
                await connection.execute(connection_documents.CONFIRM_DEPARTURES, {"ids": [row.id for row in rows]})
            removed = [ResyncResult(row.id, REMOVED_STATUS) for row in rows if row.id in departed_ids]
            rows = [row for row in rows if row.id not in departed_ids]
        else:
            removed = []
        reasons = dict.fromkeys((row.id for row in rows if row.status not in _RESTING_STATUSES), _AT_WORK_REASON)
        reasons |= await _find_unconnected(connection, rows)
        if changes:
            reasons |= dict.fromkeys(
                (row.id for row in rows if row.source not in job_config.CHANGEABLE_SOURCES), _LISTED_REASON
            )
        reasons |= {} if confirm_deletions else dict.fromkeys(departed_ids, _DEPARTED_REASON)
        eligible_ids = [row.id for row in rows if row.id not in reasons]
        resyncable = await connection.async_fetch(
            _StoredContent, _STORED_CONTENT_QUERY, {"ids": eligible_ids, "fetched": list(FETCHED_SOURCES)}
        )
        resyncable = [document for document in resyncable if not _only_with_archive(document)]
        member_ids = await connection.async_fetch(
            str, archive_members.MEMBERS_OF_ANY, {"ids": [document.id for document in resyncable]}
        )
        resyncable = [document for document in resyncable if document.id not in member_ids]
        stored_ids = [document.id for document in resyncable]
        reasons |= {
            row.id: _PACKED_REASON
            if _only_with_archive(row)
            else "Its content is not stored any more; ingest it again."
            for row in rows
            if row.id not in {*reasons, *member_ids, *stored_ids}
        }
        size = await counts.read_size(connection, [*stored_ids, *member_ids]) if dry_run else None
        if dry_run:
            resyncable = []
        elif changes and resyncable:
            resyncable = await _change_jobs(connection, resyncable, changes)
        runs = {document.job_id: ids.job_run_id() for document in resyncable}
        if resyncable:
            await connection.execute(_QUEUE_STATEMENT, {**_queue_params(resyncable, runs), **origin.origin_params()})
            await connection.execute(_RESET_ARCHIVES_STATEMENT, {"ids": [*stored_ids, *member_ids]})
            if seal:
                await passwords.store_password(connection, list(runs.values()), seal)
    results = [
        ResyncResult(row.id, NOT_ELIGIBLE_STATUS, reasons[row.id])
        if row.id in reasons
        else ResyncResult(row.id, QUEUED_STATUS)
        for row in documents.sort_newest_first(rows)
    ]
    return Resync(results + removed, list(runs.values()), size)


_DEPARTED_REASON = (
    "It is gone at its content service: send confirmDeletions: true to remove it; if it comes back there, the next"
    " ingestion brings it."
)
_LISTED_REASON = "Its source lists it with other settings: ingest the source again with this ocrConfig."
_AT_WORK_REASON = "It is being ingested; wait for its end."
_UNCONNECTED_REASON = "Its connection is not ACTIVE: authorize the connection again, or ingest it with another one."

_REVOKED_REASON = (
    "It was kept when its connection was revoked, and comes from no connection any more: ingest it with another one."
)


class _UnconnectedDocument(NamedTuple):
    id: str
    is_connected: bool


async def _find_unconnected(connection: LoopConnection, rows: Sequence[DocumentRow]) -> dict[str, str]:
    """Return the refusal reason of documents without an ACTIVE connection."""
    unconnected = await connection.async_fetch(
        _UnconnectedDocument,
        "select d.id, c.status is not null as is_connected from documents d left join connections c"
        " on c.id = d.connection_id where d.id = any(%(ids)s) and d.source = any(%(connected)s)"
        " and c.status is distinct from 'ACTIVE' and not exists (select from connections o where o.status = 'ACTIVE'"
        " and o.id = any(" + connection_documents.CONNECTION_IDS + "))",
        {"ids": [row.id for row in rows], "connected": list(CONNECTED_SOURCES)},
    )
    return {row.id: _UNCONNECTED_REASON if row.is_connected else _REVOKED_REASON for row in unconnected}


_PACKED_REASON = "It was packed into another file: resync that one, which is fetched anew with all that is in it."
# Archives are unpacked again; unchanged members are skipped.
_RESET_ARCHIVES_STATEMENT: LiteralString = """
    update documents d set fingerprint = null
    where d.id = any(%(ids)s) and exists (
        select from documents m where m.archive_id = d.id and m.deleted_at is null
    )
"""


@dataclass(frozen=True, slots=True)
class _StoredContent:
    """Stored columns of a document's newest content: of the visible generation, or of the failed run."""

    id: str
    job_id: str
    archive_id: str | None
    source: str
    name: str
    media_type: str
    from_run: str
    in_inbox: bool
    raw_key: str | None
    raw_hash: bytes | None
    raw_size: int | None
    generation: int | None
    properties: dict[str, Any]


async def _change_jobs(
    connection: LoopConnection, documents: Sequence[_StoredContent], changes: Mapping[str, Any]
) -> list[_StoredContent]:
    """Copy the jobs with a changed configuration; return the documents with the new jobs."""
    copies = {document.job_id: ids.job_id() for document in documents}
    values = {"old": list(copies), "new": list(copies.values()), "changes": json.dumps(dict(changes))}
    await connection.execute(acceptance.COPY_JOBS_STATEMENT, values)
    return [replace(document, job_id=copies[document.job_id]) for document in documents]


def _only_with_archive(document: DocumentRow | _StoredContent) -> bool:
    return document.archive_id is not None and document.source in FETCHED_SOURCES


_STORED_CONTENT_QUERY: LiteralString = (
    """
    select d.id, d.job_id, d.archive_id, d.source, m.name, m.media_type, m.job_run_id as from_run,
           i.document_id is not null as in_inbox,
           case when not d.source = any(%(fetched)s) then m.raw_key end as raw_key,
           case when not d.source = any(%(fetched)s) then m.raw_hash end as raw_hash,
           case when not d.source = any(%(fetched)s) then m.raw_size end as raw_size,
           case when not d.source = any(%(fetched)s) then m.generation end as generation, """
    + archive_members.ARCHIVE_PROPERTIES
    + """ as properties
    from documents d
    join run_documents m on m.document_id = d.id
     and case when d.status = 'SUCCESS' then m.generation = d.active_generation
              else m.job_run_id = d.job_run_id end
    left join inbox i on i.job_run_id = m.job_run_id and i.document_id = m.document_id
    where d.id = any(%(ids)s)
      and (m.raw_key is not null or i.document_id is not null or d.source = any(%(fetched)s))
    order by d.created_at, d.id
"""
)


_QUEUE_STATEMENT: LiteralString = """
    with listed as (
        select * from unnest(%(documents)s::text[], %(runs)s::text[], %(jobs)s::text[], %(names)s::text[],
                             %(media_types)s::text[], %(raw_keys)s::text[], %(raw_hashes)s::bytea[],
                             %(raw_sizes)s::bigint[], %(from_runs)s::text[], %(in_inbox)s::bool[],
                             %(properties)s::jsonb[], %(generations)s::bigint[]) with ordinality
                      as w (document, run, job, name, media_type, raw_key, raw_hash, raw_size, from_run, in_inbox,
                            properties, generation, position)
    ),
    made as (
        insert into job_runs (id, job_id, partition_id, source, request_id, traceparent)
        select w.run, j.id, j.partition_id, j.source, %(request_id)s, %(traceparent)s
        from (select run, job, min(position) as first from listed group by run, job) w join jobs j on j.id = w.job
        order by w.first
        returning id, number
    ),
    members as (
        insert into run_documents
            (job_run_id, document_id, position, generation, name, media_type, raw_key, raw_hash, raw_size, properties,
             access)
        select w.run, w.document, row_number() over (partition by w.run order by w.position) - 1, made.number, w.name,
               w.media_type, case when not w.in_inbox then w.raw_key end, case when not w.in_inbox then w.raw_hash end,
               case when not w.in_inbox then w.raw_size end, w.properties, (
                   select m.access from run_documents m where m.job_run_id = w.from_run and m.document_id = w.document)
        from listed w join made on made.id = w.run
    ),
    content as (
        insert into inbox (job_run_id, document_id, content)
        select w.run, w.document, i.content from listed w
        join inbox i on i.job_run_id = w.from_run and i.document_id = w.document
    )
    update documents d set status = 'QUEUED_FOR_RESYNC', error = null, job_run_id = w.run, job_id = w.job,
                           updated_at = now()
    from listed w join made on made.id = w.run where d.id = w.document
"""


def _queue_params(documents: Sequence[_StoredContent], runs: Mapping[str, str]) -> dict[str, list[Any]]:
    return {
        "documents": [document.id for document in documents],
        "runs": [runs[document.job_id] for document in documents],
        "jobs": [document.job_id for document in documents],
        "names": [document.name for document in documents],
        "media_types": [document.media_type for document in documents],
        "raw_keys": [document.raw_key for document in documents],
        "raw_hashes": [document.raw_hash for document in documents],
        "raw_sizes": [document.raw_size for document in documents],
        "from_runs": [document.from_run for document in documents],
        "in_inbox": [document.in_inbox for document in documents],
        "properties": [json.dumps(document.properties) for document in documents],
        "generations": [document.generation for document in documents],
    }
