"""Rows against rows: what each statement finds, with its repair. Each statement sees one moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import LiteralString

from retrieval.documents import embeddings
from retrieval.keywords import postings, queries
from retrieval.maintenance.fsck.findings import AT_WORK, BUSY, MARK, SWEPT, Finding, Instance, make_finding
from retrieval.maintenance.garbage_actions import ACTIONS

Repair = Callable[[Instance, Sequence[Finding]], None]

_ALIVE: LiteralString = "join partitions p on p.id = {partition} join namespaces n on n.id = p.namespace_id"
_BULK: tuple[LiteralString, ...] = (
    "chunks",
    "embeddings",
    "vectors",
    "postings",
    "posting_blocks",
    "posting_changes",
    "posting_packs",
    "term_counts",
)


@dataclass(frozen=True, slots=True)
class Check:
    """A statement that finds rows with their message, and the statement that repairs them."""

    kind: str
    statement: LiteralString
    repair: Repair


def find_broken_rows(instance: Instance) -> Iterator[tuple[Finding, Repair]]:
    """Everything that is wrong among the tables."""
    for check in CHECKS:
        for row in instance.db.rows(check.statement, {"mark": MARK, "language": instance.language}):
            yield make_finding(check.kind, row), check.repair


def _sql(statement: LiteralString) -> Repair:
    """Run a statement for each finding, with the values of its row."""

    def repair(instance: Instance, found: Sequence[Finding]) -> None:
        for item in found:
            instance.db.execute(statement, dict(item.data))

    return repair


def _generations(instance: Instance, found: Sequence[Finding]) -> None:
    """Clear invisible generations with the actions of garbage collection."""
    done = set()
    for item in found:
        sweep = item.sweep("generation")
        if (sweep.document_id, sweep.generation) not in done:
            done.add((sweep.document_id, sweep.generation))
            ACTIONS["generation"](instance.db, instance.stores(sweep.namespace_id), sweep)
        chunk_ids = instance.db.fetch(int, _STRAY, dict(item.data))
        with instance.db.transaction() as connection:
            embeddings.forget_chunks(connection, sweep.partition_id, chunk_ids)


_STRAY: LiteralString = """
    select c.id from chunks c where c.id = %(chunk_id)s and not exists (
        select from documents d where d.id = c.document_id and d.partition_id = c.partition_id
    )
"""


def _embeddings(instance: Instance, found: Sequence[Finding]) -> None:
    sweeps = {sweep.partition_id: sweep for sweep in (item.sweep("embeddings") for item in found)}
    for _, sweep in sorted(sweeps.items()):
        ACTIONS["embeddings"](instance.db, instance.stores(sweep.namespace_id), sweep)


def reindex_chunks(instance: Instance, found: Sequence[Finding]) -> None:
    """Postings of chunks that are not visible go, those of the others are made anew."""
    for item in found:
        with instance.db.transaction() as connection:
            chunk = item.data["chunk_id"]
            visible_id = connection.fetch_one(
                str,
                "select d.id from chunks c join documents d on d.id = c.document_id and d.deleted_at is null"
                " and d.active_generation = c.generation where c.id = %(id)s for update of d",
                {"id": chunk},
            )
            removed = postings.remove_chunks(connection, [chunk])
            added = (0, 0)
            if visible_id is not None:
                added = postings.index_chunks(connection, item.data["partition_id"], [chunk], instance.language)
            connection.execute(
                "update partitions set chunks = chunks + %(chunks)s, terms = terms + %(terms)s where id = %(id)s",
                {"chunks": added[0] - removed[0], "terms": added[1] - removed[1], "id": item.data["partition_id"]},
            )


def _wrong_embeddings(instance: Instance, found: Sequence[Finding]) -> None:
    """Delete embeddings with wrong dimensions; the next round repairs them as missing ones."""
    for item in found:
        with instance.db.transaction() as connection:
            embeddings.forget_wrong(connection, item.data["partition_id"], item.data["key"], item.data["dimensions"])


def _missing_embeddings(instance: Instance, found: Sequence[Finding]) -> None:
    """The embedded store holds the same vectors; what it lacks too is made again with the document (`documents`)."""
    for item in found:
        with instance.db.transaction() as connection:
            embeddings.hold_vectors(connection, item.data["partition_id"])
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
                dict(item.data),
            )


_WORDS: LiteralString = """
    select distinct on (p.chunk_id) p.partition_id, p.chunk_id, c.document_id, n.id as namespace_id,
           'postings of chunk ' || p.chunk_id || ', which is not visible' as detail
    from postings p join partitions a on a.id = p.partition_id
    join namespaces n on n.id = a.namespace_id and n.deleted_at is null
    left join chunks c on c.id = p.chunk_id
    left join documents d on d.id = c.document_id and d.active_generation = c.generation and d.deleted_at is null
    where d.id is null or c.partition_id <> p.partition_id
