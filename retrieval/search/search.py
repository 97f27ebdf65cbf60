"""Search visible chunks by meaning and by words.

    score    = semantic_weight * semantic + keyword_weight * keyword
    semantic = max(0, (c - u) / (1 - u))   c: cosine of query and chunk; u: cosine of unrelated texts, mostly 0
    keyword  = s / (s + 10)                s: BM25 score of the chunk

Steps: estimate selectivity, propose candidates of each side, score all candidates on both sides, choose and read hits.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from retrieval import ids
from retrieval.access.reading import viewed_database
from retrieval.database.database import Database
from retrieval.database.sessions import INDEX_SCANS_ONLY
from retrieval.filters import DocumentFilter
from retrieval.keywords import bm25_scorer
from retrieval.keywords.bm25_scorer import QueryTerms, Ranking, ScoredChunk
from retrieval.keywords.typos import Correction
from retrieval.ports import Embedder, Scope, UncalibratedEmbedder, VectorStore
from retrieval.principals import Viewer
from retrieval.search import queries, queries_filters, query_syntax, selectivity
from retrieval.search.answerability import (
    NO_MATCHES,
    Answerability,
    choose_side,
    estimate_answerability,
    load_fit,
)
from retrieval.search.context_expansion import Texts, Unit
from retrieval.search.phrases import PhraseIndex
from retrieval.search.queries import Candidate, ChunkPlace, Hit, Partition
from retrieval.search.queries_filters import Matches
from retrieval.search.query_syntax import ParsedQuery, parse_query
from retrieval.search.query_vectors import QueryVectors
from retrieval.search.result_selection import Pick, ResultSelector, Shape
from retrieval.search.selectivity import Selectivity

if TYPE_CHECKING:
    from retrieval.keywords.bm25_scorer import Numbers

# Best candidates of each side, unless more results are requested.
MIN_CANDIDATES = 100
# Candidates with recency: a new document may rank low by words and meaning.
RECENCY_CANDIDATES = 1_000
# Candidates beyond `top_k` in case some are no longer visible.
SPARE_CANDIDATES = 10
# Limit of a query to a vector store. Pinecone returns no more than 10,000.
MAX_STORE_CANDIDATES = 10_000
# Limit of BM25 results to filter before listing all matching chunks.
MAX_FILTERED_CHUNKS = 2_000
# With three times the candidates a filter that keeps half leaves enough.
FIRST_BATCH_FACTOR = 3
# Lowest chunk frequency of a word in scores: smaller ones would reveal hidden documents to a viewer.
MIN_CHUNK_FREQUENCY = 10
_QUERY_VECTORS = QueryVectors()


@dataclass(frozen=True, slots=True)
class Query:
    """Search request. Weights sum to 1; hits score at least `threshold`."""

    text: str
    top_k: int = 10
    threshold: float = 0.0
    document_filter: DocumentFilter | None = None
    semantic_weight: float = 1.0
    keyword_weight: float = 0.0
    shape: Shape = field(default_factory=Shape)

    @property
    def candidates(self) -> int:
        """Return the initial number of candidates of each side."""
        # A side of weight 0 is skipped, and fewer candidates suffice.
        if self.shape.recency is not None:
            return max(RECENCY_CANDIDATES, self.top_k + SPARE_CANDIDATES)
        # The order of one side by itself is final in a plain search.
        one_side = self.semantic_weight <= 0 or self.keyword_weight <= 0
        return max(0 if one_side and self.shape.is_plain else MIN_CANDIDATES, self.top_k + SPARE_CANDIDATES)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Hits, best first, with milliseconds by step, answerability and corrected words."""

    hits: list[Hit]
    timings: Mapping[str, float]
    answerability: Answerability = NO_MATCHES
    corrections: Sequence[Correction] = ()
    # Sentence for users about quotes and exclusions.
    note: str = ""


