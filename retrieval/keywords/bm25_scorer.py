"""Exact BM25 over the postings of a partition.

    score(query, chunk) = sum over terms:  qtf * idf * tf * (K1 + 1) / (tf + K1 * (1 - B + B * length / average))
    idf = ln(1 + (N - df + 0.5) / (df + 0.5))

Summed: the query's stems in every language of the partition, each once, their indexed forms, and replacements of absent
words; at most the MAX_TERMS rarest. qtf: count in the query, PART_COUNT or TYPO_COUNT. N, df, average: of visible
chunks. Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from retrieval.database.database import Database
from retrieval.database.rows import Executor
from retrieval.database.sessions import ThreadConnection
from retrieval.keywords import postings, queries, queries_typos, typos, word_forms
from retrieval.keywords.analyzer import UNSPACED_SCRIPTS
from retrieval.keywords.queries import TermStatistics
from retrieval.keywords.queries_blocks import LENGTH_BITS
from retrieval.keywords.typos import Correction

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Numbers = npt.NDArray[np.int64]
    Points = npt.NDArray[np.float64]

K1, B = 1.5, 0.75
# Count of a part of a compound word, low enough to rank a chunk with the word above chunks with its parts.
PART_COUNT = 0.25
# Count of the replacement of an absent word (`retrieval.keywords.typos`).
TYPO_COUNT = 0.5
# Only the rarest terms of a query count.
MAX_TERMS = 64
# Ranges of chunk ids up to this size are summed in an array (32 MB), larger ones by sorting.
MAX_ARRAY_SPAN = 4_000_000


@dataclass(frozen=True, slots=True)
class QueryTerms:
    """Terms of a query, rarest first, with weights (qtf * idf)."""

    partition: int
    names: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()
    # K1 * B / average length.
    slope: float = 0.0
    # Upper bound of the score of a chunk with all words, absent ones too.
    max_score: float = 0.0
    corrections: tuple[Correction, ...] = ()
    # Chunks with an excluded word.
    excluded: frozenset[int] = frozenset()

    def params(self) -> dict[str, Any]:
        return {
            "partition": self.partition,
            "terms": list(self.names),
            "weights": list(self.weights),
            "slope": self.slope,
        }


@dataclass(frozen=True, slots=True)
class ScoredChunk:
    """Chunk with its BM25 score."""

    chunk_id: int
    score: float


@dataclass(frozen=True, slots=True)
class Ranking:
    """Chunk ids in order, with scores."""

    ids: Numbers
    scores: Points

    def best(self, n: int) -> list[ScoredChunk]:
        """Return the `n` best chunks, ties by id."""
        import numpy as np

        ids, scores = self.ids, self.scores
        if len(scores) > n > 0:
            is_best = scores >= np.partition(scores, len(scores) - n)[len(scores) - n]
            ids, scores = ids[is_best], scores[is_best]
        order = np.lexsort((ids, -scores))[:n]
        return [ScoredChunk(int(ids[at]), float(scores[at])) for at in order]

    def among(self, chunk_ids: Sequence[int] | Numbers) -> Ranking:
        """Restrict the ranking to these chunks."""
        import numpy as np

        is_listed = np.isin(self.ids, np.asarray(chunk_ids, np.int64))
        return Ranking(self.ids[is_listed], self.scores[is_listed])

    def without(self, chunk_ids: Collection[int]) -> Ranking:
        """Drop chunks from the ranking."""
        import numpy as np

        stays = np.isin(self.ids, np.fromiter(chunk_ids, np.int64), invert=True)
        return Ranking(self.ids[stays], self.scores[stays])


def read_terms(
    connection: ThreadConnection,
    partition_id: int,
    query: str,
    language: str,
    configurations: Sequence[str] | None = None,
    *,
    counted_chunks: Sequence[int] | None = None,
    min_frequency: int = 1,
    viewer_db: Executor | None = None,
) -> QueryTerms:
    """Read the query's terms with weights; no terms if no chunk can match."""
    # Frequencies count only `counted_chunks`, and are at least `min_frequency`. Words without chunks in `viewer_db` are
    # corrected.
    if configurations is None:
        configurations = queries.read_configurations(connection, partition_id)
    analyzed = postings.analyze_query(connection, partition_id, query, language, configurations)
    statistics = queries.read_statistics(
        connection, partition_id, postings.text_params(analyzed), part_weight=PART_COUNT, limit=MAX_TERMS
    )
    queried = statistics
    present, absent = _split_by_presence(viewer_db, partition_id, statistics)
    forms = _list_forms(connection, viewer_db, partition_id, query, statistics, [language, *configurations])
    statistics = [row for row in statistics if row.chunks]
    statistics += {row.term: row for rows in forms.values() for row in rows}.values()
    absent = [term for term in absent if not forms.get(term)]
    corrections: list[Correction] = []
    if viewer_db is not None and absent:
        lexemes = typos.list_absent_words(connection, partition_id, query, language, configurations, set(absent))
        corrections = typos.correct_words(
            connection,
            viewer_db,
            partition_id,
            query,
            language=language,
            configurations=configurations,
            present=present,
            lexemes=lexemes,
        )
        terms = [term for correction in corrections for term in correction.terms]
        statistics += queries.read_statistics_of(connection, partition_id, sorted({*terms} - {*present}), TYPO_COUNT)
        remaining = lexemes.keys() - {correction.word for correction in corrections}
        distant = word_forms.find_distant_forms(
            connection, partition_id, sorted(remaining), {language, *configurations}
        )
        if isinstance(viewer_db, Database) and distant:
            visible = queries_typos.list_visible_terms(viewer_db, partition_id, [row.term for row in distant])
            distant = [row for row in distant if row.term in visible]
        counted = {row.term for row in statistics}
        statistics += [row for row in {row.term: row for row in distant}.values() if row.term not in counted]
    if forms or corrections or len(statistics) > MAX_TERMS:
        statistics = sorted(statistics, key=lambda row: (row.chunks, row.term))[:MAX_TERMS]
    if counted_chunks is not None and statistics:
        statistics = queries.read_statistics_among(connection, partition_id, counted_chunks, statistics)
    if not statistics:
        return QueryTerms(partition_id)
    total, lengths = int(statistics[0].total), int(statistics[0].lengths)
    weights = {row.term: row.times * _idf(total, max(int(row.chunks), min_frequency)) for row in statistics}
    return QueryTerms(
        partition_id,
        names=tuple(weights),
        weights=tuple(weights.values()),
        slope=K1 * B * max(total, 1) / max(lengths, 1),
        max_score=(K1 + 1)
        * _sum_weights(
            queried,
            weights,
            _idf(total, min_frequency if min_frequency > 1 else 0),
            language if counted_chunks or min_frequency > 1 else None,
        ),
        corrections=tuple(corrections),
    )


