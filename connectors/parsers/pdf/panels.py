"""Panels of leaflets and reference cards: equal parts of a page, each read from top to bottom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from connectors.parsers.pdf.running_text import RunningFont

if TYPE_CHECKING:
    from liteparse.types import ParsedPage, TextItem

_MIN_PAGE_ITEMS, _MIN_PANEL_ITEMS, _MIN_EDGE_ITEMS = 40, 8, 6
_MAX_PANELS = 4
# Maximum share of items across an edge.
_MAX_CROSSING_SHARE = 0.03
# In points: distance of text from the left edge of its panel, and maximum difference of these distances.
_MIN_INDENT, _MAX_INDENT_DIFFERENCE, _SAME_EDGE = 5.0, 15.0, 1.5
# Minimum width of a panel, in widths of the page.
_MIN_PANEL_WIDTH = 0.22
# Maximum share of lines level with a line of the next panel; rows of a table are level in all columns.
_MAX_LEVEL_SHARE = 0.6
# In heights of the text: maximum distance of middles within a line, and minimum distance of two blocks.
_SAME_LINE, _LEVEL, _BLOCK_DISTANCE = 0.45, 0.1, 2.0
_MAX_UPRIGHT_DEGREES = 10
# In sizes of the running text.
_MIN_HEADING_SIZE = 1.15
# Minimum share of lines at the left edge of their panel.
_MIN_ALIGNED_SHARE = 0.35


def read_panels(page: ParsedPage, font: RunningFont) -> str:
    """Return the text of a page of panels; "" for another page."""
    is_prose = sum([item.width > page.width / 2 for item in page.text_items]) > _MAX_CROSSING_SHARE * len(
        page.text_items
    )
    if is_prose or len(page.text_items) < _MIN_PAGE_ITEMS:
        return ""
    items = [item for item in page.text_items if item.text.strip()]
    for edges in _candidate_edges(items, page.width):
        panels = [_group_lines(items, start, end) for start, end in pairwise([*edges, page.width + 1])]
        if _are_panels(panels, font) and not any(item.rotation % 360 > _MAX_UPRIGHT_DEGREES for item in items):
            return "\n\n".join(text for panel in panels if (text := "\n".join(_write_lines(panel, font)).strip()))
    return ""


def _candidate_edges(items: Sequence[TextItem], width: float) -> Iterator[list[float]]:
    """Yield the left edges of panels: at the folds of a page, or at the usual distance of line starts."""
    spans = [(item.x, item.x + item.width) for item in items]
    for count in range(_MAX_PANELS, 2, -1):
        edges = [width * number / count for number in range(count)]
        if _are_clear(edges[1:], spans) and _have_one_indent(edges, items, width):
            yield edges
    starts = Counter([round(start) for start, _ in spans])
    usual = sorted(start for start, number in starts.items() if number >= _MIN_EDGE_ITEMS)
    for start in usual[1:]:
        pitch = start - usual[0]
        edges = [start + pitch * number - _SAME_EDGE for number in range(_MAX_PANELS)]
        edges = [edge for edge in edges if edge < width - pitch / 2]
        if pitch >= _MIN_PANEL_WIDTH * width and _are_clear(edges, spans) and _begin_at(edges[1:], usual, items):
            yield [0.0, *edges]


def _are_clear(edges: Sequence[float], spans: Sequence[tuple[float, float]]) -> bool:
    limit = _MAX_CROSSING_SHARE * len(spans)
    return all(sum(start < edge < end for start, end in spans) <= limit for edge in edges)


def _have_one_indent(edges: Sequence[float], items: Sequence[TextItem], width: float) -> bool:
    indents = []
    for start, end in pairwise([*edges, width + 1]):
        inside = [item.x - start for item in items if start <= item.x < end]
        indents += [min(inside)] if len(inside) >= _MIN_PANEL_ITEMS else []
    return len(indents) > 1 and min(indents) >= _MIN_INDENT and max(indents) - min(indents) < _MAX_INDENT_DIFFERENCE


def _begin_at(edges: Sequence[float], starts: Sequence[int], items: Sequence[TextItem]) -> bool:
    """Check for lines beginning at each edge with text on the right."""
    return all(
        any(abs(start - edge) < 2 * _SAME_EDGE for start in starts) or not any(item.x >= edge for item in items)
        for edge in edges
    )


def _group_lines(items: Sequence[TextItem], start: float, end: float) -> list[list[TextItem]]:
    """Return the items of a panel by lines."""
    lines: list[list[TextItem]] = []
    for item in sorted((item for item in items if start <= item.x < end), key=_middle):
        last = lines[-1][0] if lines else None
        if last and _middle(item) - _middle(last) < _SAME_LINE * min(item.height, last.height):
            lines[-1].append(item)
        else:
            lines.append([item])
    return [sorted(line, key=lambda item: item.x) for line in lines]


def _are_panels(panels: Sequence[Sequence[Sequence[TextItem]]], font: RunningFont) -> bool:
    """Check for panels with headings, and without lines level with the next panel's."""
    filled = [panel for panel in panels if len(panel) >= _MIN_PANEL_ITEMS]
    if len(filled) < 2 or not all(map(_is_aligned, filled)):
        return False
    if not all(any(_is_heading(line, font) for line in panel) for panel in filled):
        return False
    return not any(_are_level(panel, following) for panel, following in pairwise(filled))


def _is_aligned(panel: Sequence[Sequence[TextItem]]) -> bool:
    """Check that many lines begin at the edge of the panel."""
    edge = min(line[0].x for line in panel)
    return sum(line[0].x - edge < _SAME_EDGE for line in panel) > _MIN_ALIGNED_SHARE * len(panel)


def _are_level(panel: Sequence[Sequence[TextItem]], following: Sequence[Sequence[TextItem]]) -> bool:
    middles = [_middle(line[0]) for line in following]
    level = sum(any(abs(_middle(line[0]) - middle) < _LEVEL * line[0].height for middle in middles) for line in panel)
    return level > _MAX_LEVEL_SHARE * min(len(panel), len(following))


def _is_heading(line: Sequence[TextItem], font: RunningFont) -> bool:
    """Check for a line of larger or bold letters."""
    return all(font.is_larger(item, _MIN_HEADING_SIZE) for item in line) and any(
        letter.isalpha() for letter in line[0].text
    )


def _write_lines(lines: Sequence[Sequence[TextItem]], font: RunningFont) -> Iterator[str]:
    height = median(item.height for line in lines for item in line) if lines else 1.0
    end = 0.0
    for line in lines:
        is_heading = _is_heading(line, font)
        is_apart = _middle(line[0]) - end > _BLOCK_DISTANCE * height
        text = " ".join(item.text.strip() for item in line)
        yield f"\n## {text}\n" if is_heading else f"\n{text}" if is_apart else text
        end = _middle(line[0])


def _middle(item: TextItem) -> float:
    return item.y + item.height / 2
