"""Headers of several lines in tables of a page: names of groups above the names of their columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, pairwise
from statistics import median

from connectors.parsers.pdf.placed_text import NUMBER_PATTERN, Line, PlacedText, Range, is_in_column

_YEAR_PATTERN = re.compile(r"(?:FY\s?)?(?:19|20)\d\d(?:\s?[/–-]\s?\d{2,4})?\*?")  # noqa: RUF001 - a dash
_UNIT_PATTERN = re.compile(r"[(\[].*[)\]]|%")
_CAPTION_PATTERN = re.compile(r"(?:Table|Tabelle|Tableau|Figure|Chart)\s*\d|.*:$", re.IGNORECASE)
# Maximum lines of a header, and minimum share of lines with numbers below.
_MAX_HEADER_LINES, _MIN_NUMERIC_SHARE = 6, 0.6
# Maximum distance of a group's middle from the middle of its columns, in widths of the columns.
_MAX_OFFSET = 0.3
# In heights of the text: maximum distance between lines of a header.
_MAX_LINE_DISTANCE = 2.2
# In distances of the body's lines: minimum distance of groups from their columns.
_MIN_LEVEL_DISTANCE = 0.75


@dataclass(frozen=True, slots=True)
class GroupedHeader:
    """Names of groups by first column, and of their columns. `start`, `end`: range of the header's lines."""

    groups: dict[int, str]
    names: dict[int, str]
    start: int = 0
    end: int = 0


def read_header(lines: Sequence[Line], columns: Sequence[Range]) -> GroupedHeader | None:
    """Return the header with groups of a table of numbers; None for a table without one."""
    for start in range(min(3, len(lines) - 2)):
        for leaf in range(start + 1, min(start + _MAX_HEADER_LINES, len(lines) - 1)):
            if not _are_near(lines[leaf - 1], lines[leaf]) or not _are_names(lines[leaf]):
                break
            # Lines closer than those of the body are words of one name.
            if _line_distance(lines[start], lines[leaf]) < _MIN_LEVEL_DISTANCE * _usual_distance(lines[leaf:]):
                continue
            if header := _read_names(lines[start], lines[start + 1 : leaf], lines[leaf], columns):
                end = _add_continuations(lines, leaf, columns, header.names)
                return replace(header, start=start, end=end) if _is_numeric(lines[end:]) else None
    return None


def lines_above(region: Sequence[Line], above: Sequence[Line], columns: Sequence[Range]) -> list[Line]:
    """Return the lines of group names above a region. `above`: nearest line first."""
    lines: list[Line] = list(region)
    for number, line in enumerate(above[: _MAX_HEADER_LINES - 1], 1):
        if not _are_near(line, lines[0]) or not _are_names(line):
            break
        lines.insert(0, line)
        header = read_header(lines, columns) if len(line) > 1 else None
        if header and header.start == 0:
            return list(above[:number])
    return []


def _read_names(groups: Line, between: Sequence[Line], leaf: Line, columns: Sequence[Range]) -> GroupedHeader | None:
    """Return the header of a line of groups and a line of their columns; None if they do not fit."""
    if len(groups) < 2 or len(leaf) < 2 or not _are_names(groups) or any(map(_is_caption, groups)):
        return None
    leaves = {_column_of(text, columns): text for text in leaf}
    singles: dict[int, list[PlacedText]] = {}
    for text in chain.from_iterable(between):
        column = _column_of(text, columns)
        if column in singles and column in leaves:
            return None
        singles.setdefault(column, []).append(text)
    if len(leaves) < len(leaf):
        return None
    # A group never holds the first column, whose names are those of the rows.
    covered = sorted(column for column in leaves if column > 0)
    is_wrapped = _are_wrapped(groups, [leaves[column] for column in covered])
    spans = None if is_wrapped else _assign_groups(groups, covered, leaves, columns)
    if spans is None or not _are_groups([*spans.values()], leaves.keys(), singles.keys()):
        return None
    upper = {span[0]: groups[number].text for number, span in spans.items()}
    upper |= {column: " ".join(text.text for text in texts) for column, texts in singles.items()}
    return GroupedHeader(upper, {column: text.text for column, text in leaves.items()})


def _are_groups(spans: Sequence[Sequence[int]], leaves: AbstractSet[int], singles: AbstractSet[int]) -> bool:
    """Check that groups cover named columns. A name above a single column may be the first line of a longer name."""
    wide_columns = {column for span in spans if len(span) > 1 for column in span}
    wide_count = sum(len(span) > 1 for span in spans)
    single_count = sum(len(span) == 1 and span[0] in leaves for span in spans)
    return wide_columns <= leaves and not wide_columns & singles and wide_count > (1 if single_count else 0)


