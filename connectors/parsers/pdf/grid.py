"""Rows and columns of tables, from the positions of texts on the page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

from connectors.parsers.pdf import headers
from connectors.parsers.pdf.placed_text import (
    NUMBER_PATTERN,
    Line,
    PlacedText,
    Range,
    column_space,
    is_in_column,
)

_LINE_END_HYPHEN = re.compile(r"(?<=[a-zß-öø-ÿ])-\s(?=[a-zß-öø-ÿ])")
_CONTINUATION_START = re.compile(r"[a-zß-öø-ÿ]|\([^\W\d]")
# Signs of the next text, at any distance.
_PREFIX_SIGNS = frozenset("$\u2022\u2023\u25aa\u25a0\u25cf\u25cb\u25e6\uf0b7")
# Signs of the previous text, at any distance.
_SUFFIX_SIGNS = frozenset({"%", ")", "%)"})
# In heights of the text: a wider space separates cells, a narrower one joins letters.
_WORD_SPACE, _LETTER_SPACE = 0.5, 0.1
# In heights of the text: maximum distance of middles within a line, and of lines within a row.
_SAME_LINE, _SAME_ROW, _MAX_ROW_DISTANCE = 0.45, 0.75, 1.35
# In distances to the next row: maximum within a header.
_HEADER_DISTANCE, _SAME_SPACE = 0.9, 1.1
# In usual line distances: maximum within a cell, and minimum before a title.
_CELL_LINE_DISTANCE, _TITLE_DISTANCE = 0.85, 1.5
# In heights of the text: minimum gap between cells of an outer row, and maximum distance to the table.
_OUTER_CELL_GAP, _OUTER_ROW_DISTANCE = 1.0, 2.2
# In heights of the text: distance of a name from the numbers to its left.
_NAME_OVERHANG = 3
# In heights of the text: a taller band is prose.
_TALL_BAND = 8
# Minimum share of the region's width for a text of prose, and minimum number of them in a column.
_LONG_TEXT_SHARE, _MIN_COLUMN_TEXTS = 0.25, 5
# Maximum words of a cell in an outer column, and minimum share of rows, or of letters in long texts.
_MAX_CELL_WORDS, _MAJORITY_SHARE = 4, 0.6


@dataclass(slots=True)
class Row:
    """Cells by column, of one line or several joined."""

    cells: dict[int, str]
    # Columns covered by spanning cells.
    spanned_columns: set[int]
    # Last line of the row.
    last_line: Line
    # Last text of each column.
    last_texts: dict[int, str]

    @property
    def is_title(self) -> bool:
        """The row is one text across columns, like a caption or prose."""
        return len(self.cells) == 1 and 0 in self.spanned_columns


def find_tables(texts: Iterable[PlacedText], bands: Sequence[Range] = ()) -> Iterator[list[list[str]]]:
    r"""Yield the tables of a region from top to bottom as rows of cells; rows of other text have one cell.

    `bands`: vertical ranges of rows between rules.
    """
    texts = list(texts)
    if texts and (gutter := _find_gutter(texts, bands)):
        for is_left in (True, False):
            yield from find_tables([text for text in texts if (text.left + text.right < 2 * gutter) == is_left], bands)
        return
    for lines in _split_lines(group_lines(texts), bands):
        columns = _find_columns(lines)
        rows = _make_table_rows(lines, columns, bands)
        first, end = _find_body(rows, len(columns))
        while end - first > 2 and _is_split_header(rows[first : first + 3], rows[first + 2 : end]):
            rows[first : first + 2] = [_join_rows(rows[first], rows[first + 1])]
            end -= 1
        if first == end:
            prose = "\n".join(" ".join(text.text for text in line) for line in lines)
            yield [[line] for line in _LINE_END_HYPHEN.sub("", prose).split("\n")]
            continue
        yield [[cell] for row in rows[:first] for cell in row.cells.values()]
        filled = sorted({column for row in rows[first:end] for column in row.cells})
        yield [[row.cells.get(column, "") for column in filled] for row in rows[first:end]]
        yield [[cell] for row in rows[end:] for cell in row.cells.values()]


def _make_table_rows(lines: Sequence[Line], columns: Sequence[Range], bands: Sequence[Range]) -> list[Row]:
    if not (header := headers.read_header(lines, columns)):
        return _make_rows(lines, columns, bands)
    above, below = (_make_rows(part, columns, bands) for part in (lines[: header.start], lines[header.end :]))
    levels = [(header.groups, lines[header.start]), (header.names, lines[header.end - 1])]
    return [*above, *(Row(names, set(), line, dict(names)) for names, line in levels), *below]


def _is_split_header(rows: Sequence[Row], body: Sequence[Row]) -> bool:
    """Check that the first two rows are one header, above a body of numbers."""
    upper, lower, below = rows
    if upper.spanned_columns or lower.spanned_columns or len(lower.cells) < 2 or len(upper.cells) < 2:
        return False
    if any(NUMBER_PATTERN.match(cell) for row in (upper, lower) for cell in row.cells.values()):
        return False
    numeric = sum(any(NUMBER_PATTERN.match(cell) for cell in row.cells.values()) for row in body)
    small = sum(bool(_CONTINUATION_START.match(cell)) for cell in lower.cells.values())
    near, far = _line_distance(upper.last_line, lower.last_line), _line_distance(lower.last_line, below.last_line)
    is_unnamed = (0 in upper.cells) != (0 in lower.cells) and near < _SAME_SPACE * far  # a row of the body has a name
    is_near = near < _HEADER_DISTANCE * far
    if added := lower.cells.keys() - upper.cells.keys() - {0}:
        # Names of one line stand at the bottom, level with the last words of the others.
        is_near = is_near and 3 * len(added) <= len(upper.cells)
    else:
        is_near = is_near or is_unnamed or 2 * small > len(lower.cells)
    return is_near and numeric > _MAJORITY_SHARE * len(body)


def _join_rows(upper: Row, lower: Row) -> Row:
    cells = upper.cells | {
        column: _LINE_END_HYPHEN.sub("", f"{upper.cells.get(column, '')} {cell}".strip())
        for column, cell in lower.cells.items()
    }
    return Row(cells, upper.spanned_columns, lower.last_line, upper.last_texts | lower.last_texts)


def _find_body(rows: Sequence[Row], columns: int) -> tuple[int, int]:
    """Return the range of the table's rows between captions and prose: most have several cells."""
    titles = [row.is_title for row in rows]
    for outside in (titles, [title or list(row.cells) == [0] for title, row in zip(titles, rows, strict=True)]):
        inside = [number for number, text in enumerate(outside) if not text]
        body = rows[inside[0] : inside[-1] + 1] if inside else []
        several, cells = sum(len(row.cells) > 1 for row in body), sum(len(row.cells) for row in body)
        if several >= max(2, len(body) / 2) and cells >= len(body) * columns / 3:
            return inside[0], inside[-1] + 1
    return 0, 0


