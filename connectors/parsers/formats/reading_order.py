"""The order in which people read what stands on a page: column by column, below what is as wide as the columns."""

from __future__ import annotations

from collections.abc import Sequence

Bounds = tuple[int, int, int, int]
"""Left, top, right and bottom."""
Item = tuple[str, Bounds]
NOWHERE: Bounds = (0, 0, 0, 0)
_OVERLAP = 0.1
"""Share of the smaller one by which two boxes may overlap and still stand beside each other."""


def ordered(items: Sequence[Item]) -> list[str]:
    """The texts in reading order."""
    return [text for text, _ in _ordered(list(items))]


def around(boxes: Sequence[Bounds]) -> Bounds:
    """The box around boxes."""
    placed = [box for box in boxes if box != NOWHERE]
    if not placed:
        return NOWHERE
    left, top, right, bottom = zip(*placed, strict=True)
    return min(left), min(top), max(right), max(bottom)


def _ordered(items: list[Item]) -> list[Item]:
    if len(items) < 2:
        return items
    columns = _groups(items, 0)
    if len(columns) > 1:
        return [item for column in columns for item in _ordered(column)]
    bands = _groups(items, 1)
    if len(bands) == 1:
        return sorted(items, key=lambda item: (item[1][1], item[1][0]))
    joined = [bands[0]]
    for band in bands[1:]:
        if len(_groups(joined[-1], 0)) > 1 and len(_groups(band, 0)) > 1 and len(_groups(joined[-1] + band, 0)) > 1:
            joined[-1] = joined[-1] + band  # bands with the same gap between columns are read column by column
        else:
            joined.append(band)
    return [item for band in joined for item in _ordered(band)]


def _groups(items: Sequence[Item], axis: int) -> list[list[Item]]:
    """The items, parted where nothing stands in the way from edge to edge: into columns (axis 0) or bands (axis 1)."""
    groups: list[list[Item]] = []
    end = 0.0
    for item in sorted(items, key=lambda item: (item[1][axis], item[1][1 - axis])):
        start, stop = item[1][axis], item[1][axis + 2]
        if groups and start < end - _OVERLAP * min(stop - start, end - groups[-1][0][1][axis]):
            groups[-1].append(item)
            end = max(end, stop)
        else:
            groups.append([item])
            end = stop
    return groups
