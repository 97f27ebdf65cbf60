"""SQL of searches: matches of a filter, statistics and lists of terms, scores of candidates, hits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, LiteralString

from retrieval import ids
from retrieval.database import partitions
from retrieval.database.database import Database
from retrieval.database.half_vectors import HalfVector
from retrieval.database.rows import Params
from retrieval.database.sessions import BY_INDEX
from retrieval.filters import DocumentFilter
from retrieval.keywords.bm25_scorer import K1, B, Scored, Terms
from retrieval.ports import Scope
from retrieval.search.context_expansion import Context

if TYPE_CHECKING:
    pass

HALF: LiteralString = "10.0"
"""BM25 score that counts as one half of the keyword part."""
LEAD: LiteralString = "0.82"
"""Share of the best score from which on a document gets a place before others get a second one."""
COMPARED: LiteralString = "10"
"""Candidates that are nearest by meaning, whose mean score is compared with the best one."""
UNRELATED: LiteralString = "0.05::float8"
"""Semantic score of unrelated texts, which stand in for candidates that a small namespace does not have."""
HIDES_CHUNK: LiteralString = """c.hidden @> jsonb_build_array(jsonb_build_object('contentHash', (
    select encode(sha256(convert_to(content, 'UTF8')), 'hex') from chunks where id = c.id)))"""
"""Whether a passage that is hidden from search has the text of chunk `c` (`retrieval.documents.hidden_passages`)."""
COPIES: LiteralString = "10"
"""Documents with the same text that a result names, at most."""
_STALE: LiteralString = "1000"
"""Visible chunks of a document that are scored, at most, if a candidate is of another generation of it."""
_ID = re.compile(r"[A-Za-z0-9_-]+")

Place = tuple[str, int, int]
"""Document, generation and index of a chunk."""


@dataclass(frozen=True, slots=True)
class Partition:
    """Partition of a scope: its number of visible chunks, and the configurations that its documents are read in.

    answerability: what evaluations fitted to the model of today, by the way to search.
    """

    id: int
    chunks: int
    keyword_languages: list[str]
    answerability: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A visible chunk with the parts of its score, and what diversity, recency and context decide by."""

    id: int
    document_id: str
    index: int
    semantic: float
    keyword: float
    score: float
    semantic_rank: int | None
    keyword_rank: int | None
    start: int
    end: int
    parsed_key: str | None
    modified_at: str | None
    created_at: datetime
    nearest: float
    """The best semantic score of all candidates, whichever are returned,"""
    nearby: float
    """the mean of the best ten,"""
    strongest: float
    """and the best keyword score."""
    pages: list[int] | None
    has_hidden: bool = False
    """Whether the document has hidden passages, which contexts could show."""
    text_hash: str | None = None
    """Hash of the text, of chunks that another candidate may be equal to; None: no other has this text."""
    copies: list[int] = field(default_factory=list)
    """Ids of chunks of other documents with the same text, the best of each."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A chunk of another document with the text of a hit, by its chunk's place there."""

    id: int
    document_id: str
    name: str
    external_id: str
    document_type: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Hit:
    """A result: a chunk, the parts of its score, its place in the two lists (from 1) and its document."""

    content: str
    score: float
    semantic: float
    keyword: float
    semantic_rank: int | None
    keyword_rank: int | None
    document_id: str
    name: str
    external_id: str
    document_type: str
    source: str
    metadata: Mapping[str, Any]
    index: int
    start: int
    end: int
    page: int | None
    rerank_score: float | None = None
    rank_before: int | None = None
    """The place before reranking, from 1."""
    rerank_weight: float | None = None
    """Share of `rerank_score` in the score; None: all of it."""
    recency: float | None = None
    context: Context | None = None
    header: str = ""
    """Column names of the table whose rows the chunk holds, "" without one."""
    copies: tuple[Copy, ...] = ()
    """Other documents that have the same text."""


def find_partition(db: Database, scope: Scope) -> Partition | None:
    """Find the partition of a scope."""
    statement: LiteralString = """
        select p.id, p.chunks, p.keyword_languages,
               case when p.answerability_epoch = n.epoch then p.answerability end as answerability
        from partitions p
        join namespaces n on n.id = p.namespace_id and n.organization_id = %(organization)s and n.deleted_at is null
        where p.namespace_id = %(namespace)s and p.tenant = %(tenant)s
    """
    with db.tuned() as connection:
        return connection.fetch_one(Partition, statement, partitions.scope_params(scope), prepare=True)


