"""Hydration: fetches and scores the candidates of a search that may be shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any, LiteralString

from retrieval import ids
from retrieval.database import scopes
from retrieval.database.database import Database, Row
from retrieval.database.halves import HalfVector
from retrieval.database.sessions import BY_INDEX
from retrieval.filters import DocumentFilter
from retrieval.ports import Scope
from retrieval.search import bm25

Place = tuple[str, int, int]
"""Of a chunk: document, generation and index."""
_ID = re.compile(r"[A-Za-z0-9_-]+")
HALF: LiteralString = "10.0"
"""BM25 score that counts as one half of the keyword part."""
_STALE: LiteralString = "1000"
"""Visible chunks that a document has looked at, at most, if a candidate is of another generation of it."""

DISTANCE: LiteralString = """case when vector_dims(e.values) = %(size)s
        then coalesce(nullif(e.values::halfvec <=> %(values)s::halfvec, 'NaN'), 1) else 1 end"""
"""Of an embedding `e`, from 0 to 2."""

_SHOWN: LiteralString = """
    select c.content, c.header, b.score, b.semantic, b.keyword, b.semantic_rank, b.keyword_rank, d.id as document_id,
           d.name, d.external_id, d.document_type, d.source, d.metadata, c.index, c.start, c."end",
           c.page
    from best b join lateral (select * from chunks where id = b.id limit 1) c on true
    join lateral (select * from documents where id = b.document_id limit 1) d on true
    order by b.score desc, b.document_id collate "C", b.index
"""


def _select_light(pages: LiteralString) -> LiteralString:
    """Return the end of the statement that reads what shaping decides by."""
    return f"""
    select b.*, c.start, c."end", d.parsed_key, d.properties ->> 'modifiedAt' as modified_at, d.created_at,
           {pages} as pages
    from best b join lateral (select start, "end" from chunks where id = b.id limit 1) c on true
    join lateral (select * from documents where id = b.document_id limit 1) d on true
    order by b.score desc, b.document_id collate "C", b.index
"""


_PAGES: LiteralString = """coalesce((
        select m.pages from run_documents m where m.document_id = d.id and m.generation = d.active_generation limit 1
    ), '{}')"""
_OF_IDS: LiteralString = """
    select c.content, c.header, d.id as document_id, d.name, d.external_id, d.document_type, d.source, d.metadata,
           c.index, c.start, c."end", c.page, c.id
    from unnest(%(chunks)s::bigint[]) i(id) join lateral (select * from chunks where id = i.id limit 1) c on true
    join lateral (select * from documents where id = c.document_id and deleted_at is null limit 1) d on true
