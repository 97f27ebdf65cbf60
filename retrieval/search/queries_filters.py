"""SQL of the chunks behind a filter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, LiteralString

from retrieval.access.reading import scope_statement, viewed_database
from retrieval.database.database import Database
from retrieval.database.rows import Executor, array_literal
from retrieval.database.sessions import INDEX_SCANS_ONLY
from retrieval.filters import DocumentFilter
from retrieval.principals import Viewer
from retrieval.search.queries import COSINE_DISTANCE, vector_params

if TYPE_CHECKING:
    from retrieval.keywords.bm25_scorer import Numbers


@dataclass(frozen=True, slots=True)
class Matches:
    """Matching visible chunks, and the nearest of them in order."""

    chunks: Sequence[int] | Numbers
    nearest: list[int]


@dataclass(frozen=True, slots=True)
class MatchRow:
    """Row of `match_chunks`. `chunks` is None above the limit."""

    chunks: list[int] | None
    nearest: list[int]


def match_chunks(
    db: Database,
    partition_id: int,
    document_filter: DocumentFilter,
    values: Sequence[float] | None,
    *,
    viewer: Viewer | None,
    max_chunks: int,
    nearest: int,
) -> Matches | None:
    """List matching chunks and the `nearest` to the query; None above the limit."""
    condition, params = document_filter.sql("d")
    statement: LiteralString = f"""
        with matches as materialized (
            select c.id, c.embedding_key from documents d
            join chunks c on c.document_id = d.id and c.generation = d.active_generation
            where d.partition_id = %(partition)s and d.deleted_at is null and {condition}
              and {document_filter.has_row_sql("c", "d")}
            limit %(max_chunks)s::bigint + 1
        ),
        few as (select count(*) <= %(max_chunks)s as are from matches)
        select case when are then array(select id from matches) end as chunks, array(
            select m.id from matches m join embeddings e on e.partition_id = %(partition)s and e.key = m.embedding_key
            where are and %(size)s::int is not null order by {COSINE_DISTANCE}, m.id limit %(nearest)s
        ) as nearest from few
    """
    params |= {"partition": partition_id, "max_chunks": max_chunks, "nearest": nearest, **vector_params(values)}
    scoped = scope_statement(statement, params, viewer)
    matching = db.fetch_one(MatchRow, scoped.text, dict(scoped.params))
    return None if matching is None or matching.chunks is None else Matches(matching.chunks, matching.nearest)


def list_matching_chunks(
    db: Database, partition_id: int, document_filter: DocumentFilter, *, viewer: Viewer | None
) -> bytes:
    """List the ids of all matching chunks as 8-byte integers."""
    condition, params = document_filter.sql("d")
    statement: LiteralString = f"""
        select string_agg(int8send(c.id), ''::bytea) as chunks from documents d
        join chunks c on c.document_id = d.id and c.generation = d.active_generation
        where d.partition_id = %(partition)s and d.deleted_at is null and {condition}
    """
    scoped = scope_statement(statement, {**params, "partition": partition_id}, viewer)
    return db.fetch_one(bytes, scoped.text, dict(scoped.params)) or b""


def filter_chunks(
    db: Database,
    partition_id: int,
    chunks: Sequence[int],
    document_filter: DocumentFilter | None,
    *,
    viewer: Viewer | None,
) -> set[int]:
    """Return the chunks that match and are visible."""
    chunk_ids = array_literal(chunks)
    # Postings hold visible chunks only, so reading a chunk as the viewer suffices without a filter.
    if document_filter is None or not document_filter.can_exclude():
        visible_chunks: LiteralString = """
            select c.id from unnest(%(chunks)s::bigint[]) n(id)
            cross join lateral (select id from chunks where id = n.id limit 1) c
        """
        with viewed_database(db, viewer).tuned(INDEX_SCANS_ONLY) as connection:
            return set(connection.fetch(int, visible_chunks, {"chunks": chunk_ids}, prepare=True))
    condition, params = document_filter.sql("d")
    statement: LiteralString = f"""
        select c.id from unnest(%(chunks)s::bigint[]) n(id)
        cross join lateral (select id, document_id, generation from chunks where id = n.id limit 1) c
        cross join lateral (select * from documents where id = c.document_id limit 1) d
        where d.partition_id = %(partition)s and d.deleted_at is null and c.generation = d.active_generation
          and {condition}
    """
    scoped = scope_statement(statement, {**params, "partition": partition_id, "chunks": chunk_ids}, viewer)
    return set(db.fetch(int, scoped.text, dict(scoped.params)))


def sort_by_distance(
    db: Executor, partition_id: int, chunks: Sequence[int], values: Sequence[float] | None
) -> list[int]:
    """Sort chunks with an embedding, nearest first; empty without a query vector."""
    if values is None or not chunks:
        return []
    statement: LiteralString = f"""
        select c.id from unnest(%(chunks)s::bigint[]) n (id)
        cross join lateral (select id, embedding_key from chunks where id = n.id limit 1) c
        join embeddings e on e.partition_id = %(partition)s and e.key = c.embedding_key order by {COSINE_DISTANCE}, c.id
    """
    params = {"partition": partition_id, "chunks": array_literal(chunks), **vector_params(values)}
    return db.fetch(int, statement, params)
