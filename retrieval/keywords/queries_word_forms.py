"""SQL of terms by prefix or suffix, and of chunks by terms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import LiteralString

from retrieval.database.rows import Executor
from retrieval.keywords.queries import TermStatistics

# Terms per range.
MAX_TERMS: LiteralString = "200"
# Shortest term in the index by suffix.
MIN_LENGTH_BY_END: LiteralString = "7"
# First part of the compounds that are stemmed.
FIRST_PART: LiteralString = "'telefon'"


@dataclass(frozen=True, slots=True)
class TermRange:
    """Terms with prefix `start`, or suffix if reversed."""

    word: str
    # Letters that the terms have in common with the word.
    base: str
    start: str
    min_length: int
    is_reversed: bool
    is_inflection: bool = False


@dataclass(frozen=True, slots=True)
class _Stem:
    word: str
    stem: str


@dataclass(frozen=True, slots=True)
class _RangeTerm:
    place: int
    term: str
    chunks: int
    total: int
    lengths: int


def list_terms_in_ranges(
    db: Executor, partition_id: int, ranges: Sequence[TermRange]
) -> Iterator[tuple[TermRange, TermStatistics]]:
    """Yield the terms of ranges with statistics."""
    statement: LiteralString = f"""
        with ranges as (
            select * from unnest(%(starts)s::text[], %(ends)s::text[], %(lengths)s::int[], %(reversed)s::bool[])
                with ordinality r (start, stop, min_length, is_reversed, place)
        ),
        near as (
            select r.place, c.term from ranges r cross join lateral (
                select term from term_counts
                where partition_id = %(partition)s and term >= r.start and term < r.stop
                  and starts_with(term, r.start) and length(term) >= r.min_length
                group by term limit {MAX_TERMS}
            ) c where not r.is_reversed
            union
            select r.place, c.term from ranges r cross join lateral (
                select term from term_counts
                where partition_id = %(partition)s and length(term) >= {MIN_LENGTH_BY_END}
                  and reverse(term) >= r.start and reverse(term) collate "C" < r.stop
                  and length(term) >= r.min_length
                group by term limit {MAX_TERMS}
            ) c where r.is_reversed
        )
        select n.place::int, n.term, c.chunks::int, s.chunks as total, s.terms as lengths
        from near n cross join lateral (
            select sum(chunks) as chunks from term_counts where partition_id = %(partition)s and term = n.term
        ) c cross join partitions s where s.id = %(partition)s and c.chunks > 0
        order by 1, 2
    """
    params = {
        "partition": partition_id,
        "starts": [item.start for item in ranges],
        "ends": [item.start[:-1] + chr(ord(item.start[-1]) + 1) for item in ranges],
        "lengths": [item.min_length for item in ranges],
        "reversed": [item.is_reversed for item in ranges],
    }
    for row in db.fetch(_RangeTerm, statement, params):
        yield ranges[row.place - 1], TermStatistics(row.term, 0.0, row.chunks, row.total, row.lengths)


def stem_in_compounds(db: Executor, configurations: Sequence[str], words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield words with their stems at the end of a compound: `leiding` is stemmed to `leid` there."""
    # Stemmers strip more endings of longer words.
    statement: LiteralString = f"""
        select distinct w.word, substr(t.lexeme, length({FIRST_PART}) + 1) as stem
        from unnest(%(words)s::text[]) w (word) cross join unnest(%(configurations)s::text[]) c (name)
        cross join lateral unnest(to_tsvector(c.name::regconfig, {FIRST_PART} || w.word)) t
        where starts_with(t.lexeme, {FIRST_PART}) order by 1, 2
    """
    if words:
        for row in db.fetch(_Stem, statement, {"words": list(words), "configurations": list(configurations)}):
            yield row.word, row.stem


def list_terms_with(
    db: Executor, partition_id: int, words: Sequence[tuple[str, str]]
) -> Iterator[tuple[str, str, TermStatistics]]:
    """Yield words and their forms with the long terms that contain the form, with statistics."""
    # Reads all long terms: 10 ms for 200,000.
    statement: LiteralString = f"""
        with near as (
            select w.place, c.term, sum(c.chunks) as chunks
            from unnest(%(forms)s::text[]) with ordinality w (form, place)
            cross join lateral (
                select term, chunks from term_counts
                where partition_id = %(partition)s and length(term) >= {MIN_LENGTH_BY_END}
                  and strpos(term, w.form) > 1
                limit {MAX_TERMS}
            ) c group by w.place, c.term
        )
        select n.place::int, n.term, n.chunks::int, s.chunks as total, s.terms as lengths
        from near n cross join partitions s where s.id = %(partition)s and n.chunks > 0 order by 1, 2
    """
    if words:
        for row in db.fetch(_RangeTerm, statement, {"partition": partition_id, "forms": [form for _, form in words]}):
            word, form = words[row.place - 1]
            yield word, form, TermStatistics(row.term, 0.0, row.chunks, row.total, row.lengths)


def list_chunks_with_all_terms(
    db: Executor, partition_id: int, texts: Mapping[str, str], terms: Sequence[str]
) -> list[int]:
    """List chunks with all terms of the text of one configuration, and the further terms."""
    statement: LiteralString = """
        with required as (
            select language, array_agg(distinct term) as terms from (
                select language, t.lexeme as term
                from unnest(%(configurations)s::text[], %(texts)s::text[]) w (language, content)
                cross join lateral unnest(to_tsvector(language::regconfig, content)) t
                union all
                select language, term from unnest(%(configurations)s::text[]) language, unnest(%(terms)s::text[]) term
            ) every group by language
        )
        select distinct p.chunk_id from required r cross join lateral (
            select chunk_id from postings where partition_id = %(partition)s and term = any(r.terms)
            group by chunk_id having count(*) = cardinality(r.terms)
        ) p order by 1
    """
    params = {
        "configurations": list(texts),
        "texts": list(texts.values()),
        "terms": list(terms),
        "partition": partition_id,
    }
    return db.fetch(int, statement, params)
