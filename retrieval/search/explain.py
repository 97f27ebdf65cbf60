"""Explain the rank of a document in a search."""
# Ranks are exact over all matching chunks, which is too slow for normal searches.

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from retrieval.database.database import Database
from retrieval.database.sessions import ThreadConnection
from retrieval.errors import ErrorCode, ServiceError
from retrieval.filters import DocumentFilter
from retrieval.keywords import analyzer, bm25_scorer, languages
from retrieval.ports import Embedder, Scope, VectorStore
from retrieval.principals import Viewer
from retrieval.search import queries_explain as queries
from retrieval.search import search
from retrieval.search.queries import Hit, find_partition
from retrieval.search.queries_explain import ExplainedDocument
from retrieval.search.result_selection import Shape
from retrieval.search.search import Query

ONLY_STOP_WORDS: Final = (
    "the query has only stop words. The keyword search finds them as names (WHO, The Who), in short texts, and as"
    " sequences of five."
)
# Lowest rank that is found for a document that is not a result.
MAX_RANK = 1_000
# Words of the query that are looked up in the document.
MAX_WORDS = 64


@dataclass(frozen=True, slots=True)
class Reason:
    """Reason why a document is not a result. `kind`: STATUS, HIDDEN, FILTER, THRESHOLD or RANK."""

    kind: str
    detail: str


@dataclass(frozen=True, slots=True)
class RequestFilter:
    """Filter at one path of the request, such as `filter.documents.metadata.topic`."""

    path: str
    document_filter: DocumentFilter


@dataclass(frozen=True, slots=True)
class SearchExplanation:
    """Rank of a document in a search; ranks and scores of the best chunk, None without a matching chunk."""

    document_id: str
    name: str
    status: str
    # Searchable version; None without one.
    generation: int | None
    is_result: bool
    rank: int | None
    score: float | None
    semantic_rank: int | None
    keyword_rank: int | None
    semantic_score: float | None
    keyword_score: float | None
    # Score of the last result.
    last_shown_score: float | None
    # Why the document is not a result; empty for a result.
    reasons: list[Reason]
    # Words of the query that are in the best chunk, and the others.
    matched: list[str]
    missing: list[str]


def explain_document(
    db: Database,
    scope: Scope,
    query: Query,
    *,
    document: str | None,
    external_id: str | None,
    request_filters: Sequence[RequestFilter],
    embedder: Embedder | None,
    vectors: VectorStore | None,
    language: str,
) -> SearchExplanation:
    """Explain the rank of a document, given by its id or external id; raise DOCUMENTS_NOT_FOUND."""
    row = queries.find_document(db, scope, document, external_id)
    if row is None:
        raise ServiceError(ErrorCode.DOCUMENTS_NOT_FOUND, "There is no such document in this namespace.")
    query_vector = None
    if embedder is not None and query.semantic_weight > 0:
        query_vector = search.embed_query(embedder, scope, query.text)

    def find_hits(query: Query) -> list[Hit]:
        return search.run_search(
            db, scope, query, viewer=None, embedder=embedder, vectors=vectors, language=language, values=query_vector
        ).hits

    results_query = replace(query, shape=replace(query.shape, expansion=None))
    hits = find_hits(results_query)
    # Without threshold and limit per document; recency stays, since it is a part of the score.
    unlimited_query = replace(query, threshold=0.0, shape=Shape(recency=query.shape.recency))
    only_document = DocumentFilter(document_ids=(row.id,))
    hits_in_document = find_hits(replace(unlimited_query, top_k=1, document_filter=only_document))
    best = hits_in_document[0] if hits_in_document else None
    rank = _find_rank(hits, row.id)
    is_result = rank is not None
    reasons: list[Reason] = []
    if not is_result:
        reasons = _list_exclusions(db, row, query, request_filters) or _find_same_text(hits, row.id)
    if not is_result and not reasons:
        rank = _find_rank(find_hits(replace(unlimited_query, top_k=MAX_RANK)), row.id)
        if best is None and has_only_stop_words(db, scope, query.text, language, None):
            reasons = [Reason("RANK", f"None of its chunks was looked at: {ONLY_STOP_WORDS}")]
        else:
            reasons = [_describe_rank(query, best, hits, rank)]
        if row.hidden:
            causes = "; ".join(dict.fromkeys(str(entry["reason"]) for entry in row.hidden))
            reasons.append(Reason("HIDDEN", f"Passages of it are hidden from search: {causes}"))
    chunk_id = None if best is None else queries.find_chunk(db, row, best.index)
    with db.transaction() as connection:
        keyword_rank = None if chunk_id is None else _find_keyword_rank(connection, row, query, language, chunk_id)
        words = _match_words(connection, row.partition_id, query.text, language, chunk_id)
    semantic_rank = None
    if query_vector is not None and chunk_id is not None:
        semantic_rank = queries.find_semantic_rank(db, row.partition_id, query.document_filter, query_vector, chunk_id)
    best_score = None if best is None else best.score
    return SearchExplanation(
        document_id=row.id,
        name=row.name,
        status=row.status,
        generation=row.version if row.active_generation else None,
        is_result=is_result,
        rank=rank,
        score=hits[rank - 1].score if is_result and rank else best_score,
        semantic_rank=semantic_rank,
        keyword_rank=keyword_rank,
        semantic_score=best.semantic if best and query.semantic_weight > 0 else None,
        keyword_score=best.keyword if best and query.keyword_weight > 0 else None,
        last_shown_score=hits[-1].score if hits else None,
        reasons=reasons,
        matched=words.matched,
        missing=words.missing,
    )


