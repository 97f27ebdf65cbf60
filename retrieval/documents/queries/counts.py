"""SQL of document counts by source and status; a trigger maintains partial counts in `document_counts`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from retrieval.database.database import Database
from retrieval.database.partitions import scope_params
from retrieval.database.statements import LoopConnection
from retrieval.ports import Scope

# Partial counts of a partition before they are merged.
MAX_PARTIAL_COUNTS = 100


@dataclass(frozen=True, slots=True)
class SourceStatusCount:
    """Number of documents of a source and status."""

    source: str
    status: str
    documents: int


async def read_counts(db: Database, scope: Scope) -> list[SourceStatusCount]:
    """Count all documents of a scope."""
    statement: LiteralString = """
        select c.source, c.status, sum(c.documents)::bigint as documents from document_counts c
        join partitions p on p.id = c.partition_id and p.namespace_id = %(namespace)s and p.tenant = %(tenant)s
        join namespaces n on n.id = p.namespace_id and n.organization_id = %(organization)s and n.deleted_at is null
        group by c.source, c.status having sum(c.documents) <> 0 order by c.source, c.status
    """
    return await db.async_fetch(SourceStatusCount, statement, scope_params(scope))


@dataclass(frozen=True, slots=True)
class StoredSize:
    """Size of stored documents. `unread`: documents without chunks, such as failed ones."""

    documents: int
    unread: int
    chunks: int
    tokens: int


async def read_size(connection: LoopConnection, document_ids: Sequence[str]) -> StoredSize:
    """Sum the size of the documents in search."""
    statement: LiteralString = """
        select count(*) as documents,
               count(*) filter (where coalesce((d.properties ->> 'embeddingCount')::int, 0) = 0) as unread,
               coalesce(sum((d.properties ->> 'embeddingCount')::bigint), 0)::bigint as chunks,
               coalesce(sum((d.properties ->> 'tokenCount')::bigint), 0)::bigint as tokens
        from documents d where d.id = any(%(ids)s)
    """
    return (await connection.async_fetch(StoredSize, statement, {"ids": list(document_ids)}))[0]


def merge_counts(db: Database) -> None:
    """Merge the partial counts of partitions with many; safe to run concurrently."""
    statement: LiteralString = """
        with many as materialized (
            select id from partitions where id in (
                select partition_id from document_counts group by partition_id having count(*) > %(parts)s limit 100
            ) order by id for key share skip locked
        ),
        summed as (delete from document_counts c using many where c.partition_id = many.id returning c.*)
        insert into document_counts (partition_id, source, status, documents)
        select partition_id, source, status, sum(documents) from summed group by partition_id, source, status
        having sum(documents) <> 0
    """
    db.execute(statement, {"parts": MAX_PARTIAL_COUNTS})