"""
_GIVEN: LiteralString = """words as (
        select * from unnest(%(chunks)s::bigint[], %(scores)s::float8[], %(ranks)s::int[]) w(chunk_id, score, rank)
    ),
    exact as (select * from unnest(%(exact)s::bigint[]) with ordinality x(chunk_id, rank)),"""
_MORE: LiteralString = """union
        select c.document_id, c.generation, c.index, c.id, c.embedding_key
        from (select chunk_id from words where rank is not null union select chunk_id from exact) i
        cross join lateral (select * from chunks where id = i.chunk_id limit 1) c"""


def _of_rows(rows: LiteralString) -> LiteralString:
    """Return the clause that leaves chunks with a row that matches."""
    return f"""where exists (
            select from chunks row_chunk join documents row_document on row_document.id = row_chunk.document_id
            where row_chunk.id = c.id and {rows}
        )"""


_RANKS: LiteralString = "coalesce(n.rank, x.rank::int) as semantic_rank, w.rank as keyword_rank"
_JOIN_GIVEN: LiteralString = "left join words w on w.chunk_id = c.id left join exact x on x.chunk_id = c.id"
_SEMANTIC: LiteralString = f"""coalesce((
            select least(1.0, greatest(0.0, 1 - ({DISTANCE}))) from embeddings e
            where e.partition_id = %(partition)s and e.key = c.embedding_key
        ), 0.0::float8)"""
_SCORED: LiteralString = f"""scored as (
        select p.chunk_id, sum({bm25.POINTS} order by t.place) as score
        from unnest(%(terms)s::text[], %(weights)s::float8[]) with ordinality t(term, weight, place)
        cross join lateral (
            select chunk_id, tf, length from postings
            where partition_id = %(partition)s and term = t.term
              and chunk_id = any(array(select id from visible except select chunk_id from words))
        ) p group by p.chunk_id
    ),"""
"""The BM25 scores of those candidates that came without one: of a filtered search, and what became visible since."""


_LIVE: LiteralString = """exists (
            select from partitions p
            join namespaces m on m.id = p.namespace_id and m.organization_id = %(organization)s and m.deleted_at is null
            where p.id = %(partition)s and p.namespace_id = %(namespace)s and p.tenant = %(tenant)s
        )"""
"""Whether the partition is still that of the scope, asked once."""


class Light(Enum):
    """Columns of candidates for shaped searches."""

    PLAIN = "PLAIN"
    WITH_PAGES = "WITH_PAGES"


@lru_cache(maxsize=256)
def _statement(
    condition: LiteralString,
    rows: LiteralString,
    shown: LiteralString,
    *,
    by_meaning: bool,
    by_words: bool,
    given: bool,
    live: bool,
) -> LiteralString:
    """In one line: psycopg keeps what it has read of a statement only if it is short. given: chunks by their ids."""
    is_live = _LIVE if live else "true"
    semantic: LiteralString = _SEMANTIC if by_meaning else "0.0::float8"
    keyword: LiteralString = "coalesce(w.score, s.score, 0.0)" if by_words else "0.0::float8"
    ranks: LiteralString = _RANKS if given else "n.rank as semantic_rank, null::int as keyword_rank"
    words_given, propose_given, join_given = (_GIVEN, _MORE, _JOIN_GIVEN) if given else ("", "", "")
    scored = _SCORED if by_words else ""
    join_scored: LiteralString = "left join scored s on s.chunk_id = c.id" if by_words else ""
    of_rows = _of_rows(rows) if rows != "true" else ""
    statement = f"""
    with near as (
        select document_id, generation, index, min(rank)::int as rank
        from unnest(%(documents)s::text[], %(generations)s::bigint[], %(indexes)s::int[])
            with ordinality n(document_id, generation, index, rank)
        group by 1, 2, 3
    ),
    {words_given} proposed as (
        select n.document_id, n.generation, n.index, c.id, c.embedding_key from near n
        left join lateral (
            select id, embedding_key from chunks
            where document_id = n.document_id and generation = n.generation and index = n.index limit 1
        ) c on true
        {propose_given}
    ),
    open as materialized (
        select p.*, d.active_generation
        from proposed p cross join lateral (select * from documents where id = p.document_id limit 1) d
        where d.partition_id = %(partition)s and d.deleted_at is null and d.active_generation > 0
          and {condition} and {is_live}
    ),
    visible as materialized (
        select id, document_id, generation, index, embedding_key from open
        where generation = active_generation and id is not null
        union
        select c.* from (
            select distinct document_id, active_generation from open where generation <> active_generation
        ) o
        cross join lateral (
            select id, document_id, generation, index, embedding_key from chunks
            where document_id = o.document_id and generation = o.active_generation order by index limit {_STALE}
        ) c
    ),
    {scored} parts as materialized (
        select c.id, c.document_id, c.index, {semantic} as semantic, {keyword} as bm25, {ranks}
        from visible c
        left join near n on n.document_id = c.document_id and n.generation = c.generation and n.index = c.index
        {join_given} {join_scored} {of_rows}
    ),
    best as materialized (
        select *, bm25 / (bm25 + {HALF}) as keyword,
               %(semantic_weight)s::float8 * semantic + %(keyword_weight)s::float8 * (bm25 / (bm25 + {HALF})) as score
        from parts order by score desc, document_id collate "C", index limit %(limit)s
    )
{shown}"""
    return " ".join(statement.split())


def places(vector_ids: Sequence[str]) -> list[Place]:
    """Parse vector ids, `document#generation#index`; ids of any other form are left out."""
    parsed = map(ids.parse_vector_id, vector_ids)
    return [position for position in parsed if position is not None and _ID.fullmatch(position[0])]


def of_places(near: Sequence[Place]) -> dict[str, str]:
    """Parameters `documents`, `generations` and `indexes`."""
    parts = zip(*near, strict=True) if near else ((), (), ())
    return dict(zip(("documents", "generations", "indexes"), map(literal, parts), strict=True))


def literal(values: Iterable[object]) -> str:
    """An array as PostgreSQL spells it, for numbers and ids; as lists they would take ten times as long to send."""
    return "{" + ",".join(map(str, values)) + "}"


def _count_nearer(condition: LiteralString) -> LiteralString:
    """Return the statement that counts what is nearer than a chunk among all that match."""
    return f"""
    with mine as (
        select {DISTANCE} as distance from chunks c join embeddings e
        on e.partition_id = c.partition_id and e.key = c.embedding_key
        where c.id = %(chunk)s and c.partition_id = %(partition)s
    )
    select (select distance from mine) as distance, count(*) as nearer from documents d
    join chunks c on c.document_id = d.id and c.generation = d.active_generation
    join embeddings e on e.partition_id = %(partition)s and e.key = c.embedding_key
    where d.partition_id = %(partition)s and d.deleted_at is null and {DISTANCE} < (select distance from mine)
      and {condition}
