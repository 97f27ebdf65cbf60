"""Metrics of a ranking against judgements, as trec_eval defines them, with confidence intervals and comparisons.

nDCG@k      sum of grade / log2(rank + 1) over the first k, divided by the same of the best possible order
recall@k    judged documents among the first k, divided by all judged ones
mrr         1 / rank of the first judged document within the first 100, else 0
span recall share of the judged spans' characters that the first 10 results cover

Judged documents that the namespace does not have count as not found. Intervals come from 1,000 paired bootstrap
resamples of the questions, with a fixed seed: the same run gives the same interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

Question = Mapping[str, Any]
"""`query`, and `ranks`: by setting, the rank of each judged document, None where it was not found."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Numbers of questions whose first judged document ranks higher, the same, or lower."""

    better: int
    same: int
    worse: int


def first_rank(question: Question, setting: str) -> int | None:
    """The best rank of its judged documents; None where none was found."""
    return min((rank for rank in question["ranks"].get(setting, ()) if rank is not None), default=None)


def rank_difference(question: Question, base: str, setting: str) -> float:
    """The difference of the reciprocal ranks, above 0 where the setting is better."""
    return _reciprocal(first_rank(question, setting)) - _reciprocal(first_rank(question, base))


def tally_questions(questions: Sequence[Question], base: str, setting: str) -> Tally:
    """Count the questions that a setting answers better, the same and worse than the base."""
    changes = [rank_difference(question, base, setting) for question in questions if "error" not in question]
    better, worse = sum(question > 0 for question in changes), sum(question < 0 for question in changes)
    return Tally(better, len(changes) - better - worse, worse)


def most_changed(questions: Sequence[Question], base: str, setting: str, many: int) -> list[Question]:
    """Return the questions that failed, then those that a setting changed most, wins and losses alike; those with equal
    changes in their order."""
    return sorted(questions, key=lambda one: ("error" not in one, -abs(rank_difference(one, base, setting))))[:many]


def _reciprocal(rank: int | None) -> float:
    return 1 / rank if rank else 0.0


RESAMPLES: Final = 1000
SEED: Final = 20_261_122
CUT: Final = 10
DEEP: Final = 100

NDCG: Final = "ndcgAt10"
RECALL: Final = "recallAt10"
DEEP_RECALL: Final = "recallAt100"
MRR: Final = "mrr"
SPANS: Final = "spanRecallAt10"
NAMES: Final = (NDCG, RECALL, DEEP_RECALL, MRR, SPANS)


@dataclass(frozen=True, slots=True)
class Judged:
    """One judgement of a question: a document's key, how relevant it is (1 to 4), the span that answers, if known."""

    key: str
    grade: int = 1
    span: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """One result, best first: the key of its document, and its range in the parsed text."""

    key: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over the questions, its 95 % interval, and that of its difference from the first setting."""

    value: float
    low: float
    high: float
    delta: tuple[float, float] | None


def rank_documents(found: Sequence[Found]) -> list[str]:
    """Documents by their best result."""
    return list(dict.fromkeys(result.key for result in found))


def measure_question(judged: Sequence[Judged], found: Sequence[Found]) -> dict[str, float | None]:
    """Return each measure of one question; None without a judged document, span recall without a judged span."""
    if not judged:
        return dict.fromkeys(NAMES)
    grades: dict[str, int] = {}
    for judgement in judged:
        grades[judgement.key] = max(judgement.grade, grades.get(judgement.key, 0))
    order = rank_documents(found)
    gained = sum(grades.get(key, 0) / math.log2(at + 2) for at, key in enumerate(order[:CUT]))
    best = sum(grade / math.log2(at + 2) for at, grade in enumerate(sorted(grades.values(), reverse=True)[:CUT]))
    first = next((at for at, key in enumerate(order[:DEEP], 1) if key in grades), None)
    return {
        NDCG: gained / best,
        RECALL: sum(key in grades for key in order[:CUT]) / len(grades),
        DEEP_RECALL: sum(key in grades for key in order[:DEEP]) / len(grades),
        MRR: 1 / first if first else 0.0,
        SPANS: _covered(judged, found[:CUT]),
    }


def judged_ranks(judged: Sequence[Judged], found: Sequence[Found]) -> list[int | None]:
    """The rank of each judgement's document, from 1; None where it was not found."""
    places = {key: at for at, key in enumerate(rank_documents(found), 1)}
    return [places.get(judgement.key) for judgement in judged]


def _covered(judged: Sequence[Judged], found: Sequence[Found]) -> float | None:
    shares = []
    for judgement in judged:
        if judgement.span is None:
            continue
        start, end = judgement.span
        pieces = sorted((max(start, hit.start), min(end, hit.end)) for hit in found if hit.key == judgement.key)
        covered, reached = 0, start
        for low, right in pieces:
            covered += max(0, right - max(low, reached))
            reached = max(reached, right)
        shares.append(covered / (end - start))
    return sum(shares) / len(shares) if shares else None


def compare_settings(
    values: Mapping[str, Sequence[Mapping[str, float | None]]],
) -> dict[str, dict[str, Interval | None]]:
    """By setting and measure: its mean with intervals. `values`: by setting, the measures of each question in order."""
    import numpy as np

    intervals: dict[str, dict[str, Interval | None]] = {name: {} for name in values}
    for measured in NAMES:
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
    drawn = np.random.default_rng(SEED).integers(0, len(numbers), size=(RESAMPLES, len(numbers)), dtype=np.int32)
    low, high = np.percentile(numbers[drawn].mean(axis=1), [2.5, 97.5])
    delta = None
    if difference is not None:
        bounds = np.percentile(np.asarray(difference)[drawn].mean(axis=1), [2.5, 97.5])
        delta = (float(bounds[0]), float(bounds[1]))
    return Interval(float(numbers.mean()), float(low), float(high), delta)
