"""Explanation of a document's rank in a search: why it is hidden, and the rank of its best chunk on each side.

All values are computed exactly over all matching chunks: for debugging, not for each search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import LiteralString

from psycopg import Connection

from retrieval.database import scopes
from retrieval.database.database import Database, Row
from retrieval.errors import ErrorCode, ServiceError
from retrieval.filters import DocumentFilter
from retrieval.ports import Embedder, Scope, VectorStore
from retrieval.search import bm25, languages, notes, search, words
from retrieval.search.hydration import literal, rank_of
from retrieval.search.ranking import rank
from retrieval.search.search import Hit, Query
from retrieval.search.shaping import Shape

DEEP = 1_000
"""Results among which the place of a document is looked for that is not shown."""
WORDS = 64
"""Words of a query that are looked up."""

_DOCUMENT: LiteralString = """
    select d.id, d.name, d.status, d.error, d.active_generation, d.partition_id, (
        select count(*) from chunks c where c.document_id = d.id and c.generation = d.active_generation
    ) as chunks, (
        select greatest(1, count(distinct m.generation)) from run_documents m
        where m.document_id = d.id and m.generation <= d.active_generation
    ) as version
    from documents d
    join partitions p on p.id = d.partition_id and p.tenant = %(tenant)s and p.namespace_id = %(namespace)s
    join namespaces n on n.id = p.namespace_id and n.organization_id = %(organization)s and n.deleted_at is null
    where d.deleted_at is null and (d.id = %(document)s or d.external_id = %(external)s)
    order by d.created_at desc, d.id desc limit 1
"""
_CHUNK: LiteralString = """
    select c.id from documents d join chunks c on c.document_id = d.id and c.generation = d.active_generation
    where d.partition_id = %(partition)s and d.id = %(document)s and d.deleted_at is null and c.index = %(index)s
"""


def _count_allowed(condition: LiteralString) -> LiteralString:
    """Return the statement that counts those of the chunks whose documents match."""
    return f"""
    select count(*) as better from unnest(%(chunks)s::bigint[]) b(id)
    cross join lateral (select document_id, generation from chunks where id = b.id limit 1) c
    cross join lateral (select * from documents where id = c.document_id limit 1) d
    where d.partition_id = %(partition)s and d.deleted_at is null and c.generation = d.active_generation and {condition}
"""


_HAS: LiteralString = "select term from postings where chunk_id = %(chunk)s and term = any(%(terms)s)"
_IS_WORD: LiteralString = "select to_tsvector(%(language)s::regconfig, %(text)s) <> '' as is_word"


@dataclass(frozen=True, slots=True)
class Reason:
    """Reason why a document is not a result: STATUS, FILTER, THRESHOLD or RANK."""

    kind: str
    detail: str


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a filter, and its place in the request."""

    place: str
    where: DocumentFilter


@dataclass(frozen=True, slots=True)
class Why:
    """Result of a search for one document; scores, ranks and words are those of its best chunk, None without one."""

    document_id: str
    name: str
    status: str
    generation: int | None
    """The visible one."""
    shown: bool
    rank: int | None
    score: float | None
    semantic_rank: int | None
    keyword_rank: int | None
    semantic_score: float | None
    keyword_score: float | None
    last_shown_score: float | None
    reasons: list[Reason]
    matched: list[str]
    missing: list[str]


def explain(
    db: Database,
    scope: Scope,
    query: Query,
    *,
    document: str | None,
    external_id: str | None,
    parts: Sequence[Part],
    embedder: Embedder | None,
    vectors: VectorStore | None,
    language: str,
) -> Why:
    """DOCUMENTS_NOT_FOUND for a document that the scope does not have. `parts`: those of the query's filter."""
    row = db.row(_DOCUMENT, {**scopes.params(scope), "document": document, "external": external_id})
    if row is None:
        raise ServiceError(ErrorCode.DOCUMENTS_NOT_FOUND, "There is no such document in this namespace.")
    by_meaning = query.semantic_weight > 0 and embedder is not None
    values = search.embed(embedder, scope, query.text) if by_meaning and embedder is not None else None

    def find(query: Query) -> list[Hit]:
        return search.run(
            db, scope, query, viewer=None, embedder=embedder, vectors=vectors, language=language, values=values
        ).hits

    unexpanded = replace(query, shape=replace(query.shape, expansion=None))
    hits = find(unexpanded)
    aged = Shape(recency=query.shape.recency)
    only_document = DocumentFilter(document_ids=(row["id"],))
    best = next(iter(find(replace(unexpanded, top_k=1, threshold=0.0, where=only_document, shape=aged))), None)
    position = _place(hits, row["id"])
    is_shown = position is not None
    reasons = [] if is_shown else _hiding(db, row, query, parts)
    if not is_shown and not reasons:
        position = _place(find(replace(unexpanded, top_k=DEEP, threshold=0.0, shape=aged)), row["id"])
        alone = best is None and notes.stop_words_alone(db, scope, query.text, language, None)
        detail = f"None of its chunks was looked at: {notes.STOP_WORDS_ALONE}"
        reasons = [Reason("RANK", detail) if alone else _too_weak(query, best, hits, position)]
    chunk = None if best is None else _chunk(db, row, best)
    with db.transaction() as connection:
        keyword_rank = None if chunk is None else _keyword_rank(connection, row, query, language, chunk)
        matched, missing = _words(connection, row["partition_id"], query.text, language, chunk)
    semantic_rank = None
    if values is not None and chunk is not None:
        semantic_rank = rank_of(db, row["partition_id"], query.where, values, chunk)
    return Why(
        document_id=row["id"],
        name=row["name"],
        status=row["status"],
        generation=row["version"] if row["active_generation"] else None,
        shown=is_shown,
        rank=position,
        score=hits[position - 1].score if is_shown and position else best.score if best else None,
        semantic_rank=semantic_rank,
        keyword_rank=keyword_rank,
        semantic_score=best.semantic if best and query.semantic_weight > 0 else None,
        keyword_score=best.keyword if best and query.keyword_weight > 0 else None,
        last_shown_score=hits[-1].score if hits else None,
        reasons=reasons,
        matched=matched,
        missing=missing,
    )


