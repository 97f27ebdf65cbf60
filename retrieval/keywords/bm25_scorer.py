"""BM25, exact, over the postings of a partition (`retrieval.keywords`).

    score(query, chunk) = sum over the terms of  qtf * idf * tf * (K1 + 1) / (tf + K1 * (1 - B + B * length / average))
    idf = ln(1 + (N - df + 0.5) / (df + 0.5))

Terms are lexemes (`retrieval.keywords.analyzer`, `to_tsvector`), qtf is the count of a term in the query, or PART for a
part of a word there, as `ab` is of `ab1234`; N, df and average count the partition's visible chunks that have a term at
all, lengths but for stop words; of a longer query the 64 rarest terms count.
Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009.

Frequent terms are read as packed blocks, others and recent changes as rows. Scores are added up term by term in a fixed
order, so that equal chunks have bit-equal scores.
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
from retrieval.keywords.analyzer import UNSPACED
from retrieval.keywords.queries import Statistics
from retrieval.keywords.queries_blocks import LENGTH_BITS
from retrieval.keywords.typos import Correction

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Numbers = npt.NDArray[np.int64]
    Points = npt.NDArray[np.float64]

K1, B = 1.5, 0.75
PART = 0.25
"""Count of a part of a word: so little that a chunk with the word is above those with its parts."""
TYPO = 0.5
"""Count of a term that is searched instead of a word that no chunk has (`retrieval.keywords.typos`)."""
TERMS = 64
"""Terms of a query that count, the rarest first."""
SPAN = 4_000_000
"""Numbers between the least and the greatest chunk id up to which scores are added up in place (32 MB), or four a
posting; ids that are farther apart are sorted."""


@dataclass(frozen=True, slots=True)
class Terms:
    """A query as the partition's statistics see it: terms, rarest first, with their weight (qtf * idf).

    `slope`: K1 * B / average length. `possible`: a bound of the score of a chunk with all words of the query,
    also those that no chunk has. `corrections`: words of the query that were replaced.
    `excluded`: ids of chunks with a word that the query excludes.
    """

    partition: int
    names: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()
    slope: float = 0.0
    possible: float = 0.0
    corrections: tuple[Correction, ...] = ()
    excluded: frozenset[int] = frozenset()

    def params(self) -> dict[str, Any]:
        """Return the parameters of statements that score postings."""
        return {
            "partition": self.partition,
            "terms": list(self.names),
            "weights": list(self.weights),
            "slope": self.slope,
        }


@dataclass(frozen=True, slots=True)
class Scored:
    """A chunk and its BM25 score."""

    chunk_id: int
    score: float


@dataclass(frozen=True, slots=True)
class Ranking:
    """Chunk ids in order, and the score of each."""

    ids: Numbers
    scores: Points

    def best(self, n: int) -> list[Scored]:
        """Return the n chunks with the highest scores, best first, equals by id."""
        import numpy as np

        ids, scores = self.ids, self.scores
        if len(scores) > n > 0:
            is_best = scores >= np.partition(scores, len(scores) - n)[len(scores) - n]
            ids, scores = ids[is_best], scores[is_best]
        order = np.lexsort((ids, -scores))[:n]
        return [Scored(int(ids[at]), float(scores[at])) for at in order]

    def among(self, chunk_ids: Sequence[int] | Numbers) -> Ranking:
        """Restrict the ranking to these chunks."""
        import numpy as np

        is_listed = np.isin(self.ids, np.asarray(chunk_ids, np.int64))
        return Ranking(self.ids[is_listed], self.scores[is_listed])

    def without(self, chunk_ids: Collection[int]) -> Ranking:
        """Leave these chunks out of the ranking."""
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
    counted: Sequence[int] | None = None,
    least: int = 1,
    viewed: Executor | None = None,
) -> Terms:
    """Read the terms of a query that occur in the partition; none if no chunk can match.

    The query is analyzed in every configuration of the partition, given if known, and in `language`. counted: chunks
    that alone count. least: lower limit of the number of chunks of a term in its weight. viewed: the database as the
    viewer sees it, to correct words that no chunk has there; None not to.
    """
    if configurations is None:
        configurations = queries.read_configurations(connection, partition_id)
    analyzed = postings.analyze_query(connection, partition_id, query, language, configurations)
    statistics = queries.read_statistics(
        connection, partition_id, postings.text_params(analyzed), part_weight=PART, limit=TERMS
    )
    queried = statistics
    present, absent = _part_terms(viewed, partition_id, statistics)
    forms = _list_forms(connection, viewed, partition_id, query, statistics, [language, *configurations])
    statistics = [row for row in statistics if row.chunks]
    statistics += {row.term: row for rows in forms.values() for row in rows}.values()
    absent = [term for term in absent if not forms.get(term)]
    corrections: list[Correction] = []
    if viewed is not None and absent:
        corrections = typos.correct_words(
            connection,
            viewed,
            partition_id,
            query,
            language=language,
            configurations=configurations,
            present=present,
            absent=absent,
        )
        terms = [term for correction in corrections for term in correction.terms]
        statistics += queries.read_statistics_of(connection, partition_id, sorted({*terms} - {*present}), TYPO)
    if forms or corrections:
        statistics = sorted(statistics, key=lambda row: (row.chunks, row.term))[:TERMS]
    if counted is not None and statistics:
        statistics = queries.read_statistics_among(connection, partition_id, counted, statistics)
    if not statistics:
        return Terms(partition_id)
    total, lengths = int(statistics[0].total), int(statistics[0].lengths)
    weights = {row.term: row.times * _idf(total, max(int(row.chunks), least)) for row in statistics}
    return Terms(
        partition_id,
        names=tuple(weights),
        weights=tuple(weights.values()),
        slope=K1 * B * max(total, 1) / max(lengths, 1),
        possible=(K1 + 1)
        * _sum_weights(
            queried, weights, _idf(total, least if least > 1 else 0), language if counted or least > 1 else None
        ),
        corrections=tuple(corrections),
    )


def _part_terms(
    viewed: Executor | None, partition_id: int, statistics: Sequence[Statistics]
) -> tuple[list[str], list[str]]:
    """Part terms of a query into those that a chunk has, one that the viewer sees, and those that none has."""
    present = [row.term for row in statistics if row.chunks]
    if isinstance(viewed, Database) and present:
        present = queries_typos.list_seen(viewed, partition_id, present)
    return present, [row.term for row in statistics if row.term not in present]


def _list_forms(
    db: Executor,
    viewed: Executor | None,
    partition_id: int,
    query: str,
    statistics: Sequence[Statistics],
    configurations: Sequence[str],
) -> dict[str, list[Statistics]]:
    """List other forms of the query's terms, those that a chunk has which the viewer sees."""
    forms = word_forms.find_forms(db, partition_id, query, statistics, configurations)
    terms = sorted({row.term for rows in forms.values() for row in rows})
    if not terms or not isinstance(viewed, Database):
        return forms
    seen = set(queries_typos.list_seen(viewed, partition_id, terms))
    return {term: [row for row in rows if row.term in seen] for term, rows in forms.items()}