def _split_by_presence(
    viewer_db: Executor | None, partition_id: int, statistics: Sequence[TermStatistics]
) -> tuple[list[str], list[str]]:
    """Return present and absent terms, as visible to the viewer."""
    present = [row.term for row in statistics if row.chunks]
    if isinstance(viewer_db, Database) and present:
        present = queries_typos.list_visible_terms(viewer_db, partition_id, present)
    return present, [row.term for row in statistics if row.term not in present]


def _list_forms(
    db: Executor,
    viewer_db: Executor | None,
    partition_id: int,
    query: str,
    statistics: Sequence[TermStatistics],
    configurations: Sequence[str],
) -> dict[str, list[TermStatistics]]:
    """List visible word forms of the query's terms."""
    forms = word_forms.find_forms(db, partition_id, query, statistics, configurations)
    terms = sorted({row.term for rows in forms.values() for row in rows})
    if not terms or not isinstance(viewer_db, Database):
        return forms
    visible_terms = set(queries_typos.list_visible_terms(viewer_db, partition_id, terms))
    return {term: [row for row in rows if row.term in visible_terms] for term, rows in forms.items()}


def rank_chunks(connection: ThreadConnection, terms: QueryTerms) -> Ranking:
    """Score every chunk with a term. Equal chunks get bit-equal scores."""
    # Frequent terms are read as packed blocks, rare terms and recent changes as rows.
    import numpy as np

    head, *lists = queries.read_posting_lists(connection, terms.partition, terms.names)
    changed = np.frombuffer(head.rows or b"", ">i8").astype(np.int64)
    parts = []
    for row, weight in zip(lists, terms.weights, strict=True):
        if row.blocks:
            parts.append(_score_postings(*_unpack_blocks(row.blocks, head.base or 0, changed), weight, terms.slope))
        if row.rows:
            parts.append(_score_postings(*_unpack_rows(row.rows), weight, terms.slope))
    return Ranking(*_sum_scores(parts))


