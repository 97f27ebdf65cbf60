"""SQL of typo corrections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import LiteralString

from retrieval.database.database import Database
from retrieval.database.rows import Executor
from retrieval.database.sessions import INDEX_SCANS_ONLY
from retrieval.keywords.postings import AnalyzedText

# Chunks counted per term.
MAX_COUNTED_CHUNKS: LiteralString = "10"
# Texts read per term: words may be in several languages.
MAX_READ_CHUNKS: LiteralString = "3"


@dataclass(frozen=True, slots=True)
class Lexeme:
    """Term of a word in a configuration."""

    word: str
    configuration: str
    term: str


@dataclass(frozen=True, slots=True)
class VisibleTerm:
    """Visible term with its chunk count and first texts."""

    term: str
    chunks: int
    contents: list[str]


def list_lexemes(db: Executor, analyzed: Mapping[str, Sequence[AnalyzedText]]) -> list[Lexeme]:
    """List the terms of words in their configurations."""
    statement: LiteralString = """
        select distinct w.word, w.language as configuration, t.lexeme as term
        from unnest(%(words)s::text[], %(languages)s::text[], %(texts)s::text[]) w(word, language, content)
        cross join lateral unnest(to_tsvector(w.language::regconfig, w.content)) t order by 1, 2, 3
    """
    rows = [(word, text.configuration, text.prepared.text) for word, texts in analyzed.items() for text in texts]
    words, languages, texts = ([row[at] for row in rows] for at in range(3))
    return db.fetch(Lexeme, statement, {"words": words, "languages": languages, "texts": texts})


def list_terms_near(
    db: Executor, partition_id: int, first: str, alternatives: Sequence[str], lengths: tuple[int, int]
) -> list[str]:
    """List terms by first letter and length, and existing terms among `alternatives`."""
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
        "others": list(alternatives),
    }
    return db.fetch(str, statement, params)


def read_visible_terms(db: Executor, partition_id: int, terms: Sequence[str]) -> list[VisibleTerm]:
    """Read visible terms with chunk counts and texts."""
    statement: LiteralString = f"""
        select t.term, count(*)::int as chunks,
               (array_agg(c.content order by c.chunk_id))[:{MAX_READ_CHUNKS}] as contents
        from unnest(%(terms)s::text[]) t (term)
        cross join lateral (
            select c.content, p.chunk_id from postings p
            cross join lateral (select content from chunks where id = p.chunk_id limit 1) c
            where p.partition_id = %(partition)s and p.term = t.term order by p.chunk_id limit {MAX_COUNTED_CHUNKS}
        ) c group by t.term
    """
    return db.fetch(VisibleTerm, statement, {"terms": list(terms), "partition": partition_id}) if terms else []


def list_visible_terms(db: Database, partition_id: int, terms: Sequence[str]) -> list[str]:
    """List the visible terms."""
    # `offset 0` reads the postings of a term up to its first visible chunk; a join would read all.
    statement: LiteralString = """
        select t.term from unnest(%(terms)s::text[]) t (term) where exists (
            select from postings p cross join lateral (select from chunks where id = p.chunk_id limit 1) c
            where p.partition_id = %(partition)s and p.term = t.term offset 0
        )
    """
    with db.tuned(INDEX_SCANS_ONLY) as connection:
        return connection.fetch(str, statement, {"terms": list(terms), "partition": partition_id}, prepare=True)
