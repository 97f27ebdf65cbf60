"""BM25 over `postings`, exact, in the database and transaction of the chunks.

    score(query, chunk) = sum over the terms of  qtf * idf * tf * (K1 + 1) / (tf + K1 * (1 - B + B * length / average))
    idf = ln(1 + (N - df + 0.5) / (df + 0.5))

Terms are lexemes (`retrieval.search.words`, `to_tsvector`), qtf is the count of a term in the query, or PART for a part
of a word there, as `ab` is of `ab1234`; N, df and average count the partition's visible chunks that
have a term at all, lengths but for stop words; of a longer query the 64 rarest terms count.
Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009.

Term counts are stored beside the postings as parts, one per transaction, so that writers do not wait for each other;
occasionally a writer adds them up.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

from psycopg import Connection

from retrieval.access import reading
from retrieval.database.database import Database, Row
from retrieval.filters import DocumentFilter
from retrieval.principals import Viewer
from retrieval.search import documents_languages, words
from retrieval.search.documents_languages import Reading

K1, B = 1.5, 0.75
PART = 0.25
"""What a part of a word counts: so little that a chunk with the word is above those with its parts."""
TERMS = 64
"""Terms of a query that count, the rarest first."""
CHARACTERS: LiteralString = words.LIMIT
"""Characters of a chunk that are indexed."""
MOST_TIMES: LiteralString = "255"
"""How often a term counts in a chunk, at most: as often as a tsvector counts one."""
COUNTED: LiteralString = "left(term, 1) not in ('^', '~')"
"""Of a posting: its term counts in the length of the chunk; stop words do not, wherever they are indexed."""
_COMPACT = 1 / 16
"""Share of indexing transactions that add up the counts of the terms they touch."""


@dataclass(frozen=True, slots=True)
class Terms:
    """A query as the partition's statistics see it: terms, rarest first, with their weight (qtf * idf).

    `slope`: K1 * B / average length.
    """

    partition: int
    names: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()
    slope: float = 0.0

    def params(self) -> dict[str, Any]:
        return {"terms": list(self.names), "weights": list(self.weights), "slope": self.slope}


@dataclass(frozen=True, slots=True)
class Scored:
    """A chunk, its BM25 score, and its place among the best (from 1) if it is one of them."""

    chunk_id: int
    score: float
    rank: int | None = None


POINTS: LiteralString = (
    f"t.weight * p.tf * {K1 + 1}::float8 / (p.tf + {K1 * (1 - B)}::float8 + %(slope)s::float8 * p.length)"
)
"""What a posting `p` of a term `t` is worth."""

_INDEX: LiteralString = f"""
    with found as (
        select chunk_id, term, least(sum(tf), {MOST_TIMES})::smallint as tf from (
            select w.chunk_id, t.lexeme as term, coalesce(cardinality(t.positions), 1) as tf
            from unnest(%(chunks)s::bigint[], %(languages)s::text[], %(texts)s::text[]) w(chunk_id, language, content)
            cross join lateral unnest(to_tsvector(w.language::regconfig, w.content)) t
            union all
            select * from unnest(%(term_chunks)s::bigint[], %(terms)s::text[], %(times)s::int[])
        ) every group by chunk_id, term
    ),
    made as (
        insert into postings (partition_id, term, chunk_id, tf, length)
        select %(partition)s, term, chunk_id, tf,
               coalesce(sum(tf) filter (where {COUNTED}) over (partition by chunk_id), 0)
        from found order by term, chunk_id
        on conflict do nothing returning term, chunk_id, tf
    ),
    counted as (
        insert into term_counts (partition_id, term, chunks)
        select %(partition)s, term, count(*) from made group by term order by term
    ),
    told as (
        insert into posting_changes (partition_id, removed, chunks)
        select %(partition)s, false, array_agg(distinct chunk_id) from made having count(*) > 0
    )
    select count(distinct chunk_id) as chunks, coalesce(sum(tf) filter (where {COUNTED}), 0) as terms from made
