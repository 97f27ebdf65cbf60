"""Statements to find and to repair inconsistent rows. Each reads one snapshot of the tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, LiteralString

from retrieval.database.rows import Executor
from retrieval.keywords import queries as keyword_queries
from retrieval.maintenance.fsck.findings import IS_AT_WORK, IS_BEING_WRITTEN, IS_SWEPT, UNREPAIRABLE_ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenRow:
    """Inconsistent row: namespace and document, description for people, and parameters of its repair."""

    namespace_id: str | None
    document_id: str | None
    detail: str
    partition_id: int | None = None
    organization_id: str | None = None
    tenant: str | None = None
    table_name: str | None = None
    chunk_id: int | None = None
    generation: int | None = None
    key: bytes | None = None
    dimensions: int | None = None
    connection_id: str | None = None
    job_run_id: str | None = None
    term: str | None = None
    source: str | None = None
    status: str | None = None
    difference: int | None = None
    chunks: int | None = None
    terms: int | None = None


# Join of the namespace `n` by an expression of a partition's id.
_NAMESPACE_JOIN: LiteralString = "join partitions p on p.id = {partition} join namespaces n on n.id = p.namespace_id"
PARTITIONED_TABLES: tuple[LiteralString, ...] = (
    "chunks",
    "embeddings",
    "vectors",
    "postings",
    "posting_blocks",
    "posting_changes",
    "posting_packs",
    "term_counts",
)


INVISIBLE_POSTINGS: LiteralString = """
    select distinct on (p.chunk_id) p.partition_id, p.chunk_id, c.document_id, n.id as namespace_id,
           'postings of chunk ' || p.chunk_id || ', which is not visible' as detail
    from postings p join partitions a on a.id = p.partition_id
    join namespaces n on n.id = a.namespace_id and n.deleted_at is null
    left join chunks c on c.id = p.chunk_id
    left join documents d on d.id = c.document_id and d.active_generation = c.generation and d.deleted_at is null
    where d.id is null or c.partition_id <> p.partition_id
"""
MISSING_POSTINGS: LiteralString = (
    """
    with indexed as materialized (
        select chunk_id, coalesce(sum(tf) filter (where """
    + keyword_queries.IN_LENGTH
    + """), 0) as terms, min(length) as shortest, max(length) as longest
        from postings group by chunk_id
    )
    select c.partition_id, c.id as chunk_id, c.document_id, n.id as namespace_id,
           'chunk ' || c.index || ' is not indexed with all of its words' as detail
    from chunks c """
    + _NAMESPACE_JOIN.format(partition="c.partition_id")
    + """ and n.deleted_at is null
    join documents d on d.id = c.document_id and d.active_generation = c.generation and d.deleted_at is null
    left join indexed i on i.chunk_id = c.id
    where case when i.chunk_id is null
               then length(to_tsvector(replace(coalesce(d.keyword_language, %(language)s), '=', '')::regconfig,
                                       left(c.content, """
    + keyword_queries.MAX_CHARACTERS
    + """))) > 0
               else i.shortest <> i.longest or i.terms <> i.longest end
"""
)
WRONG_TERM_COUNTS: LiteralString = """
    with stored as (
        select partition_id, term, sum(chunks)::bigint as chunks from term_counts group by partition_id, term
    ),
    actual as (select partition_id, term, count(*) as chunks from postings group by partition_id, term)
    select partition_id, term, n.id as namespace_id, null as document_id,
           coalesce(actual.chunks, 0) - coalesce(stored.chunks, 0) as difference,
           'term counted in ' || coalesce(stored.chunks, 0) || ' chunks, stands in ' || coalesce(actual.chunks, 0)
           as detail
    from stored full join actual using (partition_id, term)
    join partitions p on p.id = partition_id join namespaces n on n.id = p.namespace_id and n.deleted_at is null
    where coalesce(actual.chunks, 0) <> coalesce(stored.chunks, 0)
"""
WRONG_COUNTERS: LiteralString = f"""
    with actual as (
        select partition_id, count(distinct chunk_id) as chunks,
               coalesce(sum(tf) filter (where {keyword_queries.IN_LENGTH}), 0) as terms
        from postings group by partition_id
    )
    select p.id as partition_id, n.id as namespace_id, null as document_id,
           coalesce(r.chunks, 0) - p.chunks as chunks, coalesce(r.terms, 0) - p.terms as terms,
           'counted ' || p.chunks || ' chunks and ' || p.terms || ' terms, there are ' || coalesce(r.chunks, 0)
           || ' and ' || coalesce(r.terms, 0) as detail
    from partitions p join namespaces n on n.id = p.namespace_id and n.deleted_at is null
    left join actual r on r.partition_id = p.id
    where p.chunks <> coalesce(r.chunks, 0) or p.terms <> coalesce(r.terms, 0)
