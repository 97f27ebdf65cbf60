"""SQL of searches: scores of candidates, hits and their copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, LiteralString

from retrieval.access.hidden_spans import REPEATED_SPANS, mask_text
from retrieval.database import partitions
from retrieval.database.database import Database
from retrieval.database.half_vectors import HalfVector
from retrieval.database.rows import Params, array_literal
from retrieval.database.sessions import INDEX_SCANS_ONLY
from retrieval.filters import DocumentFilter
from retrieval.keywords.bm25_scorer import K1, B, QueryTerms, ScoredChunk
from retrieval.ports import Scope
from retrieval.search.context_expansion import Context

# BM25 at which the keyword score is 0.5: bm25 / (bm25 + this).
BM25_HALF_SCORE: LiteralString = "10.0"
# Share of the best score from which a document's best chunk comes before further chunks of other documents.
LEADING_SCORE_SHARE: LiteralString = "0.82"
# Candidates in `mean_best_semantic`.
MEAN_CANDIDATES: LiteralString = "10"
# Semantic score of unrelated texts; fills the mean in small namespaces.
UNRELATED_SCORE: LiteralString = "0.05::float8"
# Condition: document `d` hides chunk `c` by the hash of the text (`retrieval.documents.hidden_passages`).
HIDES_CHUNK: LiteralString = """c.hidden @> jsonb_build_array(jsonb_build_object('contentHash', (
    select encode(sha256(convert_to(content, 'UTF8')), 'hex') from chunks where id = c.id)))"""
# Limit of copies per hit.
MAX_COPIES: LiteralString = "10"
# Chunks of a document's current generation that are scored in place of a candidate of an old one.
_MAX_STALE_CHUNKS: LiteralString = "1000"

# Document id, generation and index of a chunk.
ChunkPlace = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Partition:
    """Partition of a scope with its number of visible chunks and text search configurations."""

    id: int
    chunks: int
    keyword_languages: list[str]
    # Fits of the current embedding model, by side.
    answerability: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """Visible chunk with its scores and the properties for ranking and contexts."""

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
    # Best semantic score of all candidates.
    best_semantic: float
    # Mean of the ten best semantic scores.
    mean_best_semantic: float
    # Best keyword score of all candidates.
    best_keyword: float
    pages: list[int] | None
    # Contexts must not show hidden passages of the document.
    has_hidden: bool = False
    # None if no other candidate can have the same text.
    text_hash: str | None = None
    # Best chunk of each other document with the same text.
    copies: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Copy:
    """Chunk of another document with the text of a hit."""

    id: int
    document_id: str
    name: str
    external_id: str
    document_type: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Hit:
    """Chunk with its scores, ranks (from 1) and document."""

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
    # Rank without reranking, from 1.
    rank_before: int | None = None
    # Share of `rerank_score` in the score; None is all.
    rerank_weight: float | None = None
    recency: float | None = None
    context: Context | None = None
    # Column names of a table chunk.
    header: str = ""
    copies: tuple[Copy, ...] = ()
    # Parts that hidden chunks repeat, from its start.
    masked: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class ScoreOptions:
    """Weights of the scores, and limits of the candidates."""

    semantic_weight: float
    keyword_weight: float
    # Cosine of unrelated texts, a semantic score of 0.
    unrelated_cosine: float
    # Number of candidates; None for all.
    limit: int | None
    min_score: float
    with_pages: bool


def find_partition(db: Database, scope: Scope, *, viewed: bool = False) -> Partition | None:
    """Return the partition of a scope, on a connection for the statements of a viewer if `viewed`."""
    statement: LiteralString = """
        select p.id, p.chunks, p.keyword_languages,
               case when p.answerability_epoch = n.epoch then p.answerability end as answerability
        from partitions p
        join namespaces n on n.id = p.namespace_id and n.organization_id = %(organization)s and n.deleted_at is null
        where p.namespace_id = %(namespace)s and p.tenant = %(tenant)s
    """
    # A change of session settings takes as long as this lookup.
    with db.tuned(INDEX_SCANS_ONLY if viewed else {}) as connection:
        return connection.fetch_one(Partition, statement, partitions.scope_params(scope), prepare=True)


# Cosine distance of an embedding `e` from the query, 0 to 2; 1 without embedding.
COSINE_DISTANCE: LiteralString = """case when vector_dims(e.values) = %(size)s
    then coalesce(nullif(e.values::halfvec <=> %(values)s::halfvec, 'NaN'), 1) else 1 end"""


@lru_cache(maxsize=256)
def _select_scores(condition: LiteralString, rows: LiteralString) -> LiteralString:
    """Build the statement for scores of candidates: each gets both scores, whichever side proposed it."""
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
    searchable_documents as materialized (
        select p.*, d.active_generation, d.hidden
        from proposed p cross join lateral (select * from documents where id = p.document_id limit 1) d
        where d.partition_id = %(partition)s and d.deleted_at is null and d.active_generation > 0
          and not d.hidden @> '[{{"contentHash": null}}]' and {condition}
    ),
    visible as materialized (
        select id, document_id, generation, index, embedding_key, tokens, characters, hidden
        from searchable_documents
        where generation = active_generation and id is not null
        union
        select c.*, d.hidden from (
            select distinct document_id, active_generation, hidden from searchable_documents
            where generation <> active_generation
        ) d
        cross join lateral (
            select id, document_id, generation, index, embedding_key, tokens, "end" - start from chunks
            where document_id = d.document_id and generation = d.active_generation order by index
            limit {_MAX_STALE_CHUNKS}
        ) c
    ),
    missing_bm25 as (
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
                    1 - ({COSINE_DISTANCE}) - %(unrelated)s::float8) / (1 - %(unrelated)s::float8)
                )) from embeddings e
                where %(size)s::int is not null and e.partition_id = %(partition)s and e.key = c.embedding_key
            ), 0.0::float8) as semantic, coalesce(w.score, s.score, 0.0) as bm25,
            case when coalesce(n.rank, x.rank) is not null then
                row_number() over (order by coalesce(n.rank, x.rank))::int
            end as semantic_rank, w.rank::int as keyword_rank
        from visible c
        left join near n on n.document_id = c.document_id and n.generation = c.generation and n.index = c.index
        left join words w on w.chunk_id = c.id left join exact x on x.chunk_id = c.id
        left join missing_bm25 s on s.chunk_id = c.id
        where (c.hidden = '[]' or not {HIDES_CHUNK})
          and not exists (select from unnest(%(excluded)s::bigint[]) e (id) where e.id = c.id)
          {of_rows if rows != "true" else ""}
    ),
    fused as (
        select id, document_id, index, tokens, characters, semantic, bm25 / (bm25 + {BM25_HALF_SCORE}) as keyword,
               semantic_rank, keyword_rank,
               %(semantic_weight)s::float8 * semantic
               + %(keyword_weight)s::float8 * (bm25 / (bm25 + {BM25_HALF_SCORE})) as score
        from parts
    ),
    best_of_sides as (
        select max(semantic) as best_semantic, max(keyword) as best_keyword, (
                   select (sum(semantic) + {UNRELATED_SCORE} * ({MEAN_CANDIDATES} - count(*))) / {MEAN_CANDIDATES}
                   from (select semantic from fused order by semantic desc limit {MEAN_CANDIDATES}) near
               ) as mean_best_semantic
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
                  and score >= greatest({LEADING_SCORE_SHARE} * max(score) over (), %(threshold)s::float8) as leads
        from counted
    ),
    best as materialized (
        select id, document_id, index, semantic, keyword, semantic_rank, keyword_rank, score, text_hash from placed
        order by is_copy, leads desc, score desc, document_id collate "C", index limit %(limit)s
    )
    select b.id, b.document_id, b.index, b.semantic, b.keyword, b.semantic_rank, b.keyword_rank, b.score, b.text_hash,
           c.start, c."end", d.parsed_key, d.hidden <> '[]' as has_hidden,
           d.properties ->> 'modifiedAt' as modified_at, d.created_at,
           s.best_semantic, s.mean_best_semantic, s.best_keyword,
           case when b.text_hash is null then '{{}}' else array(
               select (array_agg(h.id order by h.score desc, h.index))[1] from hashed h
               where h.text_hash = b.text_hash and h.document_id <> b.document_id
               group by h.document_id order by max(h.score) desc, h.document_id collate "C" limit {MAX_COPIES}
           ) end as copies, case when %(with_pages)s then (
               select m.pages from run_documents m
               where m.document_id = d.id and m.generation = d.active_generation limit 1
           ) end as pages
    from best b cross join best_of_sides s
    join lateral (select start, "end" from chunks where id = b.id limit 1) c on true
    join lateral (select * from documents where id = b.document_id limit 1) d on true
    order by b.score desc, b.document_id collate "C", b.index
    """
    # One line, since psycopg caches only the parsing of short statements.
    return " ".join(statement.split())


