"""What a setting changed, question by question: where its first judged document stands, against the first setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Question = Mapping[str, Any]
"""`query`, and `ranks`: by setting, the rank of each judged document, None where it was not found."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Questions whose first judged document stands higher, where it stood, or lower."""

    better: int
    same: int
    worse: int


def first_rank(question: Question, setting: str) -> int | None:
    """The best rank of its judged documents; None where none was found."""
    return min((rank for rank in question["ranks"].get(setting, ()) if rank is not None), default=None)


def change(question: Question, base: str, setting: str) -> float:
    """The difference of the reciprocal ranks, above 0 where the setting is better."""
    return _reciprocal(first_rank(question, setting)) - _reciprocal(first_rank(question, base))


def tally(questions: Sequence[Question], base: str, setting: str) -> Tally:
    """How many questions a setting answers better and worse than the base."""
    changes = [change(one, base, setting) for one in questions]
    better, worse = sum(one > 0 for one in changes), sum(one < 0 for one in changes)
    return Tally(better, len(changes) - better - worse, worse)


def most_changed(questions: Sequence[Question], base: str, setting: str, many: int) -> list[Question]:
    """The questions that a setting changed most, wins and losses alike; those with equal changes in their order."""
    return sorted(questions, key=lambda one: -abs(change(one, base, setting)))[:many]


def _reciprocal(rank: int | None) -> float:
    return 1 / rank if rank else 0.0
