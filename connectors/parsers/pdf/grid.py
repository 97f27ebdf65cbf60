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
# Signs joined to the next text at any distance.
_PREFIX_SIGNS = frozenset("$\u2022\u2023\u25aa\u25a0\u25cf\u25cb\u25e6\uf0b7")
# Signs joined to the previous text at any distance.
_SUFFIX_SIGNS = frozenset({"%", ")", "%)"})
# In heights of the text: a wider space separates cells, a narrower one joins letters.
_WORD_SPACE, _LETTER_SPACE = 0.5, 0.1
# In heights of the text: maximum distance of middles within a line, and of lines within a row.
_SAME_LINE, _SAME_ROW, _MAX_ROW_DISTANCE = 0.45, 0.75, 1.35
# In distances of the header to the body: maximum between two lines of a header, and if a line has no name column.
_HEADER_DISTANCE, _UNNAMED_HEADER_DISTANCE = 0.9, 1.1
# In usual line distances: maximum within a cell, and minimum before a title.
_CELL_LINE_DISTANCE, _TITLE_DISTANCE = 0.85, 1.5
# In heights of the text: minimum gap between cells of an outer row, and maximum distance to the table.
_OUTER_CELL_GAP, _OUTER_ROW_DISTANCE = 1.0, 2.2
# In heights of the text: distance by which a column name may begin right of the table.
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
        """Check for a single text across columns, such as a caption or prose."""
        return len(self.cells) == 1 and 0 in self.spanned_columns


def find_tables(texts: Iterable[PlacedText], bands: Sequence[Range] = ()) -> Iterator[list[list[str]]]:
    """Yield the tables of a region from top to bottom as rows of cells; rows of other text have one cell.

    `bands`: vertical ranges of rows between rules.
    """
    texts = list(texts)
    if texts and (gutter := _find_gutter(texts, bands)):
        left_texts = [text for text in texts if text.left + text.right < 2 * gutter]
        right_texts = [text for text in texts if text.left + text.right >= 2 * gutter]
        yield from find_tables(left_texts, bands)
        yield from find_tables(right_texts, bands)
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
    above = _make_rows(lines[: header.start], columns, bands)
    groups = Row(header.groups, set(), lines[header.start], dict(header.groups))
    names = Row(header.names, set(), lines[header.end - 1], dict(header.names))
    below = _make_rows(lines[header.end :], columns, bands)
    return [*above, groups, names, *below]


def _is_split_header(rows: Sequence[Row], body: Sequence[Row]) -> bool:
    """Check for one header in two rows above a body of numbers; `rows`: the two and the first of the body."""
    upper, lower, below = rows
    if upper.spanned_columns or lower.spanned_columns or len(lower.cells) < 2 or len(upper.cells) < 2:
        return False
    if any(NUMBER_PATTERN.match(cell) for row in (upper, lower) for cell in row.cells.values()):
        return False
    numeric_rows = sum(any(NUMBER_PATTERN.match(cell) for cell in row.cells.values()) for row in body)
    continuations = sum(bool(_CONTINUATION_START.match(cell)) for cell in lower.cells.values())
    line_distance = _line_distance(upper.last_line, lower.last_line)
    body_distance = _line_distance(lower.last_line, below.last_line)
    # A row of the body has a name in column 0.
    has_one_name = (0 in upper.cells) != (0 in lower.cells)
    is_unnamed = has_one_name and line_distance < _UNNAMED_HEADER_DISTANCE * body_distance
    is_near = line_distance < _HEADER_DISTANCE * body_distance
    if new_columns := lower.cells.keys() - upper.cells.keys() - {0}:
        # Names of one line stand at the bottom, level with the last words of the others.
        is_near = is_near and 3 * len(new_columns) <= len(upper.cells)
    else:
        is_near = is_near or is_unnamed or 2 * continuations > len(lower.cells)
    return is_near and numeric_rows > _MAJORITY_SHARE * len(body)


def _join_rows(upper: Row, lower: Row) -> Row:
    cells = upper.cells | {
        column: _LINE_END_HYPHEN.sub("", f"{upper.cells.get(column, '')} {cell}".strip())
        for column, cell in lower.cells.items()
    }
    return Row(cells, upper.spanned_columns, lower.last_line, upper.last_texts | lower.last_texts)


