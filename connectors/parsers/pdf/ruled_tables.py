"""Tables of a PDF page with cells bounded by drawn rules."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from connectors.parsers.pdf.listings import place_regions
from connectors.parsers.pdf.placed_text import NUMBER_PATTERN
from connectors.parsers.pdf.rules import Rule, Rules
from connectors.parsers.pdf.running_text import join_lines

if TYPE_CHECKING:
    from liteparse.types import LayoutBlock, ParsedPage, TextItem, WordBox

Line = Sequence["WordBox"]

# Format of the block of a ruled table, with its Markdown as lines.
RULED = "ruled_table"
# In points: distance within which rules meet, and columns of two pages are the same.
_MEETING_DISTANCE, _SAME_COLUMN = 3.0, 3.0
# In points: minimum width of a column and height of a row, and overhang of rules beyond the outer column.
_MIN_CELL_SIZE, _OVERHANG = 4.0, 6.0
_MAX_ROWS, _MAX_COLUMNS, _MAX_CELLS, _MAX_RULES = 300, 60, 6_000, 600
# Of the page height: a table that continues on the next page ends below it.
_PAGE_END_SHARE = 0.7
_MIN_FILLED_SHARE, _MIN_WORDS = 0.4, 4
# A longer cell is a frame around text.
_MAX_CELL_WORDS = 150
# So many level lines of entries, or of numbers, in two cells of a row are rows without rules.
_MIN_LEVEL_LINES, _MIN_LEVEL_NUMBERS = 4, 2
# Minimum share of lines that begin with a small letter in wrapped text.
_MIN_WRAPPED_SHARE = 0.2
_MAX_CROSSING_SHARE = 0.05
# In heights of a word: space between columns that are ruled elsewhere, or nowhere; and maximum share of such cells.
_COLUMN_SPACE, _WIDE_SPACE, _MAX_SPACED_SHARE = 1.2, 3.0, 0.1
# Of the table's width, and in points: maximum width and distance of the name of a row outside of the rules.
_MAX_LABEL_SHARE, _MAX_LABEL_DISTANCE = 0.3, 40.0
# In heights of a word.
_SAME_LINE, _LETTER_SPACE = 0.5, 0.1
_RIGHT_TO_LEFT = re.compile(r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")


class RuledCell(NamedTuple):
    """Text of a cell with its first column. `is_merged`: across several rows or columns."""

    text: str
    column: int
    is_merged: bool


@dataclass(frozen=True, slots=True)
class RuledTable:
    """Cells of a table by row, with the positions of column borders."""

    rows: Sequence[Sequence[RuledCell]]
    borders: Sequence[float]
    top: float
    bottom: float
    left: float
    right: float
    # Ids of the text items.
    items: frozenset[int] = field(default_factory=frozenset)

    @property
    def header(self) -> Sequence[RuledCell]:
        """First row, if free of merged cells; otherwise empty."""
        return self.rows[0] if not any(cell.is_merged for cell in self.rows[0]) else ()


def place_tables(
    blocks: Sequence[LayoutBlock], page: ParsedPage, rules: Rules, previous: RuledTable | None
) -> tuple[list[LayoutBlock], frozenset[int], RuledTable | None]:
    """Return the blocks with a separate block per ruled table, the ids of all tables' items, and the last table.

    `previous`: table at the end of the page before; a continuation gets the header. The last table is None if text
    follows.
    """
    tables = list(_find_tables(page.text_items, rules))
    if not tables:
        return [*blocks], frozenset(), None
    if previous and _continues(previous, tables[0]) and not _has_text_above(tables[0], page.text_items):
        tables[0] = replace(tables[0], rows=[previous.header, *tables[0].rows])
    placed = place_regions(blocks, page.text_items, tables, _make_block)
    is_at_end = tables[-1].bottom > _PAGE_END_SHARE * page.height and not _has_text_below(tables[-1], page)
    last = tables[-1] if is_at_end else None
    return placed, frozenset(number for table in tables for number in table.items), last


def _continues(previous: RuledTable, table: RuledTable) -> bool:
    """Check for the same columns without a repeated header."""
    is_same = len(previous.borders) == len(table.borders) and all(
        abs(upper - lower) < _SAME_COLUMN for upper, lower in zip(previous.borders, table.borders, strict=True)
    )
    return is_same and bool(previous.header) and list(previous.header) != list(table.rows[0])


def _has_text_above(table: RuledTable, items: Iterable[TextItem]) -> bool:
    """Check for more than a line of text above the table, such as a running title."""
    return len({round(item.y) for item in items if item.text.strip() and item.y + item.height < table.top}) > 1


def _has_text_below(table: RuledTable, page: ParsedPage) -> bool:
    """Check for more than a line of text below the table, such as a page number."""
    return len({round(item.y) for item in page.text_items if item.text.strip() and item.y > table.bottom}) > 1


def _make_block(block: LayoutBlock, table: RuledTable) -> LayoutBlock:
    from liteparse.types import AnnotationRect

    box = AnnotationRect(table.left, table.top, table.right - table.left, table.bottom - table.top)
    lines = list(_format_rows(table))
    return replace(block, kind="table", text=None, lines=lines, bbox=box, header=None, rows=None, format=RULED)


def _format_rows(table: RuledTable) -> Iterator[str]:
    """Yield a Markdown table with each text in the first row and column of its cell."""
    width = len(table.borders) - 1
    grid = [[""] * width for _ in table.rows]
    for row, cells in enumerate(table.rows):
        for cell in cells:
            grid[row][cell.column] = cell.text.replace("|", "\\|")
    columns = [column for column in range(width) if any(texts[column] for texts in grid)]
    for number, texts in enumerate(texts for texts in grid if any(texts)):
        yield f"| {' | '.join(texts[column] for column in columns)} |"
        if number == 0:
            yield f"|{'---|' * len(columns)}"


def _find_tables(items: Sequence[TextItem], rules: Rules) -> Iterator[RuledTable]:
    """Yield the ruled tables from top to bottom."""
    if len(rules.horizontal) + len(rules.vertical) > _MAX_RULES:
        return
    tables: list[RuledTable] = []
    for horizontal, vertical in _connected_rules(rules):
        columns, rows = _column_borders(horizontal, vertical), _merge_positions(rule.position for rule in horizontal)
        if not 3 <= len(columns) <= _MAX_COLUMNS or not 3 <= len(rows) <= _MAX_ROWS:
            continue
        if len(columns) * len(rows) <= _MAX_CELLS and (
            table := _read_table(items, columns, rows, Rules(horizontal, vertical))
        ):
            tables.append(table)
    yield from sorted(tables, key=lambda table: table.top)


def _connected_rules(rules: Rules) -> Iterator[tuple[list[Rule], list[Rule]]]:
    """Yield the horizontal and vertical rules of each connected group."""
    waiting = set(range(len(rules.vertical)))
    pending = set(range(len(rules.horizontal)))
    while pending:
        group, verticals, frontier = {pending.pop()}, set[int](), set[int]()
        frontier = set(group)
        while frontier:
            crossed = {v for v in waiting if any(_meet(rules.horizontal[h], rules.vertical[v]) for h in frontier)}
            waiting -= crossed
            verticals |= crossed
            frontier = {h for h in pending if any(_meet(rules.horizontal[h], rules.vertical[v]) for v in crossed)}
            pending -= frontier
            group |= frontier
        if verticals:
            yield [rules.horizontal[h] for h in sorted(group)], [rules.vertical[v] for v in sorted(verticals)]


def _meet(horizontal: Rule, vertical: Rule) -> bool:
    return (
        horizontal.start - _MEETING_DISTANCE <= vertical.position <= horizontal.end + _MEETING_DISTANCE
        and vertical.start - _MEETING_DISTANCE <= horizontal.position <= vertical.end + _MEETING_DISTANCE
    )


def _column_borders(horizontal: Sequence[Rule], vertical: Sequence[Rule]) -> list[float]:
    """Return the positions of the column borders; a table may have no rule at its sides."""
    borders = _merge_positions(rule.position for rule in vertical)
    left, right = median(rule.start for rule in horizontal), median(rule.end for rule in horizontal)
    return [
        *([left] if left < borders[0] - _OVERHANG else []),
        *borders,
        *([right] if right > borders[-1] + _OVERHANG else []),
    ]


def _merge_positions(positions: Iterable[float]) -> list[float]:
    merged: list[float] = []
    for position in sorted(positions):
        if not merged or position - merged[-1] > _MIN_CELL_SIZE:
            merged.append(position)
    return merged


def _read_table(
    items: Sequence[TextItem], columns: Sequence[float], rows: Sequence[float], rules: Rules
) -> RuledTable | None:
    """Read the cells between the borders; None if they are no table."""
    spans = _merge_cells(columns, rows, rules)
    if spans is None:
        return None
    inside = [item for item in items if item.text.strip() and _is_inside(item, columns, rows)]
    if any(item.rotation % 180 for item in inside) or any(_RIGHT_TO_LEFT.search(item.text) for item in inside):
        return None
    words: dict[tuple[int, int], list[WordBox]] = {}
    crossing = count = 0
    for word in (word for item in inside for word in item.words if word.text.strip()):
        row = min(max(bisect_right(rows, word.y + word.height / 2) - 1, 0), len(rows) - 2)
        column = min(max(bisect_right(columns, word.x + word.width / 2) - 1, 0), len(columns) - 2)
        top, left, _, width = spans[row][column]
        words.setdefault((top, left), []).append(word)
        end = columns[left + width]
        crossing += word.x < columns[left] - word.height / 4 or word.x + word.width > end + word.height / 4
        count += 1
    lines = {cell: _group_lines(cell_words) for cell, cell_words in words.items()}
    cells = {span for line in spans for span in line}
    if (
        count < max(_MIN_WORDS, _MIN_FILLED_SHARE * len(cells))
        or len(words) < max(_MIN_FILLED_SHARE * len(cells), 3)
        or len({left for _, left in words}) < 2
        or crossing > _MAX_CROSSING_SHARE * count
        or max(map(len, words.values())) > _MAX_CELL_WORDS
        or _has_unruled_rows(lines, len(rows) - 1)
        or _has_unruled_columns(lines, columns)
        or _has_outer_labels(items, columns, rows)
    ):
        return None
    texts = {cell: join_lines(map(_join_words, cell_lines)) for cell, cell_lines in lines.items()}
    table_rows = [
        [
            RuledCell(texts.get((row, column), ""), column, height > 1 or width > 1)
            for _, column, height, width in _row_cells(line, row)
        ]
        for row, line in enumerate(spans)
    ]
    items_inside = frozenset(map(id, inside))
    return RuledTable(table_rows, columns, rows[0], rows[-1], columns[0], columns[-1], items_inside)


def _row_cells(spans: Sequence[tuple[int, int, int, int]], row: int) -> list[tuple[int, int, int, int]]:
    """Return the cells starting in a row, from left to right."""
    return sorted({span for span in spans if span[0] == row}, key=lambda span: span[1])


def _is_inside(item: TextItem, columns: Sequence[float], rows: Sequence[float]) -> bool:
    x, y = item.x + item.width / 2, item.y + item.height / 2
    return columns[0] <= x <= columns[-1] and rows[0] <= y <= rows[-1]


def _merge_cells(
    columns: Sequence[float], rows: Sequence[float], rules: Rules
) -> list[list[tuple[int, int, int, int]]] | None:
    """Return (row, column, height, width) of the merged cell at each position; None if one is no rectangle."""
    width, height = len(columns) - 1, len(rows) - 1
    middles_x = [(left + right) / 2 for left, right in pairwise(columns)]
    middles_y = [(top + bottom) / 2 for top, bottom in pairwise(rows)]
    spans: list[list[tuple[int, int, int, int] | None]] = [[None] * width for _ in range(height)]
    for row in range(height):
        for column in range(width):
            if spans[row][column]:
                continue
            right, bottom = column + 1, row + 1
            while right < width and not _is_ruled(rules.vertical, columns[right], middles_y[row]):
                right += 1
            while bottom < height and not _is_ruled(rules.horizontal, rows[bottom], middles_x[column]):
                bottom += 1
            for lower in range(row, bottom):
                for at in range(column, right):
                    is_open_right = at + 1 < right and _is_ruled(rules.vertical, columns[at + 1], middles_y[lower])
                    is_open_below = lower + 1 < bottom and _is_ruled(rules.horizontal, rows[lower + 1], middles_x[at])
                    if spans[lower][at] or is_open_right or is_open_below:
                        return None
                    spans[lower][at] = (row, column, bottom - row, right - column)
    return [[span for span in line if span] for line in spans]


def _is_ruled(rules: Sequence[Rule], position: float, at: float) -> bool:
    return any(abs(rule.position - position) <= _MIN_CELL_SIZE and rule.start <= at <= rule.end for rule in rules)


def _group_lines(words: Iterable[WordBox]) -> list[Line]:
    """Return the words of a cell by line, from top to bottom and left to right."""
    lines: list[list[WordBox]] = []
    for word in sorted(words, key=_middle):
        if lines and _middle(word) - _middle(lines[-1][0]) < _SAME_LINE * max(word.height, lines[-1][0].height):
            lines[-1].append(word)
        else:
            lines.append([word])
    return [sorted(line, key=lambda word: word.x) for line in lines]


def _middle(word: WordBox) -> float:
    return float(word.y + word.height / 2)


def _join_words(line: Line) -> str:
    text, end = "", line[0].x
    for word in line:
        is_apart = text and word.x - end > _LETTER_SPACE * word.height
        text += f" {word.text}" if is_apart else word.text
        end = word.x + word.width
    return text


def _has_unruled_rows(lines: Mapping[tuple[int, int], Sequence[Line]], height: int) -> bool:
    """Check for neighbouring cells with level lines of separate entries."""
    for row in range(height):
        cells = [cell for (top, _), cell in lines.items() if top == row and len(cell) > 1]
        for cell, neighbor in combinations(cells, 2):
            level = {round(_middle(line[0])) for line in cell} & {round(_middle(line[0])) for line in neighbor}
            are_numbers = any(
                all(NUMBER_PATTERN.match(_join_words(line)) for line in entries) for entries in (cell, neighbor)
            )
            are_entries = not _is_wrapped(cell) and not _is_wrapped(neighbor)
            if (len(level) >= _MIN_LEVEL_NUMBERS and are_numbers) or (len(level) >= _MIN_LEVEL_LINES and are_entries):
                return True
    return False


def _is_wrapped(cell: Sequence[Line]) -> bool:
    """Check for lines within a sentence."""
    return sum(line[0].text[:1].islower() for line in cell) > _MIN_WRAPPED_SHARE * len(cell)


def _has_unruled_columns(lines: Mapping[tuple[int, int], Sequence[Line]], columns: Sequence[float]) -> bool:
    """Check for many cells with wide spaces between words, or with words in columns ruled elsewhere."""
    spaced = sum(any(_has_wide_space(line, columns) for line in cell) for cell in lines.values())
    return spaced > _MAX_SPACED_SHARE * len(lines)


def _has_wide_space(line: Line, columns: Sequence[float]) -> bool:
    for word, following in pairwise(line):
        end = word.x + word.width
        is_ruled = any(end < border < following.x for border in columns)
        if following.x - end > (_COLUMN_SPACE if is_ruled else _WIDE_SPACE) * word.height:
            return True
    return False


def _has_outer_labels(items: Iterable[TextItem], columns: Sequence[float], rows: Sequence[float]) -> bool:
    """Check for short texts at the sides of the table, such as names of rows."""
    width = columns[-1] - columns[0]
    return any(
        rows[0] < item.y + item.height / 2 < rows[-1]
        and item.width < _MAX_LABEL_SHARE * width
        and item.text.strip()
        and (
            0 <= columns[0] - item.x - item.width < _MAX_LABEL_DISTANCE
            or 0 <= item.x - columns[-1] < _MAX_LABEL_DISTANCE
        )
        for item in items
    )