"""
_NO_WORDS: LiteralString = (
    """
    with indexed as materialized (
        select chunk_id, coalesce(sum(tf) filter (where """
    + queries.IN_LENGTH
    + """), 0) as terms, min(length) as shortest, max(length) as longest
        from postings group by chunk_id
    )
    select c.partition_id, c.id as chunk_id, c.document_id, n.id as namespace_id,
           'chunk ' || c.index || ' is not indexed with all of its words' as detail
    from chunks c """
    + _ALIVE.format(partition="c.partition_id")
    + """ and n.deleted_at is null
    join documents d on d.id = c.document_id and d.active_generation = c.generation and d.deleted_at is null
    left join indexed i on i.chunk_id = c.id
    where case when i.chunk_id is null
               then length(to_tsvector(replace(coalesce(d.keyword_language, %(language)s), '=', '')::regconfig,
                                       left(c.content, """
    + queries.MAX_CHARACTERS
    + """))) > 0
               else i.shortest <> i.longest or i.terms <> i.longest end
"""
)
_TERMS: LiteralString = """
    with said as (
        select partition_id, term, sum(chunks)::bigint as chunks from term_counts group by partition_id, term
    ),
    real as (select partition_id, term, count(*) as chunks from postings group by partition_id, term)
    select partition_id, term, n.id as namespace_id, null as document_id,
           coalesce(real.chunks, 0) - coalesce(said.chunks, 0) as difference,
           'term counted in ' || coalesce(said.chunks, 0) || ' chunks, stands in ' || coalesce(real.chunks, 0) as detail
    from said full join real using (partition_id, term)
    join partitions p on p.id = partition_id join namespaces n on n.id = p.namespace_id and n.deleted_at is null
    where coalesce(real.chunks, 0) <> coalesce(said.chunks, 0)
"""
_COUNTERS: LiteralString = f"""
    with real as (
        select partition_id, count(distinct chunk_id) as chunks,
               coalesce(sum(tf) filter (where {queries.IN_LENGTH}), 0) as terms
        from postings group by partition_id
    )
    select p.id as partition_id, n.id as namespace_id, null as document_id,
           coalesce(r.chunks, 0) - p.chunks as chunks, coalesce(r.terms, 0) - p.terms as terms,
           'counted ' || p.chunks || ' chunks and ' || p.terms || ' terms, there are ' || coalesce(r.chunks, 0)
           || ' and ' || coalesce(r.terms, 0) as detail
    from partitions p join namespaces n on n.id = p.namespace_id and n.deleted_at is null
    left join real r on r.partition_id = p.id
    where p.chunks <> coalesce(r.chunks, 0) or p.terms <> coalesce(r.terms, 0)
"""
_CHUNKS: LiteralString = (
    """
    select c.id as chunk_id, c.partition_id, c.document_id, c.generation, n.id as namespace_id, n.organization_id,
           p.tenant, 'chunk ' || c.index || ' of version ' || c.generation || ', which nothing shows' as detail
    from chunks c """
    + _ALIVE.format(partition="c.partition_id")
    + """ and n.deleted_at is null
    left join documents d on d.id = c.document_id
    where (d.id is null or d.active_generation <> c.generation or d.partition_id <> c.partition_id) and not """
    + BUSY.format(generation="c.generation")
    + " and not "
    + SWEPT.format(document="c.document_id", generation="c.generation")
)


def _count_lost(table: LiteralString) -> LiteralString:
    """Return the statement that counts rows whose partition does not exist."""
    return f"""
    select {table}.partition_id, null as namespace_id, null as document_id, '{table}' as place,
           count(*) || ' rows of {table} in partition ' || {table}.partition_id || ', which does not exist' as detail
    from {table} where not exists (select from partitions p where p.id = {table}.partition_id)
    group by {table}.partition_id
"""


_UNUSED: LiteralString = """
    select e.partition_id, e.key, n.id as namespace_id, null as document_id,
           'embedding ' || encode(e.key, 'hex') || ' of no chunk' as detail
    from embeddings e join partitions p on p.id = e.partition_id
    join namespaces n on n.id = p.namespace_id and n.deleted_at is null
    where not exists (select from chunks c where c.partition_id = e.partition_id and c.embedding_key = e.key)
      and not exists (select from sweeps s where s.partition_id = e.partition_id and s.kind = 'embeddings')
"""
_NO_EMBEDDING: LiteralString = (
    """
    select c.partition_id, c.id as chunk_id, c.document_id, n.id as namespace_id,
           'chunk ' || c.index || ' has no embedding' as detail
    from chunks c """
    + _ALIVE.format(partition="c.partition_id")
    + """ and n.deleted_at is null
    join documents d on d.id = c.document_id and d.active_generation = c.generation and d.deleted_at is null
    where d.error is distinct from %(mark)s and not """
    + AT_WORK.format(document="d.id")
    + """
      and not exists (select from embeddings e where e.partition_id = c.partition_id and e.key = c.embedding_key)
