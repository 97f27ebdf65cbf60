"""Search: candidates by vector and by keyword, hydrated, scored and fused into one order.

    score    = semantic_weight * semantic + keyword_weight * keyword
    semantic = max(0, cosine similarity of the query's and the chunk's embedding)
    keyword  = s / (s + 10)   where s is the chunk's BM25 score, see `retrieval.search.bm25`

Both parts are in [0, 1] and depend on query and chunk alone, not on other results, so a threshold means the same for
every query. Candidates are the best 100 of each side; both parts are computed for every candidate; a side of
weight 0 is skipped, and then fewer of the other side suffice. Equal scores are ordered by document id and
position.

Vector stores only propose candidates. Results come from the tables: text, metadata, scope, the visible generation and
the semantic score. A candidate of an invisible generation represents its document's visible chunks, so a document that
is being replaced is never missing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, LiteralString

from retrieval import text_filter
from retrieval.access import viewers
from retrieval.access.reading import reading
from retrieval.database import scopes
from retrieval.database.database import Database, Row
from retrieval.database.sessions import BY_INDEX
from retrieval.filters import DocumentFilter
from retrieval.ports import Embedder, Scope, VectorStore
from retrieval.principals import Viewer
from retrieval.search import bm25 as keyword
from retrieval.search import filtered, known_scopes
from retrieval.search.contexts import Unit
from retrieval.search.hints import LEAST
from retrieval.search.hydration import Light, Place, hydrate, places, shown
from retrieval.search.matching import Matching, compared_sooner, matching
from retrieval.search.query_vectors import QueryVectors
from retrieval.search.ranking import rank
from retrieval.search.reach import LEAST_COUNTED, Reach, reach_of
from retrieval.search.shaping import Context, Pick, Shape, Shaper, Texts

CANDIDATES = 100
"""Best of each side that are scored, more if more results are asked for."""
AGED = 1_000
"""The same if the age of documents counts: what is new may stand far down by its words and meaning."""
SPARE = 10
"""Candidates beyond `top_k`, for those that fall away."""
MOST = 10_000
"""Where asking a vector store for more ends; also the most that one of the hosted stores answers."""
_QUERIES = QueryVectors()
_PARTITION: LiteralString = """
    select p.id, p.keyword_languages from partitions p
    join namespaces n on n.id = p.namespace_id and n.organization_id = %(organization)s and n.deleted_at is null
    where p.namespace_id = %(namespace)s and p.tenant = %(tenant)s
"""


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


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk that was found, the parts of its score, its place in the two lists (from 1) and its document."""

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
    recency: float | None = None
    context: Context | None = None
    header: str = ""
    """Column names of the table whose rows the chunk holds, "" without one."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Hits, best first, and where the time went: embed_ms, vector_ms, keyword_ms, hydrate_ms."""

    hits: list[Hit]
    timings: Mapping[str, float]


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


