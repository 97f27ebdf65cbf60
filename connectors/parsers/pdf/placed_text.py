"""Texts placed on a page, and their columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

NUMBER_PATTERN = re.compile(r"\W*\d\S*(\s\S+){0,3}$|[-\u2013\u2014:]$")
# Minimum share of the narrower one.
_MIN_OVERLAP = 0.1

Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class PlacedText:
    """Words close together in one line, and their box on the page."""

    left: float
    right: float
    top: float
    bottom: float
    text: str

    @property
    def height(self) -> float:
        return max(self.bottom - self.top, 1.0)

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2


Line = Sequence[PlacedText]


def column_space(text: PlacedText, column: Range) -> float:
    """Return the space between a text and a column, negative if they overlap."""
    return max(text.left, column[0]) - min(text.right, column[1])


def is_in_column(text: PlacedText, column: Range) -> bool:
    return -column_space(text, column) > _MIN_OVERLAP * min(text.right - text.left, column[1] - column[0])
