"""Code listings: lines in monospaced fonts with their indentation."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Protocol, TypeVar

from connectors.parsers.pdf.running_text import is_within, join_lines
from connectors.parsers.pdf.scripts import MONOSPACED_NAME

if TYPE_CHECKING:
    from liteparse.types import AnnotationRect, LayoutBlock, ParsedPage, TextItem

# Format of the blocks of listings.
LISTING = "listing"
_MAX_UPRIGHT_DEGREES = 10
# In heights of the text: maximum distance of middles within a line.
_SAME_LINE = 0.45
# In heights of the text: how far a line may begin from the listing above.
_COLUMN_GAP = 1.5
# In usual line distances: a larger one holds a blank line, or ends the listing.
_BLANK_LINE_DISTANCE, _MAX_LINE_DISTANCE = 1.6, 3.2
_MAX_LINE_HEIGHT = 2.4
# Maximum difference of a word's letters from the pitch.
_MAX_PITCH_DIFFERENCE = 0.06
# Minimum of distinct texts, and share of them with one pitch, of a monospaced font whose name does not say so.
_MIN_PITCH_TEXTS, _MIN_PITCH_SHARE, _MIN_PITCH_LENGTH = 6, 0.9, 8
# In widths of a letter.
_MIN_SPACE = 0.4
# In points: step of the search for gaps between columns.
_STEP = 4.0
# Maximum share of lines across a gap between columns, and minimum of wide lines of prose in each column.
_MAX_CROSSING_SHARE, _MIN_COLUMN_LINES = 0.03, 3
# Of a table: minimum share of its texts in a table of liteparse, and maximum share of lines with signs of code.
_MIN_TABLE_SHARE, _MAX_SIGNED_SHARE = 0.6, 0.3
# Maximum size in sizes of the running text; larger text is a heading.
_MAX_SIZE = 1.2
_CODE_SIGN = re.compile(
    r"[{}<>=\[\]\\]|\w\(|;\s*$|^\s*(?:#|//|[$%>] )|(?:^|\s)--?[A-Za-z]|\s-0\s|\s\|\s|^\s*\w+:\s*$", re.MULTILINE
)
_ADDRESS_PATTERN = re.compile(r"\W*(?:https?|ftp|mailto):\S+\W*|\W*\S+@\S+\W*")
_INDENT_PATTERN = re.compile(r" {2,}\S")


@dataclass(frozen=True, slots=True)
class Listing:
    """Lines in a monospaced font with their items. `left` to `bottom`: box on the page."""

    lines: tuple[str, ...]
    items: frozenset[int]
    left: float
    top: float
    right: float
    bottom: float

    @property
    def has_signs(self) -> bool:
        if len(self.lines) == 1 and _ADDRESS_PATTERN.fullmatch(self.lines[0]):
            return False
        return bool(_CODE_SIGN.search("\n".join(self.lines)))

    @property
    def is_code(self) -> bool:
        """The lines have signs of code or several indentations."""
        indented = sum(bool(_INDENT_PATTERN.match(line)) for line in self.lines)
        return self.has_signs or 2 <= indented < len(self.lines) - 1


@dataclass(frozen=True, slots=True)
class _Row:
    items: Sequence[TextItem]

    @property
    def left(self) -> float:
        return self.items[0].x

    @property
    def right(self) -> float:
        return max(item.x + item.width for item in self.items)

    @property
    def middle(self) -> float:
        return _middle(self.items[0])

    @property
    def height(self) -> float:
        return max(median(item.height for item in self.items), 1.0)


def find_monospaced(items: Iterable[TextItem]) -> frozenset[str]:
    """Return the names of monospaced fonts: by name, or by letters of one width in many texts."""
    widths: dict[str, dict[str, float]] = defaultdict(dict)
    for item in items:
        name, text = item.font_name or "", item.text.strip()
        if not MONOSPACED_NAME.search(name) and len(text) >= _MIN_PITCH_LENGTH and any(map(str.isalpha, text)):
            widths[name][text] = item.width / len(text) / max(item.height, 1.0)
        elif name not in widths:
            widths[name] = {}
    return frozenset(
        name for name, texts in widths.items() if MONOSPACED_NAME.search(name) or _have_one_pitch([*texts.values()])
    )


def _have_one_pitch(widths: Sequence[float]) -> bool:
    if len(widths) < _MIN_PITCH_TEXTS:
        return False
    usual = median(widths)
    return sum(abs(width - usual) < 0.01 * usual for width in widths) > _MIN_PITCH_SHARE * len(widths)


def place_listings(
    blocks: Sequence[LayoutBlock], page: ParsedPage, monospaced: frozenset[str], size: float
) -> tuple[list[LayoutBlock], frozenset[int]]:
    """Return the blocks with a separate block per listing, and the ids of all listings' items.

    `size`: of running text.
    """
    listings = [
        listing for listing in _find_listings(page, monospaced, size) if not _is_table(listing, blocks, page.text_items)
    ]
    listing_ids = frozenset(number for listing in listings for number in listing.items)
    return place_regions(blocks, page.text_items, listings, _make_block), listing_ids


class Region(Protocol):
    """Part of a page to be placed as a separate block."""

    @property
    def items(self) -> frozenset[int]:
        """Ids of the text items."""

    @property
    def top(self) -> float: ...


RegionT = TypeVar("RegionT", bound=Region)


def place_regions(
    blocks: Sequence[LayoutBlock],
    items: Sequence[TextItem],
    regions: Sequence[RegionT],
    make_block: Callable[[LayoutBlock, RegionT], LayoutBlock],
) -> list[LayoutBlock]:
    """Return the blocks with each region in the place of its items. `make_block` copies a block of these items."""
    region_ids = frozenset(number for region in regions for number in region.items)
    placed: list[LayoutBlock] = []
    waiting = [*regions]
    for block in blocks:
        inside = [item for item in items if item.text.strip() and is_within(item, block.bbox)] if regions else []
        numbers = {id(item) for item in inside}
        touched = [region for region in regions if not numbers.isdisjoint(region.items)]
        if not touched:
            placed.append(block)
            continue
        remaining = [item for item in inside if id(item) not in region_ids]
        for region in touched:
            placed += _part_of(block, [item for item in remaining if _middle(item) < region.top])
            remaining = [item for item in remaining if _middle(item) >= region.top]
            if region in waiting:
                placed.append(make_block(block, region))
                waiting.remove(region)
        placed += _part_of(block, remaining)
    for region in waiting if placed else ():
        below = (at for at, block in enumerate(placed) if block.bbox and block.bbox.y > region.top)
        placed.insert(next(below, len(placed)), make_block(placed[0], region))
    return placed


def _is_table(listing: Listing, blocks: Sequence[LayoutBlock], items: Sequence[TextItem]) -> bool:
    """Check for a table without signs of code, or for text outside all blocks."""
    listing_items = [item for item in items if id(item) in listing.items]
    tables = [block.bbox for block in blocks if block.kind == "table"]
    tabular_items = sum(any(is_within(item, box) for box in tables) for item in listing_items)
    if not any(is_within(item, block.bbox) for item in listing_items for block in blocks):
        return True
    signed = sum(bool(_CODE_SIGN.search(line)) for line in listing.lines)
    return tabular_items > _MIN_TABLE_SHARE * len(listing_items) and signed < _MAX_SIGNED_SHARE * len(listing.lines)


def _find_listings(page: ParsedPage, monospaced: frozenset[str], size: float) -> list[Listing]:
    """Return the listings of a page from top to bottom."""
    if not any((item.font_name or "") in monospaced for item in page.text_items):
        return []
    other_items = [item for item in page.text_items if item.text.strip() and (item.font_name or "") not in monospaced]
    groups: list[list[_Row]] = []
    gutters = _find_gutters(page, other_items)
    lines = [part for line in _group_lines(page.text_items) for part in _split_line(line, gutters)]
    for line in lines:
        row = _code_row(line, monospaced)
        if row is None or row.height > _MAX_SIZE * size:
            continue
        group = next((group for group in reversed(groups) if _continues(group, row, other_items)), None)
        if group is None:
            groups.append([row])
        else:
            group.append(row)
    return [_make_listing(group) for group in groups]


def _find_gutters(page: ParsedPage, other_items: Sequence[TextItem]) -> list[float]:
    """Return the middles of gaps between columns: crossed by no line, with prose on both sides."""
    crossed = [0] * (int(page.width / _STEP) + 2)
    for item in page.text_items:
        for step in range(max(int(item.x / _STEP), 0), min(int(_right(item) / _STEP) + 1, len(crossed))):
            crossed[step] += bool(item.text.strip())
    limit = _MAX_CROSSING_SHARE * len(page.text_items)
    clear = [count <= limit for count in crossed]
    edges = [step for step, (previous, current) in enumerate(pairwise([False, *clear, False])) if previous != current]
    gaps = [(first + end) / 2 * _STEP for first, end in zip(edges[::2], edges[1::2], strict=True)]
    columns = list(pairwise(gaps))  # the outer gaps are the margins
    prose = [
        sum(left < item.x and _right(item) < right and item.width > (right - left) / 2 for item in other_items)
        for left, right in columns
    ]
    return gaps[1:-1] if columns and min(prose) >= _MIN_COLUMN_LINES else []


def _split_line(line: Sequence[TextItem], gutters: Sequence[float]) -> Iterator[list[TextItem]]:
    for left, right in pairwise([-math.inf, *gutters, math.inf]):
        if part := [item for item in line if left <= item.x < right]:
            yield part


def _group_lines(items: Iterable[TextItem]) -> list[list[TextItem]]:
    """Return the upright items of each line from left to right."""
    lines: list[list[TextItem]] = []
    for item in sorted(items, key=_middle):
        if not item.text.strip() or item.rotation % 360 > _MAX_UPRIGHT_DEGREES:
            continue
        first = lines[-1][0] if lines else None
        if first and _middle(item) - _middle(first) < _SAME_LINE * min(item.height, first.height):
            lines[-1].append(item)
        else:
            lines.append([item])
    return [sorted(line, key=lambda item: item.x) for line in lines]


def _code_row(line: Sequence[TextItem], monospaced: frozenset[str]) -> _Row | None:
    """Return a line of code without its line number; None for a line with other fonts."""
    is_code = [(item.font_name or "") in monospaced and _has_pitch(item) for item in line]
    start = next((at for at, item in enumerate(line) if is_code[at] or not item.text.strip().isdigit()), len(line))
    return _Row(line[start:]) if start < len(line) and all(is_code[start:]) else None


def _has_pitch(item: TextItem) -> bool:
    """Check for letters of equal width in all words of an item; prose may follow the first letters."""
    widths = [word.width / len(word.text) for word in item.words if word.text]
    return not widths or max(widths) - min(widths) < _MAX_PITCH_DIFFERENCE * max(widths)


def _continues(group: Sequence[_Row], row: _Row, other_items: Iterable[TextItem]) -> bool:
    """Check for the next line of a listing, without other text between."""
    last = group[-1]
    distance = row.middle - last.middle
    usual = min([_MAX_LINE_HEIGHT * last.height, *(lower.middle - upper.middle for upper, lower in pairwise(group))])
    left, right = min(part.left for part in group), max(part.right for part in group)
    is_below = row.left < right and left < row.right + _COLUMN_GAP * row.height
    if not 0 < distance < _MAX_LINE_DISTANCE * usual or not is_below:
        return False
    return not any(
        last.middle < _middle(item) < row.middle
        and item.x < max(right, row.right)
        and _right(item) > min(left, row.left)
        for item in other_items
    )


def _make_listing(rows: Sequence[_Row]) -> Listing:
    words = [word for row in rows for item in row.items for word in item.words if word.text]
    pitch = median(word.width / len(word.text) for word in words) if words else 1.0
    left = min(row.left for row in rows)
    distances = [lower.middle - upper.middle for upper, lower in pairwise(rows)]
    blank = _BLANK_LINE_DISTANCE * min(distances, default=0)
    lines = [_write_line(rows[0], left, pitch)]
    for distance, row in zip(distances, rows[1:], strict=True):
        lines += [*([""] if distance > blank else []), _write_line(row, left, pitch)]
    items = [item for row in rows for item in row.items]
    return Listing(
        tuple(lines),
        frozenset(map(id, items)),
        left,
        min(item.y for item in items),
        max(map(_right, items)),
        max(item.y + item.height for item in items),
    )


def _write_line(row: _Row, left: float, pitch: float) -> str:
    """Return a line with each word in its column; spaces narrower than a letter are none."""
    line, end = "", left
    for word in (word for item in row.items for word in item.words):
        column = round((word.x - left) / pitch)
        is_joined = word.x - end < _MIN_SPACE * pitch and line
        line = line.ljust(len(line) if is_joined else max(column, len(line) + 1 if line else 0)) + word.text
        end = word.x + word.width
    return line


def _right(item: TextItem) -> float:
    return item.x + item.width


def _middle(item: TextItem) -> float:
    return item.y + item.height / 2


def _part_of(block: LayoutBlock, items: Sequence[TextItem]) -> Iterator[LayoutBlock]:
    """Yield the part of a block with some of its items."""
    if not items:
        return
    left, top = min(item.x for item in items), min(item.y for item in items)
    box = _make_box(left, top, max(map(_right, items)), max(item.y + item.height for item in items))
    if block.kind == "table":
        yield replace(block, bbox=box)
        return
    lines = [" ".join(item.text.strip() for item in line) for line in _group_lines(items)]
    kind = block.kind if block.kind in ("heading", "list_item") else "paragraph"
    yield replace(block, kind=kind, bbox=box, text=join_lines(lines), lines=None)


def _make_block(block: LayoutBlock, listing: Listing) -> LayoutBlock:
    kind = "code" if listing.is_code else "grid_fallback"
    box = _make_box(listing.left, listing.top, listing.right, listing.bottom)
    return replace(
        block, kind=kind, text=None, lines=[*listing.lines], bbox=box, header=None, rows=None, format=LISTING
    )


def _make_box(left: float, top: float, right: float, bottom: float) -> AnnotationRect:
    from liteparse.types import AnnotationRect

    return AnnotationRect(left, top, right - left, bottom - top)
