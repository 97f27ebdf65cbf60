"""Explanation of a document's rank in a search: why it is hidden, and the rank of its best chunk on each side.

All values are computed exactly over all matching chunks: for debugging, not for each search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from retrieval.database.database import Database
from retrieval.database.sessions import ThreadConnection
from retrieval.errors import ErrorCode, ServiceError
from retrieval.filters import DocumentFilter
from retrieval.keywords import analyzer, bm25_scorer, languages
from retrieval.ports import Embedder, Scope, VectorStore
from retrieval.principals import Viewer
from retrieval.search import queries_explain as queries
from retrieval.search import search
from retrieval.search.diversity import Shape
from retrieval.search.queries import Hit, find_partition
from retrieval.search.queries_explain import Explained
from retrieval.search.search import Query

STOP_WORDS_ALONE: Final = (
    "the query holds stop words alone. By words they are looked for as names (WHO, The Who), in short texts, and where"
    " five of them stand in a row."
)
DEEP = 1_000
"""Results among which the place of a document is looked for that is not shown."""
WORDS = 64
"""Words of a query that are looked up."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Reason why a document is not a result: STATUS, HIDDEN, FILTER, THRESHOLD or RANK."""

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


def explain_document(
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
    row = queries.find_document(db, scope, document, external_id)
    if row is None:
        raise ServiceError(ErrorCode.DOCUMENTS_NOT_FOUND, "There is no such document in this namespace.")
    by_meaning = query.semantic_weight > 0 and embedder is not None
    values = search.embed_query(embedder, scope, query.text) if by_meaning and embedder is not None else None

    def find(query: Query) -> list[Hit]:
        return search.run_search(
            db, scope, query, viewer=None, embedder=embedder, vectors=vectors, language=language, values=values
        ).hits

    unexpanded = replace(query, shape=replace(query.shape, expansion=None))
    hits = find(unexpanded)
    aged = Shape(recency=query.shape.recency)
    only_document = DocumentFilter(document_ids=(row.id,))
    best = next(iter(find(replace(unexpanded, top_k=1, threshold=0.0, where=only_document, shape=aged))), None)
    position = _place(hits, row.id)
    is_shown = position is not None
    reasons = [] if is_shown else _hiding(db, row, query, parts)
    if not is_shown and not reasons:
        reasons = _name_same_text(hits, row.id)
    if not is_shown and not reasons:
        position = _place(find(replace(unexpanded, top_k=DEEP, threshold=0.0, shape=aged)), row.id)
        alone = best is None and has_stop_words_alone(db, scope, query.text, language, None)
        detail = f"None of its chunks was looked at: {STOP_WORDS_ALONE}"
        reasons = [Reason("RANK", detail) if alone else _too_weak(query, best, hits, position)]
        if row.hidden:
            causes = "; ".join(dict.fromkeys(str(entry["reason"]) for entry in row.hidden))
            reasons.append(Reason("HIDDEN", f"Passages of it are hidden from search: {causes}"))
    chunk = None if best is None else queries.find_chunk(db, row, best.index)
    with db.transaction() as connection:
        keyword_rank = None if chunk is None else _keyword_rank(connection, row, query, language, chunk)
        matched, missing = _words(connection, row.partition_id, query.text, language, chunk)
    semantic_rank = None
    if values is not None and chunk is not None:
        semantic_rank = queries.find_semantic_rank(db, row.partition_id, query.where, values, chunk)
    return Why(
        document_id=row.id,
        name=row.name,
        status=row.status,
        generation=row.version if row.active_generation else None,
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


def _name_same_text(hits: Sequence[Hit], document: str) -> list[Reason]:
    """Return the reason of a document whose text a result of another document has."""
    return [
        Reason("RANK", f"{hit.name} has the same text, takes the place {rank}, and names this document.")
        for rank, hit in enumerate(hits, 1)
        if any(copy.document_id == document for copy in hit.copies)
    ][:1]


def _hiding(db: Database, row: Explained, query: Query, parts: Sequence[Part]) -> list[Reason]:
    """Return the reasons that exclude the document whatever its score."""
    reasons = []
    if not row.active_generation:
        error = f" {row.error}" if row.error else ""
        reasons.append(Reason("STATUS", f"Its status is {row.status}: nothing of it is searchable yet.{error}"))
    elif not row.chunks:
        reasons.append(Reason("STATUS", "Its visible version has no text."))
    reasons += [
        Reason("HIDDEN", f"It is hidden from search: {entry['reason']}")
        for entry in row.hidden
        if entry["contentHash"] is None
    ]
    if query.where is not None and not queries.matches_filter(db, row.id, query.where):
        failing = [part.place for part in parts if not queries.matches_filter(db, row.id, part.where)]
        reasons.extend(Reason("FILTER", f"{name} leaves it out.") for name in failing)
    return reasons


def _too_weak(query: Query, best: Hit | None, hits: Sequence[Hit], place: int | None) -> Reason:
    if best is None:
        return Reason("RANK", "None of its chunks holds a word of the query.")
    if best.score < query.threshold:
        return Reason("THRESHOLD", f"Its best chunk scores {best.score:.4f}, below the threshold {query.threshold:g}.")
    last = f", the last result {hits[-1].score:.4f}" if hits else ""
    at = f"It stands at place {place}" if place else f"It is not among the first {DEEP}"
    return Reason("RANK", f"{at}; topK is {query.top_k}. Its best chunk scores {best.score:.4f}{last}.")


def _keyword_rank(connection: ThreadConnection, row: Explained, query: Query, language: str, chunk: int) -> int | None:
    """Find the rank of a chunk among all that match, by its words, from 1; None if it holds none of them."""
    if query.keyword_weight <= 0:
        return None
    terms = bm25_scorer.read_terms(connection, row.partition_id, query.text, language, viewed=connection)
    if not terms.names:
        return None
    ranking = bm25_scorer.rank_chunks(connection, terms)
    score = ranking.among([chunk]).scores
    if not len(score):
        return None
    better = ranking.ids[ranking.scores > score[0]]
    if query.where is not None and query.where.narrows():
        return queries.count_matching(connection, row.partition_id, [int(number) for number in better], query.where) + 1
    return len(better) + 1


def _words(
    connection: ThreadConnection, partition: int, text: str, language: str, chunk: int | None
) -> tuple[list[str], list[str]]:
    """The query's words that the chunk holds in some form, and those that it lacks; without words that never count."""
    counting = set(bm25_scorer.read_terms(connection, partition, text, language).names)
    matched, missing = [], []
    for word in analyzer.list_typed_words(text)[:WORDS]:
        names = [
            name for name in bm25_scorer.read_terms(connection, partition, word, language).names if name in counting
        ]
        if names and queries.has_any_term(connection, chunk, names):
            matched.append(word)
        elif names or _is_word(connection, word, language):
            missing.append(word)
    return matched, missing


def _is_word(connection: ThreadConnection, word: str, language: str) -> bool:
    """Tell if a query for this word looks up any term."""
    analyzed = analyzer.analyze_text(word, languages.SIMPLE)
    return bool(analyzed.terms) or queries.is_word(connection, analyzed.text, language)


def has_stop_words_alone(db: Database, scope: Scope, query: str, otherwise: str, viewer: Viewer | None) -> bool:
    """Tell if the query has only stop words in its own language, or in one of the visible documents.

    False where the viewer may see no such document. otherwise: the configuration of texts without a detected language.
    """
    partition = find_partition(db, scope)
    if partition is None or not partition.chunks:
        return False
    detected = languages.configuration(languages.detect(query), otherwise)
    alone = [
        configuration
        for configuration in {detected, *partition.keyword_languages}
        if analyzer.has_only_stop_words(query, configuration)
    ]
    if viewer is None or not alone:
        return bool(alone)
    return queries.has_document_in(db, partition.id, None if detected in alone else alone, viewer)
