"""Rows and columns of tables by where their texts stand on the page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

_NUMBER = re.compile(r"\W*\d\S*(\s\S+){0,3}$|[-\u2013\u2014:]$")
_HYPHEN = re.compile(r"(?<=[a-zß-öø-ÿ])-\s(?=[a-zß-öø-ÿ])")
_CONTINUATION = re.compile(r"[a-zß-öø-ÿ]|\([^\W\d]")
_PREFIXES = frozenset("$\u2022\u2023\u25aa\u25a0\u25cf\u25cb\u25e6\uf0b7")
_SUFFIXES = frozenset({"%", ")", "%)"})
"""Signs that belong to the text after or before them, however far it is."""
_WORD_SPACE, _LETTER_SPACE = 0.5, 0.1
"""Of a text's height: a wider space parts cells, a narrower one does not part words."""
_SAME_LINE, _SAME_ROW, _TIGHT = 0.45, 0.75, 1.35
"""Of a text's height: how far apart the middles are of texts in one line, and of lines in one row."""
_NEAR, _SAME_SPACE = 0.9, 1.1
"""Of the distance to the next row: lines of one header."""
_CLOSE, _APART = 0.85, 1.5
"""Of the usual distance of two lines."""
_GAP, _NEXT = 1.0, 2.2
"""Of a text's height: between cells of a row that was left outside its table, and from it to the table's edge."""
_OVERLAP = 0.1
"""Of the narrower one: a text stands in a column."""
_TALL = 8
"""Of a text's height: a row that holds more is none of a table."""
_LONG, _COLUMN = 0.25, 5
"""Share of a region's width that texts of prose take, and the number of such texts that make a column."""
_FEW_WORDS, _MOST = 4, 0.6
"""Of a cell in a column that was left outside its table, and the share of rows that have such a cell; also of letters
that stand in long texts."""

Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Text:
    """Words that stand close together in one line, and where."""

    left: float
    right: float
    top: float
    bottom: float
    text: str

    @property
    def height(self) -> float:
        return max(self.bottom - self.top, 1.0)

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2


Line = Sequence[Text]


@dataclass(slots=True)
class Row:
    """Cells of a line, or of several, by column.

    `wide`: the columns that a cell spans. `line`: the last one. `lowest`: the last text of each column.
    """

    cells: dict[int, str]
    wide: set[int]
    line: Line
    lowest: dict[int, str]

    @property
    def is_title(self) -> bool:
        """The row is one text from the first column into others, as a caption or a line of prose is."""
        return len(self.cells) == 1 and 0 in self.wide


def find_tables(texts: Iterable[Text], bands: Sequence[Range] = ()) -> Iterator[list[list[str]]]:
    """The tables in a region, one below the other, as rows of cells; what is no table has rows of one cell.

    `bands` are the heights of rows that rules part.
    """
    texts = list(texts)
    if texts and (gutter := _gutter(texts, bands)):
        for is_left in (True, False):
            yield from find_tables([text for text in texts if (text.left + text.right < 2 * gutter) == is_left], bands)
        return
    for lines in _parts(lines_of(texts), bands):
        columns = _columns(lines)
        rows = _rows(lines, columns, bands)
        first, end = _body(rows, len(columns))
        while end - first > 2 and _is_split_header(rows[first : first + 3], rows[first + 2 : end]):
            rows[first : first + 2] = [_joined_rows(rows[first], rows[first + 1])]
            end -= 1
        if first == end:
            prose = "\n".join(" ".join(text.text for text in line) for line in lines)
            yield [[line] for line in _HYPHEN.sub("", prose).split("\n")]
            continue
        yield [[cell] for row in rows[:first] for cell in row.cells.values()]
        filled = sorted({column for row in rows[first:end] for column in row.cells})
        yield [[row.cells.get(column, "") for column in filled] for row in rows[first:end]]
        yield [[cell] for row in rows[end:] for cell in row.cells.values()]


def _is_split_header(rows: Sequence[Row], body: Sequence[Row]) -> bool:
    """Tell whether the first two rows are the two lines of one header, over a body with numbers."""
    upper, lower, below = rows
    if upper.wide or lower.wide or len(lower.cells) < 2 or not lower.cells.keys() <= {*upper.cells, 0}:
        return False
    if any(_NUMBER.match(cell) for row in (upper, lower) for cell in row.cells.values()):
        return False
    numeric = sum(any(_NUMBER.match(cell) for cell in row.cells.values()) for row in body)
    small = sum(bool(_CONTINUATION.match(cell)) for cell in lower.cells.values())
    near, far = _distance(upper.line, lower.line), _distance(lower.line, below.line)
    is_unnamed = (0 in upper.cells) != (0 in lower.cells) and near < _SAME_SPACE * far  # a row of the body has a name
    return numeric > _MOST * len(body) and (near < _NEAR * far or is_unnamed or 2 * small > len(lower.cells))


def _joined_rows(upper: Row, lower: Row) -> Row:
    cells = upper.cells | {
        column: _HYPHEN.sub("", f"{upper.cells.get(column, '')} {cell}".strip()) for column, cell in lower.cells.items()
    }
    return Row(cells, upper.wide, lower.line, upper.lowest | lower.lowest)


