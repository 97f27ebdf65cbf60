"""SQL of postings, term counts and index languages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, LiteralString

from retrieval.database.rows import Executor, Params
from retrieval.database.sessions import ThreadConnection
from retrieval.keywords import analyzer
from retrieval.keywords.queries_blocks import LENGTH_BITS

MAX_CHARACTERS: LiteralString = analyzer.MAX_TEXT_CHARACTERS
# Largest position count of a tsvector.
MAX_FREQUENCY: LiteralString = "255"
# Stop words do not count in a chunk's length.
IN_LENGTH: LiteralString = "left(term, 1) not in ('^', '~')"
# Prefix of a configuration fixed by the namespace.
FIXED_PREFIX: LiteralString = "="
# Above these numbers of changes and added chunks, lists are read by row instead of by block.
MAX_CHANGES, MAX_ADDED_CHUNKS = 1_000, 5_000
# Chunks in the sample for language detection.
_SAMPLE_CHUNKS: LiteralString = "4"


@dataclass(frozen=True, slots=True)
class ChunkContent:
    """Indexed text of a chunk. `title` is set for the first chunk of a document."""

    id: int
    document_id: str
    generation: int
    content: str
    title: str | None


@dataclass(frozen=True, slots=True)
class DeclaredLanguage:
    """Declared and fixed language of a document, with a sample of text."""

    id: str
    language: str
    fixed: str | None
    sample: str


@dataclass(frozen=True, slots=True)
class IndexSizes:
    """Numbers of chunks and terms added or removed."""

    chunks: int = 0
    terms: int = 0


@dataclass(frozen=True, slots=True)
class TermCounts:
    """Parts of a term's count, with their sum."""

    term: str
    parts: list[int]
    chunks: int


@dataclass(frozen=True, slots=True)
class TermStatistics:
    """Term of a query with its count, document frequency, and partition totals."""

    term: str
    times: float
    chunks: int
    total: int
    lengths: int
    # Configurations with this term for the query; empty for terms without a configuration.
    languages: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PostingList:
    """Postings of a term as blocks and rows. The first list holds changed chunks and the base."""

    place: int
    blocks: bytes | None
    rows: bytes | None
    base: int | None


def sort_chunks(db: Executor, partition_id: int, chunk_ids: Sequence[int]) -> list[int]:
    """Sort chunks by document, generation and position."""
    statement: LiteralString = """
        select id from chunks where id = any(%(chunks)s) and partition_id = %(partition)s
        order by document_id, generation, index
    """
    return db.fetch(int, statement, {"chunks": list(chunk_ids), "partition": partition_id})


def read_contents(db: Executor, chunk_ids: Sequence[int]) -> list[ChunkContent]:
    """Read chunks by document, generation and position."""
    statement: LiteralString = f"""
        select c.id, c.document_id, c.generation, left(c.content, {MAX_CHARACTERS}) as content,
               case when c.index = 0 then coalesce((
                   select title from run_documents m
                   where m.document_id = c.document_id and m.generation = c.generation limit 1
               ), '') end as title
        from chunks c
        where c.id = any(%(chunks)s) order by c.document_id, c.generation, c.index
    """
    return db.fetch(ChunkContent, statement, {"chunks": list(chunk_ids)})


def read_declared_languages(db: Executor, partition_id: int, generations: dict[str, int]) -> list[DeclaredLanguage]:
    """Read declared and fixed languages by document generation."""
    statement: LiteralString = f"""
        select d.id, coalesce(d.properties ->> 'language', '') as language, n.keyword_language as fixed, (
                   select coalesce(string_agg(left(c.content, 1500), ' ' order by c.index), '') from chunks c
                   where c.document_id = d.id and c.generation = w.generation and c.index < {_SAMPLE_CHUNKS}
               ) as sample
        from unnest(%(documents)s::text[], %(generations)s::bigint[]) w(document, generation)
        join documents d on d.id = w.document and d.partition_id = %(partition)s
        join partitions p on p.id = d.partition_id join namespaces n on n.id = p.namespace_id
    """
    params = {"documents": list(generations), "generations": list(generations.values()), "partition": partition_id}
    return db.fetch(DeclaredLanguage, statement, params)


