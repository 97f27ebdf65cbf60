"""Render tables with spanning cells and nested tables as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType

from connectors.parsers import inline_forms
from connectors.parsers.formats.blocks import render_table, table_cell
from retrieval.ingestion.chunking.row_values import is_count, is_number

# Text, and numbers of spanned rows and columns.
Cell = tuple[str, int, int]
MAX_SPAN = 1_000
MAX_HEADER_ROWS = 3
# Rows below a header inspected for numbers.
_SAMPLE_ROWS = 3
_BLANK_CELL = -1
# Columns with a common cell in at least this share of rows are one column.
_SAME_COLUMN_SHARE = 0.5
# Longer lines of a cell wrap, and stand no more next to those of other cells.
_MAX_LINE_LENGTH = 60


def grid_markdown(
    rows: Iterable[Iterable[Cell]],
    nested: Mapping[int, Sequence[str]] = MappingProxyType({}),
    narrow: Collection[int] = (),
    header_rows: int = 0,
) -> str:
    """Return a Markdown table; "" without text. Parallel lines of cells become separate rows.

    `nested`: blocks to insert after a row, by row number. `narrow`: grid columns narrower than a letter, as between
    hand-drawn edges. `header_rows`: number of header rows by the file's marks.
    """
    rows, ends = _divide_rows(rows, header_rows)
    nested = {ends[at]: blocks for at, blocks in nested.items() if at < len(ends)}
    texts, grid = _lay_out_cells(rows)
    columns = _merge_columns(grid, texts, {*narrow} - _exclusive_columns(grid, texts, narrow))
    table = [[next((row[at] for at in column if texts[row[at]]), _BLANK_CELL) for column in columns] for row in grid]
    first, end = _find_header(table, texts, header_rows)
    if end - first < 2 or any(at in nested for at in range(first, end)):
        first = end = -1
    lines: list[tuple[int, list[str]]] = []
    # A merged cell repeats in each row that it covers, a header in each column too. A full-width cell is a title.
    divided = _divided_columns(table)
    header_count = 0
    in_header = True
    for number, cells in enumerate(table):
        repeated = [cell == beside != _BLANK_CELL for cell, beside in pairwise([_BLANK_CELL, *cells])]
        is_title = _is_title(cells)
        words = [texts[cell] for cell in cells]
        if first <= number < end:
            levels = ([texts[row[at]] for row in table[first:end]] for at in range(len(cells)))
            words = [inline_forms.column_name(names) for names in levels] if number == end - 1 else []
        elif any(repeated):
            groups = divided if in_header and not is_title else ()
            words = [
                "" if is_repeated and at not in groups else text
                for at, (text, is_repeated) in enumerate(zip(words, repeated, strict=True))
            ]
        if any(words) or number in nested:
            lines.append((number, words or [""] * len(cells)))
        header_count += not is_title
        in_header = in_header and (is_title or (any(repeated) and header_count < MAX_HEADER_ROWS))
    return "\n\n".join(_split_at_nested(lines, nested))


def _divide_rows(rows: Iterable[Iterable[Cell]], header_rows: int) -> tuple[list[list[Cell]], list[int]]:
    """Write lines that cells have in parallel as rows; return the number of the last row of each given row."""
    divided: list[list[Cell]] = []
    ends: list[int] = []
    # Last given row, and column, of each cell that reaches below its row.
    tall: list[tuple[int, int, int]] = []
    for at, cells in enumerate(map(list, rows)):
        count = _count_parallel_lines(cells, is_header=at < max(header_rows, 1))
        for last, row, column in tall if count else ():
            text, height, width = divided[row][column]
            divided[row][column] = text, height + (count - 1) * (last >= at), width
        tall += [(at + cell[1] - 1, len(divided), column) for column, cell in enumerate(cells) if cell[1] > 1]
        divided += _divide_row(cells, count) if count else [cells]
        ends.append(len(divided) - 1)
    return divided, ends


def _count_parallel_lines(cells: Sequence[Cell], *, is_header: bool) -> int:
    """Return how many lines several cells have, line by line, as names and values of one entry each; else 0."""
    if sum("\n" in text for text, _, _ in cells) < 2 or any(height > 1 for _, height, _ in cells):
        return 0
    filled = [text for text, _, _ in cells if text.strip()]
    count = max(text.rstrip().count("\n") for text in filled) + 1
    parallel = [text.split("\n")[:count] for text in filled if "\n" in text.rstrip()]
    is_uneven = any(len(lines) < count or max(map(len, lines)) > _MAX_LINE_LENGTH for lines in parallel)
    # A label above its value, as in forms.
    has_labels = any(lines[0].endswith(":") and not lines[-1].endswith(":") for lines in parallel)
    if len(parallel) < 2 or is_uneven or has_labels:
        return 0
    has_values = any(all(not line or is_number(line) for line in lines) for lines in parallel)
    has_names = "\n" in filled[0].rstrip() or all(any(map(str.isalpha, line)) for line in parallel[0] if line)
    return count if has_names and (has_values or (count > 2 and not is_header)) else 0


def _divide_row(cells: Sequence[Cell], count: int) -> Iterable[list[Cell]]:
    """Yield a row per line; single-line cells left of the parallel ones are repeated as names of all rows."""
    first = next(at for at, (text, _, _) in enumerate(cells) if "\n" in text.rstrip())
    lines = [[*text.split("\n"), *[""] * count] for text, _, _ in cells]
    for number in range(count):
        yield [(lines[at][0 if at < first else number], 1, width) for at, (_, _, width) in enumerate(cells)]


def _find_header(table: Sequence[Sequence[int]], texts: Sequence[str], marked: int) -> tuple[int, int]:
    """Return the range of the header rows below a title; `marked`: rows that the file marks as header."""
    first = next((at for at, row in enumerate(table) if not _is_title(row)), 0)
    end = first + 1
    while end < min(first + MAX_HEADER_ROWS, len(table) - 1) and (
        _names_groups(table[end - 1], table[end], table[end + 1 :][:_SAMPLE_ROWS], texts)
        or (end < marked and not _is_title(table[end]))
    ):
        end += 1
    return first, end


def _divided_columns(rows: Sequence[Sequence[int]]) -> set[int]:
    """Return the columns that most of the rows divide from the column before."""
    rows = [row for row in rows if not _is_title(row)]
    counts = Counter(at for row in rows for at in range(1, len(row)) if row[at - 1] != row[at])
    return {at for at, count in counts.items() if 2 * count >= len(rows)}


def _is_title(row: Sequence[int]) -> bool:
    """Check for a row filled by one text."""
    return len(row) > 1 and row[0] != _BLANK_CELL and len({*row}) == 1


def _names_groups(
    upper: Sequence[int], lower: Sequence[int], below: Sequence[Sequence[int]], texts: Sequence[str]
) -> bool:
    """Check for cells above several columns named by the next row."""
    spanned = {at for at, cell in enumerate(upper) if cell != _BLANK_CELL and upper.count(cell) > 1}
    names = [texts[lower[at]] for at in spanned if lower[at] not in upper]
    apart = [at for at in range(len(upper)) if at not in spanned]
    if len({*names} - {""}) < 2 or any(is_count(texts[cell]) for cell in lower):
        return False
    if any(texts[upper[at]] and texts[lower[at]] and upper[at] != lower[at] for at in apart):
        return False
    is_blank_below = any(texts[upper[at]] and (lower[at] == upper[at] or not texts[lower[at]]) for at in apart)
    has_numbers = any(is_number(texts[row[at]]) for row in below for at in spanned)
    return is_blank_below or has_numbers or len({*names}) < len(names)


def _split_at_nested(lines: Sequence[tuple[int, list[str]]], nested: Mapping[int, Sequence[str]]) -> Iterable[str]:
    """Yield the parts of the table between nested blocks."""
    filled = [at for at in range(max((len(row) for _, row in lines), default=0)) if any(row[at] for _, row in lines)]
    header, body, is_written = list[str](), list[list[str]](), False
    for number, row in lines:
        cells = [table_cell(row[at]) for at in filled] if any(row) else []
        body += [cells] if cells and header else []
        header = header or cells
        if blocks := nested.get(number):
            if body or (header and not is_written):
                yield render_table(header, body)
                body, is_written = [], True
            yield from filter(None, blocks)
    if body or (header and not is_written):
        yield render_table(header, body)


def _lay_out_cells(rows: Iterable[Iterable[Cell]]) -> tuple[list[str], list[list[int]]]:
    """Return cell texts, the last blank, and the cell number at each grid position."""
    texts: list[str] = []
    grid: list[list[int]] = []
    covered: dict[tuple[int, int], int] = {}
    for at, row in enumerate(rows):
        places: list[int] = []
        for text, height, width in row:
            while (at, len(places)) in covered:
                places.append(covered.pop((at, len(places))))
            start = len(places)
            places += [len(texts)] * max(1, min(width, MAX_SPAN))
            if height > 1:
                down = range(at + 1, at + min(height, MAX_SPAN))
                covered |= {(below, column): len(texts) for below in down for column in range(start, len(places))}
            texts.append(text)
        while (at, len(places)) in covered:
            places.append(covered.pop((at, len(places))))
        grid.append(places)
    width = max(map(len, grid), default=0)
    return [*texts, ""], [places + [_BLANK_CELL] * (width - len(places)) for places in grid]


def _merge_columns(grid: Sequence[Sequence[int]], texts: Sequence[str], narrow: Collection[int]) -> list[list[int]]:
    """Return the grid positions of each output column; a row with text on both sides of a line divides two columns."""
    columns: list[list[int]] = []
    for at in range(len(grid[0]) if grid else 0):
        if at in narrow or (at and all(row[at - 1] == row[at] for row in grid)):
            continue
        if columns and _is_undivided(grid, texts, columns[-1], at):
            columns[-1].append(at)
        else:
            columns.append([at])
    return columns


def _exclusive_columns(grid: Sequence[Sequence[int]], texts: Sequence[str], narrow: Collection[int]) -> set[int]:
    """Return the narrow columns with the only copy of a text."""
    places: set[int] = set()
    for row in grid if narrow else ():
        elsewhere = {cell for at, cell in enumerate(row) if at not in narrow}
        places |= {at for at in narrow if at < len(row) and texts[row[at]] and row[at] not in elsewhere}
    return places


def _is_undivided(grid: Sequence[Sequence[int]], texts: Sequence[str], column: Sequence[int], at: int) -> bool:
    alike = filled = 0
    for row in grid:
        if row[0] == row[-1]:
            continue  # a title
        cells = {row[column_at] for column_at in column if texts[row[column_at]]}
        if texts[row[at]] and cells - {row[at]}:
            return False
        filled += bool(cells) or bool(texts[row[at]])
        alike += row[at - 1] == row[at] and bool(texts[row[at]])
    return alike > _SAME_COLUMN_SHARE * filled