def _place(hits: Sequence[Hit], document: str) -> int | None:
    return next((position for position, hit in enumerate(hits, 1) if hit.document_id == document), None)


def _hiding(db: Database, row: Row, query: Query, parts: Sequence[Part]) -> list[Reason]:
    """Return the reasons that exclude the document whatever its score."""
    reasons = []
    if not row["active_generation"]:
        error = f" {row['error']}" if row["error"] else ""
        reasons.append(Reason("STATUS", f"Its status is {row['status']}: nothing of it is searchable yet.{error}"))
    elif not row["chunks"]:
        reasons.append(Reason("STATUS", "Its visible version has no text."))
    if query.where is not None and not _holds(db, row["id"], query.where):
        failing = [part.place for part in parts if not _holds(db, row["id"], part.where)]
        reasons.extend(Reason("FILTER", f"{name} leaves it out.") for name in failing)
    return reasons


def _holds(db: Database, document: str, where: DocumentFilter) -> bool:
    condition, params = where.sql("d")
    matched = db.row(
        f"select ({condition}) as holds from documents d where d.id = %(document)s", {**params, "document": document}
    )
    return matched is not None and bool(matched["holds"])


def _too_weak(query: Query, best: Hit | None, hits: Sequence[Hit], place: int | None) -> Reason:
    if best is None:
        return Reason("RANK", "None of its chunks holds a word of the query.")
    if best.score < query.threshold:
        return Reason("THRESHOLD", f"Its best chunk scores {best.score:.4f}, below the threshold {query.threshold:g}.")
    last = f", the last result {hits[-1].score:.4f}" if hits else ""
    at = f"It stands at place {place}" if place else f"It is not among the first {DEEP}"
    return Reason("RANK", f"{at}; topK is {query.top_k}. Its best chunk scores {best.score:.4f}{last}.")


def _chunk(db: Database, row: Row, best: Hit) -> int | None:
    values = {"partition": row["partition_id"], "document": row["id"], "index": best.index}
    chunk = db.row(_CHUNK, values)
    return None if chunk is None else int(chunk["id"])


def _keyword_rank(connection: Connection[Row], row: Row, query: Query, language: str, chunk: int) -> int | None:
    """The place of a chunk among all that match, by its words, from 1; None if it holds none of them."""
    if query.keyword_weight <= 0:
        return None
    terms = bm25.terms(connection, row["partition_id"], query.text, language)
    if not terms.names:
        return None
    ranking = rank(connection, terms)
    (mine,) = ranking.of([chunk])
    better = ranking.ids[ranking.scores > mine.score]
    if mine.score <= 0:
        return None
    if query.where is not None and query.where.narrows():
        condition, params = query.where.sql("d")
        values = {**params, "partition": row["partition_id"], "chunks": literal(int(chunk_id) for chunk_id in better)}
        counted = connection.execute(_count_allowed(condition), values).fetchone()
        return int(counted["better"] if counted else 0) + 1
    return len(better) + 1


def _words(
    connection: Connection[Row], partition: int, text: str, language: str, chunk: int | None
) -> tuple[list[str], list[str]]:
    """The query's words that the chunk holds in some form, and those that it lacks; without words that never count."""
    counting = set(bm25.terms(connection, partition, text, language).names)
    matched, missing = [], []
    for word in words.typed(text)[:WORDS]:
        names = [name for name in bm25.terms(connection, partition, word, language).names if name in counting]
        if names and connection.execute(_HAS, {"chunk": chunk, "terms": names}).fetchone():
            matched.append(word)
        elif names or _is_word(connection, word, language):
            missing.append(word)
    return matched, missing


def _is_word(connection: Connection[Row], word: str, language: str) -> bool:
    """Tell if a query for this word looks up any term."""
    read = words.of_text(word, languages.SIMPLE)
    if read.terms:
        return True
    row = connection.execute(_IS_WORD, {"language": language, "text": read.text}).fetchone()
    return bool(row and row["is_word"])
