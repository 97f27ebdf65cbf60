"""Text read upwards or downwards: sideways tables, and vertical headers of upright tables."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import Any

from connectors.parsers.pdf import grid
from connectors.parsers.pdf.placed_text import Line, PlacedText

# In line thicknesses: maximum space between lines of a header.
_MAX_LINE_SPACE = 0.45
# In line thicknesses: maximum distance of a header to its column.
_MAX_COLUMN_DISTANCE = 6.0
# In line thicknesses: maximum difference between the ends of aligned headers.
_MAX_MISALIGNMENT = 1.0
_MIN_HEADERS = 2
# Letters sampled for their direction before a full search.
_SAMPLE_SIZE = 200
# In radians.
_SAME_ANGLE = 0.1
# In heights of the letter: gap between words, and between cells.
_WORD_GAP, _CELL_GAP = 0.15, 0.6


@dataclass(frozen=True, slots=True)
class SidewaysText:
    """Text read upwards or downwards, with its box on the page."""

    text: PlacedText
    is_upward: bool

    @property
    def thickness(self) -> float:
        """Height of the letters: the width of the box on the page."""
        return max(self.text.right - self.text.left, 1.0)


@dataclass(frozen=True, slots=True)
class _LetterBounds:
    sign: str
    # Along the line.
    start: float
    end: float
    # Across the line, from the left of the page.
    level: float
    near: float
    far: float


def find_sideways(page: Any, words: Any) -> tuple[SidewaysText, ...]:
    """Return the sideways texts of a pypdfium2 page in coordinates from the top left; none for a rotated page."""
    import pypdfium2.raw as pdfium

    if page.get_rotation():
        return ()
    count, angle = words.count_chars(), pdfium.FPDFText_GetCharAngle
    if not any(_letter_turn(angle(words.raw, index)) for index in range(0, count, count // _SAMPLE_SIZE + 1)):
        return ()
    origin_x, _, _, top = page.get_bbox()
    texts: list[SidewaysText] = []
    letters: list[_LetterBounds] = []
    direction = 0
    for index in range(count):
        turn = _letter_turn(angle(words.raw, index))
        letter = _letter_bounds(words.raw, index, turn) if turn else None
        if letter is None or not letter.sign.strip():
            continue
        if letters and (turn != direction or not _is_next_letter(letters[-1], letter)):
            texts += _join_letters(letters, direction, origin_x, top)
            letters = []
        letters.append(letter)
        direction = turn
    return tuple(texts + _join_letters(letters, direction, origin_x, top))


def _letter_turn(angle: float) -> int:
    """Return 1 for a letter read upwards, -1 downwards, else 0."""
    return next((turn for turn in (1, -1) if abs(angle - math.pi - turn * math.pi / 2) < _SAME_ANGLE), 0)


def _letter_bounds(page: Any, index: int, turn: int) -> _LetterBounds:
    import pypdfium2.raw as pdfium

    bounds, x, y = pdfium.FS_RECTF(), ctypes.c_double(), ctypes.c_double()
    pdfium.FPDFText_GetLooseCharBox(page, index, bounds)
    pdfium.FPDFText_GetCharOrigin(page, index, x, y)
    start, end = (bounds.bottom, bounds.top) if turn > 0 else (-bounds.top, -bounds.bottom)
    return _LetterBounds(chr(pdfium.FPDFText_GetUnicode(page, index)), start, end, x.value, bounds.left, bounds.right)


def _is_next_letter(letter: _LetterBounds, following: _LetterBounds) -> bool:
    size = letter.far - letter.near
    gap = following.start - letter.end
    return abs(following.level - letter.level) < _WORD_GAP * size and -_CELL_GAP * size < gap < _CELL_GAP * size


def _join_letters(letters: Sequence[_LetterBounds], turn: int, origin_x: float, top: float) -> list[SidewaysText]:
    if not letters:
        return []
    text = letters[0].sign
    for letter, following in pairwise(letters):
        is_word = following.start - letter.end > _WORD_GAP * (letter.far - letter.near)
        text += f"{' ' if is_word else ''}{following.sign}"
    ends = (letters[0].start, letters[-1].end) if turn > 0 else (-letters[-1].end, -letters[0].start)
    near, far = min(letter.near for letter in letters), max(letter.far for letter in letters)
    return [SidewaysText(PlacedText(near - origin_x, far - origin_x, top - ends[1], top - ends[0], text), turn > 0)]


def turn_upright(texts: Iterable[SidewaysText], width: float, height: float) -> list[set[PlacedText]]:
    """Return the texts turned upright, one set per direction, upward texts first."""
    upward, downward = set[PlacedText](), set[PlacedText]()
    for item in texts:
        text = item.text
        if item.is_upward:
            turned = replace(text, left=height - text.bottom, right=height - text.top, top=text.left, bottom=text.right)
            upward.add(turned)
        else:
            downward.add(
                replace(text, left=text.top, right=text.bottom, top=width - text.right, bottom=width - text.left)
            )
    return [texts for texts in (upward, downward) if texts]


def find_headers(texts: Sequence[SidewaysText], upright: Iterable[PlacedText]) -> dict[PlacedText, list[SidewaysText]]:
    """Return the vertical headers of columns as upright texts of one line, with their sideways texts."""
    # Headers are next to each other, aligned at one end, with upright text below.
    below = list(upright)
    groups = [group for group in _group_lines(texts) if _has_column_below(group, below)]
    rows: list[list[list[SidewaysText]]] = []
    for group in sorted(groups, key=lambda group: max(item.text.bottom for item in group)):
        near = _MAX_MISALIGNMENT * group[0].thickness
        row = next((row for row in rows if _is_aligned(row[0], group, near)), None)
        if row is None:
            rows.append([group])
        else:
            row.append(group)
    headers: dict[PlacedText, list[SidewaysText]] = {}
    for row in rows if len(groups) >= _MIN_HEADERS else ():
        bottom = max(item.text.bottom for group in row for item in group)
        for group in row if len(row) >= _MIN_HEADERS else ():
            start, end = min(item.text.left for item in group), max(item.text.right for item in group)
            words = " ".join(item.text.text for item in group)
            headers[PlacedText(start, end, bottom - group[0].thickness, bottom, words)] = group
    return headers


def table_below(headers: Iterable[PlacedText], upright: Iterable[PlacedText]) -> set[PlacedText]:
    """Return the texts of the lines below headers, up to a gap."""
    bottom = max(header.bottom for header in headers)
    texts: set[PlacedText] = set()
    for line in grid.group_lines(text for text in upright if text.bottom > bottom - 1):
        if line[0].top - bottom > _MAX_COLUMN_DISTANCE / 2 * line[0].height:
            break
        texts |= {*line}
        bottom = line[0].bottom
    return texts


def sideways_tables(texts: set[PlacedText]) -> list[list[list[str]]]:
    """Return the tables and prose of texts turned upright, split at vertical gaps."""
    regions: list[set[PlacedText]] = []
    last: Line | None = None
    for line in grid.group_lines(texts):
        if last is None or line[0].top - last[0].bottom > 2.5 * median(text.height for text in line):
            regions.append(set())
        regions[-1] |= {*line}
        last = line
    return [table for region in regions for table in grid.find_tables(region)]


def _group_lines(texts: Sequence[SidewaysText]) -> list[list[SidewaysText]]:
    """Return the lines of each header in reading order."""
    groups: list[list[SidewaysText]] = []
    for item in sorted(texts, key=lambda item: item.text.left):
        last = groups[-1][-1] if groups else None
        if last and _is_next_line(last, item):
            groups[-1].append(item)
        else:
            groups.append([item])
    return [group if group[0].is_upward else group[::-1] for group in groups]


def _is_next_line(last: SidewaysText, item: SidewaysText) -> bool:
    space = item.text.left - last.text.right
    overlap = min(last.text.bottom, item.text.bottom) - max(last.text.top, item.text.top)
    is_beside = -_MAX_LINE_SPACE < space / item.thickness < _MAX_LINE_SPACE / 2 and overlap > 0
    return is_beside and last.is_upward == item.is_upward


def _has_column_below(group: Sequence[SidewaysText], upright: Iterable[PlacedText]) -> bool:
    start, end = min(item.text.left for item in group), max(item.text.right for item in group)
    bottom, far = max(item.text.bottom for item in group), _MAX_COLUMN_DISTANCE * group[0].thickness
    return any(
        text.left < end
        and start < text.right
        and bottom - 1 < text.middle < bottom + far
        and text.right - text.left < 12 * text.height
        for text in upright
    )


def _is_aligned(group: Sequence[SidewaysText], following: Sequence[SidewaysText], near: float) -> bool:
    tops = [min(item.text.top for item in members) for members in (group, following)]
    bottoms = [max(item.text.bottom for item in members) for members in (group, following)]
    return abs(tops[0] - tops[1]) < near or abs(bottoms[0] - bottoms[1]) < near