def record_languages(db: Executor, partition_id: int, languages: dict[str, str], configurations: list[str]) -> None:
    """Record the configuration of documents and of the partition."""
    params = {"documents": list(languages), "languages": list(languages.values())}
    db.execute(
        """
        update documents d set keyword_language = w.language
        from unnest(%(documents)s::text[], %(languages)s::text[]) w(document, language)
        where d.id = w.document and d.keyword_language is distinct from w.language
        """,
        params,
    )
    db.execute(
        """
        update partitions set keyword_languages = array(
            select distinct l from unnest(keyword_languages || %(languages)s::text[]) l order by l
        ) where id = %(partition)s and not keyword_languages @> %(languages)s::text[]
        """,
        {"languages": configurations, "partition": partition_id},
    )


def read_configurations(db: Executor, partition_id: int) -> list[str]:
    """Read the configurations in use."""
    statement: LiteralString = "select unnest(keyword_languages) from partitions where id = %(partition)s"
    return db.fetch(str, statement, {"partition": partition_id})


def select_stop_words(db: Executor, words: Sequence[str], configuration: str) -> list[str]:
    """Select the words dropped by a configuration."""
    statement: LiteralString = """
        select w from unnest(%(words)s::text[]) w where to_tsvector(%(language)s::regconfig, w) = ''::tsvector
    """
    return db.fetch(str, statement, {"words": list(words), "language": configuration})


def insert_postings(db: Executor, partition_id: int, texts: dict[str, Any]) -> IndexSizes:
    """Insert postings, counts and the change record."""
    statement: LiteralString = f"""
        with counted as (
            select chunk_id, term, least(sum(tf), {MAX_FREQUENCY})::smallint as tf from (
                select w.chunk_id, t.lexeme as term, coalesce(cardinality(t.positions), 1) as tf
                from unnest(%(chunks)s::bigint[], %(languages)s::text[], %(texts)s::text[])
                     w(chunk_id, language, content)
                cross join lateral unnest(to_tsvector(w.language::regconfig, w.content)) t
                union all
                select * from unnest(%(term_chunks)s::bigint[], %(terms)s::text[], %(times)s::int[])
            ) every group by chunk_id, term
        ),
        inserted as (
            insert into postings (partition_id, term, chunk_id, tf, length)
            select %(partition)s, term, chunk_id, tf,
                   coalesce(sum(tf) filter (where {IN_LENGTH}) over (partition by chunk_id), 0)
            from counted order by term, chunk_id
            on conflict do nothing returning term, chunk_id, tf
        ),
        more as (
            insert into term_counts (partition_id, term, chunks)
            select %(partition)s, term, count(*) from inserted group by term order by term
        ),
        change as (
            insert into posting_changes (partition_id, removed, chunks)
            select %(partition)s, false, array_agg(distinct chunk_id) from inserted having count(*) > 0
        )
        select count(distinct chunk_id) as chunks, coalesce(sum(tf) filter (where {IN_LENGTH}), 0) as terms
        from inserted
    """
    return db.fetch_one(IndexSizes, statement, {"partition": partition_id, **texts}) or IndexSizes()


# Returns the decrease of `partitions.chunks` and `.terms`.
DELETE_POSTINGS: LiteralString = f"""
    with deleted as (
        delete from postings where chunk_id = any(%(chunks)s) returning partition_id, term, chunk_id, tf
    ),
    fewer as (
        insert into term_counts (partition_id, term, chunks)
        select partition_id, term, -count(*) from deleted group by partition_id, term
    ),
    change as (
        insert into posting_changes (partition_id, removed, chunks)
        select partition_id, true, array_agg(distinct chunk_id) from deleted group by partition_id
    )
    select count(distinct chunk_id) as chunks, coalesce(sum(tf) filter (where {IN_LENGTH}), 0) as terms from deleted
"""


def try_compaction_lock(db: Executor, partition_id: int) -> bool:
    """Lock term counts until the end of the transaction; False if locked."""
    statement: LiteralString = "select pg_try_advisory_xact_lock(1262837581, %(partition)s)"
    return bool(db.fetch_one(bool, statement, {"partition": partition_id}))


