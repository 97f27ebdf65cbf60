"""Checks of documents: missing chunks, and ingestion again of documents that lost data."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import LiteralString, NamedTuple

from retrieval.database.database import Database
from retrieval.filters import DocumentFilter
from retrieval.jobs import resync
from retrieval.maintenance.fsck.findings import AT_WORK, MARK, Finding, Instance, Place, batches, finding
from retrieval.sources import FETCHED

_GAPS: LiteralString = (
    """
    select d.id as document_id, d.partition_id, n.id as namespace_id,
           'chunks are missing: there are ' || count(c.id) || ', the last one is number ' || coalesce(max(c.index), -1)
           as detail
    from documents d join partitions p on p.id = d.partition_id
    join namespaces n on n.id = p.namespace_id and n.deleted_at is null
    left join chunks c on c.document_id = d.id and c.generation = d.active_generation
    where d.deleted_at is null and d.active_generation > 0 and d.error is distinct from %(mark)s and not """
    + AT_WORK.format(document="d.id")
    + """
    group by d.id, d.partition_id, d.properties, n.id
    having count(c.id) <> coalesce(max(c.index), -1) + 1
        or count(c.id) < coalesce((d.properties ->> 'embeddingCount')::int, 0)
"""
)


class Stored(NamedTuple):
    """A document with what it can be ingested from again."""

    id: str
    source: str
    raw_key: str | None


_STORED: LiteralString = """
    select id, source, raw_key from documents where id = any(%(ids)s) and deleted_at is null
"""
_AGAIN: LiteralString = "update documents set fingerprint = null where id = any(%(ids)s)"
_GIVE_UP: LiteralString = """
    update documents set status = 'FAILED', error = %(mark)s, updated_at = now(),
        raw_key = case when raw_key = any(%(gone)s) then null else raw_key end,
        parsed_key = case when parsed_key = any(%(gone)s) then null else parsed_key end
    where id = any(%(ids)s) and deleted_at is null
"""


def find(instance: Instance) -> Iterator[Finding]:
    """Documents whose chunks are not all there."""
    for row in instance.db.rows(_GAPS, {"mark": MARK}):
        yield finding("MISSING_CHUNKS", row)


def ingest_again(instance: Instance, place: Place, document_ids: Sequence[str], gone: frozenset[str]) -> None:
    """Queue documents for a complete ingestion; mark those whose stored data does not suffice for one.

    gone: keys of files that are missing or not whole.
    """
    for part in batches(sorted(set(document_ids))):
        stored = instance.db.fetch(Stored, _STORED, {"ids": part})
        able = [row.id for row in stored if row.source in FETCHED or row.raw_key not in {None, *gone}]
        queued: set[str] = set()
        if able:
            instance.db.execute(_AGAIN, {"ids": able})
            started = asyncio.run(_started(instance.db, place, able))
            queued = {document.id for document in started.documents if document.status == resync.QUEUED}
        lost = [document for document in part if document not in queued]
        if lost:
            instance.db.execute(_GIVE_UP, {"ids": lost, "gone": sorted(gone), "mark": MARK})


async def _started(db: Database, place: Place, document_ids: Sequence[str]) -> resync.Resync:
    try:
        return await resync.start(db, place.scope, DocumentFilter(document_ids=tuple(document_ids)))
    finally:
        await db.async_close()
