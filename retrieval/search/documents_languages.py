"""In which language each document is read for its keywords, and each query.

A document is read in the language that its namespace fixes, else in the one that is found in its text, else in the one
that it names itself. `documents.keyword_language` holds the configuration that was used, with `=` before one that was
fixed. `partitions.keyword_languages` holds all that are in use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import LiteralString

from psycopg import Connection

from retrieval.database.database import Database, Row
from retrieval.search import languages, words
from retrieval.search.words import Prepared

FIXED: LiteralString = "="
_PAGE = 500
"""Chunks that are read and indexed by one statement."""
_SAMPLED: LiteralString = "4"
"""Chunks of a document in which its language is looked for."""

_PLACES: LiteralString = """
    select id, document_id from chunks where id = any(%(chunks)s) and partition_id = %(partition)s
    order by document_id, generation, index
"""
_CONTENTS: LiteralString = f"""
    select id, document_id, generation, left(content, {words.LIMIT}) as content from chunks
    where id = any(%(chunks)s)
    order by document_id, generation, index
"""
_SAID: LiteralString = f"""
    select d.id, coalesce(d.properties ->> 'language', '') as language, n.keyword_language as fixed, (
               select coalesce(string_agg(left(c.content, 1500), ' ' order by c.index), '') from chunks c
               where c.document_id = d.id and c.generation = w.generation and c.index < {_SAMPLED}
           ) as sample
    from unnest(%(documents)s::text[], %(generations)s::bigint[]) w(document, generation)
    join documents d on d.id = w.document and d.partition_id = %(partition)s
    join partitions p on p.id = d.partition_id join namespaces n on n.id = p.namespace_id
"""
_USED: LiteralString = """
    update documents d set keyword_language = w.language
    from unnest(%(documents)s::text[], %(languages)s::text[]) w(document, language)
    where d.id = w.document and d.keyword_language is distinct from w.language
"""
_MORE: LiteralString = """
    update partitions set keyword_languages = array(
        select distinct l from unnest(keyword_languages || %(languages)s::text[]) l order by l
    ) where id = %(partition)s and not keyword_languages @> %(languages)s::text[]
"""
_OF_PARTITION: LiteralString = "select keyword_languages from partitions where id = %(partition)s"
_STOPS: LiteralString = """
    select w from unnest(%(words)s::text[]) w where to_tsvector(%(language)s::regconfig, w) = ''::tsvector
"""


@dataclass(frozen=True, slots=True)
class Reading:
    """A text as one configuration is to read it. `chunk_id`: 0 for a query."""

    chunk_id: int
    configuration: str
    prepared: Prepared


def pages(
    connection: Connection[Row], partition_id: int, chunk_ids: Sequence[int], otherwise: str
) -> Iterator[list[Reading]]:
    """The chunks, some at a time, as their documents' languages read them; what was used is recorded in the end."""
    used: dict[str, str] = {}
    ids = [row["id"] for row in _rows(connection, _PLACES, partition_id, chunk_ids)]
    for start in range(0, len(ids), _PAGE):
        rows = _rows(connection, _CONTENTS, partition_id, ids[start : start + _PAGE])
        used |= _found(connection, partition_id, [row for row in rows if row["document_id"] not in used], otherwise)
        yield [_reading(row, used[row["document_id"]]) for row in rows]
    if used:
        values = {"documents": list(used), "languages": list(used.values()), "partition": partition_id}
        connection.execute(_USED, values)
        bare = sorted({language.removeprefix(FIXED) for language in used.values()})
        connection.execute(_MORE, {"languages": bare, "partition": partition_id})


def in_all(db: Database, partition_id: int, chunk_ids: Sequence[int], otherwise: str) -> Iterator[list[Reading]]:
    """The chunks as every language of the partition reads them."""
    with db.transaction() as connection:
        languages_read = sorted({otherwise, *_present(connection, partition_id)})
    for start in range(0, len(chunk_ids), _PAGE):
        rows = db.rows(_CONTENTS, {"chunks": list(chunk_ids[start : start + _PAGE]), "partition": partition_id})
        yield [_reading(row, language) for row in rows for language in languages_read]


def query(
    connection: Connection[Row], partition_id: int, text: str, otherwise: str, used: Sequence[str] | None = None
) -> list[Reading]:
    """The query as every language of the partition reads it, without what are stop words in its own. `used`: those
    languages, where they are known."""
    present = _present(connection, partition_id) if used is None else used
    languages_read = sorted({otherwise, *present})
    detected = languages.detect(text)
    configuration = languages.configuration(detected, "")
    stops: list[str] = []
    if len(languages_read) > 1 and configuration in languages_read and configuration != languages.SIMPLE:
        query_words = words.words(text)
        stops = [
            row["w"] for row in connection.execute(_STOPS, {"words": query_words, "language": configuration}).fetchall()
        ]
        stops = [] if len(stops) == len(query_words) else stops
    return [
        Reading(0, language, words.of_query(text, language, stops if language != configuration else ()))
        for language in languages_read
    ]


def _present(connection: Connection[Row], partition_id: int) -> list[str]:
    row = connection.execute(_OF_PARTITION, {"partition": partition_id}).fetchone()
    return row["keyword_languages"] if row else []


def _rows(
    connection: Connection[Row], statement: LiteralString, partition_id: int, chunk_ids: Sequence[int]
) -> list[Row]:
    return connection.execute(statement, {"chunks": list(chunk_ids), "partition": partition_id}).fetchall()


def _reading(row: Row, language: str) -> Reading:
    configuration = language.removeprefix(FIXED)
    return Reading(row["id"], configuration, words.of_text(row["content"], configuration))


def _found(connection: Connection[Row], partition_id: int, rows: Sequence[Row], otherwise: str) -> dict[str, str]:
    """By document, the configuration that reads it. rows: chunks of one generation of each."""
    generations = {row["document_id"]: row["generation"] for row in rows}
    if not generations:
        return {}
    params = {"documents": list(generations), "generations": list(generations.values()), "partition": partition_id}
    chosen = dict.fromkeys(generations, otherwise)
    for row in connection.execute(_SAID, params).fetchall():
        fixed = row["fixed"] and languages.fixed(row["fixed"])
        language = languages.detect(row["sample"]) or languages.code(row["language"])
        chosen[row["id"]] = FIXED + fixed if fixed else languages.configuration(language, otherwise)
    return chosen
