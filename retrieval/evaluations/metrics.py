"""Ranking metrics as defined by trec_eval, with confidence intervals and comparisons.

nDCG@k      sum of grade / log2(rank + 1) over the first k, divided by the ideal order's
recall@k    judged documents among the first k, divided by all judged documents
mrr         1 / rank of the first judged document within the first 100, else 0
span recall share of the judged spans' characters covered by the first 10 results

Judged documents missing from the namespace count as not found. Intervals come from 1,000 paired bootstrap resamples of
the questions with a fixed seed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

# `query`, and `ranks`: by setting, the rank of each judged document, None if not found.
Question = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Tally:
    """Numbers of questions with a higher, equal or lower first rank."""

    better: int
    same: int
    worse: int


def first_rank(question: Question, setting: str) -> int | None:
    """Return the best rank of a judged document, or None."""
    return min((rank for rank in question["ranks"].get(setting, ()) if rank is not None), default=None)


def rank_difference(question: Question, base: str, setting: str) -> float:
    """Return the difference of reciprocal ranks; positive if `setting` is better."""
    return _reciprocal(first_rank(question, setting)) - _reciprocal(first_rank(question, base))


def tally_questions(questions: Sequence[Question], base: str, setting: str) -> Tally:
    """Count better, equal and worse questions of a setting relative to the base."""
    changes = [rank_difference(difference, base, setting) for difference in questions if "error" not in difference]
    better, worse = sum(difference > 0 for difference in changes), sum(difference < 0 for difference in changes)
    return Tally(better, len(changes) - better - worse, worse)


def most_changed(questions: Sequence[Question], base: str, setting: str, limit: int) -> list[Question]:
    """Return failed questions, then those with the largest changes of rank."""
    return sorted(
        questions, key=lambda question: ("error" not in question, -abs(rank_difference(question, base, setting)))
    )[:limit]


def _reciprocal(rank: int | None) -> float:
    return 1 / rank if rank else 0.0


RESAMPLE_COUNT: Final = 1000
BOOTSTRAP_SEED: Final = 20_261_122
TOP_RESULTS: Final = 10
DEEP_RESULTS: Final = 100

NDCG_METRIC: Final = "ndcgAt10"
RECALL_METRIC: Final = "recallAt10"
DEEP_RECALL_METRIC: Final = "recallAt100"
MRR_METRIC: Final = "mrr"
SPAN_METRIC: Final = "spanRecallAt10"
METRIC_NAMES: Final = (NDCG_METRIC, RECALL_METRIC, DEEP_RECALL_METRIC, MRR_METRIC, SPAN_METRIC)


@dataclass(frozen=True, slots=True)
class JudgedDocument:
    """Judgement of a question: document key, relevance (1 to 4), and the answering span if known."""

    key: str
    grade: int = 1
    span: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class RankedResult:
    """Search result: document key and range in the parsed text."""

    key: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Interval:
    """Mean over the questions, with 95 % intervals of the mean and of its difference from the first setting."""

    value: float
    low: float
    high: float
    delta: tuple[float, float] | None


def rank_documents(results: Sequence[RankedResult]) -> list[str]:
    """Return document keys in the order of their best result."""
    return list(dict.fromkeys(result.key for result in results))


def measure_question(judged: Sequence[JudgedDocument], results: Sequence[RankedResult]) -> dict[str, float | None]:
    """Return all metrics of one question; None without judged documents, or spans for span recall."""
    if not judged:
        return dict.fromkeys(METRIC_NAMES)
    grades: dict[str, int] = {}
    for judgement in judged:
        grades[judgement.key] = max(judgement.grade, grades.get(judgement.key, 0))
    order = rank_documents(results)
    gained = sum(grades.get(key, 0) / math.log2(position + 2) for position, key in enumerate(order[:TOP_RESULTS]))
    best = sum(
        grade / math.log2(position + 2)
        for position, grade in enumerate(sorted(grades.values(), reverse=True)[:TOP_RESULTS])
    )
    first_judged_rank = next((position for position, key in enumerate(order[:DEEP_RESULTS], 1) if key in grades), None)
    return {
        NDCG_METRIC: gained / best,
        RECALL_METRIC: sum(key in grades for key in order[:TOP_RESULTS]) / len(grades),
        DEEP_RECALL_METRIC: sum(key in grades for key in order[:DEEP_RESULTS]) / len(grades),
        MRR_METRIC: 1 / first_judged_rank if first_judged_rank else 0.0,
        SPAN_METRIC: _span_recall(judged, results[:TOP_RESULTS]),
    }


def judged_ranks(judged: Sequence[JudgedDocument], results: Sequence[RankedResult]) -> list[int | None]:
    """Return the rank of each judged document, from 1; None if not found."""
    ranks = {key: rank for rank, key in enumerate(rank_documents(results), 1)}
    return [ranks.get(judgement.key) for judgement in judged]


def _span_recall(judged: Sequence[JudgedDocument], results: Sequence[RankedResult]) -> float | None:
    shares = []
    for judgement in judged:
        if judgement.span is None:
            continue
        start, end = judgement.span
        pieces = sorted((max(start, hit.start), min(end, hit.end)) for hit in results if hit.key == judgement.key)
        covered, reached = 0, start
        for low, right in pieces:
            covered += max(0, right - max(low, reached))
            reached = max(reached, right)
        shares.append(covered / (end - start))
    return sum(shares) / len(shares) if shares else None


def compare_settings(
    values: Mapping[str, Sequence[Mapping[str, float | None]]],
) -> dict[str, dict[str, Interval | None]]:
    """Return the mean and intervals by setting and metric. `values`: metrics of each question, in order."""
    import numpy as np

    intervals: dict[str, dict[str, Interval | None]] = {name: {} for name in values}
    for measured in METRIC_NAMES:
        base = None
        for name, questions in values.items():
            differences = np.array(
                [question[measured] for question in questions if question[measured] is not None], dtype=np.float64
            )
            if not len(differences):
                intervals[name][measured] = None
                continue
            base = differences if base is None else base
            intervals[name][measured] = _interval(differences, None if differences is base else differences - base)
    return intervals


def _interval(values: object, difference: object) -> Interval:
    import numpy as np

    numbers = np.asarray(values)
    samples = np.random.default_rng(BOOTSTRAP_SEED).integers(
        0, len(numbers), size=(RESAMPLE_COUNT, len(numbers)), dtype=np.int32
    )
    low, high = np.percentile(numbers[samples].mean(axis=1), [2.5, 97.5])
    delta = None
    if difference is not None:
        bounds = np.percentile(np.asarray(difference)[samples].mean(axis=1), [2.5, 97.5])
        delta = (float(bounds[0]), float(bounds[1]))
    return Interval(float(numbers.mean()), float(low), float(high), delta)
