"""Rules drawn on a PDF page: lines, thin boxes and outlines of boxes."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

# In points.
MAX_THICKNESS, _MIN_LENGTH = 2.0, 3.0
_SAME_POSITION, _MAX_GAP = 1.5, 2.5
# Of a page; pages with more are maps and drawings.
_MAX_PATHS, _MAX_SEGMENTS = 4_000, 20_000


class PathBounds(NamedTuple):
    """Bounds of a path in points from the bottom left of the page."""

    left: float
    bottom: float
    right: float
    top: float


class Rule(NamedTuple):
    """Straight line across or down the page, in points from the top left: level, and range along the line."""

    position: float
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Rules:
    """Joined rules of a page, sorted by position."""

    horizontal: Sequence[Rule] = ()
    vertical: Sequence[Rule] = ()


NO_RULES = Rules()


def read_paths(page: Any) -> list[tuple[Any, PathBounds]]:
    """Return the paths of a pypdfium2 page with their bounds, up to a limit."""
    import pypdfium2.raw as pdfium

    paths = page.get_objects(filter=(pdfium.FPDF_PAGEOBJ_PATH,), max_depth=1)
    return [(path, PathBounds(*path.get_bounds())) for path in islice(paths, _MAX_PATHS)]


def find_rules(page: Any, paths: Iterable[tuple[Any, PathBounds]]) -> Rules:
    """Return the rules of a pypdfium2 page; none for a rotated page."""
    if page.get_rotation():
        return NO_RULES
    origin_x, _, _, origin_y = page.get_bbox()
    horizontal: list[Rule] = []
    vertical: list[Rule] = []
    remaining_segments = _MAX_SEGMENTS
    for path, bounds in paths:
        if min(bounds.right - bounds.left, bounds.top - bounds.bottom) <= MAX_THICKNESS:
            parts = [bounds]
        else:
            parts = _stroked_parts(path, remaining_segments)
            remaining_segments -= len(parts)
        for left, bottom, right, top in parts:
            if top - bottom <= MAX_THICKNESS and right - left >= _MIN_LENGTH:
                horizontal.append(Rule(origin_y - (top + bottom) / 2, left - origin_x, right - origin_x))
            elif right - left <= MAX_THICKNESS and top - bottom >= _MIN_LENGTH:
                vertical.append(Rule((left + right) / 2 - origin_x, origin_y - top, origin_y - bottom))
    return Rules(_join_rules(horizontal), _join_rules(vertical))


def _stroked_parts(path: Any, limit: int) -> list[PathBounds]:
    """Return the bounds of each straight segment of a stroked path; none of other paths, or beyond the limit."""
    import pypdfium2.raw as pdfium

    count = pdfium.FPDFPath_CountSegments(path.raw)
    fill, is_stroked = ctypes.c_int(), ctypes.c_int()
    pdfium.FPDFPath_GetDrawMode(path.raw, fill, is_stroked)
    if not is_stroked.value or count > limit:
        return []
    matrix = path.get_matrix()
    x, y = ctypes.c_float(), ctypes.c_float()
    parts: list[PathBounds] = []
    start = previous = (0.0, 0.0)
    for number in range(count):
        segment = pdfium.FPDFPath_GetPathSegment(path.raw, number)
        pdfium.FPDFPathSegment_GetPoint(segment, x, y)
        point = matrix.on_point(x.value, y.value)
        kind = pdfium.FPDFPathSegment_GetType(segment)
        if kind == pdfium.FPDF_SEGMENT_MOVETO:
            start = point
        elif kind == pdfium.FPDF_SEGMENT_LINETO:
            parts.append(_segment_bounds(previous, point))
        if pdfium.FPDFPathSegment_GetClose(segment):
            parts.append(_segment_bounds(point, start))
        previous = point
    return parts


def _segment_bounds(start: tuple[float, float], end: tuple[float, float]) -> PathBounds:
    return PathBounds(min(start[0], end[0]), min(start[1], end[1]), max(start[0], end[0]), max(start[1], end[1]))


def _join_rules(rules: list[Rule]) -> list[Rule]:
    """Join touching rules of a line, such as the borders of neighbouring cells."""
    lines: list[list[Rule]] = []
    for rule in sorted(rules):
        if lines and rule.position - lines[-1][-1].position <= _SAME_POSITION:
            lines[-1].append(rule)
        else:
            lines.append([rule])
    joined: list[Rule] = []
    for line in lines:
        position = sum(rule.position for rule in line) / len(line)
        parts: list[Rule] = []
        for rule in sorted(line, key=lambda rule: rule.start):
            if parts and rule.start - parts[-1].end <= _MAX_GAP:
                parts[-1] = Rule(position, parts[-1].start, max(parts[-1].end, rule.end))
            else:
                parts.append(Rule(position, rule.start, rule.end))
        joined += parts
    return joined
