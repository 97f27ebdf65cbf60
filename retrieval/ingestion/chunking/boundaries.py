"""Boundaries in Markdown: headings, paragraphs, lines, sentences, and blocks that stay together."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

# Every pattern is linear in the text: no repetition can be matched in two ways.
_HEADING: Final = re.compile(r"^ {0,3}#{1,6}[ \t][^\n]*", re.MULTILINE)
_ROW: Final = re.compile(r"^ {0,3}\|[^\n]*", re.MULTILINE)
_PARAGRAPH: Final = re.compile(r"\n[ \t\r]*\n")
_LINE: Final = re.compile(r"[\n\u2028\u2029]|\r(?!\n)")
_SENTENCE: Final = re.compile(
    r"[.!?…。！？｡](?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bDr\.)(?<!\bMr\.)(?<!\bcf\.)(?<!\bvs\.)(?<!\bFig\.)(?<!\b[A-Z]\.)"  # noqa: RUF001
    r"(?:(?<=[。！？｡])[\"'」』）】”’]{0,3}|[\"')\]»”’*_]{0,3}(?=\s))"  # noqa: RUF001
)
_INK: Final = re.compile(r"\S")

_LONGEST_WHOLE: Final = 4_000
"""Characters of a heading chain that is kept together; longer ones are tables of contents."""

Positions = list[int]


@dataclass(frozen=True, slots=True)
class Boundaries:
    """Character positions at which to cut, by rank, best first; and ranges that had better stay whole."""

    ranks: tuple[Positions, ...] = ()
    whole_starts: Positions = field(default_factory=list)
    whole_ends: Positions = field(default_factory=list)

    def best(self, low: int, high: int) -> int | None:
        """The last position of the best rank in [low, high] that does not tear apart what belongs together."""
        return self._last(self.ranks, low, high)

    def heading(self, low: int, high: int) -> int | None:
        """The last heading that starts in [low, high], unless it belongs to the one before it."""
        return self._last(self.ranks[:1], low, high)

    def _last(self, ranks: tuple[Positions, ...], low: int, high: int) -> int | None:
        for positions in ranks:
            for index in range(bisect_right(positions, high) - 1, bisect_left(positions, low) - 1, -1):
                if self.inside(positions[index]) is None:
                    return positions[index]
        return None

    def first(self, low: int, high: int) -> int | None:
        """The first position of any rank in [low, high] that does not tear apart what belongs together."""
        found = (positions[at] for positions in self.ranks if (at := bisect_left(positions, low)) < len(positions))
        return min((place for place in found if place <= high and self.inside(place) is None), default=None)

    def inside(self, position: int) -> tuple[int, int] | None:
        """The range (start, end) that a cut at `position` would tear apart."""
        index = bisect_left(self.whole_starts, position) - 1
        if index >= 0 and position < self.whole_ends[index]:
            return self.whole_starts[index], self.whole_ends[index]
        return None


def find(text: str, records: Sequence[tuple[int, int]] = ()) -> Boundaries:
    """The boundaries of a text, in one pass per kind. `records`: ranges to keep whole, such as those of JSON."""
    headings = [(match.start(), match.end()) for match in _HEADING.finditer(text)]
    rows = [(match.start(), match.end()) for match in _ROW.finditer(text)]
    paragraphs = [match.end() for match in _PARAGRAPH.finditer(text)]
    sentences = [match.end() for match in _SENTENCE.finditer(text)]
    if records:
        paragraphs = sorted({*paragraphs, *(start for start, _ in records)})
    whole = _merged(sorted(rows + list(records) + _with_first_sentence(text, headings, paragraphs, sentences)))
    return Boundaries(
        ([start for start, _ in headings], paragraphs, [match.end() for match in _LINE.finditer(text)], sentences),
        [start for start, _ in whole],
        [end for _, end in whole],
    )


def _with_first_sentence(
    text: str, headings: list[tuple[int, int]], paragraphs: Positions, sentences: Positions
) -> list[tuple[int, int]]:
    """Each heading with what it announces: the first sentence, or the next heading and its first sentence."""
    found: list[tuple[int, int]] = []
    next_heading, next_end = len(text), len(text)
    for start, end in reversed(headings):
        ink = _INK.search(text, end)
        body = ink.start() if ink else len(text)
        if body < next_heading:
            next_end = min(_after(sentences, body, len(text)), _after(paragraphs, body, len(text)), next_heading)
        found.append((start, next_end if next_end - start <= _LONGEST_WHOLE else end))
        next_heading = start
    return found


def _after(positions: Positions, low: int, otherwise: int) -> int:
    index = bisect_right(positions, low)
    return positions[index] if index < len(positions) else otherwise


def _merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sorted ranges without overlaps."""
    merged: list[tuple[int, int]] = []
    for start, end in ranges:
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