DISTANCE: LiteralString = """case when vector_dims(e.values) = %(size)s
    then coalesce(nullif(e.values::halfvec <=> %(values)s::halfvec, 'NaN'), 1) else 1 end"""
"""Distance of an embedding `e` from the query's vector, from 0 to 2; 1 without one."""


@lru_cache(maxsize=256)
def _select_scores(condition: LiteralString, rows: LiteralString) -> LiteralString:
    """Return the statement that scores candidates, in one line: psycopg caches its parsing only of short ones."""
    of_rows: LiteralString = f"""and exists (
            select from chunks row_chunk join documents row_document on row_document.id = row_chunk.document_id
            where row_chunk.id = c.id and {rows}
        )"""
    statement = f"""
    with near as (
        select document_id, generation, index, min(rank)::int as rank
        from unnest(%(documents)s::text[], %(generations)s::bigint[], %(indexes)s::int[])
            with ordinality n(document_id, generation, index, rank)
        group by 1, 2, 3
    ),
    words as (
        select * from unnest(%(chunks)s::bigint[], %(scores)s::float8[]) with ordinality w(chunk_id, score, rank)
    ),
    exact as (select * from unnest(%(exact)s::bigint[]) with ordinality x(chunk_id, rank)),
    proposed as (
        select n.document_id, n.generation, n.index, c.id, c.embedding_key, c.tokens, c.characters from near n
        left join lateral (
            select id, embedding_key, tokens, "end" - start as characters from chunks
            where document_id = n.document_id and generation = n.generation and index = n.index limit 1
        ) c on true
        union
        select c.document_id, c.generation, c.index, c.id, c.embedding_key, c.tokens, c."end" - c.start
        from (select chunk_id from words union select chunk_id from exact) i
        cross join lateral (select * from chunks where id = i.chunk_id limit 1) c
    ),
    open as materialized (
        select p.*, d.active_generation, d.hidden
        from proposed p cross join lateral (select * from documents where id = p.document_id limit 1) d
        where d.partition_id = %(partition)s and d.deleted_at is null and d.active_generation > 0
          and not d.hidden @> '[{{"contentHash": null}}]' and {condition}
    ),
    visible as materialized (
        select id, document_id, generation, index, embedding_key, tokens, characters, hidden from open
        where generation = active_generation and id is not null
        union
        select c.*, o.hidden from (
            select distinct document_id, active_generation, hidden from open where generation <> active_generation
        ) o
        cross join lateral (
            select id, document_id, generation, index, embedding_key, tokens, "end" - start from chunks
            where document_id = o.document_id and generation = o.active_generation order by index limit {_STALE}
        ) c
    ),
    scored as (
        select p.chunk_id, sum(
            t.weight * p.tf * {K1 + 1}::float8 / (p.tf + {K1 * (1 - B)}::float8 + %(slope)s::float8 * p.length)
            order by t.place
        ) as score
        from unnest(%(terms)s::text[], %(weights)s::float8[]) with ordinality t(term, weight, place)
        cross join lateral (
            select chunk_id, tf, length from postings
            where partition_id = %(partition)s and term = t.term
              and chunk_id = any(array(select id from visible except select chunk_id from words))
        ) p group by p.chunk_id
    ),
    parts as materialized (
        select c.id, c.document_id, c.index, c.tokens, c.characters, coalesce((
                select least(1.0, greatest(0.0, (
                    1 - ({DISTANCE}) - %(unrelated)s::float8) / (1 - %(unrelated)s::float8)
                )) from embeddings e
                where %(size)s::int is not null and e.partition_id = %(partition)s and e.key = c.embedding_key
            ), 0.0::float8) as semantic, coalesce(w.score, s.score, 0.0) as bm25,
            case when coalesce(n.rank, x.rank) is not null then
                row_number() over (order by coalesce(n.rank, x.rank))::int
            end as semantic_rank, w.rank::int as keyword_rank
        from visible c
        left join near n on n.document_id = c.document_id and n.generation = c.generation and n.index = c.index
        left join words w on w.chunk_id = c.id left join exact x on x.chunk_id = c.id
        left join scored s on s.chunk_id = c.id
        where (c.hidden = '[]' or not {HIDES_CHUNK})
          and not exists (select from unnest(%(excluded)s::bigint[]) e (id) where e.id = c.id)
          {of_rows if rows != "true" else ""}
    ),
    fused as (
        select id, document_id, index, tokens, characters, semantic, bm25 / (bm25 + {HALF}) as keyword,
               semantic_rank, keyword_rank,
               %(semantic_weight)s::float8 * semantic + %(keyword_weight)s::float8 * (bm25 / (bm25 + {HALF})) as score
        from parts
    ),
    best_of_sides as (
        select max(semantic) as nearest, max(keyword) as strongest, (
                   select (sum(semantic) + {UNRELATED} * ({COMPARED} - count(*))) / {COMPARED}
                   from (select semantic from fused order by semantic desc limit {COMPARED}) near
               ) as nearby
        from fused
    ),
    hashed as materialized (
        select *, case when count(*) over (partition by tokens, characters) > 1 then (
                   select md5(header || chr(10) || content) from chunks where id = fused.id limit 1
               ) end as text_hash
        from fused
    ),
    counted as (
        select *, row_number() over (
                   partition by coalesce(text_hash, id::text) order by score desc, document_id collate "C", index
               ) > 1 as is_copy
        from hashed
    ),
    placed as (
        select *, not is_copy and row_number() over (partition by document_id, is_copy order by score desc, index) = 1
                  and score >= greatest({LEAD} * max(score) over (), %(threshold)s::float8) as leads
        from counted
    ),
    best as materialized (
        select id, document_id, index, semantic, keyword, semantic_rank, keyword_rank, score, text_hash from placed
        order by is_copy, leads desc, score desc, document_id collate "C", index limit %(limit)s
    )
    select b.id, b.document_id, b.index, b.semantic, b.keyword, b.semantic_rank, b.keyword_rank, b.score, b.text_hash,
           c.start, c."end", d.parsed_key, d.hidden <> '[]' as has_hidden,
           d.properties ->> 'modifiedAt' as modified_at, d.created_at,
           s.nearest, s.nearby, s.strongest, case when b.text_hash is null then '{{}}' else array(
               select (array_agg(h.id order by h.score desc, h.index))[1] from hashed h
               where h.text_hash = b.text_hash and h.document_id <> b.document_id
               group by h.document_id order by max(h.score) desc, h.document_id collate "C" limit {COPIES}
           ) end as copies, case when %(with_pages)s then (
               select m.pages from run_documents m
               where m.document_id = d.id and m.generation = d.active_generation limit 1
           ) end as pages
    from best b cross join best_of_sides s
    join lateral (select start, "end" from chunks where id = b.id limit 1) c on true
    join lateral (select * from documents where id = b.document_id limit 1) d on true
    order by b.score desc, b.document_id collate "C", b.index
    """
    return " ".join(statement.split())