def _find_gutter(texts: Sequence[PlacedText], bands: Sequence[Range] = ()) -> float:
    """Return the gap between columns of long texts, as in prose; 0 in a table."""
    height = max(text.bottom for text in texts) - min(text.top for text in texts)
    width = max(text.right for text in texts) - min(text.left for text in texts)
    if len(bands) > 2 and max(end - start for start, end in bands) < height / 2:
        return 0
    long = sorted(
        (text for text in texts if text.right - text.left > _LONG_TEXT_SHARE * width), key=lambda text: text.left
    )
    if sum(len(text.text) for text in long) < _MAJORITY_SHARE * sum(len(text.text) for text in texts):
        return 0
    right, gutters = 0.0, [(0.0, 0.0)]
    for number, text in enumerate(long):
        if min(number, len(long) - number) >= _MIN_COLUMN_TEXTS:
            gutters.append((text.left - right, (text.left + right) / 2))
        right = max(right, text.right)
    return max(gutters)[1]


def grow_table(table: Iterable[PlacedText], neighbours: Iterable[PlacedText]) -> set[PlacedText]:
    """Add adjacent columns and further rows to the texts of a table."""
    texts, remaining = set(table), set(neighbours)
    if _find_gutter([*texts]):
        return texts
    texts |= _adjacent_columns(group_lines(texts), remaining)
    for upwards in (True, False):
        lines = group_lines(texts)
        left, right = min(line[0].left for line in lines), max(line[-1].right for line in lines)
        aligned = group_lines(text for text in remaining - texts if _is_within(text, left, right))
        top, bottom = lines[0][0].middle, lines[-1][0].middle
        if upwards:
            above = [line for line in reversed(aligned) if line[0].middle < top]
            texts |= _following_rows(lines, above)
            lines = group_lines(texts)
            above = [line for line in above if line[0].middle < lines[0][0].middle]
            texts |= {text for line in headers.lines_above(lines, above, _find_columns(lines)) for text in line}
        else:
            texts |= _following_rows(lines[::-1], [line for line in aligned if line[0].middle > bottom])
    return texts