def _find_body(rows: Sequence[Row], columns: int) -> tuple[int, int]:
    """Return the first row and the end of the table between captions and prose, most rows with several cells."""
    table_rows = [number for number, row in enumerate(rows) if not row.is_title]
    # Captions and notes may fill column 0 only.
    wide_rows = [number for number in table_rows if list(rows[number].cells) != [0]]
    for numbers in (table_rows, wide_rows):
        if not numbers:
            continue
        first, end = numbers[0], numbers[-1] + 1
        body = rows[first:end]
        rows_of_cells = sum(len(row.cells) > 1 for row in body)
        cells = sum(len(row.cells) for row in body)
        if rows_of_cells >= max(2, len(body) / 2) and cells >= len(body) * columns / 3:
            return first, end
    return 0, 0


def _find_gutter(texts: Sequence[PlacedText], bands: Sequence[Range] = ()) -> float:
    """Return the middle of the gap between columns of long texts, as in prose; 0 in a table."""
    height = max(text.bottom for text in texts) - min(text.top for text in texts)
    width = max(text.right for text in texts) - min(text.left for text in texts)
    if len(bands) > 2 and max(end - start for start, end in bands) < height / 2:
        return 0
    long_texts = [text for text in texts if text.right - text.left > _LONG_TEXT_SHARE * width]
    long_texts.sort(key=lambda text: text.left)
    if sum(len(text.text) for text in long_texts) < _MAJORITY_SHARE * sum(len(text.text) for text in texts):
        return 0
    right = 0.0
    gaps = [(0.0, 0.0)]  # width and middle
    for number, text in enumerate(long_texts):
        if min(number, len(long_texts) - number) >= _MIN_COLUMN_TEXTS:
            gaps.append((text.left - right, (text.left + right) / 2))
        right = max(right, text.right)
    _, middle = max(gaps)
    return middle


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
    """Check that a text lies between the edges of a table; a column name may extend beyond the right edge."""
    if not left - text.height < text.left <= right + _NAME_OVERHANG * text.height:
        return False
    is_name = text.right - text.left < _LONG_TEXT_SHARE * (right - left) and not NUMBER_PATTERN.match(text.text)
    return text.right < right + text.height or is_name


def _following_rows(lines: Sequence[Line], following: Iterable[Line]) -> set[PlacedText]:
    """Return the texts of following lines with the table's columns."""
    columns, edge = _find_columns(lines), lines[0]
    texts: set[PlacedText] = set()
    # Lines of one text belong to the table if a line with its columns follows.
    undecided: set[PlacedText] = set()
    for line in following:
        height = line[0].height
        row = _make_row(line, columns)
        if abs(_line_distance(edge, line)) > max(
            _OUTER_ROW_DISTANCE * height, _TITLE_DISTANCE * abs(_usual_distance(lines))
        ):
            break
        gaps = [text.left - previous.right for previous, text in pairwise(line)]
        has_gaps = bool(gaps) and min(gaps) > _OUTER_CELL_GAP * height
        has_cells = len(row.cells) > 1 and (not row.spanned_columns or len(line) > 2)
        if has_gaps and (has_cells or 2 * len(line) > max(len(columns), 4)):
            texts |= {*undecided, *line}
            undecided = set()
        elif len(line) == 1 and not row.spanned_columns and 0 not in row.cells:
            undecided |= {*line}
        else:
            break
        edge = line
    return texts


def _adjacent_columns(lines: Sequence[Line], neighbours: Iterable[PlacedText]) -> set[PlacedText]:
    """Return the texts of a column with few words, or of columns with numbers, next to most of the lines."""
    left, right = min(line[0].left for line in lines), max(line[-1].right for line in lines)
    outside = group_lines(text for text in neighbours if not left <= (text.left + text.right) / 2 <= right)
    heights = [(line[0].middle, _SAME_LINE * line[0].height) for line in lines]
    column = [
        line for line in outside if any(abs(line[0].middle - middle) < tolerance for middle, tolerance in heights)
    ]
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
        is_word = space < _WORD_SPACE and text.text not in _PREFIX_SIGNS
        if last and (is_word or last.text in _PREFIX_SIGNS or text.text in _SUFFIX_SIGNS):
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
    """Split lines before titles of further tables, before and after bands of prose."""
    title_distance = _TITLE_DISTANCE * _usual_distance(lines)
    left = min((line[0].left for line in lines), default=0)
    height = _line_distance(lines[0], lines[-1]) if lines else 0
    # Rows are lower than half of the region.
    prose_height = max(height / 2, _TALL_BAND * lines[0][0].height) if lines else 0
    prose_edges = [edge for top, bottom in bands if bottom - top > prose_height for edge in (top, bottom)]
    start = 0
    for number, (above, line) in enumerate(pairwise(lines), 1):
        is_indented = len(line) == 1 and line[0].left > left + line[0].height
        is_title = is_indented and _line_distance(above, line) > title_distance
        if is_title or any(above[0].middle < edge <= line[0].middle for edge in prose_edges):
            yield lines[start:number]
            start = number
    yield lines[start:]