def rank_chunks(connection: ThreadConnection, terms: Terms) -> Ranking:
    """Score every chunk that has one of the terms."""
    import numpy as np

    head, *lists = queries.read_posting_lists(connection, terms.partition, terms.names)
    changed = np.frombuffer(head.rows or b"", ">i8").astype(np.int64)
    parts = []
    for row, weight in zip(lists, terms.weights, strict=True):
        if row.blocks:
            parts.append(_points(*_packed(row.blocks, head.base or 0, changed), weight, terms.slope))
        if row.rows:
            parts.append(_points(*_by_rows(row.rows), weight, terms.slope))
    return Ranking(*_sum(parts))


def _sum_weights(
    queried: Sequence[Statistics], weights: Mapping[str, float], missing_idf: float, language: str | None
) -> float:
    """Sum the weights of all words of a query, as read by the configuration by which least is missing.

    Ways to write a word that no chunk has are no words of their own. language: the only configuration that
    counts, where those of the partition may be those of documents that the viewer may not see.
    """
    is_viewed = language is not None
    configurations = {language} if is_viewed else {name for row in queried for name in row.languages}
    always = sum(
        weights.get(row.term, row.times * missing_idf)
        for row in queried
        if not row.languages and (is_viewed or row.term in weights or UNSPACED.search(row.term))
    )
    return always + min(
        (
            sum(weights.get(row.term, row.times * missing_idf) for row in queried if name in row.languages)
            for name in configurations
        ),
        default=0.0,
    )


def _idf(total: int, count: int) -> float:
    return math.log(1 + (max(total - count, 0) + 0.5) / (count + 0.5))


def _packed(body: bytes, base: int, changed: Numbers) -> tuple[Numbers, Numbers]:
    import numpy as np

    numbers = np.frombuffer(body, ">i4").reshape(-1, 2)
    ids, values = numbers[:, 0].astype(np.int64) + base, numbers[:, 1].astype(np.int64)
    if len(changed):
        believed = ~np.isin(ids, changed)
        ids, values = ids[believed], values[believed]
    return ids, values


def _by_rows(body: bytes) -> tuple[Numbers, Numbers]:
    import numpy as np

    rows = np.frombuffer(body, [("id", ">i8"), ("value", ">i4")])
    return rows["id"].astype(np.int64), rows["value"].astype(np.int64)


def _points(ids: Numbers, values: Numbers, weight: float, slope: float) -> tuple[Numbers, Points]:
    """Score the postings of a term, by the operations of `search.queries.score_candidates` in their order."""
    bits = int(LENGTH_BITS)
    tf = (values >> bits).astype(float)
    length = values & ((1 << bits) - 1)
    return ids, weight * tf * (K1 + 1) / (tf + K1 * (1 - B) + slope * length)


def _sum(parts: Sequence[tuple[Numbers, Points]]) -> tuple[Numbers, Points]:
    """Sum scores by chunk. No chunk occurs twice within one part."""
    import numpy as np

    parts = [part for part in parts if len(part[0])]
    if not parts:
        return np.zeros(0, np.int64), np.zeros(0)
    low = min(int(ids.min()) for ids, _ in parts)
    span = max(int(ids.max()) for ids, _ in parts) - low + 1
    postings = sum(len(ids) for ids, _ in parts)
    if span <= max(SPAN, 4 * postings):
        sums = np.zeros(span)
        for ids, points in parts:
            sums[ids - low] += points
        offsets = np.flatnonzero(sums > 0)  # of numbers it takes ten times as long
        return offsets + low, sums[offsets]
    unique_ids, places = np.unique(np.concatenate([ids for ids, _ in parts]), return_inverse=True)
    sums, start = np.zeros(len(unique_ids)), 0
    for ids, points in parts:
        sums[places[start : start + len(ids)]] += points
        start += len(ids)
    return unique_ids, sums
