"""Blocks of liteparse corrected by the fonts and edges of the running text: headings, margin notes, line numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from connectors.parsers.pdf import grid
from connectors.parsers.pdf.placed_text import Line, PlacedText

if TYPE_CHECKING:
    from liteparse.types import AnnotationRect, LayoutBlock, ParsedPage, TextItem

_BOLD_NAME = re.compile(r"bold|black|heavy|demi|CMB|[SE][FC]S?[BX]X|\bBX|lmb|-B$", re.IGNORECASE)
_MIN_BOLD_WEIGHT = 600
# In sizes of the running text: minimum size of a heading in its font.
_MIN_HEADING_SIZE = 1.05
# Minimum share of the letters of a document.
_MIN_FONT_SHARE = 0.05
# Minimum words of running text in the line of a heading.
_MIN_REST_WORDS = 4
# A word of three letters, or a syllable or word of a script without spaces.
_WORD_PATTERN = re.compile(r"[^\W\d_]{3}|[\u0e00-\u0eff\u3040-\u9fff\uac00-\ud7af]")
_SENTENCE_END = re.compile(r"[.!?:;][)\"'\u201d\u2019]?$")
_HYPHENATED_END = re.compile(r"(?<=[^\W\d_])-$")
# In heights of a line: maximum distance of two lines of a paragraph.
_MAX_LINE_GAP = 0.9
# Minimum width of a line of running text, in widths of the page; minimum distance of a margin note, in points.
_MIN_LINE_WIDTH, _MIN_MARGIN = 0.4, 3.0
_MIN_LINES, _MAX_MARGIN_SHARE = 3, 0.7


@dataclass(frozen=True, slots=True)
class RunningFont:
    """Size in points and color of most letters, and the fonts of a twentieth or more of them. `height`: of a line."""

    names: frozenset[str]
    size: float
    color: str
    height: float = 0.0

    def is_larger(self, item: TextItem, min_size: float = _MIN_HEADING_SIZE) -> bool:
        """Check for a larger or bold font. `min_size`: in sizes of the running text."""
        is_large = (item.font_size or self.size) > min_size * self.size
        is_bold = bool(_BOLD_NAME.search(item.font_name or "")) or (item.font_weight or 0) >= _MIN_BOLD_WEIGHT
        return is_large or is_bold

    def is_heading(self, item: TextItem) -> bool:
        """Check for a larger, bold, colored or other font."""
        name = item.font_name or ""
        if self.is_larger(item):
            return True
        return name not in self.names or not name or (item.fill_color or "") != self.color


def find_running_font(pages: Iterable[ParsedPage]) -> RunningFont:
    """Return the fonts of most letters."""
    fonts: Counter[tuple[str, float, str]] = Counter()
    heights: dict[tuple[str, float, str], float] = {}
    for page in pages:
        for item in page.text_items:
            font = item.font_name or "", round(item.font_size or 0, 1), item.fill_color or ""
            fonts[font] += len(item.text)
            heights[font] = item.height
    best = max(fonts, key=lambda font: fonts[font], default=("", 0.0, ""))
    names = {name for (name, _, _), count in fonts.items() if count > _MIN_FONT_SHARE * fonts.total()}
    return RunningFont(frozenset(names), best[1], best[2], heights.get(best, 0.0))


def correct_blocks(page: ParsedPage, font: RunningFont) -> list[LayoutBlock]:
    """Return the page's blocks without headings in the running font, and with margin notes after their paragraph."""
    originals = page.blocks or ()
    blocks = [part for block in originals for part in _correct_heading(block, page.text_items, font)]
    demoted = {id(block) for block in blocks if block.kind == "paragraph"} - {id(block) for block in originals}
    edges = _find_edges(page, blocks)
    joined: list[LayoutBlock] = []
    notes: list[LayoutBlock] = []
    for block in blocks:
        inner, outer = _without_margin(block, page, edges) if edges else (block, None)
        last = joined[-1] if joined else None
        if last and (id(last) in demoted or notes) and _continues(last, inner):
            joined[-1] = _join_paragraphs(last, inner)
        else:
            joined += [*notes, inner]
            notes = []
        if outer:
            notes.append(outer)
    return [*joined, *notes]