@dataclass(slots=True)
class Clock:
    """Milliseconds by step, and the running step for messages about timeouts."""

    spent: dict[str, float] = field(default_factory=dict)
    step: str = ""

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        self.step = name
        try:
            yield
        finally:
            self.step = ""
            self.spent[name] = self.spent.get(name, 0.0) + (time.perf_counter() - start) * 1000


def run_search(
    db: Database,
    scope: Scope,
    query: Query,
    *,
    viewer: Viewer | None,
    embedder: Embedder | None,
    vectors: VectorStore | None,
    language: str = "english",
    texts: Texts | None = None,
    values: Sequence[float] | None = None,
    clock: Clock | None = None,
) -> SearchResult:
    """Search a scope for chunks visible to the viewer (None: the application); ValueError without a vector store."""
    clock = clock or Clock()
    if query.semantic_weight <= 0:
        embedder = values = None
    elif embedder is None or vectors is None:
        raise ValueError("A semantic search needs an embedder and a vector store.")
    original_text, parsed = query.text, parse_query(query.text)
    if query.keyword_weight > 0:
        query = replace(query, text=parsed.text)
    elif parsed.note:
        parsed = ParsedQuery(query.text, note=query_syntax.SEMANTIC_ONLY_NOTE)
    narrows = query.document_filter is not None and query.document_filter.can_exclude()
    partition = queries.find_partition(db, scope, viewed=viewer is not None and not narrows)
    if partition is None or (query.document_filter is not None and query.document_filter.empty_lists):
        return SearchResult([], clock.spent)
    if embedder is not None and values is None:
        with clock("embed_ms"):
            values = embed_query(embedder, scope, original_text)
    unrelated = embedder.unrelated_cosine if isinstance(embedder, UncalibratedEmbedder) else 0.0
    query = replace(query, document_filter=selectivity.restrict_to_ids(db, scope, partition, query.document_filter))
    search = _Search(db, scope, query, viewer, partition, language, clock, vectors, values, unrelated, parsed)
    return search.find_hits(ResultSelector(query.shape, query.top_k, query.threshold, texts))


def embed_query(embedder: Embedder, scope: Scope, text: str) -> list[float]:
    # Parallel queries share one call to the model.
    return _QUERY_VECTORS.embed(embedder, scope, text)