def _are_wrapped(upper: Line, lower: Sequence[PlacedText]) -> bool:
    """Check that most texts of the lower line continue a name above, each in a separate column."""
    continued = [text for text in lower if any(_are_aligned(text, name) for name in upper)]
    names = [name for name in upper if any(_are_aligned(text, name) for text in lower)]
    return len(names) >= len(upper) - 1 and len(names) == len(continued) and 3 * len(names) >= 2 * len(lower)


def _are_aligned(text: PlacedText, name: PlacedText) -> bool:
    offset = min(
        abs(text.left - name.left),
        abs(text.right - name.right),
        abs(text.left + text.right - name.left - name.right) / 2,
    )
    return offset < 0.5 * name.height


def _assign_groups(
    groups: Line, covered: Sequence[int], leaves: dict[int, PlacedText], columns: Sequence[Range]
) -> dict[int, list[int]] | None:
    """Return the columns of each group by its number: a group lies in their middle or at their left."""
    places = {column: (text.left, text.right) for column, text in leaves.items()}
    for text in groups:
        column = _column_of(text, columns)
        places.setdefault(column, (text.left, text.right))
    order = sorted({*covered, *(column for column in places if column not in leaves), *([0] if 0 in places else [])})

    @cache
    def best(group: int, first: int) -> tuple[float, tuple[tuple[int, int], ...]]:
        """Return the cost and the ends of the groups from a number on, for the columns from `first` on."""
        if group == len(groups):
            return (0.0, ()) if first == len(order) else (float("inf"), ())
        options: list[tuple[float, tuple[tuple[int, int], ...]]] = [(float("inf"), ())]
        if first < len(order) and order[first] == 0:
            options.append(best(group, first + 1))  # the names of rows need no group
        for end in range(first + 1, len(order) + 1):
            cost = _offset_cost(groups[group], order[first:end], places)
            if cost is not None:
                following, ends = best(group + 1, end)
                options.append((cost + following, ((first, end), *ends)))
        return min(options)

    cost, ends = best(0, 0)
    if cost == float("inf"):
        return None
    return {number: order[first:end] for number, (first, end) in enumerate(ends)}


def _offset_cost(group: PlacedText, span: Sequence[int], places: dict[int, Range]) -> float | None:
    """Return the distance of a group from its columns; None beyond the limit."""
    left, right = places[span[0]][0], max(places[column][1] for column in span)
    if len(span) > 1 and 0 in span:
        return None
    offset = min(abs((group.left + group.right) - (left + right)) / 2, abs(group.left - left))
    limit = max(_MAX_OFFSET * (right - left), group.height) if len(span) > 1 else max(right - left, 4 * group.height)
    overlaps = group.left < right and left < group.right
    overflow = max(left - group.left, group.right - right)
    fits = len(span) == 1 or overflow < 4 * group.height
    return offset if offset <= limit and overlaps and fits else None


def _column_of(text: PlacedText, columns: Sequence[Range]) -> int:
    inside = [number for number, column in enumerate(columns) if is_in_column(text, column)]
    return min(
        inside or range(len(columns)),
        key=lambda number: abs(text.left + text.right - columns[number][0] - columns[number][1]),
    )


def _are_names(line: Line) -> bool:
    """Check that the texts of a line are names or years, not numbers."""
    return not any(NUMBER_PATTERN.match(text.text) and not _YEAR_PATTERN.fullmatch(text.text) for text in line)


def _is_caption(text: PlacedText) -> bool:
    return bool(_CAPTION_PATTERN.match(text.text))


def _line_distance(line: Line, lower: Line) -> float:
    return lower[0].middle - line[0].middle


def _usual_distance(lines: Sequence[Line]) -> float:
    return median([_line_distance(*pair) for pair in pairwise(lines)] or [0])


def _are_near(line: Line, lower: Line) -> bool:
    return _line_distance(line, lower) < _MAX_LINE_DISTANCE * max(line[0].height, lower[0].height)


def _add_continuations(lines: Sequence[Line], leaf: int, columns: Sequence[Range], names: dict[int, str]) -> int:
    """Add further lines of the names of columns, such as units in brackets; return the end of the header."""
    end = leaf + 1
    while end < len(lines) - 1 and _are_near(lines[end - 1], lines[end]):
        texts = {_column_of(text, columns): text.text for text in lines[end]}
        are_units = all(_UNIT_PATTERN.fullmatch(text) for text in texts.values())
        if not are_units and (not _are_names(lines[end]) or any(column in texts for column in (0, len(columns)))):
            break
        if not are_units and not texts.keys() <= names.keys():
            break
        for column, text in texts.items():
            names[column] = f"{names.get(column, '')} {text}".strip()
        end += 1
    return end


def _is_numeric(lines: Sequence[Line]) -> bool:
    numeric = sum(any(NUMBER_PATTERN.match(text.text) for text in line) for line in lines)
    return bool(lines) and numeric >= _MIN_NUMERIC_SHARE * len(lines)