def lock_counts(db: Executor, partition_id: int) -> None:
    """Wait for the lock of term counts."""
    db.execute("select pg_advisory_xact_lock(1262837581, %(partition)s)", {"partition": partition_id})


def list_terms(db: Executor, chunk_ids: Sequence[int]) -> list[str]:
    """List the terms of chunks."""
    statement: LiteralString = "select distinct term from postings where chunk_id = any(%(chunks)s)"
    return db.fetch(str, statement, {"chunks": list(chunk_ids)})


def list_lexemes(db: Executor, texts: Params) -> list[str]:
    statement: LiteralString = """
        select t.lexeme from unnest(%(languages)s::text[], %(texts)s::text[]) w(language, content)
        cross join lateral unnest(to_tsvector(w.language::regconfig, w.content)) t
        union select unnest(%(terms)s::text[])
    """
    return db.fetch(str, statement, texts)


def read_scattered_counts(db: Executor, partition_id: int, terms: Sequence[str]) -> list[TermCounts]:
    """Read counts with more than 16 parts."""
    return _read_counts(db, partition_id, terms, "count(*) > 16")


def read_empty_counts(db: Executor, partition_id: int, terms: Sequence[str]) -> list[TermCounts]:
    """Read counts of unused terms."""
    return _read_counts(db, partition_id, terms, "sum(chunks) = 0")


def _read_counts(db: Executor, partition_id: int, terms: Sequence[str], condition: LiteralString) -> list[TermCounts]:
    statement: LiteralString = f"""
        select term, array_agg(part) as parts, sum(chunks)::int as chunks from term_counts
        where partition_id = %(partition)s and term = any(%(terms)s) group by term having {condition}
    """
    return db.fetch(TermCounts, statement, {"partition": partition_id, "terms": list(terms)})


def delete_counts(db: Executor, partition_id: int, counts: Sequence[TermCounts]) -> None:
    """Delete the parts read, but no newer ones."""
    # `part + 0` keeps the index scan to terms; terms and parts together would be searched for every pair.
    db.execute(
        """
        delete from term_counts
        where partition_id = %(partition)s and term = any(%(terms)s) and part + 0 = any(%(parts)s)
        """,
        {
            "partition": partition_id,
            "terms": [count.term for count in counts],
            "parts": [part for count in counts for part in count.parts],
        },
    )


def insert_counts(db: Executor, partition_id: int, counts: Sequence[TermCounts]) -> None:
    """Insert sums as single parts."""
    db.execute(
        """
        insert into term_counts (partition_id, term, chunks)
        select %(partition)s, w.term, w.chunks from unnest(%(terms)s::text[], %(sums)s::int[]) as w (term, chunks)
        where w.chunks <> 0
        """,
        {
            "partition": partition_id,
            "terms": [count.term for count in counts],
            "sums": [count.chunks for count in counts],
        },
    )


def read_statistics(
    connection: ThreadConnection, partition_id: int, texts: Params, *, part_weight: float, limit: int
) -> list[TermStatistics]:
    """Read statistics of an analyzed query, rarest first, absent terms last."""
    statement: LiteralString = """
        with words as materialized (
            select term, max(times) as times, array_remove(array_agg(distinct language), null) as languages from (
                select w.language, t.lexeme as term, coalesce(cardinality(t.positions), 1)::float8 as times
                from unnest(%(languages)s::text[], %(texts)s::text[]) w(language, content)
                cross join lateral unnest(to_tsvector(w.language::regconfig, w.content)) t
                union all
                select null, t.lexeme, %(part)s::float8
                from unnest(%(languages)s::text[], %(parts)s::text[]) w(language, content)
                cross join lateral unnest(to_tsvector(w.language::regconfig, w.content)) t
                union all
                select null, * from unnest(%(terms)s::text[], %(times)s::int[])
            ) every group by term
        )
        select q.term, q.times, c.chunks, s.chunks as total, s.terms as lengths, q.languages
        from partitions s cross join words q
        cross join lateral (
            select coalesce(sum(chunks), 0)::bigint as chunks from term_counts
            where partition_id = %(partition)s and term = q.term
        ) c
        where s.id = %(partition)s
        order by c.chunks = 0, c.chunks, q.term limit %(limit)s
    """
    params = {**texts, "partition": partition_id, "part": part_weight, "limit": limit}
    return connection.fetch(TermStatistics, statement, params, prepare=True)


