"""Text of a page that is read upwards or downwards: sideways tables, and vertical headers of upright ones."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import Any

from connectors.parsers.pdf import grid
from connectors.parsers.pdf.grid import Text

_LINE_SPACE = 0.45
"""Of a line's thickness: between lines of one header."""
_BELOW = 6.0
"""Of a line's thickness: from a header to the column under it."""
_ALIGNED = 1.0
"""Of a line's thickness: between the ends of headers that begin or end at one height."""
_FEWEST_HEADERS = 2
_SAMPLED = 200
"""Letters of a page whose direction is looked at first."""
_SAME_ANGLE = 0.1
"""Radians."""
_WORD_GAP, _CELL_GAP = 0.15, 0.6
"""Of a letter's height: between words, and between cells."""


@dataclass(frozen=True, slots=True)
class Sideways:
    """Text that is read upwards or downwards, with its text on the page."""

    text: Text
    is_upward: bool

    @property
    def thickness(self) -> float:
        """Height of its letters, which is its width on the page."""
        return max(self.text.right - self.text.left, 1.0)


@dataclass(frozen=True, slots=True)
class _Letter:
    sign: str
    start: float
    end: float
    """Along the line."""
    level: float
    near: float
    far: float
    """Across the line, on the page from the left."""


def find_sideways(page: Any, words: Any) -> tuple[Sideways, ...]:
    """Return the sideways texts of a pypdfium2 page and its text page, in coordinates from the top left; none of a page
    that the file itself turns."""
    import pypdfium2.raw as pdfium

    if page.get_rotation():
        return ()
    count, angle = words.count_chars(), pdfium.FPDFText_GetCharAngle
    if not any(_turn(angle(words.raw, index)) for index in range(0, count, count // _SAMPLED + 1)):
        return ()
    origin_x, _, _, top = page.get_cropbox()
    texts: list[Sideways] = []
    letters: list[_Letter] = []
    direction = 0
    for index in range(count):
        turn = _turn(angle(words.raw, index))
        letter = _letter(words.raw, index, turn) if turn else None
        if letter is None or not letter.sign.strip():
            continue
        if letters and (turn != direction or not _follows(letters[-1], letter)):
            texts += _line(letters, direction, origin_x, top)
            letters = []
        letters.append(letter)
        direction = turn
    return tuple(texts + _line(letters, direction, origin_x, top))


def _turn(angle: float) -> int:
    """Return 1 for a letter of a line that is read upwards, -1 downwards, 0 for any other."""
    return next((turn for turn in (1, -1) if abs(angle - math.pi - turn * math.pi / 2) < _SAME_ANGLE), 0)


def _letter(page: Any, index: int, turn: int) -> _Letter:
    import pypdfium2.raw as pdfium

    bounds, x, y = pdfium.FS_RECTF(), ctypes.c_double(), ctypes.c_double()
    pdfium.FPDFText_GetLooseCharBox(page, index, bounds)
    pdfium.FPDFText_GetCharOrigin(page, index, x, y)
    start, end = (bounds.bottom, bounds.top) if turn > 0 else (-bounds.top, -bounds.bottom)
    return _Letter(chr(pdfium.FPDFText_GetUnicode(page, index)), start, end, x.value, bounds.left, bounds.right)


def _follows(letter: _Letter, following: _Letter) -> bool:
    size = letter.far - letter.near
    gap = following.start - letter.end
    return abs(following.level - letter.level) < _WORD_GAP * size and -_CELL_GAP * size < gap < _CELL_GAP * size


def _line(letters: Sequence[_Letter], turn: int, origin_x: float, top: float) -> list[Sideways]:
    if not letters:
        return []
    text = letters[0].sign
    for letter, following in pairwise(letters):
        is_word = following.start - letter.end > _WORD_GAP * (letter.far - letter.near)
        text += f"{' ' if is_word else ''}{following.sign}"
    ends = (letters[0].start, letters[-1].end) if turn > 0 else (-letters[-1].end, -letters[0].start)
    near, far = min(letter.near for letter in letters), max(letter.far for letter in letters)
    return [Sideways(Text(near - origin_x, far - origin_x, top - ends[1], top - ends[0], text), turn > 0)]


def turn_upright(texts: Iterable[Sideways], width: float, height: float) -> list[set[Text]]:
    """Return the texts of each direction as if the page were turned, those that are read upwards first."""
    upward, downward = set[Text](), set[Text]()
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


def find_headers(texts: Sequence[Sideways], upright: Iterable[Text]) -> dict[Text, list[Sideways]]:
    """Return the vertical headers of columns as texts of one line above these, each with the texts that it is made of.

    Headers stand side by side, begin or end at one height, and have upright text below them.
    """
    below = list(upright)
    groups = [group for group in _groups(texts) if _column_below(group, below)]
    rows: list[list[list[Sideways]]] = []
    for group in sorted(groups, key=lambda group: max(item.text.bottom for item in group)):
        near = _ALIGNED * group[0].thickness
        row = next((row for row in rows if _is_aligned(row[0], group, near)), None)
        if row is None:
            rows.append([group])
        else:
            row.append(group)
    headers: dict[Text, list[Sideways]] = {}
    for row in rows if len(groups) >= _FEWEST_HEADERS else ():
        bottom = max(item.text.bottom for group in row for item in group)
        for group in row if len(row) >= _FEWEST_HEADERS else ():
            start, end = min(item.text.left for item in group), max(item.text.right for item in group)
            words = " ".join(item.text.text for item in group)
            headers[Text(start, end, bottom - group[0].thickness, bottom, words)] = group
    return headers


def table_below(headers: Iterable[Text], upright: Iterable[Text]) -> set[Text]:
    """Return the texts of the lines under headers, up to a gap."""
    bottom = max(header.bottom for header in headers)
    texts: set[Text] = set()
    for line in grid.lines_of(text for text in upright if text.bottom > bottom - 1):
        if line[0].top - bottom > _BELOW / 2 * line[0].height:
            break
        texts |= {*line}
        bottom = line[0].bottom
    return texts


def sideways_tables(texts: set[Text]) -> list[list[list[str]]]:
    """Return the tables and lines of prose of texts that were turned upright, parted where no line follows."""
    regions: list[set[Text]] = []
    last: grid.Line | None = None
    for line in grid.lines_of(texts):
        if last is None or line[0].top - last[0].bottom > 2.5 * median(text.height for text in line):
            regions.append(set())
        regions[-1] |= {*line}
        last = line
    return [table for region in regions for table in grid.find_tables(region)]


def _groups(texts: Sequence[Sideways]) -> list[list[Sideways]]:
    """Return the lines of each header, in the order in which they are read."""
    groups: list[list[Sideways]] = []
    for item in sorted(texts, key=lambda item: item.text.left):
        last = groups[-1][-1] if groups else None
        if last and _is_next_line(last, item):
            groups[-1].append(item)
        else:
            groups.append([item])
    return [group if group[0].is_upward else group[::-1] for group in groups]


def _is_next_line(last: Sideways, item: Sideways) -> bool:
    space = item.text.left - last.text.right
    overlap = min(last.text.bottom, item.text.bottom) - max(last.text.top, item.text.top)
    is_beside = -_LINE_SPACE < space / item.thickness < _LINE_SPACE / 2 and overlap > 0
    return is_beside and last.is_upward == item.is_upward


def _column_below(group: Sequence[Sideways], upright: Iterable[Text]) -> bool:
    start, end = min(item.text.left for item in group), max(item.text.right for item in group)
    bottom, far = max(item.text.bottom for item in group), _BELOW * group[0].thickness
    return any(
        text.left < end
        and start < text.right
        and bottom - 1 < text.middle < bottom + far
        and text.right - text.left < 12 * text.height
        for text in upright
    )


def _is_aligned(group: Sequence[Sideways], other: Sequence[Sideways], near: float) -> bool:
    tops = [min(item.text.top for item in members) for members in (group, other)]
    bottoms = [max(item.text.bottom for item in members) for members in (group, other)]
    return abs(tops[0] - tops[1]) < near or abs(bottoms[0] - bottoms[1]) < near
