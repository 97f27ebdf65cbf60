"""Statements of the upkeep of large scopes and languages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from retrieval.database.rows import Executor
from retrieval.keywords.queries import FIXED_PREFIX


@dataclass(frozen=True, slots=True)
class LargeScope:
    """Partition with many chunks."""

    id: int
    organization_id: str
    namespace_id: str
    tenant: str


@dataclass(frozen=True, slots=True)
class DueLanguage:
    """Partition to index in its namespace's language, or "" for each document's own."""

    id: int
    fixed: str | None
    target: str


@dataclass(frozen=True, slots=True)
class NextDocument:
    """Document to index again, with its number of chunks."""

    id: str
    chunks: int


_OTHER_LANGUAGE_CONDITION: LiteralString = f"""
    d.partition_id = %(partition)s and d.deleted_at is null and d.active_generation > 0
    and case when %(fixed)s::text is null
             then d.keyword_language is null or starts_with(d.keyword_language, '{FIXED_PREFIX}')
             else d.keyword_language is distinct from '{FIXED_PREFIX}' || %(fixed)s::text end
"""


def list_large(db: Executor, chunks: int) -> list[int]:
    """List the partitions with at least `chunks` chunks or packed posting lists, small ones first."""
    statement: LiteralString = """
        select p.id from partitions p join namespaces n on n.id = p.namespace_id
        where n.deleted_at is null
          and (p.chunks >= %(large)s or p.id in (select partition_id from posting_packs)) order by p.chunks
    """
    return db.fetch(int, statement, {"large": chunks})


def list_large_scopes(db: Executor, chunks: int) -> list[LargeScope]:
    statement: LiteralString = """
        select p.id, n.organization_id, p.namespace_id, p.tenant
        from partitions p join namespaces n on n.id = p.namespace_id
        where p.chunks >= %(large)s and n.deleted_at is null order by p.chunks
    """
    return db.fetch(LargeScope, statement, {"large": chunks})


def list_due(db: Executor) -> list[DueLanguage]:
    return db.fetch(
        DueLanguage,
        """
        select p.id, n.keyword_language as fixed, coalesce(n.keyword_language, '') as target
        from partitions p join namespaces n on n.id = p.namespace_id and n.deleted_at is null
        where p.keyword_state is distinct from coalesce(n.keyword_language, '') order by p.chunks
        """,
    )


def list_next(db: Executor, partition: int, fixed: str | None, after: str, limit: int) -> list[NextDocument]:
    """List documents indexed in another language, by id."""
    statement: LiteralString = f"""
        select d.id, (
            select count(*) from chunks c where c.document_id = d.id and c.generation = d.active_generation
        ) as chunks from documents d
        where {_OTHER_LANGUAGE_CONDITION} and d.id > %(after)s order by d.id limit %(limit)s
    """
    return db.fetch(NextDocument, statement, {"partition": partition, "fixed": fixed, "after": after, "limit": limit})


def lock_documents(connection: Executor, partition: int, fixed: str | None, document_ids: Sequence[str]) -> list[str]:
    """Lock the documents still indexed in another language; return their ids."""
    statement: LiteralString = (
        f"select d.id from documents d where {_OTHER_LANGUAGE_CONDITION} and d.id = any(%(ids)s)"
        " order by d.id for update"
    )
    return connection.fetch(str, statement, {"partition": partition, "fixed": fixed, "ids": list(document_ids)})


def list_chunks(connection: Executor, document_ids: Sequence[str]) -> list[int]:
    """List the visible chunks of the documents."""
    statement: LiteralString = """
        select c.id from documents d join chunks c on c.document_id = d.id and c.generation = d.active_generation
        where d.id = any(%(ids)s)
    """
    return connection.fetch(int, statement, {"ids": list(document_ids)})


def set_language(connection: Executor, document_ids: Sequence[str], language: str) -> None:
    """Set the language of documents without chunks."""
    # Postings set the language of others.
    connection.execute(
        """
        update documents set keyword_language = %(language)s
        where id = any(%(ids)s) and keyword_language is distinct from %(language)s
          and not exists (select from chunks c where c.document_id = documents.id and c.generation = active_generation)
        """,
        {"ids": list(document_ids), "language": language},
    )


def set_state(db: Executor, partition: int, fixed: str | None, target: str) -> None:
    """Record that the partition is indexed in its namespace's language, unless documents remain."""
    statement: LiteralString = f"""
        update partitions set keyword_state = %(target)s
        where id = %(partition)s and not exists (select from documents d where {_OTHER_LANGUAGE_CONDITION})
    """
    db.execute(statement, {"partition": partition, "fixed": fixed, "target": target})