def read_statistics_of(db: Executor, partition_id: int, terms: Sequence[str], times: float) -> list[TermStatistics]:
    """Read statistics of additional terms, with a fixed count."""
    if not terms:
        return []
    statement: LiteralString = """
        select c.term, %(times)s::float8 as times, sum(c.chunks) as chunks, s.chunks as total, s.terms as lengths
        from partitions s join term_counts c on c.partition_id = s.id and c.term = any(%(terms)s)
        where s.id = %(partition)s group by c.term, s.chunks, s.terms having sum(c.chunks) > 0
    """
    return db.fetch(TermStatistics, statement, {"partition": partition_id, "terms": list(terms), "times": times})


def read_statistics_among(
    db: Executor, partition_id: int, chunks: Sequence[int], statistics: Sequence[TermStatistics]
) -> list[TermStatistics]:
    """Read statistics as if the partition had only these chunks."""
    statement: LiteralString = """
        with part as materialized (
            select c.id, p.length from unnest(%(chunks)s::bigint[]) c (id)
            cross join lateral (
                select max(length) as length from postings where partition_id = %(partition)s and chunk_id = c.id
            ) p where p.length is not null
        )
        select t.term, t.times, count(p.chunk_id) as chunks, (select count(*) from part) as total,
               (select coalesce(sum(length), 0) from part) as lengths
        from unnest(%(terms)s::text[], %(times)s::float8[]) t (term, times)
        join postings p on p.partition_id = %(partition)s and p.term = t.term and p.chunk_id = any(%(chunks)s)
        group by t.term, t.times order by 3, 1
    """
    terms = {"terms": [row.term for row in statistics], "times": [row.times for row in statistics]}
    return db.fetch(TermStatistics, statement, {"partition": partition_id, "chunks": list(chunks), **terms})


def read_posting_lists(connection: ThreadConnection, partition_id: int, terms: Sequence[str]) -> list[PostingList]:
    """Read changed chunks and base, then the postings of each term."""
    posting: LiteralString = f"int8send(p.chunk_id) || int4send((p.tf::int << {LENGTH_BITS}) | p.length)"
    statement: LiteralString = f"""
        with changes as materialized (
            select removed, chunks from posting_changes where partition_id = %(partition)s
            order by partition_id, change limit %(changes)s + 1
        ),
        changed as materialized (select removed, id from changes cross join lateral unnest(chunks) id),
        added as materialized (select distinct id from changed where not removed),
        lists as materialized (
            select t.term, t.place, case when (select count(*) from changes) <= %(changes)s
                                          and (select count(*) from added) <= %(added)s then (
                select string_agg(b.body, ''::bytea) from posting_blocks b
                where b.partition_id = %(partition)s and b.term = t.term
            ) end as blocks
            from unnest(%(terms)s::text[]) with ordinality t(term, place)
        )
        select 0 as place, null::bytea as blocks, (
                   select string_agg(int8send(id), ''::bytea) from (select distinct id from changed) every
               ) as rows, (select base from posting_packs where partition_id = %(partition)s) as base
        union all
        select l.place, l.blocks, case when l.blocks is null then (
                   select string_agg({posting}, ''::bytea) from postings p
                   where p.partition_id = %(partition)s and p.term = l.term
               ) else (
                   select string_agg({posting}, ''::bytea) from postings p
                   where p.partition_id = %(partition)s and p.term = l.term
                     and p.chunk_id = any(array(select id from added))
               ) end, null
        from lists l
    """
    params = {"partition": partition_id, "terms": list(terms), "changes": MAX_CHANGES, "added": MAX_ADDED_CHUNKS}
    lists = connection.fetch(PostingList, statement, params, prepare=True, binary=True)
    return sorted(lists, key=lambda row: row.place)