@dataclass(frozen=True, slots=True)
class _Search:
    """Request and resources of a search."""

    db: Database
    scope: Scope
    query: Query
    viewer: Viewer | None
    partition: Partition
    language: str
    clock: Clock
    vectors: VectorStore | None
    values: Sequence[float] | None
    unrelated: float
    parsed: ParsedQuery

    def find_hits(self, selector: ResultSelector) -> SearchResult:
        """Find hits, and repeat with four times the candidates while results are missing."""
        count, top_k = self.query.candidates, self.query.top_k
        selected = self._estimate(count)
        terms, ranking = self._rank(selected)
        parsed, selected, terms = self._apply_syntax(selected, terms, ranking)
        if ranking is not None and terms.excluded:
            ranking = ranking.without(terms.excluded)
        while True:
            exact = self._nearest_matches(selected, count)
            vector_ids = self._nearest_vectors(selected, count) if exact is None else []
            near_places = ids.parse_vector_ids(vector_ids)
            words = self._best_by_words(terms, ranking, selected, count)
            candidates = self._score(near_places, exact or [], words, terms)
            with self.clock("hydrate_ms"):
                picks = selector.pick(candidates)
            if (
                len(picks) >= top_k
                or max(len(vector_ids), len(exact or []), len(words)) < count
                or count >= MAX_STORE_CANDIDATES
            ):
                break
            if len(candidates) >= top_k and self._is_below_threshold(candidates[-1]):
                break
            count = min(count * 4, MAX_STORE_CANDIDATES)
        if len(picks) < top_k and len(vector_ids) >= MAX_STORE_CANDIDATES and self._filters:
            # Stores with partial filters may propose no matching chunk.
            candidates = self._score([], self._match_all(selected, MAX_STORE_CANDIDATES), words, terms)
            picks = selector.pick(candidates)
        side = choose_side(self.query.semantic_weight, self.query.keyword_weight)
        fit = load_fit(self.partition.answerability, side)
        answerability = estimate_answerability(side, candidates, terms, fit)
        with self.clock("hydrate_ms"):
            hits = self._read(picks, selector)
        note = parsed.note
        if parsed.phrases and not hits:
            note += " None has all of it: leave out the quotes to search the words."
        return SearchResult(hits, self.clock.spent, answerability, terms.corrections, note)

    def _apply_syntax(
        self, selected: Selectivity, terms: QueryTerms, ranking: Ranking | None
    ) -> tuple[ParsedQuery, Selectivity, QueryTerms]:
        """Restrict candidates to required phrases and drop excluded words."""
        if not self.parsed.has_restrictions:
            return self.parsed, selected, terms
        configurations = sorted({self.language, *self.partition.keyword_languages})
        index = PhraseIndex(self.db, self.partition.id, configurations, ranking)
        with self.clock("keyword_ms"):
            parsed = query_syntax.exclude_only(self.parsed, index.select_indexed(self.parsed.excluded))
            terms = replace(terms, excluded=index.list_with_any(parsed.excluded))
            if not parsed.phrases:
                return parsed, selected, terms
            chunks = index.list_with_all(parsed.phrases).difference(terms.excluded)
            if selected.matches is not None:
                chunks.intersection_update(map(int, selected.matches.chunks))
            elif self._filters:
                chunks = queries_filters.filter_chunks(
                    self.db, self.partition.id, sorted(chunks), selected.document_filter, viewer=self.viewer
                )
        with self.clock(self._candidate_step):
            nearest = queries_filters.sort_by_distance(self.db, self.partition.id, sorted(chunks), self.values)
        return parsed, replace(selected, matches=Matches(sorted(chunks), nearest)), terms

    @property
    def _filters(self) -> bool:
        return self.viewer is not None or (
            self.query.document_filter is not None and self.query.document_filter.can_exclude()
        )

    def _is_below_threshold(self, candidate: Candidate) -> bool:
        return self.query.shape.recency is None and candidate.score < self.query.threshold

    def _estimate(self, count: int) -> Selectivity:
        if not self._filters:
            return Selectivity(self.query.document_filter)
        with self.clock(self._candidate_step):
            return selectivity.estimate_selectivity(
                self.db,
                self.partition,
                self.query.document_filter,
                self.values,
                count,
                viewer=self.viewer,
                by_words=self.query.keyword_weight > 0,
            )

    @property
    def _candidate_step(self) -> str:
        return "keyword_ms" if self.values is None else "vector_ms"

    def _nearest_matches(self, selected: Selectivity, count: int) -> list[int] | None:
        """Return the nearest matching chunks by exact comparison; None if the vector store must be queried."""
        if selected.matches is None or self.values is None:
            return None
        nearest, matching = selected.matches.nearest, len(selected.matches.chunks)
        if len(nearest) < min(count, matching):
            nearest = self._match_all(selected, count, 2 * matching)
        return nearest[:count]

    def _match_all(
        self, selected: Selectivity, count: int, max_chunks: int = selectivity.UNLIMITED_CHUNKS
    ) -> list[int]:
        with self.clock("vector_ms"):
            match = partial(
                selectivity.match_chunks,
                self.db,
                self.partition,
                selected.document_filter,
                self.values,
                count,
                viewer=self.viewer,
            )
            matches = match(max_chunks=max_chunks) or match()
            return matches.nearest if matches is not None else []

    def _nearest_vectors(self, selected: Selectivity, count: int) -> list[str]:
        """Query the vector store for ids of the nearest vectors."""
        if self.values is None or self.vectors is None:
            return []
        # External stores need the viewer's documents; pgvector would compare every vector with that list.
        document_filter = selected.document_filter if self.vectors.stores_labels else self.query.document_filter
        with self.clock("vector_ms"):
            matches = self.vectors.query(self.scope, self.values, count, document_filter, self.viewer)
        return [match.id for match in matches]

    def _rank(self, selected: Selectivity) -> tuple[QueryTerms, Ranking | None]:
        """Score all chunks with a term of the query."""
        if self.query.keyword_weight <= 0:
            return QueryTerms(self.partition.id), None
        counted_chunks = selected.counted_chunks
        document_filter = self.query.document_filter
        by_viewer_alone = self.viewer is not None and (document_filter is None or not document_filter.can_exclude())
        with self.clock("keyword_ms"), self.db.tuned(INDEX_SCANS_ONLY if by_viewer_alone else {}) as connection:
            terms = bm25_scorer.read_terms(
                connection,
                self.partition.id,
                self.query.text,
                self.language,
                self.partition.keyword_languages,
                counted_chunks=counted_chunks,
                min_frequency=1 if self.viewer is None or counted_chunks is not None else MIN_CHUNK_FREQUENCY,
                viewer_db=connection if self.viewer is None else viewed_database(self.db, self.viewer),
            )
            return terms, bm25_scorer.rank_chunks(connection, terms) if terms.names else None

    def _best_by_words(
        self, terms: QueryTerms, ranking: Ranking | None, selected: Selectivity, count: int
    ) -> list[ScoredChunk]:
        """Return the best matching chunks by BM25."""
        # A broad filter is applied to the best chunks in batches; all matching chunks are listed if too few pass.
        if ranking is None:
            return []
        with self.clock("keyword_ms"):
            if selected.matches is not None:
                return ranking.among(selected.matches.chunks).best(count)
            if not self._filters:
                return ranking.best(count)
            matches: list[ScoredChunk] = []
            checked, size = 0, FIRST_BATCH_FACTOR * count
            while len(matches) < count and checked < len(ranking.ids):
                if checked + size > max(MAX_FILTERED_CHUNKS, 4 * count) and checked + size < len(ranking.ids):
                    return ranking.among(self._list_matches(selected)).best(count)
                part = ranking.best(checked + size)[checked:]
                chunks = [scored.chunk_id for scored in part]
                matching = queries_filters.filter_chunks(
                    self.db, terms.partition, chunks, selected.document_filter, viewer=self.viewer
                )
                matches += [scored for scored in part if scored.chunk_id in matching]
                checked += len(part)
                size = checked * count // len(matches) if matches else 4 * checked
            return matches[:count]

    def _list_matches(self, selected: Selectivity) -> Numbers:
        import numpy as np

        document_filter = selected.document_filter or DocumentFilter()
        return np.frombuffer(
            queries_filters.list_matching_chunks(self.db, self.partition.id, document_filter, viewer=self.viewer), ">i8"
        )

    def _score(
        self, near: Sequence[ChunkPlace], exact: Sequence[int], words: Sequence[ScoredChunk], terms: QueryTerms
    ) -> list[Candidate]:
        """Score visible candidates on both sides and fuse."""
        shape = self.query.shape
        with self.clock("hydrate_ms"):
            return queries.score_candidates(
                viewed_database(self.db, self.viewer),
                near=near,
                exact=exact,
                words=words,
                terms=terms,
                values=self.values,
                document_filter=self.query.document_filter,
                options=queries.ScoreOptions(
                    self.query.semantic_weight,
                    self.query.keyword_weight,
                    self.unrelated,
                    limit=self.query.top_k if shape.is_plain else None,
                    min_score=self.query.threshold,
                    with_pages=shape.expansion is not None and shape.expansion.unit is Unit.PAGE,
                ),
            )

    def _read(self, picks: Sequence[Pick], selector: ResultSelector) -> list[Hit]:
        ranked = [(pick.candidate, pick.score, pick.recency) for pick in picks]
        hits = queries.read_hits(viewed_database(self.db, self.viewer), ranked)
        if self.query.shape.expansion is None:
            return hits
        picks_by_chunk = {(pick.candidate.document_id, pick.candidate.index): pick for pick in picks}
        return [
            replace(hit, context=selector.read_context(picks_by_chunk[hit.document_id, hit.index], hit)) for hit in hits
        ]