"""

REMOVE: LiteralString = f"""
    with gone as (
        delete from postings where chunk_id = any(%(chunks)s) returning partition_id, term, chunk_id, tf
    ),
    counted as (
        insert into term_counts (partition_id, term, chunks)
        select partition_id, term, -count(*) from gone group by partition_id, term
    ),
    told as (
        insert into posting_changes (partition_id, removed, chunks)
        select partition_id, true, array_agg(distinct chunk_id) from gone group by partition_id
    )
    select count(distinct chunk_id) as chunks, coalesce(sum(tf) filter (where {COUNTED}), 0) as terms from gone
"""
"""Takes the chunks out and answers what `partitions.chunks` and `.terms` lose by it."""

_LOCK: LiteralString = "select pg_try_advisory_xact_lock(1262837581, %(partition)s) as ours"
_WORDS_OF: LiteralString = "select distinct term from postings where chunk_id = any(%(chunks)s)"
_MANY: LiteralString = """
    select term, array_agg(part) as parts, sum(chunks)::int as chunks from term_counts
    where partition_id = %(partition)s and term = any(%(terms)s) group by term having count(*) > 16
"""
_SPENT: LiteralString = """
    select term, array_agg(part) as parts from term_counts
    where partition_id = %(partition)s and term = any(%(terms)s) group by term having sum(chunks) = 0
"""
_DROP: LiteralString = """
    delete from term_counts where partition_id = %(partition)s and term = any(%(terms)s) and part + 0 = any(%(parts)s)
"""
"""Only the parts that were read: another writer may have put one beside them since. `+ 0`: the index is read by terms;
by terms and parts it would be asked for every pair of them."""
_PUT: LiteralString = """
    insert into term_counts (partition_id, term, chunks)
    select %(partition)s, w.term, w.chunks from unnest(%(terms)s::text[], %(sums)s::int[]) as w (term, chunks)
    where w.chunks <> 0
"""

_ONE_AT_A_TIME: LiteralString = "select pg_advisory_xact_lock(1262837581, %(partition)s)"
_WORDS_IN: LiteralString = """
    select t.lexeme as term
    from unnest(%(languages)s::text[], %(texts)s::text[]) w(language, content)
    cross join lateral unnest(to_tsvector(w.language::regconfig, w.content)) t
    union select unnest(%(terms)s::text[])
"""
_TERMS_AT_ONCE = 1000
"""Terms whose counts one statement reads and changes."""

_TERMS: LiteralString = """
    with words as materialized (
        select term, max(times) as times from (
            select t.lexeme as term, coalesce(cardinality(t.positions), 1)::float8 as times
            from unnest(%(languages)s::text[], %(texts)s::text[]) w(language, content)
            cross join lateral unnest(to_tsvector(w.language::regconfig, w.content)) t
            union all
            select t.lexeme, %(part)s::float8
            from unnest(%(languages)s::text[], %(parts)s::text[]) w(language, content)
            cross join lateral unnest(to_tsvector(w.language::regconfig, w.content)) t
            union all
            select * from unnest(%(terms)s::text[], %(times)s::int[])
        ) every group by term
    )
    select q.term, q.times, c.chunks, s.chunks as total, s.terms as lengths
    from partitions s cross join words q
    cross join lateral (
        select sum(chunks) as chunks from term_counts where partition_id = %(partition)s and term = q.term
    ) c
    where s.id = %(partition)s and c.chunks > 0
    order by c.chunks, q.term limit %(limit)s
"""


def _select_best(where: LiteralString) -> LiteralString:
    """Return the statement for the best of the chunks that the clause leaves."""
    return f"""
    select p.chunk_id, sum({POINTS}) as score
    from unnest(%(terms)s::text[], %(weights)s::float8[]) t(term, weight)
    join postings p on p.partition_id = %(partition)s and p.term = t.term
    {where}
    group by p.chunk_id order by 2 desc, 1 limit %(n)s