"""
WRONG_DOCUMENT_COUNTS: LiteralString = """
    with stored as (
        select partition_id, source, status, sum(documents)::bigint as documents from document_counts group by 1, 2, 3
    ),
    actual as (
        select partition_id, source, status, count(*) as documents from documents where deleted_at is null
        group by 1, 2, 3
    )
    select partition_id, source, status, n.id as namespace_id, null as document_id,
           coalesce(actual.documents, 0) - coalesce(stored.documents, 0) as difference,
           'counted ' || coalesce(stored.documents, 0) || ' documents of ' || source || ' as ' || status
           || ', there are ' || coalesce(actual.documents, 0) as detail
    from stored full join actual using (partition_id, source, status)
    join partitions p on p.id = partition_id join namespaces n on n.id = p.namespace_id and n.deleted_at is null
    where coalesce(actual.documents, 0) <> coalesce(stored.documents, 0)
"""
INVISIBLE_CHUNKS: LiteralString = (
    """
    select c.id as chunk_id, c.partition_id, c.document_id, c.generation, n.id as namespace_id, n.organization_id,
           p.tenant, 'chunk ' || c.index || ' of version ' || c.generation || ', which nothing shows' as detail
    from chunks c """
    + _NAMESPACE_JOIN.format(partition="c.partition_id")
    + """ and n.deleted_at is null
    left join documents d on d.id = c.document_id
    where (d.id is null or d.active_generation <> c.generation or d.partition_id <> c.partition_id) and not """
    + IS_BEING_WRITTEN.format(generation="c.generation")
    + " and not "
    + IS_SWEPT.format(document="c.document_id", generation="c.generation")
)


def find_orphaned_rows(table: LiteralString) -> LiteralString:
    """Return the statement that counts a table's rows of missing partitions."""
    return f"""
    select {table}.partition_id, null as namespace_id, null as document_id, '{table}' as table_name,
           count(*) || ' rows of {table} in partition ' || {table}.partition_id || ', which does not exist' as detail
    from {table} where not exists (select from partitions p where p.id = {table}.partition_id)
    group by {table}.partition_id
"""


def delete_orphaned_rows(table: LiteralString) -> LiteralString:
    """Return the statement that deletes a table's rows of a missing partition."""
    return f"delete from {table} where partition_id = %(partition_id)s"


UNUSED_EMBEDDINGS: LiteralString = """
    select e.partition_id, e.key, n.id as namespace_id, null as document_id,
           'embedding ' || encode(e.key, 'hex') || ' of no chunk' as detail
    from embeddings e join partitions p on p.id = e.partition_id
    join namespaces n on n.id = p.namespace_id and n.deleted_at is null
    where not exists (select from chunks c where c.partition_id = e.partition_id and c.embedding_key = e.key)
      and not exists (select from sweeps s where s.partition_id = e.partition_id and s.kind = 'embeddings')
"""
MISSING_EMBEDDINGS: LiteralString = (
    """
    select c.partition_id, c.id as chunk_id, c.document_id, n.id as namespace_id,
           'chunk ' || c.index || ' has no embedding' as detail
    from chunks c """
    + _NAMESPACE_JOIN.format(partition="c.partition_id")
    + """ and n.deleted_at is null
    join documents d on d.id = c.document_id and d.active_generation = c.generation and d.deleted_at is null
    where d.error is distinct from %(mark)s and not """
    + IS_AT_WORK.format(document="d.id")
    + """
      and not exists (select from embeddings e where e.partition_id = c.partition_id and e.key = c.embedding_key)
"""
)
WRONG_EMBEDDINGS: LiteralString = (
    """
    select c.partition_id, e.key, (d.embedding ->> 'dimensions')::int as dimensions, min(c.document_id) as document_id,
           n.id as namespace_id,
           'an embedding has ' || vector_dims(e.values) || ' dimensions, not ' || (d.embedding ->> 'dimensions')
           as detail
    from embeddings e join chunks c on c.partition_id = e.partition_id and c.embedding_key = e.key """
    + _NAMESPACE_JOIN.format(partition="c.partition_id")
    + """ and n.deleted_at is null
    join documents d on d.id = c.document_id and d.active_generation = c.generation and d.deleted_at is null
    where vector_dims(e.values) <> (d.embedding ->> 'dimensions')::int
    group by c.partition_id, e.key, e.values, d.embedding ->> 'dimensions', n.id
"""
)
UNSWEPT_DOCUMENTS: LiteralString = """
    select d.id as document_id, d.partition_id, n.id as namespace_id, 'deleted, and nothing clears it' as detail
    from documents d join partitions p on p.id = d.partition_id
    join namespaces n on n.id = p.namespace_id and n.deleted_at is null
    where d.deleted_at is not null
      and not exists (select from sweeps s where s.document_id = d.id and s.kind = 'document')
"""
UNSWEPT_NAMESPACES: LiteralString = """
    select p.id as partition_id, n.id as namespace_id, null as document_id,
           'the namespace is deleted, and nothing clears it' as detail
    from partitions p join namespaces n on n.id = p.namespace_id
    where n.deleted_at is not null
      and not exists (select from sweeps s where s.partition_id = p.id and s.kind = 'partition')
"""
LOST_LINKS: LiteralString = """
    select h.document_id, h.connection_id, n.id as namespace_id,
           'listed by connection ' || h.connection_id
           || case when d.id is null then ', but not there' else ', which does not exist' end as detail
    from connection_documents h
    left join documents d on d.id = h.document_id left join connections c on c.id = h.connection_id
    left join partitions p on p.id = coalesce(d.partition_id, c.partition_id)
    left join namespaces n on n.id = p.namespace_id
    where (d.id is null or c.id is null) and n.deleted_at is null
"""
WRONG_READERS: LiteralString = """
    select d.id as document_id, n.id as namespace_id,
           'its readers are not those of its access and of the versions that are being ingested' as detail
    from documents d
    join partitions p on p.id = d.partition_id join namespaces n on n.id = p.namespace_id and n.deleted_at is null
    where d.allowed <> access_allowed(intersect_access(d.access, d.access_limit))
       or d.denied <> access_denied(intersect_access(d.access, d.access_limit))
       or d.access_limit is not null and d.access_limit is distinct from access_limit_of(d.id)
"""
LOST_TEXTS: LiteralString = """
    select i.document_id, i.job_run_id, n.id as namespace_id, 'an accepted text of no document' as detail
    from inbox i join job_runs r on r.id = i.job_run_id join partitions p on p.id = r.partition_id
    join namespaces n on n.id = p.namespace_id and n.deleted_at is null
    where r.finished_at is not null and not exists (select from documents d where d.id = i.document_id)
"""