def score_candidates(
    db: Database,
    *,
    near: Sequence[ChunkPlace],
    exact: Sequence[int],
    words: Sequence[ScoredChunk],
    terms: QueryTerms,
    values: Sequence[float] | None,
    document_filter: DocumentFilter | None,
    options: ScoreOptions,
) -> list[Candidate]:
    """Score visible matching candidates, best first."""
    # Best first: `near` from the vector store; `exact` instead of it, by comparison with the embeddings of all chunks
    # of a selective filter; `words` by BM25.
    condition, params = document_filter.sql("d") if document_filter is not None else ("true", {})
    rows = document_filter.has_row_sql("row_chunk", "row_document") if document_filter is not None else "true"
    params |= {
        **terms.params(),
        **vector_params(values),
        **place_params(near),
        "chunks": array_literal(scored.chunk_id for scored in words),
        "scores": array_literal(scored.score for scored in words),
        "exact": array_literal(exact),
        "excluded": array_literal(terms.excluded),
        "unrelated": options.unrelated_cosine,
        "semantic_weight": options.semantic_weight,
        "keyword_weight": options.keyword_weight,
        "limit": options.limit,
        "threshold": options.min_score,
        "with_pages": options.with_pages,
    }
    by_viewer_alone = db.is_viewed and (document_filter is None or not document_filter.can_exclude())
    with db.tuned(INDEX_SCANS_ONLY if by_viewer_alone else {}) as connection:
        return connection.fetch(Candidate, _select_scores(condition, rows), params, prepare=True)