def _body(rows: Sequence[Row], columns: int) -> tuple[int, int]:
    """The range of rows between captions or prose that are a table: most have several cells."""
    titles = [row.is_title for row in rows]
    for outside in (titles, [title or list(row.cells) == [0] for title, row in zip(titles, rows, strict=True)]):
        inside = [number for number, text in enumerate(outside) if not text]
        body = rows[inside[0] : inside[-1] + 1] if inside else []
        several, cells = sum(len(row.cells) > 1 for row in body), sum(len(row.cells) for row in body)
        if several >= max(2, len(body) / 2) and cells >= len(body) * columns / 3:
            return inside[0], inside[-1] + 1
    return 0, 0


def _gutter(texts: Sequence[Text], bands: Sequence[Range] = ()) -> float:
    """Return the gap between columns of prose, which are made of long texts; 0 in a table."""
    height = max(text.bottom for text in texts) - min(text.top for text in texts)
    width = max(text.right for text in texts) - min(text.left for text in texts)
    if len(bands) > 2 and max(end - start for start, end in bands) < height / 2:
        return 0
    long = sorted((text for text in texts if text.right - text.left > _LONG * width), key=lambda text: text.left)
    if sum(len(text.text) for text in long) < _MOST * sum(len(text.text) for text in texts):
        return 0
    right, gutters = 0.0, [(0.0, 0.0)]
    for number, text in enumerate(long):
        if min(number, len(long) - number) >= _COLUMN:
            gutters.append((text.left - right, (text.left + right) / 2))
        right = max(right, text.right)
    return max(gutters)[1]


def grow_table(table: Iterable[Text], others: Iterable[Text]) -> set[Text]:
    """The texts of a table with those around it that are a column beside its rows, or further rows of its columns."""
    texts, remaining = set(table), set(others)
    if _gutter([*texts]):
        return texts
    texts |= _beside(lines_of(texts), remaining)
    for upwards in (True, False):
        lines = lines_of(texts)
        left, right = min(line[0].left for line in lines), max(line[-1].right for line in lines)
        aligned = lines_of(
            text for text in remaining - texts if left - text.height < text.left <= text.right < right + text.height
        )
        top, bottom = lines[0][0].middle, lines[-1][0].middle
        if upwards:
            texts |= _next(lines, [line for line in reversed(aligned) if line[0].middle < top])
        else:
            texts |= _next(lines[::-1], [line for line in aligned if line[0].middle > bottom])
    return texts


def _next(lines: Sequence[Line], following: Iterable[Line]) -> set[Text]:
    """Lines that follow the first one as rows of its columns; one of a single text only before a further row."""
    columns, edge = _columns(lines), lines[0]
    texts: set[Text] = set()
    waiting: set[Text] = set()
    for line in following:
        height = line[0].height
        row = _row(line, columns)
        if abs(_distance(edge, line)) > max(_NEXT * height, _APART * abs(_usual_distance(lines))):
            break
        gaps = [text.left - previous.right for previous, text in pairwise(line)]
        several = len(row.cells) > 1 and (not row.wide or len(line) > 2)
        if gaps and min(gaps) > _GAP * height and (several or 2 * len(line) > max(len(columns), 4)):
            texts |= {*waiting, *line}
            waiting = set()
        elif len(line) == 1 and not row.wide and 0 not in row.cells:
            waiting |= {*line}
        else:
            break
        edge = line
    return texts


def _beside(lines: Sequence[Line], others: Iterable[Text]) -> set[Text]:
    """A column of few words, or several of numbers, to the left or right of most of the lines."""
    left, right = min(line[0].left for line in lines), max(line[-1].right for line in lines)
    outside = lines_of(text for text in others if not left <= (text.left + text.right) / 2 <= right)
    heights = [(line[0].middle, _SAME_LINE * line[0].height) for line in lines]
    column = [line for line in outside if any(abs(line[0].middle - middle) < near for middle, near in heights)]
    texts = {text for line in column for text in line}
    if len(column) < _MOST * len(lines) or any(len(text.text.split()) > _FEW_WORDS for text in texts):
        return set()
    numbers = sum(bool(_NUMBER.match(text.text)) for text in texts)
    return texts if len(texts) == len(column) or numbers > _MOST * len(texts) else set()


def lines_of(texts: Iterable[Text]) -> list[Line]:
    lines: list[list[Text]] = []
    for text in sorted(texts, key=lambda text: text.middle):
        first = lines[-1][0] if lines else None
        if first and text.middle - first.middle < _SAME_LINE * min(text.height, first.height):
            lines[-1].append(text)
        else:
            lines.append([text])
    return [_joined(sorted(line, key=lambda text: text.left)) for line in lines]