def _is_within(text: PlacedText, left: float, right: float) -> bool:
    """Check that a text lies between the edges of a table; a name may pass the numbers below."""
    if not left - text.height < text.left <= right + _NAME_OVERHANG * text.height:
        return False
    is_name = text.right - text.left < _LONG_TEXT_SHARE * (right - left) and not NUMBER_PATTERN.match(text.text)
    return text.right < right + text.height or is_name


def _following_rows(lines: Sequence[Line], following: Iterable[Line]) -> set[PlacedText]:
    """Return the following lines with the table's columns; a line of one text only counts before such a line."""
    columns, edge = _find_columns(lines), lines[0]
    texts: set[PlacedText] = set()
    waiting: set[PlacedText] = set()
    for line in following:
        height = line[0].height
        row = _make_row(line, columns)
        if abs(_line_distance(edge, line)) > max(
            _OUTER_ROW_DISTANCE * height, _TITLE_DISTANCE * abs(_usual_distance(lines))
        ):
            break
        gaps = [text.left - previous.right for previous, text in pairwise(line)]
        several = len(row.cells) > 1 and (not row.spanned_columns or len(line) > 2)
        if gaps and min(gaps) > _OUTER_CELL_GAP * height and (several or 2 * len(line) > max(len(columns), 4)):
            texts |= {*waiting, *line}
            waiting = set()
        elif len(line) == 1 and not row.spanned_columns and 0 not in row.cells:
            waiting |= {*line}
        else:
            break
        edge = line
    return texts


def _adjacent_columns(lines: Sequence[Line], neighbours: Iterable[PlacedText]) -> set[PlacedText]:
    """Return an outer column of few words, or several of numbers, next to most of the lines."""
    left, right = min(line[0].left for line in lines), max(line[-1].right for line in lines)
    outside = group_lines(text for text in neighbours if not left <= (text.left + text.right) / 2 <= right)
    heights = [(line[0].middle, _SAME_LINE * line[0].height) for line in lines]
    column = [line for line in outside if any(abs(line[0].middle - middle) < near for middle, near in heights)]
    texts = {text for line in column for text in line}
    if len(column) < _MAJORITY_SHARE * len(lines) or any(len(text.text.split()) > _MAX_CELL_WORDS for text in texts):
        return set()
    numbers = sum(bool(NUMBER_PATTERN.match(text.text)) for text in texts)
    return texts if len(texts) == len(column) or numbers > _MAJORITY_SHARE * len(texts) else set()


def group_lines(texts: Iterable[PlacedText]) -> list[Line]:
    lines: list[list[PlacedText]] = []
    for text in sorted(texts, key=lambda text: text.middle):
        first = lines[-1][0] if lines else None
        if first and text.middle - first.middle < _SAME_LINE * min(text.height, first.height):
            lines[-1].append(text)
        else:
            lines.append([text])
    return [_join_words(sorted(line, key=lambda text: text.left)) for line in lines]


def _join_words(line: Line) -> Line:
    joined: list[PlacedText] = []
    for text in line:
        last = joined[-1] if joined else None
        space = (text.left - last.right) / text.height if last else 0
        near = space < _WORD_SPACE and text.text not in _PREFIX_SIGNS
        if last and (near or last.text in _PREFIX_SIGNS or text.text in _SUFFIX_SIGNS):
            words = f"{last.text}{' ' if space > _LETTER_SPACE else ''}{text.text}"
            top, bottom = min(last.top, text.top), max(last.bottom, text.bottom)
            joined[-1] = PlacedText(last.left, max(last.right, text.right), top, bottom, words)
        elif last and last.text.endswith(" $"):
            joined[-1:] = [replace(last, text=last.text[:-2]), replace(text, text=f"$ {text.text}")]
        else:
            joined.append(text)
    return joined


def _line_distance(line: Line, lower: Line) -> float:
    return lower[0].middle - line[0].middle


def _usual_distance(lines: Sequence[Line]) -> float:
    return median([_line_distance(*pair) for pair in pairwise(lines)] or [0])


def _split_lines(lines: Sequence[Line], bands: Sequence[Range]) -> Iterator[Sequence[Line]]:
    """Split lines before titles of further tables, and around bands of prose, half as tall as the region."""
    far, left = _TITLE_DISTANCE * _usual_distance(lines), min((line[0].left for line in lines), default=0)
    height = _line_distance(lines[0], lines[-1]) if lines else 0
    tall = max(height / 2, _TALL_BAND * lines[0][0].height) if lines else 0
    edges = [edge for band in bands if band[1] - band[0] > tall for edge in band]
    start = 0
    for number, (above, line) in enumerate(pairwise(lines), 1):
        titled = _line_distance(above, line) > far and len(line) == 1 and line[0].left > left + line[0].height
        if titled or any(above[0].middle < edge <= line[0].middle for edge in edges):
            yield lines[start:number]
            start = number
    yield lines[start:]