def score_candidates(
    db: Database,
    *,
    near: Sequence[Place],
    exact: Sequence[int],
    words: Sequence[Scored],
    terms: Terms,
    values: Sequence[float] | None,
    weights: tuple[float, float, float],
    where: DocumentFilter | None,
    limits: tuple[int | None, float],
    with_pages: bool,
) -> list[Candidate]:
    """Score the candidates that match and that `db` shows, best first.

    near: places of vectors, nearest first; exact: chunk ids, nearest first; words: by BM25, best first; terms:
    of the partition that is searched; weights: semantic, keyword, and the cosine that counts as 0.
    limits: number of candidates, those that `diversity.lead_documents` puts in front, and the least score of a hit.
    with_pages: with offsets of pages.
    """
    condition, params = where.sql("d") if where is not None else ("true", {})
    rows = where.rows_sql("row_chunk", "row_document") if where is not None else "true"
    params |= {
        **terms.params(),
        **vector_params(values),
        **place_params(near),
        "chunks": array_literal(scored.chunk_id for scored in words),
        "scores": array_literal(scored.score for scored in words),
        "exact": array_literal(exact),
        "excluded": array_literal(terms.excluded),
        "unrelated": weights[2],
        "semantic_weight": weights[0],
        "keyword_weight": weights[1],
        "limit": limits[0],
        "threshold": limits[1],
        "with_pages": with_pages,
    }
    by_viewer_alone = db.is_viewed and (where is None or not where.narrows())
    with db.tuned(BY_INDEX if by_viewer_alone else {}) as connection:
        return connection.fetch(Candidate, _select_scores(condition, rows), params, prepare=True)