def _find_columns(lines: Sequence[Line]) -> list[Range]:
    """Return the ranges of the columns; a text below two neighbours of a line belongs to no column."""
    # Left, right, and the numbers of the lines with a text in the column.
    columns: list[tuple[float, float, set[int]]] = []
    texts = [(text, number) for number, line in enumerate(lines) for text in line]
    for text, number in sorted(texts, key=lambda pair: pair[0].right - pair[0].left):
        overlapping = [column for column in columns if is_in_column(text, column[:2])]
        line_numbers = [number, *(line_number for _, _, numbers in overlapping for line_number in numbers)]
        has_one_text_per_line = len(line_numbers) == len(set(line_numbers))
        if len(overlapping) < 2 or has_one_text_per_line:
            left = min([text.left, *(column_left for column_left, _, _ in overlapping)])
            right = max([text.right, *(column_right for _, column_right, _ in overlapping)])
            columns = [*(column for column in columns if column not in overlapping), (left, right, set(line_numbers))]
    columns.sort(key=lambda column: column[:2])
    word_space = _WORD_SPACE * median([line[0].height for line in lines] or [0])
    max_sparse_lines = max(2, len(lines) // 5)
    # Neighbours without a common line are one column if they are close or one has few texts.
    index = 0
    while index < len(columns) - 1:
        (left, gap_start, lines_left), (gap_end, right, lines_right) = columns[index : index + 2]
        is_sparse = min(len(lines_left), len(lines_right)) <= max_sparse_lines
        if not lines_left & lines_right and (gap_end - gap_start < word_space or is_sparse):
            columns[index : index + 2] = [(left, right, lines_left | lines_right)]
            index = max(index - 1, 0)
        else:
            index += 1
    return [(left, right) for left, right, _ in columns]


def _make_rows(lines: Sequence[Line], columns: Sequence[Range], bands: Sequence[Range]) -> list[Row]:
    rows: list[Row] = []
    usual_distance = _usual_distance(lines)
    begins_in_capitals = sum(not _CONTINUATION_START.match(line[0].text) for line in lines) > len(lines) / 2
    for line in lines:
        row = _make_row(line, columns)
        last = rows[-1] if rows else None
        if last is None or row.spanned_columns or last.spanned_columns & row.cells.keys():
            rows.append(row)
        elif _is_continuation(last, row, bands, usual_distance, begins_in_capitals=begins_in_capitals):
            last.last_line = line
            last.last_texts |= row.cells
            for column, cell in row.cells.items():
                last.cells[column] = _LINE_END_HYPHEN.sub("", f"{last.cells.get(column, '')} {cell}".strip())
        else:
            if begins_in_capitals and 0 in last.cells and _CONTINUATION_START.match(row.cells.get(0, "")):
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


def _is_continuation(
    last: Row, row: Row, bands: Sequence[Range], usual_distance: float, *, begins_in_capitals: bool
) -> bool:
    """Check that a line continues the row above. `begins_in_capitals`: rows of the table do not begin in lower case."""
    distance, height = _line_distance(last.last_line, row.last_line), row.last_line[0].height
    numbers = {column for column, cell in row.cells.items() if NUMBER_PATTERN.match(cell)}
    if any(NUMBER_PATTERN.match(last.last_texts.get(column, "")) for column in numbers):
        return False
    new_columns = row.cells.keys() - last.cells.keys()
    is_same_line = distance < _SAME_ROW * height and (len(row.cells) == 1 or len(new_columns) == len(row.cells))
    upper_middle, lower_middle = last.last_line[0].middle, row.last_line[0].middle
    is_in_one_band = any(top <= upper_middle and lower_middle <= bottom for top, bottom in bands)
    if is_same_line or is_in_one_band:
        return True
    if distance > _MAX_ROW_DISTANCE * height:
        return False
    if list(last.cells) == [0] and 0 in row.cells:
        return begins_in_capitals and bool(_CONTINUATION_START.match(row.cells[0]))
    is_lower_case = begins_in_capitals and all(map(_CONTINUATION_START.match, row.cells.values()))
    adds_no_column = not new_columns and (0 not in row.cells or is_lower_case)
    is_near = distance < _CELL_LINE_DISTANCE * usual_distance
    return adds_no_column or (not numbers and is_near and len(new_columns) < 2)
