"""SQL to explain a document's rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

from retrieval.access.reading import viewed_database
from retrieval.database import partitions
from retrieval.database.database import Database
from retrieval.database.rows import Executor, array_literal
from retrieval.filters import DocumentFilter
from retrieval.keywords.queries import FIXED_PREFIX
from retrieval.ports import Scope
from retrieval.principals import Viewer
from retrieval.search.queries import COSINE_DISTANCE, vector_params


@dataclass(frozen=True, slots=True)
class ExplainedDocument:
    """Document with its number of visible chunks and its visible version, from 1."""

    id: str
    name: str
    status: str
    error: str | None
    active_generation: int
    partition_id: int
    hidden: Sequence[Mapping[str, Any]]
    chunks: int
    version: int


@dataclass(frozen=True, slots=True)
class NearerChunks:
    """Distance of a chunk, None without vector, and the number of nearer chunks."""

    distance: float | None
    nearer: int


def find_document(
    db: Executor, scope: Scope, document: str | None, external_id: str | None
) -> ExplainedDocument | None:
    """Find the latest document by either id."""
    statement: LiteralString = """
        select d.id, d.name, d.status, d.error, d.active_generation, d.partition_id, d.hidden, (
            select count(*) from chunks c where c.document_id = d.id and c.generation = d.active_generation
        ) as chunks, (
            select greatest(1, count(distinct m.generation)) from run_documents m
            where m.document_id = d.id and m.generation <= d.active_generation
        ) as version
        from documents d
        join partitions p on p.id = d.partition_id and p.tenant = %(tenant)s and p.namespace_id = %(namespace)s
        join namespaces n on n.id = p.namespace_id and n.organization_id = %(organization)s and n.deleted_at is null
        where d.deleted_at is null and (d.id = %(document)s or d.external_id = %(external)s)
        order by d.created_at desc, d.id desc limit 1
    """
    return db.fetch_one(
        ExplainedDocument, statement, {**partitions.scope_params(scope), "document": document, "external": external_id}
    )


def find_chunk(db: Executor, document: ExplainedDocument, index: int) -> int | None:
    """Find a visible chunk by position."""
    statement: LiteralString = """
        select c.id from documents d join chunks c on c.document_id = d.id and c.generation = d.active_generation
        where d.partition_id = %(partition)s and d.id = %(document)s and d.deleted_at is null and c.index = %(index)s
    """
    return db.fetch_one(int, statement, {"partition": document.partition_id, "document": document.id, "index": index})


def matches_filter(db: Executor, document_id: str, document_filter: DocumentFilter) -> bool:
    condition, params = document_filter.sql("d")
    statement: LiteralString = f"select ({condition}) from documents d where d.id = %(document)s"
    return bool(db.fetch_one(bool, statement, {**params, "document": document_id}))


def count_matching(db: Executor, partition_id: int, chunks: Sequence[int], document_filter: DocumentFilter) -> int:
    condition, params = document_filter.sql("d")
    statement: LiteralString = f"""
        select count(*) from unnest(%(chunks)s::bigint[]) b(id)
        cross join lateral (select document_id, generation from chunks where id = b.id limit 1) c
        cross join lateral (select * from documents where id = c.document_id limit 1) d
        where d.partition_id = %(partition)s and d.deleted_at is null and c.generation = d.active_generation
          and {condition}
    """
    return db.fetch_one(int, statement, {**params, "partition": partition_id, "chunks": array_literal(chunks)}) or 0


def find_semantic_rank(
    db: Executor, partition_id: int, document_filter: DocumentFilter | None, values: Sequence[float], chunk: int
) -> int | None:
    """Return the chunk's rank by exact comparison, from 1; None without a vector."""
    condition, params = document_filter.sql("d") if document_filter is not None else ("true", {})
    statement: LiteralString = f"""
        with mine as (
            select {COSINE_DISTANCE} as distance from chunks c join embeddings e
            on e.partition_id = c.partition_id and e.key = c.embedding_key
            where c.id = %(chunk)s and c.partition_id = %(partition)s
        )
        select (select distance from mine) as distance, count(*) as nearer from documents d
        join chunks c on c.document_id = d.id and c.generation = d.active_generation
        join embeddings e on e.partition_id = %(partition)s and e.key = c.embedding_key
        where d.partition_id = %(partition)s and d.deleted_at is null and {condition}
          and {COSINE_DISTANCE} < (select distance from mine)
    """
    params |= {**vector_params(values), "partition": partition_id, "chunk": chunk}
    row = db.fetch_one(NearerChunks, statement, params)
    return None if row is None or row.distance is None else row.nearer + 1


def has_any_term(db: Executor, chunk: int | None, terms: Sequence[str]) -> bool:
    statement: LiteralString = "select true from postings where chunk_id = %(chunk)s and term = any(%(terms)s)"
    return bool(db.fetch_one(bool, statement, {"chunk": chunk, "terms": list(terms)}))


def has_term(db: Executor, text: str, configuration: str) -> bool:
    """Check for a term in the text under a configuration."""
    statement: LiteralString = "select to_tsvector(%(language)s::regconfig, %(text)s) <> ''"
    return bool(db.fetch_one(bool, statement, {"language": configuration, "text": text}))


def has_document_in(db: Database, partition_id: int, configurations: Sequence[str] | None, viewer: Viewer) -> bool:
    """Check for a visible document in one of the configurations; None is any."""
    statement: LiteralString = f"""
        select true from documents d
        where d.partition_id = %(partition)s and d.deleted_at is null and d.active_generation > 0
          and (%(languages)s::text[] is null or ltrim(d.keyword_language, '{FIXED_PREFIX}') = any(%(languages)s))
        limit 1
    """
    languages = None if configurations is None else list(configurations)
    return bool(
        viewed_database(db, viewer).fetch_one(bool, statement, {"partition": partition_id, "languages": languages})
    )
