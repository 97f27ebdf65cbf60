"""Search: one plan for every request.

    score    = semantic_weight * semantic + keyword_weight * keyword
    semantic = max(0, (c - u) / (1 - u))   where c is the cosine of the query's and the chunk's embedding, and u that of
               unrelated texts: 0 but for models whose cosines do not begin there, see `retrieval.ports.Raised`
    keyword  = s / (s + 10)   where s is the chunk's BM25 score, see `retrieval.keywords.bm25_scorer`

Both parts are in [0, 1] and depend on query and chunk alone, not on other results, so a threshold means the same for
every query. The steps: estimate how many chunks match (`selectivity`); propose the best of each side, by exact
comparison or by the vector store and the posting lists; score every candidate on both sides and fuse; apply recency,
choose what fills the places (`diversity`), find contexts; read the hits. A side of weight 0 is skipped, and then fewer
candidates suffice. Equal scores are ordered by document id and position.

Vector stores only propose candidates. Results come from the tables: text, metadata, scope, the visible generation and
the semantic score. A candidate of an invisible generation represents its document's visible chunks, so a document that
is being replaced is never missing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from retrieval.access.reading import viewed_database
from retrieval.database.database import Database
from retrieval.database.sessions import BY_INDEX
from retrieval.filters import DocumentFilter
from retrieval.keywords import bm25_scorer
from retrieval.keywords.bm25_scorer import Ranking, Scored, Terms
from retrieval.keywords.typos import Correction
from retrieval.ports import Embedder, Raised, Scope, VectorStore
from retrieval.principals import Viewer
from retrieval.search import queries, queries_filters, query_syntax, selectivity
from retrieval.search.answerability import (
    NOTHING,
    Answerability,
    choose_model,
    estimate_answerability,
    load_fit,
)
from retrieval.search.context_expansion import Texts, Unit
from retrieval.search.diversity import Pick, Shape, Shaper
from retrieval.search.phrases import PhraseIndex
from retrieval.search.queries import Candidate, Hit, Partition, Place
from retrieval.search.queries_filters import Matches
from retrieval.search.query_syntax import ParsedQuery, parse_query
from retrieval.search.query_vectors import QueryVectors
from retrieval.search.selectivity import Selectivity

if TYPE_CHECKING:
    from retrieval.keywords.bm25_scorer import Numbers

CANDIDATES = 100
"""Best of each side that are scored, more if more results are requested."""
AGED = 1_000
"""The same if the age of documents counts: a new document may be far down by its words and meaning."""
SPARE = 10
"""Candidates beyond `top_k`, for those that fall away."""
MOST = 10_000
"""The most candidates that a vector store is asked for; also the most that one of the hosted stores returns."""
CHECKED = 2_000
"""Chunks by words that a filter is applied to, at most, before all that match are listed."""
FIRST = 3
"""Times the candidates by words that a filter is applied to first, so that one of a half leaves enough."""
LEAST_COUNTED = 10
"""Chunks that a word has at least, as far as scores can tell a user who may see many."""
_QUERIES = QueryVectors()


@dataclass(frozen=True, slots=True)
class Query:
    """A search request. Weights sum to 1; `threshold` is the least final score of a hit."""

    text: str
    top_k: int = 10
    threshold: float = 0.0
    where: DocumentFilter | None = None
    semantic_weight: float = 1.0
    keyword_weight: float = 0.0
    shape: Shape = field(default_factory=Shape)

    @property
    def candidates(self) -> int:
        """Number of candidates of each side to begin with."""
        if self.shape.recency is not None:
            return max(AGED, self.top_k + SPARE)
        one_side = self.semantic_weight <= 0 or self.keyword_weight <= 0
        return max(0 if one_side and self.shape.plain else CANDIDATES, self.top_k + SPARE)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Hits, best first, where the time went (embed_ms, vector_ms, keyword_ms, hydrate_ms), whether they answer, and
    corrected words."""

    hits: list[Hit]
    timings: Mapping[str, float]
    answerability: Answerability = NOTHING
    corrections: Sequence[Correction] = ()
    note: str = ""
    """Sentence on the quotes and exclusions of the query, "" without any."""