def read_hits(db: Database, ranked: Sequence[tuple[Candidate, float, float | None]]) -> list[Hit]:
    """Read the hits of candidates, each with its final score and recency, in order; without what was deleted since."""
    statement: LiteralString = """
        select c.content, c.header, i.score, i.semantic, i.keyword, i.semantic_rank, i.keyword_rank, i.recency,
               d.id as document_id, d.name, d.external_id, d.document_type, d.source, d.metadata, c.index, c.start,
               c."end", c.page
        from unnest(%(chunks)s::bigint[], %(scores)s::float8[], %(semantic)s::float8[], %(keyword)s::float8[],
                    %(semantic_ranks)s::int[], %(keyword_ranks)s::int[], %(recency)s::float8[]) with ordinality
             i(id, score, semantic, keyword, semantic_rank, keyword_rank, recency, place)
        join lateral (select * from chunks where id = i.id limit 1) c on true
        join lateral (select * from documents where id = c.document_id and deleted_at is null limit 1) d on true
        order by i.place
    """
    params = {
        "chunks": array_literal(candidate.id for candidate, _, _ in ranked),
        "scores": array_literal(score for _, score, _ in ranked),
        "semantic": array_literal(candidate.semantic for candidate, _, _ in ranked),
        "keyword": array_literal(candidate.keyword for candidate, _, _ in ranked),
        "semantic_ranks": array_literal(candidate.semantic_rank for candidate, _, _ in ranked),
        "keyword_ranks": array_literal(candidate.keyword_rank for candidate, _, _ in ranked),
        "recency": array_literal(recency for _, _, recency in ranked),
    }
    with db.tuned(BY_INDEX if db.is_viewed else {}) as connection:
        hits = connection.fetch(Hit, statement, params, prepare=True)
    chunk_ids = {(candidate.document_id, candidate.index): candidate.copies for candidate, _, _ in ranked}
    copies = _read_copies(db, [chunk_id for several in chunk_ids.values() for chunk_id in several])
    if not copies:
        return hits
    return [
        replace(hit, copies=tuple(copies[at] for at in chunk_ids[hit.document_id, hit.index] if at in copies))
        for hit in hits
    ]


def _read_copies(db: Database, chunk_ids: Sequence[int]) -> dict[int, Copy]:
    """Read chunks by id that `db` shows, with their documents; without what was deleted since."""
    if not chunk_ids:
        return {}
    statement: LiteralString = """
        select c.id, c.document_id, d.name, d.external_id, d.document_type, c.start, c."end"
        from unnest(%(chunks)s::bigint[]) i (id)
        join lateral (select * from chunks where id = i.id limit 1) c on true
        join lateral (select * from documents where id = c.document_id and deleted_at is null limit 1) d on true
    """
    with db.tuned(BY_INDEX if db.is_viewed else {}) as connection:
        rows = connection.fetch(Copy, statement, {"chunks": array_literal(chunk_ids)}, prepare=True)
    return {copy.id: copy for copy in rows}


def vector_params(values: Sequence[float] | None) -> Params:
    """Return the parameters of `DISTANCE`."""
    return {"values": None if values is None else HalfVector(values), "size": None if values is None else len(values)}


def parse_places(vector_ids: Iterable[str]) -> list[Place]:
    """Parse vector ids, `document#generation#index`; ids of any other form are left out."""
    parsed = map(ids.parse_vector_id, vector_ids)
    return [place for place in parsed if place is not None and _ID.fullmatch(place[0])]


def place_params(places: Sequence[Place]) -> dict[str, str]:
    """Return the parameters `documents`, `generations` and `indexes`."""
    parts = zip(*places, strict=True) if places else ((), (), ())
    return dict(zip(("documents", "generations", "indexes"), map(array_literal, parts), strict=True))


def array_literal(values: Iterable[object]) -> str:
    """Write an array of numbers or ids as PostgreSQL does; as lists they would take ten times as long to send."""
    return "{" + ",".join("null" if value is None else str(value) for value in values) + "}"
