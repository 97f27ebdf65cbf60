"""Lines of text in reading order, out of the boxes in which they were found on a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

_FEW = 4
"""Lines on each side that make two columns of a gap; fewer are a form or a table, read row by row."""
_PROSE = 15
"""Characters of a line of running text at least, on the average."""


@dataclass(frozen=True, slots=True)
class Line:
    """A recognised line and the box around it, in pixels from the top left."""

    left: float
    top: float
    right: float
    bottom: float
    text: str

    @property
    def height(self) -> float:
        return self.bottom - self.top

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2


def text(lines: Sequence[Line]) -> str:
    """The lines as paragraphs, column by column."""
    return "\n\n".join(filter(None, (_block(column) for column in _columns(list(lines)))))


def _columns(lines: list[Line]) -> list[list[Line]]:
    """Split at a gap from top to bottom that has running text at both sides; what spans it goes before or after."""
    place = _gutter(lines)
    if place is None:
        return [lines]
    across = [line for line in lines if line.left < place < line.right]
    left = [line for line in lines if line.right <= place]
    right = [line for line in lines if line.left >= place]
    start = min(line.top for line in left + right)
    above = [line for line in across if line.middle <= start]
    below = [line for line in across if line.middle > start]
    return [part for part in (above, *_columns(left), *_columns(right), below) if part]


def _gutter(lines: list[Line]) -> float | None:
    if len(lines) < 2 * _FEW:
        return None
    for line in sorted(lines, key=lambda line: line.left):
        place = line.left - 1
        left = [other for other in lines if other.right <= place]
        right = [other for other in lines if other.left >= place]
        across = [other for other in lines if other.left < place < other.right]
        if min(len(left), len(right)) < _FEW or not _apart(left + right, across):
            continue
        if min(_mean(left), _mean(right)) >= _PROSE:
            return place
    return None


def _apart(columns: list[Line], across: list[Line]) -> bool:
    """Does what spans the columns stand above or below them, as a heading or footer does?"""
    top, bottom = min(line.middle for line in columns), max(line.middle for line in columns)
    return not any(top < line.middle < bottom for line in across)


def _mean(lines: list[Line]) -> float:
    return sum(len(line.text) for line in lines) / len(lines)


def _block(lines: list[Line]) -> str:
    rows: list[list[Line]] = []
    for line in sorted(lines, key=lambda line: line.middle):
        if rows and line.middle - _middle(rows[-1]) < 0.5 * min(line.height, rows[-1][-1].height):
            rows[-1].append(line)
        else:
            rows.append([line])
    usual = median(line.height for line in lines) if lines else 0
    written: list[str] = []
    bottom = 0.0
    for row in rows:
        words = "  ".join(line.text for line in sorted(row, key=lambda line: line.left))
        apart = bool(written) and min(line.top for line in row) - bottom > 0.8 * usual
        written.append(("\n" if apart else "") + words)
        bottom = max(line.bottom for line in row)
    return "\n".join(written).strip()


def _middle(row: list[Line]) -> float:
    return sum(line.middle for line in row) / len(row)