def _joined(line: Line) -> Line:
    joined: list[Text] = []
    for text in line:
        last = joined[-1] if joined else None
        space = (text.left - last.right) / text.height if last else 0
        near = space < _WORD_SPACE and text.text not in _PREFIXES
        if last and (near or last.text in _PREFIXES or text.text in _SUFFIXES):
            words = f"{last.text}{' ' if space > _LETTER_SPACE else ''}{text.text}"
            top, bottom = min(last.top, text.top), max(last.bottom, text.bottom)
            joined[-1] = Text(last.left, max(last.right, text.right), top, bottom, words)
        elif last and last.text.endswith(" $"):
            joined[-1:] = [replace(last, text=last.text[:-2]), replace(text, text=f"$ {text.text}")]
        else:
            joined.append(text)
    return joined


def _distance(line: Line, other: Line) -> float:
    return other[0].middle - line[0].middle


def _usual_distance(lines: Sequence[Line]) -> float:
    return median([_distance(*pair) for pair in pairwise(lines)] or [0])


def _parts(lines: Sequence[Line], bands: Sequence[Range]) -> Iterator[Sequence[Line]]:
    """Split the lines where one text stands alone, not at the left, such as the title of the next table.

    Also around a band of prose, which takes half of the height.
    """
    far, left = _APART * _usual_distance(lines), min((line[0].left for line in lines), default=0)
    height = _distance(lines[0], lines[-1]) if lines else 0
    tall = max(height / 2, _TALL * lines[0][0].height) if lines else 0
    edges = [edge for band in bands if band[1] - band[0] > tall for edge in band]
    start = 0
    for number, (above, line) in enumerate(pairwise(lines), 1):
        titled = _distance(above, line) > far and len(line) == 1 and line[0].left > left + line[0].height
        if titled or any(above[0].middle < edge <= line[0].middle for edge in edges):
            yield lines[start:number]
            start = number
    yield lines[start:]


def _columns(lines: Sequence[Line]) -> list[Range]:
    """Return the ranges of the columns. A text below two that are side by side belongs to no column."""
    columns: list[tuple[float, float, set[int]]] = []
    texts = [(text, number) for number, line in enumerate(lines) for text in line]
    for text, number in sorted(texts, key=lambda pair: pair[0].right - pair[0].left):
        met = [column for column in columns if _meets(text, column[:2])]
        numbers = [number, *(line for column in met for line in column[2])]
        if len(met) < 2 or len(numbers) == len(set(numbers)):
            left, right = min([text.left, *(c[0] for c in met)]), max([text.right, *(c[1] for c in met)])
            columns = [*(column for column in columns if column not in met), (left, right, set(numbers))]
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


def _space(text: Text, column: Range) -> float:
    """The space between them, negative where they overlap."""
    return max(text.left, column[0]) - min(text.right, column[1])


def _meets(text: Text, column: Range) -> bool:
    return -_space(text, column) > _OVERLAP * min(text.right - text.left, column[1] - column[0])


def _rows(lines: Sequence[Line], columns: Sequence[Range], bands: Sequence[Range]) -> list[Row]:
    rows: list[Row] = []
    usual = _usual_distance(lines)
    capital = sum(not _CONTINUATION.match(line[0].text) for line in lines) > len(lines) / 2
    for line in lines:
        row = _row(line, columns)
        last = rows[-1] if rows else None
        if last is None or row.wide or last.wide & row.cells.keys():
            rows.append(row)
        elif _continues(last, row, bands, usual, capital=capital):
            last.line = line
            last.lowest |= row.cells
            for column, cell in row.cells.items():
                last.cells[column] = _HYPHEN.sub("", f"{last.cells.get(column, '')} {cell}".strip())
        else:
            if capital and 0 in last.cells and _CONTINUATION.match(row.cells.get(0, "")):
                last.cells[0] += f" {row.cells.pop(0)}"
            rows.append(row)
    return rows


def _row(line: Line, columns: Sequence[Range]) -> Row:
    row = Row({}, set(), line, {})
    for text in line:
        met = [number for number, column in enumerate(columns) if _meets(text, column)]
        column = met[0] if met else min(range(len(columns)), key=lambda number: _space(text, columns[number]))
        row.cells[column] = f"{row.cells.get(column, '')} {text.text}".strip()
        row.wide |= set(met) if len(met) > 1 else set()
    row.lowest |= row.cells
    return row


def _continues(last: Row, row: Row, bands: Sequence[Range], usual: float, *, capital: bool) -> bool:
    """Tell whether a line belongs to the row above it. `capital`: the rows of the table do not begin with small
    letters."""
    distance, height = _distance(last.line, row.line), row.line[0].height
    numbers = {column for column, cell in row.cells.items() if _NUMBER.match(cell)}
    if any(_NUMBER.match(last.lowest.get(column, "")) for column in numbers):
        return False
    new = row.cells.keys() - last.cells.keys()
    beside = distance < _SAME_ROW * height and (len(row.cells) == 1 or len(new) == len(row.cells))
    if beside or any(top <= last.line[0].middle and row.line[0].middle <= bottom for top, bottom in bands):
        return True
    if distance > _TIGHT * height:
        return False
    small = capital and all(map(_CONTINUATION.match, row.cells.values()))
    if list(last.cells) == [0] and 0 in row.cells:
        return capital and bool(_CONTINUATION.match(row.cells[0]))
    alone = not new and (0 not in row.cells or small)
    return alone or (not numbers and distance < _CLOSE * usual and len(new) < 2)