def _sum_weights(
    queried: Sequence[TermStatistics], weights: Mapping[str, float], missing_idf: float, language: str | None
) -> float:
    """Sum the weights of the query's words, in the configuration with the lowest sum of absent words."""
    # With `language`, other configurations do not count: they could reveal hidden documents.
    is_viewed = language is not None
    configurations = {language} if is_viewed else {name for row in queried for name in row.languages}
    unstemmed = sum(
        weights.get(row.term, row.times * missing_idf)
        for row in queried
        if not row.languages and (is_viewed or row.term in weights or UNSPACED_SCRIPTS.search(row.term))
    )
    return unstemmed + min(
        (
            sum(weights.get(row.term, row.times * missing_idf) for row in queried if name in row.languages)
            for name in configurations
        ),
        default=0.0,
    )


def _idf(total: int, count: int) -> float:
    return math.log(1 + (max(total - count, 0) + 0.5) / (count + 0.5))


def _unpack_blocks(body: bytes, base: int, changed: Numbers) -> tuple[Numbers, Numbers]:
    import numpy as np

    numbers = np.frombuffer(body, ">i4").reshape(-1, 2)
    ids, values = numbers[:, 0].astype(np.int64) + base, numbers[:, 1].astype(np.int64)
    if len(changed):
        is_unchanged = ~np.isin(ids, changed)
        ids, values = ids[is_unchanged], values[is_unchanged]
    return ids, values


def _unpack_rows(body: bytes) -> tuple[Numbers, Numbers]:
    import numpy as np

    rows = np.frombuffer(body, [("id", ">i8"), ("value", ">i4")])
    return rows["id"].astype(np.int64), rows["value"].astype(np.int64)


def _score_postings(ids: Numbers, values: Numbers, weight: float, slope: float) -> tuple[Numbers, Points]:
    """Score the postings of a term, in the order of operations of `search.queries.score_candidates`."""
    bits = int(LENGTH_BITS)
    tf = (values >> bits).astype(float)
    length = values & ((1 << bits) - 1)
    return ids, weight * tf * (K1 + 1) / (tf + K1 * (1 - B) + slope * length)


def _sum_scores(parts: Sequence[tuple[Numbers, Points]]) -> tuple[Numbers, Points]:
    """Sum scores by chunk. A chunk occurs once per part."""
    import numpy as np

    parts = [part for part in parts if len(part[0])]
    if not parts:
        return np.zeros(0, np.int64), np.zeros(0)
    low = min(int(ids.min()) for ids, _ in parts)
    span = max(int(ids.max()) for ids, _ in parts) - low + 1
    postings = sum(len(ids) for ids, _ in parts)
    if span <= max(MAX_ARRAY_SPAN, 4 * postings):
        sums = np.zeros(span)
        for ids, points in parts:
            sums[ids - low] += points
        offsets = np.flatnonzero(sums > 0)  # ten times as fast as on numbers
        return offsets + low, sums[offsets]
    unique_ids, positions = np.unique(np.concatenate([ids for ids, _ in parts]), return_inverse=True)
    sums, start = np.zeros(len(unique_ids)), 0
    for ids, points in parts:
        sums[positions[start : start + len(ids)]] += points
        start += len(ids)
    return unique_ids, sums
