"""Resync: ingest documents again from what is stored of them, as new runs of the jobs they came from."""

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
from retrieval.sources import CONNECTED, FETCHED
from retrieval.statuses import DocumentStatus

QUEUED = DocumentStatus.QUEUED_FOR_RESYNC
NOT_ELIGIBLE = "NOT_ELIGIBLE_FOR_RESYNC"
REMOVED = "REMOVED"

_AT_REST = frozenset({DocumentStatus.BACKLOG, DocumentStatus.SUCCESS, DocumentStatus.FAILED, DocumentStatus.CANCELLED})


@dataclass(frozen=True, slots=True)
class ResyncResult:
    """Result for a matching document: `error` is the reason why it is not eligible."""

    id: str
    status: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Resync:
    """The documents that matched, newest first, and the job runs: one for each job that they came from.

    `size`: what is stored of the queued documents.
    """

    documents: list[ResyncResult]
    job_runs: list[str] = field(default_factory=list)
    size: StoredSize | None = None

    @property
    def queued(self) -> int:
        return sum(document.status == QUEUED for document in self.documents)


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
    """Queue those that match and are eligible; nothing but their status changes until their runs are done.

    `confirm_deletions`: those that left their content service, and were held for confirmation, are removed. `changes`:
    to the configuration of their jobs, by the keys of `job_config`; they then belong to copies of these jobs.
    `dry_run`: nothing is changed, and the answer has the size of what would be queued. `seal`: of the password that
    opens protected files.
    """
    documents.require_restriction(where)
    async with db.async_transaction() as connection:
        rows = await documents.lock_matching(connection, scope, where)
        departed = [row.id for row in rows if row.awaiting_removal]
        if confirm_deletions:
            if not dry_run:
                await deletion.async_delete_documents(connection, departed)
                await connection.execute(connection_documents.CONFIRM_DEPARTURES, {"ids": [row.id for row in rows]})
            removed = [ResyncResult(row.id, REMOVED) for row in rows if row.id in departed]
            rows = [row for row in rows if row.id not in departed]
        else:
            removed = []
        refused = dict.fromkeys((row.id for row in rows if row.status not in _AT_REST), _AT_WORK)
        refused |= await _unconnected(connection, rows)
        if changes:
            refused |= dict.fromkeys((row.id for row in rows if row.source not in job_config.CHANGEABLE), _LISTED)
        refused |= {} if confirm_deletions else dict.fromkeys(departed, _DEPARTED)
        eligible_ids = [row.id for row in rows if row.id not in refused]
        stored = await connection.async_fetch(_Stored, _STORED, {"ids": eligible_ids, "fetched": list(FETCHED)})
        stored = [document for document in stored if not _only_with_archive(document)]
        carried = await connection.async_fetch(
            str, archive_members.MEMBERS_OF_ANY, {"ids": [document.id for document in stored]}
        )
        stored = [document for document in stored if document.id not in carried]
        stored_ids = [document.id for document in stored]
        refused |= {
            row.id: _PACKED if _only_with_archive(row) else "Its content is not stored any more; ingest it again."
            for row in rows
            if row.id not in {*refused, *carried, *stored_ids}
        }
        size = await counts.read_size(connection, [*stored_ids, *carried]) if dry_run else None
        if dry_run:
            stored = []
        elif changes and stored:
            stored = await _change_jobs(connection, stored, changes)
        runs = {document.job_id: ids.job_run_id() for document in stored}
        if stored:
            await connection.execute(_QUEUE, {**_values(stored, runs), **origin.origin_params()})
            await connection.execute(_OPEN_AGAIN, {"ids": [*stored_ids, *carried]})
            if seal:
                await passwords.keep_password(connection, list(runs.values()), seal)
    answered = [
        ResyncResult(row.id, NOT_ELIGIBLE, refused[row.id]) if row.id in refused else ResyncResult(row.id, QUEUED)
        for row in documents.sort_newest_first(rows)
    ]
    return Resync(answered + removed, list(runs.values()), size)


_DEPARTED = (
    "It is gone at its content service: send confirmDeletions: true to remove it; if it comes back there, the next"
    " ingestion brings it."
)
_LISTED = "Its source lists it with other settings: ingest the source again with this ocrConfig."
_AT_WORK = "It is being ingested; wait for its end."
_UNCONNECTED = "Its connection is not ACTIVE: authorize the connection again, or ingest it with another one."

_KEPT = (
    "It was kept when its connection was revoked, and comes from no connection any more: ingest it with another one."
)


class _Unconnected(NamedTuple):
    id: str
    is_connected: bool


async def _unconnected(connection: LoopConnection, rows: Sequence[DocumentRow]) -> dict[str, str]:
    """Return documents of content services without an ACTIVE connection, with the reason."""
    unconnected = await connection.async_fetch(
        _Unconnected,
        "select d.id, c.status is not null as is_connected from documents d left join connections c"
        " on c.id = d.connection_id where d.id = any(%(ids)s) and d.source = any(%(connected)s)"
        " and c.status is distinct from 'ACTIVE' and not exists (select from connections o where o.status = 'ACTIVE'"
        " and o.id = any(" + connection_documents.CONNECTION_IDS + "))",
        {"ids": [row.id for row in rows], "connected": list(CONNECTED)},
    )
    return {row.id: _UNCONNECTED if row.is_connected else _KEPT for row in unconnected}


_PACKED = "It was packed into another file: resync that one, which is fetched anew with all that is in it."
_OPEN_AGAIN: LiteralString = """
    update documents d set fingerprint = null
    where d.id = any(%(ids)s) and exists (
        select from documents m where m.archive_id = d.id and m.deleted_at is null
    )
"""
"""Archives are unpacked again, changed or not; members that have not changed are not done again."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """What is stored of a document's newest content: that of the visible generation, or of the failed run."""

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
    connection: LoopConnection, stored: Sequence[_Stored], changes: Mapping[str, Any]
) -> list[_Stored]:
    """Copy the jobs of the documents with changes to their configuration. Return the documents with the new jobs."""
    copies = {document.job_id: ids.job_id() for document in stored}
    values = {"old": list(copies), "new": list(copies.values()), "changes": json.dumps(dict(changes))}
    await connection.execute(acceptance.COPY_JOBS, values)
    return [replace(document, job_id=copies[document.job_id]) for document in stored]


def _only_with_archive(document: DocumentRow | _Stored) -> bool:
    return document.archive_id is not None and document.source in FETCHED


_STORED: LiteralString = (
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


_QUEUE: LiteralString = """
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


def _values(stored: Sequence[_Stored], runs: Mapping[str, str]) -> dict[str, list[Any]]:
    return {
        "documents": [document.id for document in stored],
        "runs": [runs[document.job_id] for document in stored],
        "jobs": [document.job_id for document in stored],
        "names": [document.name for document in stored],
        "media_types": [document.media_type for document in stored],
        "raw_keys": [document.raw_key for document in stored],
        "raw_hashes": [document.raw_hash for document in stored],
        "raw_sizes": [document.raw_size for document in stored],
        "from_runs": [document.from_run for document in stored],
        "in_inbox": [document.in_inbox for document in stored],
        "properties": [json.dumps(document.properties) for document in stored],
        "generations": [document.generation for document in stored],
    }