def run(
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
    values = values if query.semantic_weight > 0 else None
    if query.semantic_weight > 0 and (embedder is None or vectors is None):
        raise ValueError("A semantic search needs an embedder and a vector store.")

    def vector() -> Sequence[float] | None:
        if embedder is None or query.semantic_weight <= 0 or values is not None:
            return values
        with clock("embed_ms"):
            return embed(embedder, scope, query.text)

    plain = query.shape.plain and query.where is None and query.keyword_weight <= 0
    partition_id = known_scopes.partition(db, scope) if plain else None
    if partition_id is not None:
        values = vector()
        reach = reach_of(db, partition_id, query.where, viewer, _wanted(query), by_words=query.keyword_weight > 0)
        search = _Search(db, scope, query, viewer, partition_id, language, clock, vectors, values, reach, proven=False)
        if rows := search.rows():
            return SearchResult(_hits(query, rows), clock.spent)
    row = _partition(db, scope)
    if row is None or (query.where is not None and query.where.empty_lists):
        return SearchResult([], clock.spent)
    values = vector()
    query = _of_few(db, scope, query)
    partition, languages = int(row["id"]), row["keyword_languages"]
    reach = reach_of(db, partition, query.where, viewer, _wanted(query), by_words=query.keyword_weight > 0)
    search = _Search(db, scope, query, viewer, partition, language, clock, vectors, values, reach, languages)
    if query.shape.plain:
        return SearchResult(_hits(query, search.rows()), clock.spent)
    return SearchResult(search.shaped(Shaper(query.shape, query.top_k, query.threshold, texts)), clock.spent)


def _partition(db: Database, scope: Scope) -> Row | None:
    with db.tuned() as connection:
        row = connection.execute(_PARTITION, scopes.params(scope), prepare=True).fetchone()
    known_scopes.remember(db, scope, None if row is None else int(row["id"]))
    return row


def _of_few(db: Database, scope: Scope, query: Query) -> Query:
    """The query by ids besides, where an index finds that few documents have its words or are of its sites: else the
    rule on names and addresses would be put to each chunk of the scope."""
    where = query.where
    if where is None or where.document_ids or not (where.words or where.sites):
        return query
    statement = text_filter.few(scopes.params(scope), where.words, where.sites, viewers.FEW)
    rows = db.rows(*statement)
    if len(rows) > viewers.FEW:
        return query
    return replace(query, where=replace(where, document_ids=tuple(row["id"] for row in rows) or (viewers.NOBODYS,)))


def _wanted(query: Query) -> int:
    """Candidates of each side that are looked for first."""
    if not query.shape.plain:
        return max(AGED if query.shape.recency else CANDIDATES, query.top_k + SPARE)
    both = query.semantic_weight > 0 and query.keyword_weight > 0
    return max(CANDIDATES if both else 0, query.top_k + SPARE)


def embed(embedder: Embedder, scope: Scope, text: str) -> list[float]:
    """The vector of a query. Whatever the model raises."""
    return _QUERIES.embed(embedder, scope, text)


@dataclass(frozen=True, slots=True)
class _Words:
    """Keyword side of a search: its best chunks, and the scores of the chunks near the query's vector."""

    terms: keyword.Terms
    scored: Sequence[keyword.Scored] = ()


@dataclass(slots=True)
class _Search:
    """One search on its way: what each of its steps needs."""

    db: Database
    scope: Scope
    query: Query
    viewer: Viewer | None
    partition: int
    language: str
    clock: Clock
    vectors: VectorStore | None
    values: Sequence[float] | None
    reach: Reach
    languages: Sequence[str] = ()
    proven: bool = True
    """Whether the partition is the scope's; else what is shown is read only where it still is."""

    def rows(self) -> list[Row]:
        """The `top_k` best, asking the vector store for more while hits are missing because candidates fell away."""
        count = _wanted(self.query)
        exact = self._exact(count)
        words: _Words | None = None
        while True:
            matches = self._by_meaning(count) if exact is None else []
            near = places(matches)
            words = words or self._by_words(count, near)
            rows = self._hydrated(near, exact, words, self.query.top_k)
            if len(rows) >= self.query.top_k or len(matches) < count or count >= MOST:
                return rows if exact is not None or len(matches) < MOST else self._all_that_match(words, rows)
            count = min(count * 4, MOST)

    def _all_that_match(self, words: _Words, rows: list[Row]) -> list[Row]:
        """Compare every matching chunk, where a store that filters only partly proposed none that match."""
        if len(rows) >= self.query.top_k or (exact := self._exact(self.query.top_k + SPARE, any_number=True)) is None:
            return rows
        return self._hydrated([], exact, words, self.query.top_k)

    def shaped(self, shaper: Shaper) -> list[Hit]:
        """The hits that the shape leaves, from more candidates of both sides while some are missing."""
        shape = shaper.shape
        count = _wanted(self.query)
        light = Light.WITH_PAGES if shape.expansion is not None and shape.expansion.unit is Unit.PAGE else Light.PLAIN
        while True:
            exact = self._exact(count)
            matches = self._by_meaning(count) if exact is None else []
            near = places(matches)
            words = self._by_words(count, near)
            rows = self._hydrated(near, exact, words, light)
            with self.clock("hydrate_ms"):
                picked = shaper.pick(rows)
            has_more = (
                max(len(matches), len(exact or []), sum(scored.rank is not None for scored in words.scored)) >= count
            )
            worse = bool(rows) and shape.recency is None and rows[-1]["score"] < self.query.threshold
            if len(picked) >= self.query.top_k or worse or not has_more or count >= MOST:
                return self._shown(self._shaped_of_all(picked, shaper, words, light, matches), shaper)
            count = min(count * 4, MOST)

    def _shaped_of_all(
        self, picked: list[Pick], shaper: Shaper, words: _Words, light: Light, matches: Sequence[str]
    ) -> list[Pick]:
        """Form of `_all_that_match` for shaped searches."""
        if len(picked) >= self.query.top_k or len(matches) < MOST:
            return picked
        exact = self._exact(MOST, any_number=True)
        return picked if exact is None else shaper.pick(self._hydrated([], exact, words, light))

    def _shown(self, picked: Sequence[Pick], shaper: Shaper) -> list[Hit]:
        with self.clock("hydrate_ms"):
            fields = shown(reading(self.db, self.viewer), [pick.row["id"] for pick in picked])
            return [
                Hit(
                    **fields[pick.row["id"]],
                    score=pick.score,
                    **{name: pick.row[name] for name in ("semantic", "keyword", "semantic_rank", "keyword_rank")},
                    recency=pick.recency,
                    context=shaper.context(pick, fields[pick.row["id"]]),
                )
                for pick in picked
                if pick.row["id"] in fields
            ]

    def _hydrated(
        self,
        near: Sequence[Place],
        exact: list[int] | None,
        words: _Words,
        limit: int | Light,
    ) -> list[Row]:
        with self.clock("hydrate_ms"):
            return hydrate(
                reading(self.db, self.viewer),
                near=near,
                exact=exact or [],
                words=words.scored,
                terms=words.terms,
                values=self.values,
                weights=(self.query.semantic_weight, self.query.keyword_weight),
                where=self.query.where,
                limit=limit,
                scope=None if self.proven else self.scope,
            )

    def _by_words(self, wanted: int, near: Sequence[Place]) -> _Words:
        """The keyword side, and in the same pass the scores of what the vector store has proposed."""
        if self.query.keyword_weight <= 0:
            return _Words(keyword.Terms(self.partition))
        where, hint = self.reach.where, self.reach.hint
        with self.clock("keyword_ms"):
            with self.db.tuned(BY_INDEX if self._is_narrowed_by_viewer_alone(where) else {}) as connection:
                text, least = self.query.text, 1 if self.viewer is None else LEAST_COUNTED
                counted: Any = {"part": self.reach.part, "least": 1 if self.reach.part is not None else least}
                terms = keyword.terms(connection, self.partition, text, self.language, self.languages, **counted)
                if not terms.names:
                    return _Words(terms)
                ranking = rank(connection, terms, near)
            if self.viewer is None and (where is None or not where.narrows()):
                return _Words(terms, ranking.with_near(ranking.best(wanted)))
            among = self.reach.among
            best = filtered.best(self.db, ranking, terms, wanted, where, viewer=self.viewer, hint=hint, among=among)
            return _Words(terms, ranking.with_near(best))

    def _is_narrowed_by_viewer_alone(self, where: DocumentFilter | None) -> bool:
        return self.viewer is not None and (where is None or not where.narrows())

    def _exact(self, wanted: int, *, any_number: bool = False) -> list[int] | None:
        """Chunk ids by exact comparison if a filter leaves only few, or any number; None: ask the vector store."""
        where, hint = self.reach.where, self.reach.hint
        many = hint is not None and hint.many and not (where is not None and where.reads_rows)
        if (self.viewer is None and (where is None or not where.narrows())) or (many and not any_number):
            return None
        where = where or DocumentFilter()
        with self.clock("vector_ms" if self.values is not None else "keyword_ms"):
            matches = matching(
                self.db, self.partition, where, self.values, wanted, viewer=self.viewer, any_number=any_number
            )
        if matches.nearest is None:
            self._look_among(where, matches, wanted)
        elif not any_number:
            self.reach = replace(self.reach, among=matches)
        return matches.nearest if self.values is not None else None

    def _look_among(self, where: DocumentFilter, found: Matching, wanted: int) -> None:
        """Both sides look among the documents that match if that is quicker; that it is not is remembered."""
        labelled = self.vectors is not None and self.vectors.labelled
        hint = None if labelled else self.reach.hint  # such a store proposes what is hidden, too, unless it is told ids
        if hint is not None and found.documents is not None:
            hint.note_share(found.share)
        few = found.documents is not None and found.share < LEAST
        by_words = few and self.query.keyword_weight > 0
        by_meaning = few and self.values is not None and compared_sooner(found, wanted)
        if not by_words and not by_meaning and hint is not None:
            hint.note_many()
        if by_meaning and not labelled:
            where = replace(where, document_ids=found.documents or ())
        narrowed: DocumentFilter | None = where
        if not by_meaning and not few and not labelled:  # each vector on the way would be compared with the ids
            narrowed = self.query.where
        self.reach = replace(self.reach, where=narrowed, among=found if by_words else None)

    def _by_meaning(self, wanted: int) -> list[str]:
        if self.values is None or self.vectors is None:
            return []
        with self.clock("vector_ms"):
            matches = self.vectors.query(self.scope, self.values, wanted, self.reach.where, self.viewer)
        return [match.id for match in matches]


def _hits(query: Query, rows: Sequence[Row]) -> list[Hit]:
    return [Hit(**row) for row in rows if row["score"] >= query.threshold]
