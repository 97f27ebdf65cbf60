"""Tables of a spreadsheet: a Markdown table for each block of cells, and the text around it."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, takewhile

from connectors.parsers import inline_forms
from connectors.parsers.formats.blocks import render_table
from connectors.parsers.formats.grids import MAX_HEADER_ROWS
from retrieval.ingestion.chunking.row_values import is_count, is_number

# Texts by column. Blank cells are absent; cells covered by a merged cell are "".
SheetRow = dict[int, str]
# First row, first column, last row, last column.
CellRange = tuple[int, int, int, int]
# Rows of a block sampled for its layout.
_SAMPLE_ROWS = 30
# Minimum length of running text in a single column.
_MIN_PARAGRAPH_LENGTH = 80
_MAJORITY_SHARE = 0.7
_SEPARATOR_PATTERN = re.compile(r"[:=\-\u2013\u2014]+")
_QUANTITY_PATTERN = re.compile(r"[<>\u2264\u2265~\u00b1+\-\u2212$\u20ac\u00a3(]*\s?\d.*", re.DOTALL)
# A word as short as a unit.
_UNIT_PATTERN = re.compile(
    r"[^\W\d_]{1,4}[\w.\u00b2\u00b3^()/*\u00b7\u00b0]{0,8}|[%\u2030\u00b0\u03a9\u00b5\u2126$\u20ac\u00a3\u2013-]\w{0,4}",
    re.DOTALL,
)


@dataclass
class Sheet:
    """Rows by number, merged and named ranges, and Markdown of content outside the cells."""

    name: str
    rows: dict[int, SheetRow] = field(default_factory=dict)
    merged: list[CellRange] = field(default_factory=list)
    tables: list[CellRange] = field(default_factory=list)
    outside_texts: list[str] = field(default_factory=list)
    # Formulas saved without a result.
    uncalculated: int = 0
    # Rows below the last one that spreadsheet programs have.
    rows_beyond: int = 0


@dataclass
class _CellBlock:
    """Adjacent rows. `is_table`: the file marks the first row as header."""

    rows: list[tuple[int, SheetRow]]
    columns: list[int]
    is_table: bool = False


def link_cell(words: str, address: str) -> str:
    """Return the text of a cell, linked if `address` is a web page not shown in the text."""
    shows_address = not words or not address.startswith(("http://", "https://")) or address in words
    return words if shows_address else f"[{words}]({address.replace('|', '%7C')})"


def cell_reference(row: int, column: int) -> str:
    """Return the reference of a cell, such as `B2`."""
    letters = ""
    while column > 0:
        column, letter = divmod(column - 1, 26)
        letters = chr(65 + letter) + letters
    return f"{letters}{row}"


def sheets_to_markdown(sheets: Sequence[Sheet]) -> str:
    """Convert sheets to Markdown under their names, without blank sheets."""
    texts = [(sheet.name, [*_format_blocks(sheet), *sheet.outside_texts]) for sheet in sheets]
    return (
        "\n\n".join("\n\n".join([f"## {' '.join(name.split())}", *blocks]) for name, blocks in texts if blocks) + "\n"
    )


def records_to_markdown(records: Sequence[Sequence[str]]) -> str:
    """Convert records to one Markdown table; the first full record is the header."""
    width = max(map(len, records), default=0)
    rows = [(number, {at: text for at, text in enumerate(record) if text}) for number, record in enumerate(records)]
    block = _CellBlock([row for row in rows if row[1]], list(range(width)), is_table=width == 1)
    return "\n\n".join(_format_block(block)) + "\n" if block.rows else ""


def _format_blocks(sheet: Sheet) -> Iterator[str]:
    _fill_merged_cells(sheet)
    blocks = []
    for top, left, bottom, right in sheet.tables:
        rows = [(at, sheet.rows[at]) for at in range(top, bottom + 1) if at in sheet.rows]
        occupied = [
            (at, {column: row.pop(column) for column in range(left, right + 1) if column in row}) for at, row in rows
        ]
        blocks.append(
            _CellBlock(
                [(at, row) for at, row in occupied if any(row.values())], list(range(left, right + 1)), is_table=True
            )
        )
    blocks += _split_blocks([(at, row) for at, row in sorted(sheet.rows.items()) if any(row.values())])
    blocks = [block for block in blocks if block.rows]
    for block in _join_blocks(sorted(blocks, key=lambda block: (block.rows[0][0], block.columns[0]))):
        yield from _format_block(block)


def _fill_merged_cells(sheet: Sheet) -> None:
    """Repeat the text of merged cells in each row, and mark the covered cells to the right."""
    numbers = sorted(sheet.rows)
    last = max((max(row, default=0) for row in sheet.rows.values()), default=0)
    for top, left, bottom, right in sheet.merged:
        text = sheet.rows.get(top, {}).get(left, "")
        for at in numbers[bisect_left(numbers, top) : bisect_right(numbers, bottom)] if text else ():
            sheet.rows[at][left] = text
            for column in range(left + 1, min(right, last) + 1):
                sheet.rows[at][column] = ""


def _split_blocks(rows: list[tuple[int, SheetRow]]) -> Iterator[_CellBlock]:
    """Split rows into blocks at blank rows and columns."""
    bands: list[list[tuple[int, SheetRow]]] = []
    for at, row in rows:
        if not bands or at != bands[-1][-1][0] + 1:
            bands.append([])
        bands[-1].append((at, row))
    for band in bands:
        groups = _column_groups(band)
        if len(groups) == 1:
            yield _CellBlock(band, groups[0])
        for group in groups if len(groups) > 1 else ():
            part = [(at, {column: row[column] for column in group if column in row}) for at, row in band]
            yield from _split_blocks([(at, row) for at, row in part if any(row.values())])


def _column_groups(band: Sequence[tuple[int, SheetRow]]) -> list[list[int]]:
    """Group adjacent columns, across a gap too if they continue the rows to the left."""
    filled = {column for _, row in band for column, text in row.items() if text}
    covered = Counter(column for _, row in band for column, text in row.items() if not text)
    filled |= {column for column, count in covered.items() if count > len(band) / 2}
    groups: list[list[int]] = []
    for column in sorted(filled):
        if groups and (column == groups[-1][-1] + 1 or _continues_rows(band, groups[-1], column, filled)):
            groups[-1].append(column)
        else:
            groups.append([column])
    return groups


def _continues_rows(band: Sequence[tuple[int, SheetRow]], left: Sequence[int], column: int, filled: set[int]) -> bool:
    """Check that a column behind a gap continues the rows: numbers, a single full column, or units and values."""
    cells = [row[column] for _, row in band[1 : _SAMPLE_ROWS + 1] if row.get(column)]
    if sum(map(is_number, cells)) > len(cells) / 2:
        return True
    if column + 1 not in filled and len(cells) >= len(band[1 : _SAMPLE_ROWS + 1]) / 2 and len(band) > 2:
        return True
    right = list(takewhile(filled.__contains__, count(column)))
    return _describes([row for _, row in band[:_SAMPLE_ROWS]], left, right)


def _describes(rows: Sequence[SheetRow], left: Sequence[int], right: Sequence[int]) -> bool:
    """Check that the right columns describe labels on the left: `kV : 130`, or units and numbers."""
    both = [row for row in rows if any(map(row.get, right))]
    if sum(any(map(row.get, left)) for row in both) < _MAJORITY_SHARE * len(both):
        return False
    texts = {column: [row[column] for row in rows if row.get(column)] for column in (*left, *right)}
    if any(
        _match_majority(_SEPARATOR_PATTERN, texts[column]) and 2 * len(texts[column]) >= len(rows) for column in right
    ):
        return True
    below = {column: words[1:] or words for column, words in texts.items()}
    has_labels_only = not any(_match_majority(_QUANTITY_PATTERN, below[column]) for column in left[1:] or left)
    return (
        has_labels_only
        and any(_match_majority(_QUANTITY_PATTERN, below[column]) for column in right)
        and _match_majority(_UNIT_PATTERN, below[right[0]])
    )


def _match_majority(pattern: re.Pattern[str], texts: Sequence[str]) -> bool:
    return sum(map(bool, map(pattern.fullmatch, texts))) > _MAJORITY_SHARE * len(texts)


def _join_blocks(blocks: Sequence[_CellBlock]) -> list[_CellBlock]:
    """Join blocks with further rows of the same table behind a blank row."""
    joined: list[_CellBlock] = []
    for block in blocks:
        if joined and not block.is_table and _is_continuation(joined[-1], block):
            joined[-1].rows += block.rows
        else:
            joined.append(block)
    return joined


def _is_continuation(above: _CellBlock, block: _CellBlock) -> bool:
    if above.is_table or len(above.rows) < 2 or len(block.columns) < 2 or not set(block.columns) <= set(above.columns):
        return False
    last, first = above.rows[-1][1], block.rows[0][1]
    numbers = [column for column in block.columns if is_number(first.get(column, ""))]
    is_header = not any(is_count(first[column]) for column in numbers)
    return not is_header and any(is_number(last.get(column, "")) for column in numbers)


def _format_block(block: _CellBlock) -> Iterator[str]:
    """Yield the lines above a table, and the table."""
    rows = [row for _, row in block.rows]
    texts = [row[block.columns[0]] for row in rows] if len(block.columns) == 1 else []
    if texts and not block.is_table and (len(texts) < 3 or max(map(len, texts)) > _MIN_PARAGRAPH_LENGTH):
        yield "\n".join(texts)
        return
    if len(rows) == 1 and not block.is_table and "" in rows[0].values() and sum(map(bool, rows[0].values())) == 1:
        yield _format_line(rows[0])  # a title over merged cells
        return
    first = 0 if block.is_table else _find_header(rows, block.columns)
    if first:
        yield "\n".join(map(_format_line, rows[:first]))
    height = 1 if block.is_table else _header_height(rows[first:], block.columns)
    names = _column_names(rows[first : first + height], block.columns)
    body = rows[first + height :]
    named_columns = [
        (column, name) for column, name in zip(block.columns, names, strict=True) if name or _has_text(body, column)
    ]
    columns = [column for column, _ in named_columns]
    yield render_table(
        [name for _, name in named_columns], [[row.get(column, "") for column in columns] for row in body]
    )


def _has_text(rows: Sequence[SheetRow], column: int) -> bool:
    return any(row.get(column) for row in rows)


def _find_header(rows: Sequence[SheetRow], columns: Sequence[int]) -> int:
    """Return the index of the header row, below titles."""
    for at, row in enumerate(rows[:_SAMPLE_ROWS]):
        filled = [column for column in columns if row.get(column)]
        is_wide = len(filled) >= max(2, len(columns) / 2) and not _is_before_header(
            filled, rows[at + 1 : at + 4], columns
        )
        if is_wide or (at + 1 < len(rows) and _is_group_header(row, rows[at + 1], columns)):
            return at
    return 0


def _is_before_header(filled: Sequence[int], below: Sequence[SheetRow], columns: Sequence[int]) -> bool:
    """Check for a line such as `As of | 2024`, followed by a row of names."""
    names = [[row.get(column, "") for column in columns] for row in below]
    return filled == list(columns[:2]) != list(columns) and any(
        all(row) and not any(map(is_count, row)) for row in names
    )


def _format_line(row: SheetRow) -> str:
    texts = [row[column].replace("\\|", "|") for column in sorted(row) if row[column]]
    return f"{texts[0].rstrip(':')}: {texts[1]}" if len(texts) == 2 else " | ".join(texts)


def _header_height(rows: Sequence[SheetRow], columns: Sequence[int]) -> int:
    height = 1
    while height < min(MAX_HEADER_ROWS, len(rows) - 1) and _is_group_header(rows[height - 1], rows[height], columns):
        height += 1
    return height


def _is_group_header(row: SheetRow, below: SheetRow, columns: Sequence[int]) -> bool:
    """Check that a row groups the columns named in the row below."""
    names = [below.get(column, "") for column in columns]
    if any(map(is_count, names)):
        return False
    spanned = {at for at in columns if row.get(at) == "" or (row.get(at) and row.get(at + 1) == "")}
    if spanned:
        apart = [column for column in columns if column not in spanned]
        clash = any(row.get(at) and below.get(at) and row[at] != below[at] for at in apart)
        groups = {_merged_column(row, at) for at in spanned}
        return not clash and any(below.get(at) for at in spanned) and (len(groups) > 1 or spanned != set(columns))
    upper = [row.get(column, "") for column in columns]
    if all(names) and not upper[0] and 1 < sum(map(bool, upper)) < len(set(names)) < len(names):
        return True
    pairs = list(zip(upper, names, strict=True))  # cells merged with the row below, next to a group that is not merged
    return all(names) and any(name == text for text, name in pairs) and any(not text for text, _ in pairs)


def _merged_column(row: SheetRow, column: int) -> int:
    """Return the column of the merged cell over this column."""
    while row.get(column) == "":
        column -= 1
    return column


def _column_names(header_rows: Sequence[SheetRow], columns: Sequence[int]) -> list[str]:
    """Return the column names, with their groups for headers of several rows."""
    levels = [[row.get(_merged_column(row, column), "") for column in columns] for row in header_rows]
    for level, row in zip(levels[:-1], header_rows[:-1], strict=True):
        if "" not in row.values():  # groups that are not merged reach to the next one
            for at in range(1, len(level)):
                level[at] = level[at] or level[at - 1]
    return [inline_forms.column_name(names) for names in zip(*levels, strict=True)]
