"""Index documents of a namespace again for keyword search after a change of its `keywordLanguage`.

Each transaction moves a few documents from their old terms to their new ones, so that searches find them all the while.
What is not done when the process ends is found again by `documents.keyword_language`.
"""

from __future__ import annotations

from typing import LiteralString

import psycopg
import structlog

from retrieval.database.database import UNLIMITED, Database
from retrieval.search import bm25, languages, packing
from retrieval.search.documents_languages import FIXED

log = structlog.get_logger()

_DOCUMENTS = 25
"""Documents of one transaction; one that has many chunks goes alone."""
_MANY = 1_000
_UNPACKED = 4_000
"""Chunks after which posting lists are packed, before searches have too many changes to read."""

_DUE: LiteralString = """
    select p.id, n.keyword_language as fixed, coalesce(n.keyword_language, '') as wanted
    from partitions p join namespaces n on n.id = p.namespace_id and n.deleted_at is null
    where p.keyword_state is distinct from coalesce(n.keyword_language, '') order by p.chunks
"""
_OTHERS: LiteralString = f"""
    d.partition_id = %(partition)s and d.deleted_at is null and d.active_generation > 0
    and case when %(fixed)s::text is null then d.keyword_language is null or starts_with(d.keyword_language, '{FIXED}')
             else d.keyword_language is distinct from '{FIXED}' || %(fixed)s::text end
"""
_NEXT: LiteralString = f"""
    select d.id, (
        select count(*) from chunks c where c.document_id = d.id and c.generation = d.active_generation
    ) as chunks from documents d where {_OTHERS} and d.id > %(after)s order by d.id limit %(limit)s
"""
_HOLD: LiteralString = f"select d.id from documents d where {_OTHERS} and d.id = any(%(ids)s) order by d.id for update"
_CHUNKS: LiteralString = """
    select c.id from documents d join chunks c on c.document_id = d.id and c.generation = d.active_generation
    where d.id = any(%(ids)s)
"""
_COUNT: LiteralString = """
    update partitions set chunks = chunks + %(chunks)s, terms = terms + %(terms)s where id = %(partition)s
"""
_EMPTY: LiteralString = """
    update documents set keyword_language = %(language)s
    where id = any(%(ids)s) and keyword_language is distinct from %(language)s
      and not exists (select from chunks c where c.document_id = documents.id and c.generation = active_generation)
"""
_DONE: LiteralString = f"""
    update partitions set keyword_state = %(wanted)s
    where id = %(partition)s and not exists (select from documents d where {_OTHERS})
"""


def run(db: Database, language: str) -> None:
    """Go round all scopes once. language: of texts that say too little of theirs."""
    try:
        due = db.rows(_DUE)
    except psycopg.Error as error:
        log.warning("keywords.postponed", reason=type(error).__name__)
        return
    for row in due:
        try:
            _scope(db, int(row["id"]), row["fixed"], row["wanted"], language)
        except psycopg.Error as error:
            log.warning("keywords.postponed", partition=row["id"], reason=type(error).__name__)


def _scope(db: Database, partition: int, named: str | None, wanted: str, language: str) -> None:
    fixed = None if named is None else languages.fixed(named)
    after, unpacked = "", 0
    while True:
        params = {"partition": partition, "fixed": fixed, "after": after, "limit": _DOCUMENTS}
        rows = db.rows(_NEXT, params)
        if not rows:
            break
        group: list[str] = []
        size = 0
        for row in rows:
            if group and size + row["chunks"] > _MANY:
                break
            group.append(row["id"])
            size += row["chunks"]
        _documents(db, {**params, "ids": group}, fixed, language)
        after, unpacked = group[-1], unpacked + size
        if unpacked > _UNPACKED:
            packing.keep(db, partition)
            unpacked = 0
    db.rows(_DONE, {"partition": partition, "fixed": fixed, "wanted": wanted})


def _documents(db: Database, params: dict[str, object], fixed: str | None, language: str) -> None:
    partition = int(str(params["partition"]))
    with db.transaction() as connection:
        connection.execute(UNLIMITED)
        held = [row["id"] for row in connection.execute(_HOLD, params).fetchall()]
        chunks = [row["id"] for row in connection.execute(_CHUNKS, {"ids": held}).fetchall()]
        words = bm25.words_of(connection, chunks)
        fewer = bm25.remove(connection, chunks)
        more = bm25.index(connection, partition, chunks, language)
        bm25.forget_unused(connection, partition, words)
        connection.execute(_EMPTY, {"ids": held, "language": FIXED + fixed if fixed else language})
        sums = {"chunks": more[0] - fewer[0], "terms": more[1] - fewer[1], "partition": partition}
        connection.execute(_COUNT, sums)