"""


def rank_of(
    db: Database, partition: int, where: DocumentFilter | None, values: Sequence[float], chunk: int
) -> int | None:
    """The place of a chunk among all that match, by its meaning, from 1; None if it has no vector. Reads them all."""
    condition, params = where.sql("d") if where is not None else ("true", {})
    statement = _count_nearer(condition)
    row = db.row(statement, {**params, **vector_params(values), "partition": partition, "chunk": chunk})
    return None if row is None or row["distance"] is None else int(row["nearer"]) + 1


def hydrate(
    db: Database,
    *,
    near: Sequence[Place],
    exact: Sequence[int],
    words: Sequence[bm25.Scored],
    terms: bm25.Terms,
    values: Sequence[float] | None,
    weights: tuple[float, float],
    where: DocumentFilter | None,
    limit: int | Light,
    scope: Scope | None = None,
) -> list[Row]:
    """The `limit` best of the candidates that may be shown, with the fields of `search.Hit`, best first.

    near: places of vectors, nearest first; exact: chunk ids, nearest first; words: by BM25, those with a rank
    proposed, the others scored only; terms: of the partition that is searched; weights: semantic, keyword. limit: Light
    for all of them, instead of those fields with what `shaping` decides by; WITH_PAGES also with the offsets of the
    document's pages. scope: nothing, unless the partition is that scope's, where this is not known yet.
    """
    pages: LiteralString = _PAGES if limit is Light.WITH_PAGES else "'{}'::int[]"
    fields = _select_light(pages) if isinstance(limit, Light) else _SHOWN
    condition, params = where.sql("d") if where is not None else ("true", {})
    by_words = bool(terms.names)
    has_chunks = by_words or bool(words) or bool(exact)
    rows = where.rows_sql("row_chunk", "row_document") if where is not None else "true"
    statement = _statement(
        condition,
        rows,
        fields,
        by_meaning=values is not None,
        by_words=by_words,
        given=has_chunks,
        live=scope is not None,
    )
    params |= {
        "partition": terms.partition,
        **of_places(near),
        "semantic_weight": weights[0],
        "keyword_weight": weights[1],
        "limit": None if isinstance(limit, Light) else limit,
    }
    if values is not None:
        params |= vector_params(values)
    if has_chunks:
        params |= {
            "chunks": literal(scored.chunk_id for scored in words),
            "scores": literal(scored.score for scored in words),
            "ranks": literal("null" if scored.rank is None else scored.rank for scored in words),
            "exact": literal(exact),
        }
    if by_words:
        params |= terms.params()
    if scope is not None:
        params |= scopes.params(scope)
    by_viewer_alone = db.is_viewed and (where is None or not where.narrows())
    with db.tuned(BY_INDEX if by_viewer_alone else {}) as connection:
        return connection.execute(statement, params, prepare=True).fetchall()


def shown(db: Database, chunk_ids: Sequence[int]) -> dict[int, Row]:
    """By chunk id, the fields of `search.Hit` but for its scores; without what was deleted meanwhile."""
    rows = db.rows(_OF_IDS, {"chunks": literal(chunk_ids)})
    return {row.pop("id"): row for row in rows}


def vector_params(values: Sequence[float]) -> dict[str, Any]:
    """Parameters of `DISTANCE`."""
    return {"values": HalfVector(values), "size": len(values)}