def _find_rank(hits: Sequence[Hit], document: str) -> int | None:
    return next((position for position, hit in enumerate(hits, 1) if hit.document_id == document), None)


def _find_same_text(hits: Sequence[Hit], document: str) -> list[Reason]:
    """Return the reason of a document with the text of a result; empty for other documents."""
    for rank, hit in enumerate(hits, 1):
        if any(copy.document_id == document for copy in hit.copies):
            return [Reason("RANK", f"{hit.name} has the same text, takes the place {rank}, and names this document.")]
    return []


def _list_exclusions(
    db: Database, row: ExplainedDocument, query: Query, request_filters: Sequence[RequestFilter]
) -> list[Reason]:
    """Return the reasons that exclude the document at any score."""
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
    if query.document_filter is not None and not queries.matches_filter(db, row.id, query.document_filter):
        reasons += [
            Reason("FILTER", f"{request_filter.path} leaves it out.")
            for request_filter in request_filters
            if not queries.matches_filter(db, row.id, request_filter.document_filter)
        ]
    return reasons


def _describe_rank(query: Query, best: Hit | None, hits: Sequence[Hit], rank: int | None) -> Reason:
    if best is None:
        return Reason("RANK", "None of its chunks holds a word of the query.")
    if best.score < query.threshold:
        return Reason("THRESHOLD", f"Its best chunk scores {best.score:.4f}, below the threshold {query.threshold:g}.")
    last_score = f", the last result {hits[-1].score:.4f}" if hits else ""
    position = f"It stands at place {rank}" if rank else f"It is not among the first {MAX_RANK}"
    return Reason("RANK", f"{position}; topK is {query.top_k}. Its best chunk scores {best.score:.4f}{last_score}.")


def _find_keyword_rank(
    connection: ThreadConnection, row: ExplainedDocument, query: Query, language: str, chunk_id: int
) -> int | None:
    """Return the chunk's rank by BM25 score, from 1; None without a word of the query."""
    if query.keyword_weight <= 0:
        return None
    terms = bm25_scorer.read_terms(connection, row.partition_id, query.text, language, viewer_db=connection)
    if not terms.names:
        return None
    ranking = bm25_scorer.rank_chunks(connection, terms)
    scores = ranking.among([chunk_id]).scores
    if not len(scores):
        return None
    better_ids = ranking.ids[ranking.scores > scores[0]]
    if query.document_filter is None or not query.document_filter.can_exclude():
        return len(better_ids) + 1
    chunk_ids = [int(better_id) for better_id in better_ids]
    return queries.count_matching(connection, row.partition_id, chunk_ids, query.document_filter) + 1


class _WordMatches(NamedTuple):
    matched: list[str]
    missing: list[str]


def _match_words(
    connection: ThreadConnection, partition_id: int, text: str, language: str, chunk_id: int | None
) -> _WordMatches:
    """Divide the query's words into matched and missing words of the chunk, without stop words."""
    scored_terms = set(bm25_scorer.read_terms(connection, partition_id, text, language).names)
    words = _WordMatches([], [])
    for word in analyzer.list_typed_words(text)[:MAX_WORDS]:
        word_terms = bm25_scorer.read_terms(connection, partition_id, word, language).names
        terms = [term for term in word_terms if term in scored_terms]
        if terms and queries.has_any_term(connection, chunk_id, terms):
            words.matched.append(word)
        elif terms or _is_content_word(connection, word, language):
            words.missing.append(word)
    return words


def _is_content_word(connection: ThreadConnection, word: str, configuration: str) -> bool:
    """Check that the word is no stop word of the text search configuration."""
    analyzed = analyzer.analyze_text(word, languages.SIMPLE_CONFIGURATION)
    return bool(analyzed.terms) or queries.has_term(connection, analyzed.text, configuration)


def has_only_stop_words(db: Database, scope: Scope, query: str, default_language: str, viewer: Viewer | None) -> bool:
    """Check for a query of stop words only, in the query's language or that of a document visible to the viewer."""
    partition = find_partition(db, scope)
    if partition is None or not partition.chunks:
        return False
    detected = languages.choose_configuration(languages.detect_language(query), default_language)
    stop_word_configurations = [
        configuration
        for configuration in {detected, *partition.keyword_languages}
        if analyzer.has_only_stop_words(query, configuration)
    ]
    if viewer is None or not stop_word_configurations:
        return bool(stop_word_configurations)
    # In the query's own language, any visible document counts.
    document_languages = None if detected in stop_word_configurations else stop_word_configurations
    return queries.has_document_in(db, partition.id, document_languages, viewer)
