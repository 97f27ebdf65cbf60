"""Build Markdown tables and lists, and order boxes of a page for reading."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from xml.etree.ElementTree import Element


def table_cell(text: str) -> str:
    """Escape a text for a cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")


def render_table(header: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    first, *body_lines = (f"| {' | '.join(row)} |" for row in (header, *body))
    return "\n".join([first, f"|{' --- |' * len(header)}", *body_lines])


# Name, categories and values of a series.
Series = tuple[str, list[str], list[str]]


def series_markdown(title: str, axes: Iterable[str], series: Iterable[Series]) -> str:
    """Return title, axes and values of a chart, as a table for the series of the same categories."""
    lines = [f"Chart: {title}".removesuffix(": "), *(f"Axis: {axis}" for axis in axes if axis)]
    tables: dict[tuple[str, ...], list[list[str]]] = {}
    for number, (name, labels, values) in enumerate(series, 1):
        labels += [str(at + 1) for at in range(len(labels), len(values))]
        tables.setdefault(tuple(labels), []).append([name or f"Series {number}", *values])
    blocks = ["\n".join(lines)]
    for categories, columns in tables.items():
        padded = [(column + [""] * (len(categories) + 1))[: len(categories) + 1] for column in columns]
        header, *body = zip(("Category", *categories), *padded, strict=True)
        rows = [[*map(table_cell, row)] for row in body if any(row)]
        blocks += [render_table([*map(table_cell, header)], rows)] if rows else []
    return "\n\n".join(blocks)


_W_NS = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_ROMAN_NUMERALS = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"),
    (9, "ix"), (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip
# Larger numbers are written in digits.
_MAX_NUMERAL = 30_000


# Piece of Markdown, and True for a list item.
Block = tuple[str, bool]


def list_item(label: str, depth: int, words: str) -> Block:
    """Return a paragraph with its number or bullet; labels unknown to Markdown, such as 2.1 or (a), stay text."""
    if label == "-" or re.fullmatch(r"\d+[.)]", label):
        return f"{'  ' * depth}{label} {words}", True
    return f"{label} {words}".strip(), False


def join_blocks(blocks: Iterable[Block]) -> list[str]:
    """Join blocks, with consecutive list items as one list from the margin."""
    texts: list[str] = []
    indent = -1
    for text, is_item in blocks:
        if not is_item:
            indent = -1
            texts.append(text)
            continue
        own_indent = len(text) - len(text.lstrip(" "))
        if indent < 0:
            indent = own_indent
            texts.append(text[own_indent:])
        else:
            texts[-1] += f"\n{text[min(own_indent, indent) :]}"
    return texts


def attribute_value(node: Element | None) -> str:
    """Return the attribute `val` of an element; "" if absent."""
    return "" if node is None else node.get(f"{_W_NS}val", "")


def whole_number(text: str | None, usual: int = 0) -> int:
    """Return the whole number of an attribute; `usual` if absent."""
    return int(text) if text and text.removeprefix("-").isdecimal() else usual


def roman_numeral(number: int) -> str:
    letters = ""
    for size, sign in _ROMAN_NUMERALS:
        letters += sign * (number // size)
        number %= size
    return letters


def letter_numeral(number: int) -> str:
    """Return a to z, then aa to zz, as word processors do."""
    return chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 + 1)


NUMBER_FORMATS: dict[str, Callable[[int], str]] = {
    "lowerLetter": letter_numeral,
    "upperLetter": lambda number: letter_numeral(number).upper(),
    "lowerRoman": roman_numeral,
    "upperRoman": lambda number: roman_numeral(number).upper(),
    "decimalZero": lambda number: f"{number:02}",
    "none": lambda _: "",
}


def write_number(number: int, form: str) -> str:
    """Write a number in one of the `NUMBER_FORMATS`; in digits for an unknown form."""
    return NUMBER_FORMATS.get(form, str)(number) if 0 < number < _MAX_NUMERAL else str(number)


class Numbering:
    """Counters of list paragraphs."""

    def __init__(self, root: Element | None) -> None:
        lists = [] if root is None else list(root.iter(f"{_W_NS}num"))
        abstract = [] if root is None else list(root.iter(f"{_W_NS}abstractNum"))
        self._abstract = {node.get(f"{_W_NS}abstractNumId", ""): node for node in abstract}
        self._styled = {
            attribute_value(style): node for node in abstract if (style := node.find(f"{_W_NS}styleLink")) is not None
        }
        self._lists = {node.get(f"{_W_NS}numId", ""): node for node in lists}
        self._levels: dict[str, tuple[str, dict[int, Element], dict[int, int]]] = {}
        self._counts: dict[str, dict[int, int]] = {}
        self._begun: set[tuple[str, int]] = set()

    def depth(self, number: str, style: str) -> int:
        """Return the list level of a paragraph style."""
        for depth, level in self._list_state(number)[1].items():
            if attribute_value(level.find(f"{_W_NS}pStyle")) == style:
                return depth
        return 0

    def label(self, number: str, depth: int) -> str:
        """Return the next number of a list; "-" for a bullet, "" for none."""
        key, levels, starts = self._list_state(number)
        if depth not in levels:
            return ""
        counts = self._counts.setdefault(key, {})
        # A list that begins anew does so level by level; the levels above go on.
        if (number, depth) not in self._begun and depth in starts:
            counts[depth] = starts[depth] - 1
        self._begun.add((number, depth))
        counts[depth] = counts.get(depth, _start_number(levels[depth]) - 1) + 1
        for deeper in [level for level in counts if level > depth]:
            if attribute_value(levels[deeper].find(f"{_W_NS}lvlRestart")) != "0":
                del counts[deeper]
        if self._number_form(levels[depth]) == "bullet":
            return "-"
        legal = levels[depth].find(f"{_W_NS}isLgl") is not None

        def of_level(found: re.Match[str]) -> str:
            level = int(found[1]) - 1
            if level not in levels:
                return ""
            count = (
                counts.setdefault(level, _start_number(levels[level]))
                if level <= depth
                else _start_number(levels[level])
            )
            return write_number(count, "decimal" if legal else self._number_form(levels[level]))

        return re.sub(r"%([1-9])", of_level, attribute_value(levels[depth].find(f"{_W_NS}lvlText"))).strip()

    def _number_form(self, level: Element) -> str:
        form = attribute_value(level.find(f"{_W_NS}numFmt"))
        return form or attribute_value(next(level.iter(f"{_W_NS}numFmt"), None)) or "decimal"

    def _list_state(self, number: str) -> tuple[str, dict[int, Element], dict[int, int]]:
        """Return the counter key of the list, its levels, and the start numbers of restarted levels."""
        if number in self._levels:
            return self._levels[number]
        node = self._lists.get(number)
        key = "" if node is None else attribute_value(node.find(f"{_W_NS}abstractNumId"))
        abstract = self._abstract.get(key)
        if abstract is not None and (link := attribute_value(abstract.find(f"{_W_NS}numStyleLink"))):
            abstract = self._styled.get(link, abstract)
            key = abstract.get(f"{_W_NS}abstractNumId", "")
        levels = {} if abstract is None else _nodes_by_depth(abstract)
        starts: dict[int, int] = {}
        for override in () if node is None else node.iter(f"{_W_NS}lvlOverride"):
            depth = whole_number(override.get(f"{_W_NS}ilvl"))
            levels |= _nodes_by_depth(override)
            if start := attribute_value(override.find(f"{_W_NS}startOverride")):
                starts[depth] = whole_number(start, 1)
        self._levels[number] = key, levels, starts
        return self._levels[number]


def _nodes_by_depth(node: Element) -> dict[int, Element]:
    return {whole_number(level.get(f"{_W_NS}ilvl")): level for level in node.iter(f"{_W_NS}lvl")}


def _start_number(level: Element) -> int:
    return whole_number(attribute_value(level.find(f"{_W_NS}start")), 1)


# Left, top, right and bottom.
Bounds = tuple[int, int, int, int]
Boxed = tuple[str, Bounds]
NOWHERE: Bounds = (0, 0, 0, 0)
# Boxes that overlap by a smaller share of the smaller box count as neighbours.
_MAX_OVERLAP_SHARE = 0.1


def order_boxes(items: Sequence[Boxed]) -> list[str]:
    """Return texts in reading order."""
    return [text for text, _ in _order_items(list(items))]


def box_around(boxes: Sequence[Bounds]) -> Bounds:
    placed = [box for box in boxes if box != NOWHERE]
    if not placed:
        return NOWHERE
    left, top, right, bottom = zip(*placed, strict=True)
    return min(left), min(top), max(right), max(bottom)


def _order_items(items: list[Boxed]) -> list[Boxed]:
    if len(items) < 2:
        return items
    columns = _split_groups(items, 0)
    if len(columns) > 1:
        return [item for column in columns for item in _order_items(column)]
    bands = _split_groups(items, 1)
    if len(bands) == 1:
        return sorted(items, key=lambda item: (item[1][1], item[1][0]))
    joined = [bands[0]]
    for band in bands[1:]:
        if (
            len(_split_groups(joined[-1], 0)) > 1
            and len(_split_groups(band, 0)) > 1
            and len(_split_groups(joined[-1] + band, 0)) > 1
        ):
            joined[-1] = joined[-1] + band  # bands with the same gap between columns are read column by column
        else:
            joined.append(band)
    return [item for band in joined for item in _order_items(band)]


def _split_groups(items: Sequence[Boxed], axis: int) -> list[list[Boxed]]:
    """Split items at continuous gaps: into columns (axis 0) or bands (axis 1)."""
    groups: list[list[Boxed]] = []
    end = 0.0
    for item in sorted(items, key=lambda item: (item[1][axis], item[1][1 - axis])):
        start, stop = item[1][axis], item[1][axis + 2]
        if groups and start < end - _MAX_OVERLAP_SHARE * min(stop - start, end - groups[-1][0][1][axis]):
            groups[-1].append(item)
            end = max(end, stop)
        else:
            groups.append([item])
            end = stop
    return groups
