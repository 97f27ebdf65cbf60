"""Markdown of PDF pages by liteparse (https://github.com/run-llama/liteparse), from their geometry."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from connectors.parsers.document import tidy_markdown
from connectors.parsers.pdf import column_order, grid, listings, panels, ruled_tables, running_text, sideways
from connectors.parsers.pdf.layer import TextLayer
from connectors.parsers.pdf.missing_text import solid_text
from connectors.parsers.pdf.placed_text import Line, PlacedText, Range
from connectors.parsers.pdf.ruled_tables import RuledTable
from connectors.parsers.pdf.running_text import RunningFont
from connectors.parsers.pdf.sideways import SidewaysText

if TYPE_CHECKING:
    from liteparse import LiteParse
    from liteparse.types import AnnotationRect, LayoutBlock, ParsedPage


# Maximum rotation of upright text in degrees.
_MAX_UPRIGHT_DEGREES = 45


_RELATION_SIGN = re.compile(r"[=\u2264\u2265\u2248\u2260\u2261\u2211\u220f\u222b\u221a\u2202\u221d\u2208]")
_OPERATOR_SIGN, _LONG_WORD = re.compile(r"[+*/^<>\u00b1\u00d7\u00f7\u2212]"), re.compile(r"[^\W\d_]{3}")
_CODE_SIGN = re.compile(r"[{}<>=\[\]]|\w\(|;$|^\s*(?:#|//|\$ )", re.MULTILINE)
# A word that goes on after a line of which a word is emphasized: liteparse emphasizes all of it.
_TORN_WORD = re.compile(r"(\*{1,3})([^*]+[^\W\d_])-\1 (?=[^\W\d_A-Z])")
# Minimum of texts for a reading direction.
_MIN_DIRECTION_TEXTS = 3


@dataclass(frozen=True, slots=True)
class PageMarkdown:
    """Markdown of a page, and its number of reading directions."""

    text: str
    direction_count: int = 1


def convert_pages(path: Path, first: int, last: int, layers: Mapping[int, TextLayer]) -> dict[int, PageMarkdown]:
    """Return the Markdown of pages `first` to `last`, counted from 1, without unreadable pages."""
    from liteparse import ParseError

    try:
        pages = _load_parser(f"{first}-{last}").parse(path.read_bytes()).pages  # a path needs the ending `.pdf`
    except ParseError:
        return {}
    font = running_text.find_running_font(pages)
    monospaced = listings.find_monospaced(item for page in pages for item in page.text_items)
    monospaced = frozenset() if font.names <= monospaced else monospaced  # a typewriter writes prose
    converted: dict[int, PageMarkdown] = {}
    last_table: RuledTable | None = None
    for page in pages:
        layer = layers[page.page_num]
        blocks, table_ids, last_table = ruled_tables.place_tables(
            column_order.order_columns(running_text.correct_blocks(page, font), page.width),
            page,
            layer.rules,
            last_table,
        )
        converted[page.page_num] = _convert_page(page, blocks, table_ids, layer.sideways, font, monospaced)
    return converted


@lru_cache(maxsize=1)
def _load_parser(pages: str) -> LiteParse:
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
        emit_word_boxes=True,
    )


def _convert_page(
    page: ParsedPage,
    blocks: Sequence[LayoutBlock],
    table_ids: frozenset[int],
    layer_sideways: Sequence[SidewaysText],
    font: RunningFont,
    monospaced: frozenset[str],
) -> PageMarkdown:
    if not table_ids and (text := panels.read_panels(page, font)):
        return PageMarkdown(tidy_markdown(text))
    liteparse_sideways = _sideways_texts(page)
    # liteparse tears sideways words apart.
    sideways_texts = (layer_sideways or liteparse_sideways) if liteparse_sideways else []
    blocks, listing_ids = listings.place_listings(blocks, page, monospaced, font.height)
    texts = (
        _upright_texts(page, listing_ids | table_ids)
        if sideways_texts or any(block.kind == "table" for block in blocks)
        else set()
    )
    headers = sideways.find_headers(sideways_texts, texts) if sideways_texts else {}
    header_lines = {line for lines in headers.values() for line in lines}
    outer_texts = (item for item in sideways_texts if item not in header_lines)
    sideways_groups = sideways.turn_upright(outer_texts, page.width, page.height)
    direction_count = bool(headers) + sum(len(group) >= _MIN_DIRECTION_TEXTS for group in (texts, *sideways_groups))
    turned = [item.text for item in (*liteparse_sideways, *sideways_texts)]
    parts = [*_upright_parts(blocks, texts, turned, [*headers])]
    for group in sideways_groups:
        tables = sideways.sideways_tables(group)
        parts += [("\n".join(_format_rows(table)), False) for table in tables if table]
    text, in_list = "", False
    for part, is_item in parts:
        text += ("" if not text else "\n" if in_list and is_item else "\n\n") + part
        in_list = is_item
    return PageMarkdown(tidy_markdown(text), max(direction_count, 1))


def _upright_parts(
    blocks: Sequence[LayoutBlock], texts: set[PlacedText], turned: Sequence[PlacedText], headers: Sequence[PlacedText]
) -> Iterator[tuple[str, bool]]:
    """Yield the text of each block and True for a list item."""
    regions: dict[int, set[PlacedText]] = {}
    texts, waiting = set(texts), set(headers)
    for number, block in enumerate(blocks):
        if block.kind == "table" and (region := {text for text in texts if _contains(block, text)}):
            above = {header for header in waiting if _is_above(header, region)}
            waiting -= above
            regions[number] = grid.grow_table(region, texts - region)
            texts -= regions[number]
            side_texts = {text for text in texts if above and _is_side_text(text, above, regions[number])}
            texts -= side_texts
            regions[number] |= above | side_texts
    if waiting and (region := sideways.table_below(waiting, texts)):
        first = next(number for number, block in enumerate(blocks) if any(_contains(block, text) for text in region))
        regions.setdefault(first, set()).update(region | waiting)
        texts -= region
    table_texts = set().union(*regions.values())
    outer_lines = _find_outer_lines(blocks, texts)
    for number, block in enumerate(blocks):
        yield from ((" ".join(text.text for text in line), False) for line in outer_lines.get(number, ()))
        if number in regions:
            lines = _format_tables(block, regions[number], headers)
        elif block.kind != "code" and any(_contains(block, text) for text in (*table_texts, *turned)):
            lines = iter(
                " ".join(text.text for text in line)
                for line in grid.group_lines(t for t in texts if _contains(block, t))
            )
        else:
            lines = _block_lines(block)
        if text := "\n".join(lines).strip("\n"):
            yield text, block.kind == "list_item"
    yield from ((" ".join(text.text for text in line), False) for line in outer_lines.get(len(blocks), ()))


def _find_outer_lines(blocks: Sequence[LayoutBlock], texts: Collection[PlacedText]) -> dict[int, list[Line]]:
    """Return the lines outside all blocks, by the number of the next block."""
    outside = [text for text in texts if not any(_contains(block, text) for block in blocks)]
    if not outside:
        return {}
    solid = solid_text(" ".join(block.text or "" for block in blocks))
    solid_page = solid_text(" ".join(text.text for line in grid.group_lines(texts) for text in line))
    lines: dict[int, list[Line]] = {}
    for line in grid.group_lines(outside):
        letters = solid_text(" ".join(text.text for text in line))
        # The box of a heading of several lines may be the first line's.
        if not letters or solid.count(letters) < solid_page.count(letters):
            above = [at for at, block in enumerate(blocks, 1) if block.bbox and _is_below(line, block.bbox)]
            lines.setdefault(max(above, default=0), []).append(line)
    return lines


def _is_below(line: Line, box: AnnotationRect) -> bool:
    is_beside = line[-1].right < box.x or line[0].left > box.x + box.width
    return line[0].middle > box.y + box.height / 2 and not is_beside


def _is_side_text(text: PlacedText, headers: Iterable[PlacedText], region: Iterable[PlacedText]) -> bool:
    """Check that a text is level with vertical headers and above a column of the table."""
    in_line = any(abs(text.bottom - header.bottom) < header.height for header in headers)
    return in_line and any(text.left < word.right and word.left < text.right for word in region)


def _is_above(header: PlacedText, region: Iterable[PlacedText]) -> bool:
    return any(text.left < header.right and header.left < text.right and text.middle > header.top for text in region)


def _upright_texts(page: ParsedPage, placed_ids: frozenset[int]) -> set[PlacedText]:
    """Return the upright texts of a page. `placed_ids`: ids of the items of listings and ruled tables."""
    return {
        PlacedText(item.x, item.x + item.width, item.y, item.y + item.height, item.text.strip())
        for item in page.text_items
        if item.text.strip()
        and id(item) not in placed_ids
        and not _MAX_UPRIGHT_DEGREES < item.rotation % 180 < 180 - _MAX_UPRIGHT_DEGREES
    }


def _sideways_texts(page: ParsedPage) -> list[SidewaysText]:
    """Return the sideways texts of a page."""
    return [
        SidewaysText(
            PlacedText(item.x, item.x + item.width, item.y, item.y + item.height, item.text.strip()),
            item.rotation > 180,
        )
        for item in page.text_items
        if item.text.strip() and _MAX_UPRIGHT_DEGREES < item.rotation % 180 < 180 - _MAX_UPRIGHT_DEGREES
    ]


def _format_tables(block: LayoutBlock, texts: set[PlacedText], headers: Sequence[PlacedText]) -> Iterator[str]:
    rows = [*([block.header] if block.header else []), *(block.rows or [])]
    bands = _ruled_bands([[cell.bbox for cell in row if cell.bbox] for row in rows])
    bands = [band for band in bands if not any(band[0] < header.middle < band[1] for header in headers)]
    for table in grid.find_tables(texts, bands):
        yield from _format_rows(table)
        yield ""


def _format_rows(table: Sequence[Sequence[str]]) -> Iterator[str]:
    return _format_table(table) if any(len(row) > 1 for row in table) else (" ".join(row) for row in table)


def _contains(block: LayoutBlock, text: PlacedText) -> bool:
    if not (box := block.bbox):
        return False
    x, y = (text.left + text.right) / 2 - box.x, text.middle - box.y
    return -1 <= x <= box.width + 1 and -1 <= y <= box.height + 1


def _ruled_bands(rows: Iterable[Sequence[AnnotationRect]]) -> list[Range]:
    """Return the vertical ranges of rows without gaps between cells, as in ruled tables."""
    return [
        (row[0].y, row[0].y + row[0].height)
        for row in rows
        if len(row) > 1 and all(abs(box.x + box.width - next_box.x) < 1 for box, next_box in pairwise(row))
    ]


def _block_lines(block: LayoutBlock) -> Iterator[str]:
    text = _TORN_WORD.sub(r"\2", " ".join((block.text or "").split()))
    if block.kind == "heading" and text and not _is_formula(text):
        yield f"{'#' * min(block.level or 1, 6)} {text}"
    elif block.kind == "list_item" and text:
        marker = block.marker if block.ordered and block.marker else "-"
        yield f"{'  ' * (block.level or 0)}{marker} {text}"
    elif block.format == ruled_tables.RULED:
        yield from block.lines or ()
    elif block.kind == "table":
        yield from _format_table(
            [[cell.text for cell in row] for row in [block.header or [], *(block.rows or [])] if row]
        )
    elif block.kind == "code" and block.format != listings.LISTING and not _is_code(block.lines or ()):
        yield from (" ".join(line.split()) for line in block.lines or ())
    elif block.kind == "code":
        yield from (f"```{block.lang or ''}", *(block.lines or ()), "```")
    elif block.kind == "grid_fallback":
        yield from (" ".join(line.split()) for line in block.lines or ())
    elif text:
        yield text


def _is_formula(text: str) -> bool:
    return bool(_RELATION_SIGN.search(text)) or (bool(_OPERATOR_SIGN.search(text)) and not _LONG_WORD.search(text))


def _is_code(lines: Sequence[str]) -> bool:
    """Check for code in monospaced lines; forms use them too."""
    return len(lines) > 1 and bool(_CODE_SIGN.search("\n".join(lines)))


def _format_table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    cells = [[" ".join(cell.replace("|", "\\|").split()) for cell in row] for row in rows]
    width = max(map(len, cells), default=0)
    for number, row in enumerate(cells):
        yield f"| {' | '.join([*row, *[''] * (width - len(row))])} |"
        if number == 0:
            yield f"|{'---|' * width}"
