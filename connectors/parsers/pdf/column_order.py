"""Order of two columns within a page, between blocks of the full width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from liteparse.types import LayoutBlock

# In widths of the page: width of a paragraph of a column.
_MIN_WIDTH, _MAX_WIDTH = 0.25, 0.55
# In points: minimum height of prose.
_MIN_HEIGHT = 24.0
_LEFT, _RIGHT, _BOTH = 0, 1, 2


def order_columns(blocks: Sequence[LayoutBlock], width: float) -> list[LayoutBlock]:
    """Return the blocks with the left column before the right; liteparse mixes columns by height."""
    gutter = _find_gutter(blocks, width)
    if not gutter:
        return [*blocks]
    ordered: list[LayoutBlock] = []
    run: list[LayoutBlock] = []
    for block in blocks:
        if _side(block, gutter) != _BOTH:
            run.append(block)
            continue
        ordered += [*_order_run(run, gutter, is_last=False), block]
        run = []
    return ordered + _order_run(run, gutter, is_last=True)


def _find_gutter(blocks: Sequence[LayoutBlock], width: float) -> float:
    """Return the middle between two columns of prose; 0 without."""
    boxes = [block.bbox for block in blocks if _is_prose(block, width)]
    ends = [box.x + box.width for box in boxes if box and box.x + box.width / 2 < width / 2]
    starts = [box.x for box in boxes if box and box.x + box.width / 2 >= width / 2]
    return (max(ends) + min(starts)) / 2 if ends and starts and max(ends) < min(starts) else 0.0


def _is_prose(block: LayoutBlock, width: float) -> bool:
    box = block.bbox
    return bool(
        block.kind == "paragraph"
        and box
        and _MIN_WIDTH * width < box.width < _MAX_WIDTH * width
        and box.height > _MIN_HEIGHT
    )


def _side(block: LayoutBlock, gutter: float) -> int:
    if not (box := block.bbox):
        return _BOTH
    return _LEFT if box.x + box.width <= gutter else _RIGHT if box.x >= gutter else _BOTH


def _order_run(run: Sequence[LayoutBlock], gutter: float, *, is_last: bool) -> list[LayoutBlock]:
    """Order blocks of two columns. `is_last`: no block of the full width follows."""
    end = len(run)
    while not is_last and end and run[end - 1].kind == "heading":
        end -= 1  # of the block that follows
    start = 0
    while start < end and _is_above(run[start], run[start + 1 : end], gutter):
        start += 1
    columns = sorted(run[start:end], key=lambda block: _side(block, gutter))
    return [*run[:start], *columns, *run[end:]]


def _is_above(block: LayoutBlock, following: Sequence[LayoutBlock], gutter: float) -> bool:
    """Check for a block above all blocks of the other column, such as a date."""
    side = _side(block, gutter)
    tops = [lower.bbox.y for lower in following if lower.bbox and _side(lower, gutter) != side]
    return bool(tops and block.bbox and block.bbox.y + block.bbox.height <= min(tops))