def _correct_heading(block: LayoutBlock, items: Sequence[TextItem], font: RunningFont) -> Iterator[LayoutBlock]:
    """Yield a heading, a heading followed by running text, or a paragraph."""
    text = " ".join((block.text or "").split())
    if block.kind != "heading" or not text:
        yield block
        return
    if not _WORD_PATTERN.search(text):
        yield replace(block, kind="paragraph")
        return
    words = sorted((item for item in items if item.text.strip() and is_within(item, block.bbox)), key=_reading_order)
    is_heading = [font.is_heading(item) for item in words]
    if all(is_heading):
        yield block
        return
    length = is_heading.index(False)
    heading, running = _split_letters(text, sum(_count_letters(item.text) for item in words[:length]))
    if not heading:
        yield replace(block, kind="paragraph")
    elif len(running.split()) < _MIN_REST_WORDS:
        yield block
    else:
        yield replace(block, text=heading)
        yield replace(block, kind="paragraph", text=running)


def _find_edges(page: ParsedPage, blocks: Sequence[LayoutBlock]) -> tuple[float, float] | None:
    """Return the left and the right edge of the running text of one column; None for other pages."""
    long = [item for item in page.text_items if item.width > _MIN_LINE_WIDTH * page.width]
    if len(long) < _MIN_LINES:
        return None
    left, right = min(item.x for item in long), max(item.x + item.width for item in long)
    starts = [block.bbox.x for block in blocks if block.bbox and block.kind == "heading"]
    return min([left, *starts]), right


def _without_margin(
    block: LayoutBlock, page: ParsedPage, edges: tuple[float, float]
) -> tuple[LayoutBlock, LayoutBlock | None]:
    """Return a paragraph and its notes in the margin, without line numbers."""
    if block.kind not in ("paragraph", "table"):
        return block, None
    items = [item for item in page.text_items if item.text.strip() and is_within(item, block.bbox)]
    margin = [item for item in items if item.x + item.width < edges[0] - _MIN_MARGIN or item.x > edges[1] + _MIN_MARGIN]
    lines = grid.group_lines(_place_item(item) for item in items if item not in margin)
    is_prose = block.kind == "paragraph" or all(len(line) == 1 for line in lines)
    if not margin or not is_prose or len(margin) > max(_MAX_MARGIN_SHARE * len(lines), 1):
        return block, None
    notes = grid.group_lines(_place_item(item) for item in margin if not item.text.strip().isdigit())
    return _make_paragraph(block, lines), _make_paragraph(block, notes) if notes else None


def _make_paragraph(block: LayoutBlock, lines: Sequence[Line]) -> LayoutBlock:
    return replace(block, kind="paragraph", text=join_lines(" ".join(text.text for text in line) for line in lines))


def _continues(block: LayoutBlock, following: LayoutBlock) -> bool:
    """Check for the next lines of a paragraph."""
    upper, lower = block.bbox, following.bbox
    if following.kind != "paragraph" or not upper or not lower or _SENTENCE_END.search(block.text or ""):
        return False
    height = min(upper.height, lower.height)
    return abs(lower.y - upper.y - upper.height) < _MAX_LINE_GAP * height and lower.x < upper.x + upper.width


def _join_paragraphs(block: LayoutBlock, following: LayoutBlock) -> LayoutBlock:
    return replace(following, text=join_lines((block.text or "", following.text or "")))


def join_lines(lines: Iterable[str]) -> str:
    text = ""
    for line in lines:
        stripped = line.strip()
        if _HYPHENATED_END.search(text) and stripped[:1].islower():
            text = text[:-1] + stripped
        else:
            text = f"{text} {stripped}".strip()
    return text


def _split_letters(text: str, count: int) -> tuple[str, str]:
    """Split a text after a number of letters and digits."""
    if not count:
        return "", text
    for position, sign in enumerate(text):
        if count <= 0 and not sign.isalnum():
            return text[:position].strip(), text[position:].strip()
        count -= sign.isalnum()
    return text, ""


def _count_letters(text: str) -> int:
    return sum(map(str.isalnum, text))


def _reading_order(item: TextItem) -> tuple[int, float]:
    return round(item.y + item.height / 2), item.x


def _place_item(item: TextItem) -> PlacedText:
    return PlacedText(item.x, item.x + item.width, item.y, item.y + item.height, item.text.strip())


def is_within(item: TextItem, box: AnnotationRect | None) -> bool:
    if not box:
        return False
    x, y = item.x + item.width / 2 - box.x, item.y + item.height / 2 - box.y
    return -1 <= x <= box.width + 1 and -1 <= y <= box.height + 1
