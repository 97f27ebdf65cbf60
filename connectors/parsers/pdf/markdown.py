"""Markdown of PDF pages by liteparse (https://github.com/run-llama/liteparse), which reads their geometry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from connectors.parsers.document import tidy_markdown
from connectors.parsers.pdf import grid
from connectors.parsers.pdf.grid import Text

if TYPE_CHECKING:
    from liteparse import LiteParse
    from liteparse.types import AnnotationRect, LayoutBlock, ParsedPage


_UPRIGHT = 45
"""Degrees."""


def of_pages(path: Path, first: int, last: int) -> dict[int, str]:
    """The Markdown of each page from `first` to `last`, counted from 1. A page that cannot be read has none."""
    from liteparse import ParseError

    try:
        pages = _parser(f"{first}-{last}").parse(path.read_bytes()).pages  # a path needs the ending `.pdf`
    except ParseError:
        return {}
    return {page.page_num: tidy_markdown(_markdown(page)) for page in pages}


@lru_cache(maxsize=1)
def _parser(pages: str) -> LiteParse:
    from liteparse import LiteParse

    return LiteParse(
        ocr_enabled=False,
        output_format="markdown",
        quiet=True,
        target_pages=pages,
        continue_on_page_error=True,
        keep_headers_footers=True,
        extract_links=False,
        extract_blocks=True,
        num_workers=1,
    )


def _markdown(page: ParsedPage) -> str:
    parts: list[str] = []
    in_list = False
    blocks = page.blocks or ()
    texts = _texts(page) if any(block.kind == "table" for block in blocks) else set()
    regions: dict[int, set[Text]] = {}
    for number, block in enumerate(blocks):
        if block.kind == "table" and (region := {text for text in texts if _holds(block, text)}):
            regions[number] = grid.grow_table(region, texts - region)
            texts -= regions[number]
    table_texts = set().union(*regions.values())
    for number, block in enumerate(blocks):
        if number in regions:
            lines = _tables(block, regions[number])
        elif block.kind != "code" and any(_holds(block, text) for text in table_texts):
            lines = iter(
                " ".join(text.text for text in line) for line in grid.lines_of(t for t in texts if _holds(block, t))
            )
        else:
            lines = _lines(block)
        text = "\n".join(lines).strip("\n")
        if text:
            if parts:
                parts.append("\n" if in_list and block.kind == "list_item" else "\n\n")
            parts.append(text)
            in_list = block.kind == "list_item"
    return "".join(parts)


def _texts(page: ParsedPage) -> set[Text]:
    """The texts of a page that are read from the left."""
    return {
        Text(item.x, item.x + item.width, item.y, item.y + item.height, item.text.strip())
        for item in page.text_items
        if item.text.strip() and not _UPRIGHT < item.rotation % 180 < 180 - _UPRIGHT
    }


def _tables(block: LayoutBlock, texts: set[Text]) -> Iterator[str]:
    rows = [*([block.header] if block.header else []), *(block.rows or [])]
    for table in grid.find_tables(texts, _bands([[cell.bbox for cell in row if cell.bbox] for row in rows])):
        yield from _table(table) if any(len(row) > 1 for row in table) else (" ".join(row) for row in table)
        yield ""


def _holds(block: LayoutBlock, text: Text) -> bool:
    if not (box := block.bbox):
        return False
    x, y = (text.left + text.right) / 2 - box.x, text.middle - box.y
    return -1 <= x <= box.width + 1 and -1 <= y <= box.height + 1


def _bands(rows: Iterable[Sequence[AnnotationRect]]) -> list[grid.Range]:
    """The heights of rows whose cells fill the table: rules part them."""
    return [
        (row[0].y, row[0].y + row[0].height)
        for row in rows
        if len(row) > 1 and all(abs(box.x + box.width - next_box.x) < 1 for box, next_box in pairwise(row))
    ]


def _lines(block: LayoutBlock) -> Iterator[str]:
    text = " ".join((block.text or "").split())
    if block.kind == "heading" and text:
        yield f"{'#' * min(block.level or 1, 6)} {text}"
    elif block.kind == "list_item" and text:
        marker = block.marker if block.ordered and block.marker else "-"
        yield f"{'  ' * (block.level or 0)}{marker} {text}"
    elif block.kind == "table":
        yield from _table([[cell.text for cell in row] for row in [block.header or [], *(block.rows or [])] if row])
    elif block.kind == "code":
        yield from (f"```{block.lang or ''}", *(block.lines or ()), "```")
    elif block.kind == "grid_fallback":
        yield from (" ".join(line.split()) for line in block.lines or ())
    elif text:
        yield text


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    cells = [[" ".join(cell.replace("|", "\\|").split()) for cell in row] for row in rows]
    width = max(map(len, cells), default=0)
    for number, row in enumerate(cells):
        yield f"| {' | '.join([*row, *[''] * (width - len(row))])} |"
        if number == 0:
            yield f"|{'---|' * width}"