@dataclass(slots=True)
class Clock:
    """Milliseconds by the name of the step. `step`: the one in progress, for messages about time-outs."""

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
    """Search the scope for the best chunks that the viewer may see; None: the application, which sees all.

    `embedder` and `vectors` may be None if the semantic weight is 0. texts: source of contexts, if the query requests
    them. values: the query's vector, if it is computed already; unused without semantic weight.
    """
    clock = clock or Clock()
    if query.semantic_weight <= 0:
        embedder = values = None
    elif embedder is None or vectors is None:
        raise ValueError("A semantic search needs an embedder and a vector store.")
    typed, parsed = query.text, parse_query(query.text)
    if query.keyword_weight > 0:
        query = replace(query, text=parsed.text)
    elif parsed.note:
        parsed = ParsedQuery(query.text, note=query_syntax.BY_MEANING)
    partition = queries.find_partition(db, scope)
    if partition is None or (query.where is not None and query.where.empty_lists):
        return SearchResult([], clock.spent)
    if embedder is not None and values is None:
        with clock("embed_ms"):
            values = embed_query(embedder, scope, typed)
    unrelated = embedder.unrelated if isinstance(embedder, Raised) else 0.0
    query = replace(query, where=selectivity.restrict_to_ids(db, scope, query.where))
    search = _Search(db, scope, query, viewer, partition, language, clock, vectors, values, unrelated, parsed)
    return search.find_hits(Shaper(query.shape, query.top_k, query.threshold, texts))


def embed_query(embedder: Embedder, scope: Scope, text: str) -> list[float]:
    """Embed a query. Raises whatever the model raises."""
    return _QUERIES.embed(embedder, scope, text)


