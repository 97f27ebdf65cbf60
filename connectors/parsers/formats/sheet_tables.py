"""The tables of a spreadsheet: a Markdown table for each block of cells, and the lines of text around them."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, takewhile

from connectors.parsers.formats.blocks import render_table
from retrieval.ingestion.chunking.row_values import is_number

Row = dict[int, str]
"""Texts by column. Blank cells are absent, those that a merged cell covers are ""."""
Range = tuple[int, int, int, int]
"""First row, first column, last row, last column."""
_HEADER_ROWS = 3
_SAMPLE = 30
"""Rows of a block that its layout is judged by."""
_PARAGRAPH = 80
"""Characters from which on the text of a column that stands alone is running text."""
_MOST_ROWS = 0.7
_SEPARATOR = re.compile(r"[:=\-\u2013\u2014]+")
_QUANTITY = re.compile(r"[<>\u2264\u2265~\u00b1+\-\u2212$\u20ac\u00a3(]*\s?\d.*", re.DOTALL)
_UNIT = re.compile(
    r"[^\W\d_]{1,4}[\w.\u00b2\u00b3^()/*\u00b7\u00b0]{0,8}|[%\u2030\u00b0\u03a9\u00b5\u2126$\u20ac\u00a3\u2013-]\w{0,4}",
    re.DOTALL,
)
"""A word as short as a unit."""
_YEAR = re.compile(r"(?:19|20)\d\d")


@dataclass
class Sheet:
    """Rows by their numbers, merged and named ranges, and Markdown of content outside of the cells.

    `uncalculated` counts the formulas that were saved without a result.
    """

    name: str
    rows: dict[int, Row] = field(default_factory=dict)
    merged: list[Range] = field(default_factory=list)
    tables: list[Range] = field(default_factory=list)
    beside: list[str] = field(default_factory=list)
    uncalculated: int = 0


@dataclass
class _Block:
    """Rows that belong together. `is_table`: the first row is a header, by the word of the file."""

    rows: list[tuple[int, Row]]
    columns: list[int]
    is_table: bool = False


def cell_reference(row: int, column: int) -> str:
    """The name of a cell, such as `B2`."""
    letters = ""
    while column > 0:
        column, letter = divmod(column - 1, 26)
        letters = chr(65 + letter) + letters
    return f"{letters}{row}"


def sheets_to_markdown(sheets: Sequence[Sheet]) -> str:
    """The sheets below their names; blank ones are left out."""
    texts = [(sheet.name, [*_blocks_of(sheet), *sheet.beside]) for sheet in sheets]
    return (
        "\n\n".join("\n\n".join([f"## {' '.join(name.split())}", *blocks]) for name, blocks in texts if blocks) + "\n"
    )


def of_records(records: Sequence[Sequence[str]]) -> str:
    """Records, of which the first one that is not the title is the header, as one table."""
    width = max(map(len, records), default=0)
    rows = [(number, {at: text for at, text in enumerate(record) if text}) for number, record in enumerate(records)]
    block = _Block([row for row in rows if row[1]], list(range(width)), is_table=width == 1)
    return "\n\n".join(_written(block)) + "\n" if block.rows else ""


def _blocks_of(sheet: Sheet) -> Iterator[str]:
    _spread(sheet)
    blocks = []
    for top, left, bottom, right in sheet.tables:
        rows = [(at, sheet.rows[at]) for at in range(top, bottom + 1) if at in sheet.rows]
        occupied = [
            (at, {column: row.pop(column) for column in range(left, right + 1) if column in row}) for at, row in rows
        ]
        blocks.append(
            _Block(
                [(at, row) for at, row in occupied if any(row.values())], list(range(left, right + 1)), is_table=True
            )
        )
    blocks += _cut([(at, row) for at, row in sorted(sheet.rows.items()) if any(row.values())])
    blocks = [block for block in blocks if block.rows]
    for block in _continued(sorted(blocks, key=lambda block: (block.rows[0][0], block.columns[0]))):
        yield from _written(block)


def _spread(sheet: Sheet) -> None:
    """Repeat the text of a merged cell in each row that it covers, and mark the cells to its right as covered."""
    numbers = sorted(sheet.rows)
    last = max((max(row, default=0) for row in sheet.rows.values()), default=0)
    for top, left, bottom, right in sheet.merged:
        text = sheet.rows.get(top, {}).get(left, "")
        for at in numbers[bisect_left(numbers, top) : bisect_right(numbers, bottom)] if text else ():
            sheet.rows[at][left] = text
            for column in range(left + 1, min(right, last) + 1):
                sheet.rows[at][column] = ""


def _cut(rows: list[tuple[int, Row]]) -> Iterator[_Block]:
    """Blocks between which rows or columns are blank."""
    bands: list[list[tuple[int, Row]]] = []
    for at, row in rows:
        if not bands or at != bands[-1][-1][0] + 1:
            bands.append([])
        bands[-1].append((at, row))
    for band in bands:
        groups = _column_groups(band)
        if len(groups) == 1:
            yield _Block(band, groups[0])
        for group in groups if len(groups) > 1 else ():
            part = [(at, {column: row[column] for column in group if column in row}) for at, row in band]
            yield from _cut([(at, row) for at, row in part if any(row.values())])


def _column_groups(band: Sequence[tuple[int, Row]]) -> list[list[int]]:
    """Columns that stand side by side; those beyond a gap too, where they continue the rows to their left."""
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


def _continues_rows(band: Sequence[tuple[int, Row]], left: Sequence[int], column: int, filled: set[int]) -> bool:
    """Tell whether a column behind a gap has no labels of its own: it holds numbers, or is alone in most rows, or
    begins units and values of the labels to the left of the gap."""
    cells = [row[column] for _, row in band[1 : _SAMPLE + 1] if row.get(column)]
    if sum(map(is_number, cells)) > len(cells) / 2:
        return True
    if column + 1 not in filled and len(cells) >= len(band[1 : _SAMPLE + 1]) / 2 and len(band) > 2:
        return True
    right = list(takewhile(filled.__contains__, count(column)))
    return _describes([row for _, row in band[:_SAMPLE]], left, right)


def _describes(rows: Sequence[Row], left: Sequence[int], right: Sequence[int]) -> bool:
    """Tell whether the columns at the right describe the labels at the left: `kV : 130`, or units and numbers."""
    both = [row for row in rows if any(map(row.get, right))]
    if sum(any(map(row.get, left)) for row in both) < _MOST_ROWS * len(both):
        return False
    texts = {column: [row[column] for row in rows if row.get(column)] for column in (*left, *right)}
    if any(_mostly(_SEPARATOR, texts[column]) and 2 * len(texts[column]) >= len(rows) for column in right):
        return True
    below = {column: words[1:] or words for column, words in texts.items()}
    has_labels_only = not any(_mostly(_QUANTITY, below[column]) for column in left[1:] or left)
    return (
        has_labels_only
        and any(_mostly(_QUANTITY, below[column]) for column in right)
        and _mostly(_UNIT, below[right[0]])
    )


def _mostly(pattern: re.Pattern[str], texts: Sequence[str]) -> bool:
    return sum(map(bool, map(pattern.fullmatch, texts))) > _MOST_ROWS * len(texts)


def _continued(blocks: Sequence[_Block]) -> list[_Block]:
    """The blocks, each joined with those that hold further rows of its table behind a blank one."""
    joined: list[_Block] = []
    for block in blocks:
        if joined and not block.is_table and _continues(joined[-1], block):
            joined[-1].rows += block.rows
        else:
            joined.append(block)
    return joined


def _continues(above: _Block, block: _Block) -> bool:
    if above.is_table or len(above.rows) < 2 or len(block.columns) < 2 or not set(block.columns) <= set(above.columns):
        return False
    last, first = above.rows[-1][1], block.rows[0][1]
    numbers = [column for column in block.columns if is_number(first.get(column, ""))]
    is_header = all(_YEAR.fullmatch(first[column]) for column in numbers)
    return not is_header and any(is_number(last.get(column, "")) for column in numbers)


def _written(block: _Block) -> Iterator[str]:
    """The lines above the table, and the table."""
    rows = [row for _, row in block.rows]
    texts = [row[block.columns[0]] for row in rows] if len(block.columns) == 1 else []
    if texts and not block.is_table and (len(texts) < 3 or max(map(len, texts)) > _PARAGRAPH):
        yield "\n".join(texts)
        return
    first = 0 if block.is_table else _header_at(rows, block.columns)
    if first:
        yield "\n".join(map(_line, rows[:first]))
    height = 1 if block.is_table else _header_height(rows[first:], block.columns)
    names = _names(rows[first : first + height], block.columns)
    body = rows[first + height :]
    named_columns = [
        (column, name) for column, name in zip(block.columns, names, strict=True) if name or _holds(body, column)
    ]
    columns = [column for column, _ in named_columns]
    yield render_table(
        [name for _, name in named_columns], [[row.get(column, "") for column in columns] for row in body]
    )


def _holds(rows: Sequence[Row], column: int) -> bool:
    return any(row.get(column) for row in rows)


def _header_at(rows: Sequence[Row], columns: Sequence[int]) -> int:
    """The first row that is as wide as a header, or the header of groups of columns; those above it are titles."""
    for at, row in enumerate(rows[:_SAMPLE]):
        filled = [column for column in columns if row.get(column)]
        is_wide = len(filled) >= max(2, len(columns) / 2) and not _is_before_header(
            filled, rows[at + 1 : at + 4], columns
        )
        if is_wide or (at + 1 < len(rows) and _is_over(row, rows[at + 1], columns)):
            return at
    return 0


def _is_before_header(filled: Sequence[int], below: Sequence[Row], columns: Sequence[int]) -> bool:
    """Tell whether a row is a line such as `As of | 2024`: a name and a value, then soon a row of names alone."""
    names = [[row.get(column, "") for column in columns] for row in below]
    return filled == list(columns[:2]) != list(columns) and any(
        all(row) and not any(map(_counts, row)) for row in names
    )


def _counts(text: str) -> bool:
    """Tell whether a text is a number other than a year, which may be the name of a column."""
    return is_number(text) and not _YEAR.fullmatch(text)


def _line(row: Row) -> str:
    texts = [row[column].replace("\\|", "|") for column in sorted(row) if row[column]]
    return f"{texts[0].rstrip(':')}: {texts[1]}" if len(texts) == 2 else " | ".join(texts)


def _header_height(rows: Sequence[Row], columns: Sequence[int]) -> int:
    height = 1
    while height < min(_HEADER_ROWS, len(rows) - 1) and _is_over(rows[height - 1], rows[height], columns):
        height += 1
    return height


def _is_over(row: Row, below: Row, columns: Sequence[int]) -> bool:
    """Tell whether a row names groups of the columns that the row below it names."""
    names = [below.get(column, "") for column in columns]
    if any(map(_counts, names)):
        return False
    spanned = {at for at in columns if row.get(at) == "" or (row.get(at) and row.get(at + 1) == "")}
    if spanned:
        apart = [column for column in columns if column not in spanned]
        clash = any(row.get(at) and below.get(at) and row[at] != below[at] for at in apart)
        groups = {_owner(row, at) for at in spanned}
        return not clash and any(below.get(at) for at in spanned) and (len(groups) > 1 or spanned != set(columns))
    upper = [row.get(column, "") for column in columns]
    return all(names) and not upper[0] and 1 < sum(map(bool, upper)) < len(set(names)) < len(names)


def _owner(row: Row, column: int) -> int:
    """The column of the merged cell that covers this one."""
    while row.get(column) == "":
        column -= 1
    return column


def _names(header: Sequence[Row], columns: Sequence[int]) -> list[str]:
    """The names of the columns, `Group / Name` where the header has more than one row."""
    levels = [[row.get(_owner(row, column), "") for column in columns] for row in header]
    for level, row in zip(levels[:-1], header[:-1], strict=True):
        if "" not in row.values():  # groups that are not merged reach to the next one
            for at in range(1, len(level)):
                level[at] = level[at] or level[at - 1]
    return [" / ".join(dict.fromkeys(filter(None, names))) for names in zip(*levels, strict=True)]