def read_hits(db: Database, ranked: Sequence[tuple[Candidate, float, float | None]]) -> list[Hit]:
    """Read hits in order, without deleted documents."""
    statement: LiteralString = f"""
        select c.content, c.header, {REPEATED_SPANS} as masked,
               i.score, i.semantic, i.keyword, i.semantic_rank, i.keyword_rank, i.recency,
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
    with db.tuned(INDEX_SCANS_ONLY if db.is_viewed else {}) as connection:
        hits = connection.fetch(Hit, statement, params, prepare=True)
    hits = [replace(hit, content=mask_text(hit.content, hit.masked)) if hit.masked else hit for hit in hits]
    copies_by_chunk = {(candidate.document_id, candidate.index): candidate.copies for candidate, _, _ in ranked}
    copies = _read_copies(db, [chunk_id for chunk_ids in copies_by_chunk.values() for chunk_id in chunk_ids])
    if not copies:
        return hits
    return [
        replace(hit, copies=tuple(copies[at] for at in copies_by_chunk[hit.document_id, hit.index] if at in copies))
        for hit in hits
    ]


def _read_copies(db: Database, chunk_ids: Sequence[int]) -> dict[int, Copy]:
    """Read visible chunks by id, without deleted documents."""
    if not chunk_ids:
        return {}
    statement: LiteralString = """
        select c.id, c.document_id, d.name, d.external_id, d.document_type, c.start, c."end"
        from unnest(%(chunks)s::bigint[]) i (id)
        join lateral (select * from chunks where id = i.id limit 1) c on true
        join lateral (select * from documents where id = c.document_id and deleted_at is null limit 1) d on true
    """
    with db.tuned(INDEX_SCANS_ONLY if db.is_viewed else {}) as connection:
        rows = connection.fetch(Copy, statement, {"chunks": array_literal(chunk_ids)}, prepare=True)
    return {copy.id: copy for copy in rows}


def vector_params(values: Sequence[float] | None) -> Params:
    """Return the parameters of `COSINE_DISTANCE`."""
    return {"values": None if values is None else HalfVector(values), "size": None if values is None else len(values)}


def place_params(places: Sequence[ChunkPlace]) -> dict[str, str]:
    """Return the parameters `documents`, `generations` and `indexes`."""
    parts = zip(*places, strict=True) if places else ((), (), ())
    return dict(zip(("documents", "generations", "indexes"), map(array_literal, parts), strict=True))