"""


_OF_DOCUMENTS: LiteralString = """where p.chunk_id in (
        select c.id from documents d
        join chunks c on c.document_id = d.id and c.generation = d.active_generation
        where d.partition_id = %(partition)s and d.deleted_at is null and """


def index(connection: Connection[Row], partition_id: int, chunk_ids: Sequence[int], language: str) -> tuple[int, int]:
    """Make chunks findable, in the caller's transaction; what `partitions.chunks` and `.terms` gain by it.

    Each document is read in its own language; `language`: the configuration for texts that say too little of theirs.
    """
    chunks = terms = 0
    for page in documents_languages.pages(connection, partition_id, chunk_ids, language):
        params = {"partition": partition_id, **_columns(page)}
        sizes = _sizes(connection.execute(_INDEX, params).fetchone())
        chunks, terms = chunks + sizes[0], terms + sizes[1]
    if random.random() < _COMPACT:  # noqa: S311 - spreads work, guards nothing
        compact(connection, partition_id, chunk_ids)
    return chunks, terms


def remove(connection: Connection[Row], chunk_ids: Sequence[int]) -> tuple[int, int]:
    """The opposite of `index`: what `partitions.chunks` and `.terms` lose by it. Unknown chunks are no error."""
    return _sizes(connection.execute(REMOVE, {"chunks": list(chunk_ids)}).fetchone())


def compact(connection: Connection[Row], partition_id: int, chunk_ids: Sequence[int]) -> None:
    """Add up the counts of these chunks' terms, unless another transaction is at it in this partition."""
    params = {"partition": partition_id, "chunks": list(chunk_ids)}
    lock = connection.execute(_LOCK, params).fetchone()
    if lock is None or not lock["ours"]:
        return
    for values in _pages(partition_id, words_of(connection, chunk_ids)):
        many = connection.execute(_MANY, values).fetchall()
        _drop(connection, partition_id, many)
        sums = {"terms": [row["term"] for row in many], "sums": [row["chunks"] for row in many]}
        connection.execute(_PUT, {"partition": partition_id, **sums})


def forget(db: Database, partition_id: int, chunk_ids: Sequence[int], language: str) -> None:
    """Delete terms that occur in no other chunk; call it before these chunks are deleted.

    Works in short transactions, each for a bounded number of terms.
    """
    terms: set[str] = set()
    for page in documents_languages.in_all(db, partition_id, chunk_ids, language):
        terms.update(row["term"] for row in db.rows(_WORDS_IN, _columns(page)))
    for values in _pages(partition_id, sorted(terms)):
        with db.transaction() as connection:
            _forget(connection, values)


def words_of(connection: Connection[Row], chunk_ids: Sequence[int]) -> list[str]:
    """The terms by which the chunks are found."""
    return [row["term"] for row in connection.execute(_WORDS_OF, {"chunks": list(chunk_ids)}).fetchall()]


def forget_unused(connection: Connection[Row], partition_id: int, words: Sequence[str]) -> None:
    """Delete those of the terms that occur in no chunk, in the caller's transaction."""
    for values in _pages(partition_id, words):
        _forget(connection, values)


def _forget(connection: Connection[Row], values: dict[str, Any]) -> None:
    connection.execute(_ONE_AT_A_TIME, values)
    _drop(connection, values["partition"], connection.execute(_SPENT, values).fetchall())


def _pages(partition_id: int, words: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Sorted, so that neighbours in the index are read together."""
    ordered = sorted(words)
    for start in range(0, len(ordered), _TERMS_AT_ONCE):
        yield {"partition": partition_id, "terms": ordered[start : start + _TERMS_AT_ONCE]}


def _drop(connection: Connection[Row], partition_id: int, found: Sequence[Row]) -> None:
    if found:
        terms = [row["term"] for row in found]
        parts = [part for row in found for part in row["parts"]]
        connection.execute(_DROP, {"partition": partition_id, "terms": terms, "parts": parts})


def terms(
    connection: Connection[Row],
    partition_id: int,
    query: str,
    language: str,
    used: Sequence[str] | None = None,
    *,
    part: Sequence[int] | None = None,
    least: int = 1,
) -> Terms:
    """Return the terms of a query that occur in the partition; none if no chunk can match.

    The query is analyzed in every language of the partition, `used` if given, and in `language`. part: chunks that
    alone count. least: lower limit of the number of chunks of a term in its weight.
    """
    read = documents_languages.query(connection, partition_id, query, language, used)
    params = {"partition": partition_id, "limit": TERMS, "part": PART, **_columns(read)}
    rows = connection.execute(_TERMS, params, prepare=True).fetchall()
    if part is not None and rows:
        rows = _of_part(connection, partition_id, rows, part)
    if not rows:
        return Terms(partition_id)
    total = int(rows[0]["total"])
    slope = K1 * B * max(total, 1) / max(int(rows[0]["lengths"]), 1)
    return Terms(
        partition_id,
        names=tuple(row["term"] for row in rows),
        weights=tuple(row["times"] * _idf(total, max(int(row["chunks"]), least)) for row in rows),
        slope=slope,
    )


_OF_PART: LiteralString = """
    with part as materialized (
        select c.id, p.length from unnest(%(chunks)s::bigint[]) c (id)
        cross join lateral (
            select max(length) as length from postings where partition_id = %(partition)s and chunk_id = c.id
        ) p where p.length is not null
    )
    select t.term, count(p.chunk_id) as chunks, (select count(*) from part) as total,
           (select coalesce(sum(length), 0) from part) as lengths
    from unnest(%(terms)s::text[]) t (term)
    join postings p on p.partition_id = %(partition)s and p.term = t.term and p.chunk_id = any(%(chunks)s)
    group by t.term order by 2, 1
"""


def _of_part(connection: Connection[Row], partition_id: int, rows: Sequence[Row], part: Sequence[int]) -> list[Row]:
    times = {row["term"]: row["times"] for row in rows}
    params = {"partition": partition_id, "chunks": list(part), "terms": list(times)}
    return [{**row, "times": times[row["term"]]} for row in connection.execute(_OF_PART, params).fetchall()]


def best(
    connection: Connection[Row], query: Terms, n: int, where: DocumentFilter | None = None, *, viewer: Viewer | None
) -> list[Scored]:
    """The n chunks with the highest scores of those that match and that the viewer may see, best first."""
    if not query.names:
        return []
    condition, params = _condition(where, viewer)
    statement = _select_best(condition)
    values = {**params, **query.params(), "partition": query.partition, "n": n}
    scoped = reading.visible(statement, values, viewer)
    rows = connection.execute(scoped.text, scoped.params).fetchall()
    return [Scored(row["chunk_id"], row["score"], rank) for rank, row in enumerate(rows, 1)]


def _condition(where: DocumentFilter | None, viewer: Viewer | None) -> tuple[LiteralString, dict[str, Any]]:
    if viewer is None and (where is None or not where.narrows()):
        return "", {}
    fragment, params = (where or DocumentFilter()).sql("d")
    return f"{_OF_DOCUMENTS}{fragment})", params


def _idf(total: int, count: int) -> float:
    return math.log(1 + (max(total - count, 0) + 0.5) / (count + 0.5))


def _columns(page: Sequence[Reading]) -> dict[str, Any]:
    """Return the statement parameters of texts: those for text search configurations, and the terms that need none."""
    ready = [(reading.chunk_id, term, times) for reading in page for term, times in reading.prepared.terms.items()]
    return {
        "chunks": [reading.chunk_id for reading in page],
        "languages": [reading.configuration for reading in page],
        "texts": [reading.prepared.text for reading in page],
        "parts": [reading.prepared.parts for reading in page],
        "term_chunks": [chunk for chunk, _, _ in ready],
        "terms": [term for _, term, _ in ready],
        "times": [times for _, _, times in ready],
    }


def _sizes(row: Row | None) -> tuple[int, int]:
    return (int(row["chunks"]), int(row["terms"])) if row else (0, 0)
