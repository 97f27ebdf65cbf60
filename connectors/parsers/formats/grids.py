"""Tables with merged cells, written as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Cell = tuple[str, int, int]
"""Text, and the numbers of rows and columns that it covers."""
_WIDEST = 1_000


def markdown(rows: Iterable[Iterable[Cell]]) -> str:
    """A Markdown table, or "" if no cell holds text. The text of a merged cell stands in each cell that it covers, so
    that every row can be read alone; a cell as wide as the table is a title and stands in its first column.
    """
    grid: list[list[str]] = []
    covered: dict[tuple[int, int], str] = {}
    titles: list[tuple[int, str, int]] = []
    for at, row in enumerate(rows):
        texts: list[str] = []
        for text, height, width in row:
            while (at, len(texts)) in covered:
                texts.append(covered.pop((at, len(texts))))
            start = len(texts)
            texts += [text] * max(1, min(width, _WIDEST))
            if height > 1:
                covered |= {
                    (at + down, column): text
                    for down in range(1, min(height, _WIDEST))
                    for column in range(start, len(texts))
                }
            if width > 1 and len(texts) == width:
                titles.append((at, text, width))
        while (at, len(texts)) in covered:
            texts.append(covered.pop((at, len(texts))))
        grid.append(texts)
    width = max(map(len, grid), default=0)
    for at, text, covers in titles:
        if covers == width:
            grid[at] = [text]
    filled = [row + [""] * (width - len(row)) for row in grid if any(row)]
    if not filled:
        return ""
    columns = [column for column in range(width) if any(row[column] for row in filled)]
    header, *body = ([cell(row[column]) for column in columns] for row in filled)
    return table(header, body)


def cell(text: str) -> str:
    """A text as a cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")


def table(header: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    first, *body_lines = (f"| {' | '.join(row)} |" for row in (header, *body))
    return "\n".join([first, f"|{' --- |' * len(header)}", *body_lines])
