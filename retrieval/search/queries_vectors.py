"""SQL of the vector cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from retrieval.access.reading import scope_statement
from retrieval.database.database import Database
from retrieval.database.rows import array_literal
from retrieval.database.sessions import INDEX_SCANS_ONLY
from retrieval.filters import DocumentFilter
from retrieval.principals import Viewer
from retrieval.search.queries import COSINE_DISTANCE, vector_params


@dataclass(frozen=True, slots=True)
class VersionVectors:
    """Chunk ids of a version as 8-byte integers, and halfvecs in binary."""

    version: str
    chunks: bytes
    vectors: bytes


def list_versions(
    db: Database, partition_id: int, document_filter: DocumentFilter, *, viewer: Viewer | None, limit: int
) -> list[str]:
    """List up to `limit` visible versions of matching documents, as `document generation`."""
    condition, params = document_filter.sql("d")
    statement: LiteralString = f"""
        select coalesce(string_agg(version, ','), '') as versions from (
            select d.id || ' ' || d.active_generation as version from documents d
            where d.partition_id = %(partition)s and d.deleted_at is null and d.active_generation > 0 and {condition}
            limit %(limit)s
        ) every
    """
    scoped = scope_statement(statement, {**params, "partition": partition_id, "limit": limit}, viewer)
    versions = db.fetch_one(str, scoped.text, dict(scoped.params))
    return versions.split(",") if versions else []


_CHUNKS_OF_VERSIONS: LiteralString = """
    unnest(%(versions)s::text[]) v(version) join chunks c
    on c.document_id = split_part(v.version, ' ', 1) and c.generation = split_part(v.version, ' ', 2)::bigint
"""


def count_chunks(db: Database, versions: Sequence[str], limit: int) -> int:
    statement: LiteralString = f"select count(*) from (select from {_CHUNKS_OF_VERSIONS} limit %(limit)s) counted"
    with db.tuned(INDEX_SCANS_ONLY) as connection:
        return connection.fetch_one(int, statement, {"versions": list(versions), "limit": limit}) or 0


def read_vectors(db: Database, partition_id: int, versions: Sequence[str], dimensions: int) -> list[VersionVectors]:
    """Read vectors by version; zeros replace vectors of other dimensions."""
    statement: LiteralString = f"""
        select v.version, string_agg(int8send(c.id), ''::bytea) as chunks,
               string_agg(case when vector_dims(e.values) = %(size)s then halfvec_send(e.values::halfvec)
                          else %(zeros)s::bytea end, ''::bytea) as vectors
        from {_CHUNKS_OF_VERSIONS}
        left join embeddings e on e.partition_id = %(partition)s and e.key = c.embedding_key
        group by v.version
    """
    zeros = bytes(4 + 2 * dimensions)
    params = {"versions": list(versions), "partition": partition_id, "size": dimensions, "zeros": zeros}
    with db.tuned(INDEX_SCANS_ONLY) as connection:
        return connection.fetch(VersionVectors, statement, params, binary=True)


def sort_nearest(
    db: Database, partition_id: int, chunks: Sequence[int], values: Sequence[float], limit: int
) -> list[int]:
    """Return the `limit` chunks nearest to the query, in order."""
    statement: LiteralString = f"""
        select c.id from unnest(%(chunks)s::bigint[]) n(id)
        cross join lateral (select id, embedding_key from chunks where id = n.id limit 1) c
        join embeddings e on e.partition_id = %(partition)s and e.key = c.embedding_key
        order by {COSINE_DISTANCE}, c.id limit %(limit)s
    """
    params = {"partition": partition_id, "chunks": array_literal(chunks), "limit": limit, **vector_params(values)}
    with db.tuned(INDEX_SCANS_ONLY) as connection:
        return connection.fetch(int, statement, params, prepare=True)