"""
)
_WRONG_EMBEDDING: LiteralString = (
    """
    select c.partition_id, e.key, (d.embedding ->> 'dimensions')::int as dimensions, min(c.document_id) as document_id,
           n.id as namespace_id,
           'an embedding has ' || vector_dims(e.values) || ' dimensions, not ' || (d.embedding ->> 'dimensions')
           as detail
    from embeddings e join chunks c on c.partition_id = e.partition_id and c.embedding_key = e.key """
    + _ALIVE.format(partition="c.partition_id")
    + """ and n.deleted_at is null
    join documents d on d.id = c.document_id and d.active_generation = c.generation and d.deleted_at is null
    where vector_dims(e.values) <> (d.embedding ->> 'dimensions')::int
    group by c.partition_id, e.key, e.values, d.embedding ->> 'dimensions', n.id
"""
)
_UNSWEPT: LiteralString = """
    select d.id as document_id, d.partition_id, n.id as namespace_id, 'deleted, and nothing clears it' as detail
    from documents d join partitions p on p.id = d.partition_id
    join namespaces n on n.id = p.namespace_id and n.deleted_at is null
    where d.deleted_at is not null
      and not exists (select from sweeps s where s.document_id = d.id and s.kind = 'document')
"""
_UNSWEPT_SCOPE: LiteralString = """
    select p.id as partition_id, n.id as namespace_id, null as document_id,
           'the namespace is deleted, and nothing clears it' as detail
    from partitions p join namespaces n on n.id = p.namespace_id
    where n.deleted_at is not null
      and not exists (select from sweeps s where s.partition_id = p.id and s.kind = 'partition')
"""
_LINKS: LiteralString = """
    select h.document_id, h.connection_id, n.id as namespace_id,
           'listed by connection ' || h.connection_id
           || case when d.id is null then ', but not there' else ', which does not exist' end as detail
    from connection_documents h
    left join documents d on d.id = h.document_id left join connections c on c.id = h.connection_id
    left join partitions p on p.id = coalesce(d.partition_id, c.partition_id)
    left join namespaces n on n.id = p.namespace_id
    where (d.id is null or c.id is null) and n.deleted_at is null
"""
_READERS: LiteralString = """
    select d.id as document_id, n.id as namespace_id,
           'its readers are not those of its access and of the versions that are being ingested' as detail
    from documents d
    join partitions p on p.id = d.partition_id join namespaces n on n.id = p.namespace_id and n.deleted_at is null
    where d.allowed <> access_allowed(intersect_access(d.access, d.access_limit))
       or d.denied <> access_denied(intersect_access(d.access, d.access_limit))
       or d.access_limit is not null and d.access_limit is distinct from access_limit_of(d.id)
"""
_LIST_READERS: LiteralString = """
    with listed as (update documents set access = access where id = %(document_id)s returning id)
    select limit_access(array[id]) from listed
"""


_INBOX: LiteralString = """
    select i.document_id, i.job_run_id, n.id as namespace_id, 'an accepted text of no document' as detail
    from inbox i join job_runs r on r.id = i.job_run_id join partitions p on p.id = r.partition_id
    join namespaces n on n.id = p.namespace_id and n.deleted_at is null
    where r.finished_at is not null and not exists (select from documents d where d.id = i.document_id)
"""

CHECKS: tuple[Check, ...] = (
    *(
        Check(
            "ORPHAN_ROWS",
            _count_lost(table),
            _sql(f"delete from {table} where partition_id = %(partition_id)s"),
        )
        for table in _BULK
    ),
    Check("ORPHAN_CHUNK", _CHUNKS, _generations),
    Check("ORPHAN_POSTINGS", _WORDS, reindex_chunks),
    Check("MISSING_POSTINGS", _NO_WORDS, reindex_chunks),
    Check("ORPHAN_EMBEDDING", _UNUSED, _embeddings),
    Check("WRONG_EMBEDDING", _WRONG_EMBEDDING, _wrong_embeddings),
    Check("MISSING_EMBEDDING", _NO_EMBEDDING, _missing_embeddings),
    Check(
        "UNSWEPT_DOCUMENT",
        _UNSWEPT,
        _sql(
            "insert into sweeps (partition_id, kind, document_id)"
            " values (%(partition_id)s, 'document', %(document_id)s)"
        ),
    ),
    Check(
        "UNSWEPT_NAMESPACE",
        _UNSWEPT_SCOPE,
        _sql("insert into sweeps (partition_id, kind) values (%(partition_id)s, 'partition')"),
    ),
    Check(
        "ORPHAN_LINK",
        _LINKS,
        _sql(
            "delete from connection_documents where document_id = %(document_id)s and connection_id = %(connection_id)s"
        ),
    ),
    Check(
        "ORPHAN_TEXT",
        _INBOX,
        _sql("delete from inbox where job_run_id = %(job_run_id)s and document_id = %(document_id)s"),
    ),
    Check("WRONG_READERS", _READERS, _sql(_LIST_READERS)),
    # Differences are added, not set: what is written meanwhile counts as well.
    Check(
        "WRONG_TERM_COUNT",
        _TERMS,
        _sql(
            "insert into term_counts (partition_id, term, chunks) values (%(partition_id)s, %(term)s, %(difference)s)"
        ),
    ),
    Check(
        "WRONG_COUNTER",
        _COUNTERS,
        _sql(
            "update partitions set chunks = chunks + %(chunks)s, terms = terms + %(terms)s where id = %(partition_id)s"
        ),
    ),
)
