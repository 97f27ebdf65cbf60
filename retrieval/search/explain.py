"""Explain the rank of a document in a search. Exact over all matching chunks, so only for debugging."""

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
from retrieval.search.queries_explain import ExplainedDocument
from retrieval.search.search import Query

ONLY_STOP_WORDS: Final = (
    "the query has only stop words. The keyword search finds them as names (WHO, The Who), in short texts, and as"
    " sequences of five."
)
# Depth of the search for the rank of a missing document.
MAX_RANK = 1_000
# Limit of query words to look up.
MAX_WORDS = 64


@dataclass(frozen=True, slots=True)
class Reason:
    """Reason of a missing document: STATUS, HIDDEN, FILTER, THRESHOLD or RANK."""

    kind: str
    detail: str


@dataclass(frozen=True, slots=True)
class FilterPart:
    """Filter of one place of the request."""

    path: str
    document_filter: DocumentFilter


@dataclass(frozen=True, slots=True)
class SearchExplanation:
    """Rank, score and words of the document's best chunk; None without a matching chunk."""

    document_id: str
    name: str
    status: str
    generation: int | None
    is_result: bool
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
    parts: Sequence[FilterPart],
    embedder: Embedder | None,
    vectors: VectorStore | None,
    language: str,
) -> SearchExplanation:
    """Explain a document's rank. Raises DOCUMENTS_NOT_FOUND."""
    row = queries.find_document(db, scope, document, external_id)
    if row is None:
        raise ServiceError(ErrorCode.DOCUMENTS_NOT_FOUND, "There is no such document in this namespace.")
    by_meaning = query.semantic_weight > 0 and embedder is not None
    values = search.embed_query(embedder, scope, query.text) if by_meaning and embedder is not None else None

    def find_hits(query: Query) -> list[Hit]:
        return search.run_search(
            db, scope, query, viewer=None, embedder=embedder, vectors=vectors, language=language, values=values
        ).hits

    unexpanded = replace(query, shape=replace(query.shape, expansion=None))
    hits = find_hits(unexpanded)
    aged = Shape(recency=query.shape.recency)
    only_document = DocumentFilter(document_ids=(row.id,))
    best = next(
        iter(find_hits(replace(unexpanded, top_k=1, threshold=0.0, document_filter=only_document, shape=aged))), None
    )
    position = _find_rank(hits, row.id)
    is_result = position is not None
    reasons = [] if is_result else _list_exclusions(db, row, query, parts)
    if not is_result and not reasons:
        reasons = _name_same_text(hits, row.id)
    if not is_result and not reasons:
        position = _find_rank(find_hits(replace(unexpanded, top_k=MAX_RANK, threshold=0.0, shape=aged)), row.id)
        is_stop_words = best is None and has_only_stop_words(db, scope, query.text, language, None)
        detail = f"None of its chunks was looked at: {ONLY_STOP_WORDS}"
        reasons = [Reason("RANK", detail) if is_stop_words else _describe_rank(query, best, hits, position)]
        if row.hidden:
            causes = "; ".join(dict.fromkeys(str(entry["reason"]) for entry in row.hidden))
            reasons.append(Reason("HIDDEN", f"Passages of it are hidden from search: {causes}"))
    chunk = None if best is None else queries.find_chunk(db, row, best.index)
    with db.transaction() as connection:
        keyword_rank = None if chunk is None else _find_keyword_rank(connection, row, query, language, chunk)
        matched, missing = _match_words(connection, row.partition_id, query.text, language, chunk)
    semantic_rank = None
    if values is not None and chunk is not None:
        semantic_rank = queries.find_semantic_rank(db, row.partition_id, query.document_filter, values, chunk)
    return SearchExplanation(
        document_id=row.id,
        name=row.name,
        status=row.status,
        generation=row.version if row.active_generation else None,
        is_result=is_result,
        rank=position,
        score=hits[position - 1].score if is_result and position else best.score if best else None,
        semantic_rank=semantic_rank,
        keyword_rank=keyword_rank,
        semantic_score=best.semantic if best and query.semantic_weight > 0 else None,
        keyword_score=best.keyword if best and query.keyword_weight > 0 else None,
        last_shown_score=hits[-1].score if hits else None,
        reasons=reasons,
        matched=matched,
        missing=missing,
    )


def _find_rank(hits: Sequence[Hit], document: str) -> int | None:
    return next((position for position, hit in enumerate(hits, 1) if hit.document_id == document), None)


def _name_same_text(hits: Sequence[Hit], document: str) -> list[Reason]:
    """Return the reason of a document with the text of another result."""
    return [
        Reason("RANK", f"{hit.name} has the same text, takes the place {rank}, and names this document.")
        for rank, hit in enumerate(hits, 1)
        if any(copy.document_id == document for copy in hit.copies)
    ][:1]


def _list_exclusions(db: Database, row: ExplainedDocument, query: Query, parts: Sequence[FilterPart]) -> list[Reason]:
    """Return the reasons to exclude the document at any score."""
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
        failing = [part.path for part in parts if not queries.matches_filter(db, row.id, part.document_filter)]
        reasons.extend(Reason("FILTER", f"{name} leaves it out.") for name in failing)
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
    connection: ThreadConnection, row: ExplainedDocument, query: Query, language: str, chunk: int
) -> int | None:
    """Return the chunk's rank by words, from 1; None without a word of the query."""
    if query.keyword_weight <= 0:
        return None
    terms = bm25_scorer.read_terms(connection, row.partition_id, query.text, language, viewer_db=connection)
    if not terms.names:
        return None
    ranking = bm25_scorer.rank_chunks(connection, terms)
    score = ranking.among([chunk]).scores
    if not len(score):
        return None
    better = ranking.ids[ranking.scores > score[0]]
    if query.document_filter is not None and query.document_filter.can_exclude():
        return (
            queries.count_matching(
                connection, row.partition_id, [int(number) for number in better], query.document_filter
            )
            + 1
        )
    return len(better) + 1


def _match_words(
    connection: ThreadConnection, partition_id: int, text: str, language: str, chunk: int | None
) -> tuple[list[str], list[str]]:
    """Return the query's words in the chunk and the missing ones, without stop words."""
    counting = set(bm25_scorer.read_terms(connection, partition_id, text, language).names)
    matched, missing = [], []
    for word in analyzer.list_typed_words(text)[:MAX_WORDS]:
        names = [
            name for name in bm25_scorer.read_terms(connection, partition_id, word, language).names if name in counting
        ]
        if names and queries.has_any_term(connection, chunk, names):
            matched.append(word)
        elif names or _is_word(connection, word, language):
            missing.append(word)
    return matched, missing


def _is_word(connection: ThreadConnection, word: str, configuration: str) -> bool:
    analyzed = analyzer.analyze_text(word, languages.SIMPLE_CONFIGURATION)
    return bool(analyzed.terms) or queries.has_term(connection, analyzed.text, configuration)


def has_only_stop_words(db: Database, scope: Scope, query: str, default_language: str, viewer: Viewer | None) -> bool:
    """Check for stop words only, in the query's language or in a visible document's language."""
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
    return queries.has_document_in(
        db, partition.id, None if detected in stop_word_configurations else stop_word_configurations, viewer
    )
