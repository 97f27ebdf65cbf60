"""SQL of corrections: terms near a word, and which of them a viewer can read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import LiteralString

from retrieval.database.rows import Executor
from retrieval.keywords.postings import Analyzed

COUNTED: LiteralString = "10"
"""Chunks of a term that are counted, at most."""
READ: LiteralString = "3"
"""Chunks of a term whose text is read, at most: its words may be of several languages."""


@dataclass(frozen=True, slots=True)
class Lexeme:
    """A word and a term that a configuration makes of it."""

    word: str
    configuration: str
    term: str


@dataclass(frozen=True, slots=True)
class Seen:
    """A term, the count of chunks that have it, and the texts of the first ones."""

    term: str
    chunks: int
    contents: list[str]


def list_lexemes(db: Executor, analyzed: Mapping[str, Sequence[Analyzed]]) -> list[Lexeme]:
    """List the terms of words, in the configurations that they were analyzed for."""
    statement: LiteralString = """
        select distinct w.word, w.language as configuration, t.lexeme as term
        from unnest(%(words)s::text[], %(languages)s::text[], %(texts)s::text[]) w(word, language, content)
        cross join lateral unnest(to_tsvector(w.language::regconfig, w.content)) t order by 1, 2, 3
    """
    rows = [(word, text.configuration, text.prepared.text) for word, texts in analyzed.items() for text in texts]
    words, languages, texts = ([row[at] for row in rows] for at in range(3))
    return db.fetch(Lexeme, statement, {"words": words, "languages": languages, "texts": texts})


def list_terms_near(
    db: Executor, partition_id: int, first: str, others: Sequence[str], lengths: tuple[int, int]
) -> list[str]:
    """List the terms of such lengths that begin with a letter, and those of `others` that there are."""
    statement: LiteralString = """
        (
            select term from term_counts
            where partition_id = %(partition)s and term >= %(first)s and term < %(next)s
              and length(term) between %(least)s and %(most)s
            limit 50000
        )
        union
        select term from term_counts where partition_id = %(partition)s and term = any(%(others)s)
    """
    params = {
        "partition": partition_id,
        "first": first,
        "next": chr(ord(first) + 1),
        "least": lengths[0],
        "most": lengths[1],
        "others": list(others),
    }
    return db.fetch(str, statement, params)


def read_seen(db: Executor, partition_id: int, terms: Sequence[str]) -> list[Seen]:
    """Read those of the terms that visible chunks have."""
    statement: LiteralString = f"""
        select t.term, count(*)::int as chunks, (array_agg(c.content order by c.chunk_id))[:{READ}] as contents
        from unnest(%(terms)s::text[]) t (term)
        cross join lateral (
            select c.content, p.chunk_id from postings p
            cross join lateral (select content from chunks where id = p.chunk_id limit 1) c
            where p.partition_id = %(partition)s and p.term = t.term order by p.chunk_id limit {COUNTED}
        ) c group by t.term
    """
    return db.fetch(Seen, statement, {"terms": list(terms), "partition": partition_id}) if terms else []


def list_seen(db: Executor, partition_id: int, terms: Sequence[str]) -> list[str]:
    """List those of the terms that a visible chunk has."""
    statement: LiteralString = """
        select t.term from unnest(%(terms)s::text[]) t (term) where exists (
            select from postings p cross join lateral (select from chunks where id = p.chunk_id limit 1) c
            where p.partition_id = %(partition)s and p.term = t.term
        )
    """
    return db.fetch(str, statement, {"terms": list(terms), "partition": partition_id})
