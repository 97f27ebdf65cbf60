"""Struck-out text of a PDF page, from thin lines through words and from annotations."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from connectors.parsers.inline_forms import STRUCK
from connectors.parsers.pdf.rules import MAX_THICKNESS, PathBounds
from connectors.parsers.pdf.scripts import Script, make_script

# In points.
_MIN_LENGTH, _MAX_PART_GAP = 3.0, 4.0
# In heights of the letter: range above the baseline, and how far a line may pass its words.
_STRIKE_RANGE, _MAX_OVERHANG = (0.12, 0.42), 0.3
# Maximum height of a thin line, in heights of the letter.
_MAX_LINE_HEIGHT = 0.15
_MAX_CHARACTERS = 2_000
_STRIKEOUT_SUBTYPE = 12


@dataclass(frozen=True, slots=True)
class _Line:
    start: float
    end: float
    height: float
    thickness: float = 0.0
    # Drawn by a reader of the document over whole words.
    is_annotation: bool = False


def find_struck(page: Any, words: Any, paths: Iterable[PathBounds]) -> tuple[Script, ...]:
    """Return the struck-out texts of a pypdfium2 page in file order."""
    lines = _join_parts([*_thin_lines(paths), *_annotations(page)])
    return tuple(script for line in lines for script in _under(words, line))


def _thin_lines(paths: Iterable[PathBounds]) -> Iterator[_Line]:
    for left, bottom, right, top in paths:
        if top - bottom <= MAX_THICKNESS and right - left >= _MIN_LENGTH:
            yield _Line(left, right, (top + bottom) / 2, top - bottom)


def _annotations(page: Any) -> Iterator[_Line]:
    """Yield a line per quadrilateral of each strike-out annotation."""
    import pypdfium2.raw as pdfium

    quad = pdfium.FS_QUADPOINTSF()
    for index in range(pdfium.FPDFPage_GetAnnotCount(page)):
        annotation = pdfium.FPDFPage_GetAnnot(page, index)
        try:
            if pdfium.FPDFAnnot_GetSubtype(annotation) != _STRIKEOUT_SUBTYPE:
                continue
            for part in range(pdfium.FPDFAnnot_CountAttachmentPoints(annotation)):
                pdfium.FPDFAnnot_GetAttachmentPoints(annotation, part, quad)
                xs, ys = (quad.x1, quad.x2, quad.x3, quad.x4), (quad.y1, quad.y2, quad.y3, quad.y4)
                yield _Line(min(xs), max(xs), (min(ys) + max(ys)) / 2, is_annotation=True)
        finally:
            pdfium.FPDFPage_CloseAnnot(annotation)


def _join_parts(lines: list[_Line]) -> list[_Line]:
    """Join level lines, drawn word by word by word processors."""
    joined: list[_Line] = []
    for line in sorted(lines, key=lambda line: (round(line.height), line.start)):
        last = joined[-1] if joined else None
        if last and abs(last.height - line.height) < 1 and -1 <= line.start - last.end <= _MAX_PART_GAP:
            joined[-1] = _Line(last.start, line.end, last.height, last.thickness, last.is_annotation)
        else:
            joined.append(line)
    return joined


def _under(words: Any, line: _Line) -> Iterator[Script]:
    """Yield the whole words that a line passes through and ends with."""
    import pypdfium2.raw as pdfium

    text_page, bounds = words.raw, pdfium.FS_RECTF()
    x, y = ctypes.c_double(), ctypes.c_double()
    first = pdfium.FPDFText_GetCharIndexAtPos(text_page, line.start + 1, line.height, 2, 2)
    last = pdfium.FPDFText_GetCharIndexAtPos(text_page, line.end - 1, line.height, 2, 2)
    if not 0 <= first <= last < first + _MAX_CHARACTERS:
        return
    pdfium.FPDFText_GetLooseCharBox(text_page, first, bounds)
    pdfium.FPDFText_GetCharOrigin(text_page, first, x, y)
    height, left = bounds.top - bounds.bottom, bounds.left
    pdfium.FPDFText_GetLooseCharBox(text_page, last, bounds)
    if height <= 0 or line.thickness > max(_MAX_LINE_HEIGHT * height, 1):
        return
    overhang = _MAX_OVERHANG * height
    is_within = left - overhang <= line.start and line.end <= bounds.right + overhang
    is_through = _STRIKE_RANGE[0] * height < line.height - y.value < _STRIKE_RANGE[1] * height
    if not line.is_annotation and not (is_within and is_through):
        return
    script = make_script(words, first, last + 1, STRUCK)
    if script is not None:
        yield script