def _find_columns(lines: Sequence[Line]) -> list[Range]:
    """Return the ranges of the columns; a text below two neighbours belongs to no column."""
    columns: list[tuple[float, float, set[int]]] = []
    texts = [(text, number) for number, line in enumerate(lines) for text in line]
    for text, number in sorted(texts, key=lambda pair: pair[0].right - pair[0].left):
        overlapping = [column for column in columns if is_in_column(text, column[:2])]
        numbers = [number, *(line for column in overlapping for line in column[2])]
        if len(overlapping) < 2 or len(numbers) == len(set(numbers)):
            left, right = (
                min([text.left, *(c[0] for c in overlapping)]),
                max([text.right, *(c[1] for c in overlapping)]),
            )
            columns = [*(column for column in columns if column not in overlapping), (left, right, set(numbers))]
    columns.sort(key=lambda column: column[:2])
    space, few = _WORD_SPACE * median([line[0].height for line in lines] or [0]), max(2, len(lines) // 5)
    index = 0
    while index < len(columns) - 1:
        (left, end, texts_held), (begin, right, texts_beside) = columns[index : index + 2]
        if not texts_held & texts_beside and (begin - end < space or min(len(texts_held), len(texts_beside)) <= few):
            columns[index : index + 2] = [(left, right, texts_held | texts_beside)]
            index = max(index - 1, 0)
        else:
            index += 1
    return [(left, right) for left, right, _ in columns]


def _make_rows(lines: Sequence[Line], columns: Sequence[Range], bands: Sequence[Range]) -> list[Row]:
    rows: list[Row] = []
    usual = _usual_distance(lines)
    capital = sum(not _CONTINUATION_START.match(line[0].text) for line in lines) > len(lines) / 2
    for line in lines:
        row = _make_row(line, columns)
        last = rows[-1] if rows else None
        if last is None or row.spanned_columns or last.spanned_columns & row.cells.keys():
            rows.append(row)
        elif _is_continuation(last, row, bands, usual, capital=capital):
            last.last_line = line
            last.last_texts |= row.cells
            for column, cell in row.cells.items():
                last.cells[column] = _LINE_END_HYPHEN.sub("", f"{last.cells.get(column, '')} {cell}".strip())
        else:
            if capital and 0 in last.cells and _CONTINUATION_START.match(row.cells.get(0, "")):
                last.cells[0] += f" {row.cells.pop(0)}"
            rows.append(row)
    return rows


def _make_row(line: Line, columns: Sequence[Range]) -> Row:
    row = Row({}, set(), line, {})
    for text in line:
        overlapping = [number for number, column in enumerate(columns) if is_in_column(text, column)]
        column = (
            overlapping[0]
            if overlapping
            else min(range(len(columns)), key=lambda number: column_space(text, columns[number]))
        )
        row.cells[column] = f"{row.cells.get(column, '')} {text.text}".strip()
        row.spanned_columns |= set(overlapping) if len(overlapping) > 1 else set()
    row.last_texts |= row.cells
    return row


def _is_continuation(last: Row, row: Row, bands: Sequence[Range], usual: float, *, capital: bool) -> bool:
    """Check that a line continues the row above. `capital`: rows of the table do not begin in lower case."""
    distance, height = _line_distance(last.last_line, row.last_line), row.last_line[0].height
    numbers = {column for column, cell in row.cells.items() if NUMBER_PATTERN.match(cell)}
    if any(NUMBER_PATTERN.match(last.last_texts.get(column, "")) for column in numbers):
        return False
    new = row.cells.keys() - last.cells.keys()
    is_same_line = distance < _SAME_ROW * height and (len(row.cells) == 1 or len(new) == len(row.cells))
    if is_same_line or any(
        top <= last.last_line[0].middle and row.last_line[0].middle <= bottom for top, bottom in bands
    ):
        return True
    if distance > _MAX_ROW_DISTANCE * height:
        return False
    small = capital and all(map(_CONTINUATION_START.match, row.cells.values()))
    if list(last.cells) == [0] and 0 in row.cells:
        return capital and bool(_CONTINUATION_START.match(row.cells[0]))
    adds_no_column = not new and (0 not in row.cells or small)
    return adds_no_column or (not numbers and distance < _CELL_LINE_DISTANCE * usual and len(new) < 2)