@dataclass(frozen=True, slots=True)
class _Search:
    """One search: its request and what each step needs."""

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

    def find_hits(self, shaper: Shaper) -> SearchResult:
        """Run the steps, with more candidates while hits are missing because candidates fell away."""
        count, top_k = self.query.candidates, self.query.top_k
        selected = self._estimate(count)
        terms, ranking = self._rank(selected)
        parsed, selected, terms = self._apply_syntax(selected, terms, ranking)
        if ranking is not None and terms.excluded:
            ranking = ranking.without(terms.excluded)
        while True:
            exact = self._nearest_matches(selected, count)
            matches = self._nearest_vectors(selected, count) if exact is None else []
            near = queries.parse_places(matches)
            words = self._best_by_words(terms, ranking, selected, count)
            candidates = self._score(near, exact or [], words, terms)
            with self.clock("hydrate_ms"):
                picks = shaper.pick(candidates)
            if len(picks) >= top_k or max(len(matches), len(exact or []), len(words)) < count or count >= MOST:
                break
            if len(candidates) >= top_k and self._is_below_threshold(candidates[-1]):
                break
            count = min(count * 4, MOST)
        if len(picks) < top_k and len(matches) >= MOST and self._filters:
            # a store that filters only in part proposed none that match
            candidates = self._score([], self._match_all(selected, MOST), words, terms)
            picks = shaper.pick(candidates)
        side = choose_model(self.query.semantic_weight, self.query.keyword_weight)
        fit = load_fit(self.partition.answerability, side)
        answerability = estimate_answerability(side, candidates, terms, fit)
        with self.clock("hydrate_ms"):
            hits = self._read(picks, shaper)
        note = parsed.note
        if parsed.phrases and not hits:
            note += " None has all of it: leave out the quotes to search the words."
        return SearchResult(hits, self.clock.spent, answerability, terms.corrections, note)

    def _apply_syntax(
        self, selected: Selectivity, terms: Terms, ranking: Ranking | None
    ) -> tuple[ParsedQuery, Selectivity, Terms]:
        """Restrict a search to the chunks with the phrases of the query, and leave out those with its exclusions."""
        if not self.parsed.restricts:
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
                    self.db, self.partition.id, sorted(chunks), selected.where, viewer=self.viewer
                )
        with self.clock(self._side):
            nearest = queries_filters.sort_by_distance(self.db, self.partition.id, sorted(chunks), self.values)
        return parsed, replace(selected, matches=Matches(sorted(chunks), nearest)), terms

    @property
    def _filters(self) -> bool:
        return self.viewer is not None or (self.query.where is not None and self.query.where.narrows())

    def _is_below_threshold(self, candidate: Candidate) -> bool:
        return self.query.shape.recency is None and candidate.score < self.query.threshold

    def _estimate(self, count: int) -> Selectivity:
        if not self._filters:
            return Selectivity(self.query.where)
        with self.clock(self._side):
            return selectivity.estimate_selectivity(
                self.db,
                self.partition,
                self.query.where,
                self.values,
                count,
                viewer=self.viewer,
                by_words=self.query.keyword_weight > 0,
            )

    @property
    def _side(self) -> str:
        return "keyword_ms" if self.values is None else "vector_ms"

    def _nearest_matches(self, selected: Selectivity, count: int) -> list[int] | None:
        """Return the nearest matching chunks by exact comparison; None: ask the vector store."""
        if selected.matches is None or self.values is None:
            return None
        nearest, matching = selected.matches.nearest, len(selected.matches.chunks)
        if len(nearest) < min(count, matching):
            nearest = self._match_all(selected, count, 2 * matching)
        return nearest[:count]

    def _match_all(self, selected: Selectivity, count: int, most: int = selectivity.ALL) -> list[int]:
        with self.clock("vector_ms"):
            match = partial(
                selectivity.match_chunks,
                self.db,
                self.partition,
                selected.where,
                self.values,
                count,
                viewer=self.viewer,
            )
            matches = match(most=most) or match()
            return matches.nearest if matches is not None else []

    def _nearest_vectors(self, selected: Selectivity, count: int) -> list[str]:
        """Return the ids of the nearest vectors by the vector store."""
        if self.values is None or self.vectors is None:
            return []
        # PGVECTOR compares each vector that it passes with a list of ids; a store outside must be told what is hidden
        where = selected.where if self.vectors.labelled else self.query.where
        with self.clock("vector_ms"):
            matches = self.vectors.query(self.scope, self.values, count, where, self.viewer)
        return [match.id for match in matches]

    def _rank(self, selected: Selectivity) -> tuple[Terms, Ranking | None]:
        """Score all chunks that have a term of the query."""
        if self.query.keyword_weight <= 0:
            return Terms(self.partition.id), None
        counted = selected.counted
        where = selected.where
        by_viewer_alone = self.viewer is not None and (where is None or not where.narrows())
        with self.clock("keyword_ms"), self.db.tuned(BY_INDEX if by_viewer_alone else {}) as connection:
            terms = bm25_scorer.read_terms(
                connection,
                self.partition.id,
                self.query.text,
                self.language,
                self.partition.keyword_languages,
                counted=counted,
                least=1 if self.viewer is None or counted is not None else LEAST_COUNTED,
                viewed=connection if self.viewer is None else viewed_database(self.db, self.viewer),
            )
            return terms, bm25_scorer.rank_chunks(connection, terms) if terms.names else None

    def _best_by_words(self, terms: Terms, ranking: Ranking | None, selected: Selectivity, count: int) -> list[Scored]:
        """Return the best matching chunks by BM25.

        A filter that matches many chunks is applied to the best of all, in parts. Where too few of these match, all
        matching chunks are listed.
        """
        if ranking is None:
            return []
        with self.clock("keyword_ms"):
            if selected.matches is not None:
                return ranking.among(selected.matches.chunks).best(count)
            if not self._filters:
                return ranking.best(count)
            matches: list[Scored] = []
            checked, size = 0, FIRST * count
            while len(matches) < count and checked < len(ranking.ids):
                if checked + size > max(CHECKED, 4 * count) and checked + size < len(ranking.ids):
                    return ranking.among(self._list_matches(selected)).best(count)
                part = ranking.best(checked + size)[checked:]
                chunks = [scored.chunk_id for scored in part]
                matching = queries_filters.filter_chunks(
                    self.db, terms.partition, chunks, selected.where, viewer=self.viewer
                )
                matches += [scored for scored in part if scored.chunk_id in matching]
                checked += len(part)
                size = checked * count // len(matches) if matches else 4 * checked
            return matches[:count]

    def _list_matches(self, selected: Selectivity) -> Numbers:
        import numpy as np

        where = selected.where or DocumentFilter()
        return np.frombuffer(
            queries_filters.list_matching_chunks(self.db, self.partition.id, where, viewer=self.viewer), ">i8"
        )

    def _score(
        self, near: Sequence[Place], exact: Sequence[int], words: Sequence[Scored], terms: Terms
    ) -> list[Candidate]:
        """Score the candidates that may be shown on both sides, and fuse."""
        shape = self.query.shape
        with self.clock("hydrate_ms"):
            return queries.score_candidates(
                viewed_database(self.db, self.viewer),
                near=near,
                exact=exact,
                words=words,
                terms=terms,
                values=self.values,
                weights=(self.query.semantic_weight, self.query.keyword_weight, self.unrelated),
                where=self.query.where,
                limits=(self.query.top_k if shape.plain else None, self.query.threshold),
                with_pages=shape.expansion is not None and shape.expansion.unit is Unit.PAGE,
            )

    def _read(self, picks: Sequence[Pick], shaper: Shaper) -> list[Hit]:
        """Read the hits, with their contexts."""
        ranked = [(pick.candidate, pick.score, pick.recency) for pick in picks]
        hits = queries.read_hits(viewed_database(self.db, self.viewer), ranked)
        if self.query.shape.expansion is None:
            return hits
        places = {(pick.candidate.document_id, pick.candidate.index): pick for pick in picks}
        return [replace(hit, context=shaper.context(places[hit.document_id, hit.index], hit)) for hit in hits]