# By kind of finding: statement that finds rows, and statement that repairs one.
ROW_REPAIRS: Mapping[str, tuple[LiteralString, LiteralString]] = {
    "UNSWEPT_DOCUMENT": (
        UNSWEPT_DOCUMENTS,
        "insert into sweeps (partition_id, kind, document_id) values (%(partition_id)s, 'document', %(document_id)s)",
    ),
    "UNSWEPT_NAMESPACE": (
        UNSWEPT_NAMESPACES,
        "insert into sweeps (partition_id, kind) values (%(partition_id)s, 'partition')",
    ),
    "ORPHAN_LINK": (
        LOST_LINKS,
        "delete from connection_documents where document_id = %(document_id)s and connection_id = %(connection_id)s",
    ),
    "ORPHAN_TEXT": (
        LOST_TEXTS,
        "delete from inbox where job_run_id = %(job_run_id)s and document_id = %(document_id)s",
    ),
    "WRONG_READERS": (
        WRONG_READERS,
        """
        with listed as (update documents set access = access where id = %(document_id)s returning id)
        select limit_access(array[id]) from listed
        """,
    ),
    # Differences are added, not set: concurrent writes count as well.
    "WRONG_TERM_COUNT": (
        WRONG_TERM_COUNTS,
        "insert into term_counts (partition_id, term, chunks) values (%(partition_id)s, %(term)s, %(difference)s)",
    ),
    "WRONG_DOCUMENT_COUNT": (
        WRONG_DOCUMENT_COUNTS,
        """
        insert into document_counts (partition_id, source, status, documents)
        values (%(partition_id)s, %(source)s, %(status)s, %(difference)s)
        """,
    ),
    "WRONG_COUNTER": (
        WRONG_COUNTERS,
        "update partitions set chunks = chunks + %(chunks)s, terms = terms + %(terms)s where id = %(partition_id)s",
    ),
}


def list_broken(db: Executor, statement: LiteralString, language: str) -> Iterator[dict[str, Any]]:
    """Yield the inconsistent rows that a statement finds, without null columns."""
    for row in db.fetch(BrokenRow, statement, {"mark": UNREPAIRABLE_ERROR, "language": language}):
        yield {name: value for name, value in asdict(row).items() if value is not None}


def list_stray_chunk(db: Executor, chunk_id: int) -> list[int]:
    """Return [chunk_id] if the chunk's document is missing or in another partition, else []."""
    statement: LiteralString = """
        select c.id from chunks c where c.id = %(chunk_id)s and not exists (
            select from documents d where d.id = c.document_id and d.partition_id = c.partition_id
        )
    """
    return db.fetch(int, statement, {"chunk_id": chunk_id})


def lock_visible(connection: Executor, chunk_id: int) -> bool:
    """Lock the document of a visible chunk; return False for an invisible chunk."""
    statement: LiteralString = (
        "select d.id from chunks c join documents d on d.id = c.document_id and d.deleted_at is null"
        " and d.active_generation = c.generation where c.id = %(id)s for update of d"
    )
    return connection.fetch_one(str, statement, {"id": chunk_id}) is not None


def copy_embedding(connection: Executor, chunk_id: int) -> None:
    """Copy the embedding of a chunk from the vector store in the database."""
    connection.execute(
        """
        insert into embeddings (partition_id, key, values)
        select c.partition_id, c.embedding_key, v.values from chunks c
        join vectors v on v.partition_id = c.partition_id
         and v.id = c.document_id || '#' || c.generation || '#' || c.index
        join documents d on d.id = c.document_id
         and vector_dims(v.values) = (d.embedding ->> 'dimensions')::int
        where c.id = %(chunk_id)s on conflict do nothing
        """,
        {"chunk_id": chunk_id},
    )
