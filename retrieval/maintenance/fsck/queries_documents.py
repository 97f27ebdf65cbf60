"""Statements on documents with missing chunks or files."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import LiteralString, NamedTuple

from retrieval.database.rows import Executor
from retrieval.maintenance.fsck.findings import IS_AT_WORK, UNREPAIRABLE_ERROR

_GAPS_QUERY: LiteralString = (
    """
    select d.id as document_id, d.partition_id, n.id as namespace_id,
           'chunks are missing: there are ' || count(c.id) || ', the last one is number ' || coalesce(max(c.index), -1)
           as detail
    from documents d join partitions p on p.id = d.partition_id
    join namespaces n on n.id = p.namespace_id and n.deleted_at is null
    left join chunks c on c.document_id = d.id and c.generation = d.active_generation
    where d.deleted_at is null and d.active_generation > 0 and d.error is distinct from %(mark)s and not """
    + IS_AT_WORK.format(document="d.id")
    + """
    group by d.id, d.partition_id, d.properties, n.id
    having count(c.id) <> coalesce(max(c.index), -1) + 1
        or count(c.id) < coalesce((d.properties ->> 'embeddingCount')::int, 0)
"""
)


@dataclass(frozen=True, slots=True)
class ChunkGap:
    """Document with missing chunks."""

    document_id: str
    partition_id: int
    namespace_id: str
    detail: str


class StoredDocument(NamedTuple):
    """Document with its source or file for a new ingestion."""

    id: str
    source: str
    raw_key: str | None


def list_gaps(db: Executor) -> list[ChunkGap]:
    return db.fetch(ChunkGap, _GAPS_QUERY, {"mark": UNREPAIRABLE_ERROR})


def lacks_embedding(db: Executor, chunk_id: int) -> bool:
    """Check for an existing chunk without embedding."""
    statement: LiteralString = (
        "select exists (select from chunks c where c.id = %(chunk_id)s and not exists"
        " (select from embeddings e where e.partition_id = c.partition_id and e.key = c.embedding_key))"
    )
    return bool(db.fetch_one(bool, statement, {"chunk_id": chunk_id}))


def list_stored(db: Executor, document_ids: Sequence[str]) -> list[StoredDocument]:
    statement: LiteralString = (
        "select id, source, raw_key from documents where id = any(%(ids)s) and deleted_at is null"
    )
    return db.fetch(StoredDocument, statement, {"ids": list(document_ids)})


def forget_fingerprints(db: Executor, document_ids: Sequence[str]) -> None:
    """Make the next ingestion treat the content as changed."""
    db.execute("update documents set fingerprint = null where id = any(%(ids)s)", {"ids": list(document_ids)})


def mark_lost(db: Executor, document_ids: Sequence[str], missing_keys: Collection[str]) -> None:
    """Fail unrepairable documents and remove the keys of their missing files."""
    db.execute(
        """
        update documents set status = 'FAILED', error = %(mark)s, updated_at = now(),
            raw_key = case when raw_key = any(%(missing)s) then null else raw_key end,
            parsed_key = case when parsed_key = any(%(missing)s) then null else parsed_key end
        where id = any(%(ids)s) and deleted_at is null
        """,
        {"ids": list(document_ids), "missing": sorted(missing_keys), "mark": UNREPAIRABLE_ERROR},
    )
