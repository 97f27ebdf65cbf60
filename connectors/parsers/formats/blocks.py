"""Markdown blocks: tables, lists, and the reading order of boxes on a page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from xml.etree.ElementTree import Element


def table_cell(text: str) -> str:
    """Escape a text for a cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")


def render_table(header: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """Render a Markdown table."""
    first, *body_lines = (f"| {' | '.join(row)} |" for row in (header, *body))
    return "\n".join([first, f"|{' --- |' * len(header)}", *body_lines])


_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_ROMAN = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"),
    (9, "ix"), (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip
# Larger numbers are written in digits.
_MOST = 30_000


# Piece of Markdown, and True for a list item.
Block = tuple[str, bool]


def list_item(label: str, depth: int, words: str) -> Block:
    """Return a paragraph with its number or bullet. Numbers unknown to Markdown, such as 2.1 or (a), become words."""
    if label == "-" or re.fullmatch(r"\d+[.)]", label):
        return f"{'  ' * depth}{label} {words}", True
    return f"{label} {words}".strip(), False


def join_blocks(blocks: Iterable[Block]) -> list[str]:
    """Yield the blocks, with adjacent list items joined and dedented."""
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
    """Return the attribute `val` of an element, or ""."""
    return "" if node is None else node.get(f"{_W}val", "")


def whole_number(text: str | None, usual: int = 0) -> int:
    """Return the integer value of an attribute, or `usual`."""
    return int(text) if text and text.removeprefix("-").isdecimal() else usual


def roman_numeral(number: int) -> str:
    letters = ""
    for size, sign in _ROMAN:
        letters += sign * (number // size)
        number %= size
    return letters


def letter_numeral(number: int) -> str:
    """Return a to z, then aa to zz, as in word processors."""
    return chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 + 1)


FORMS: dict[str, Callable[[int], str]] = {
    "lowerLetter": letter_numeral,
    "upperLetter": lambda number: letter_numeral(number).upper(),
    "lowerRoman": roman_numeral,
    "upperRoman": lambda number: roman_numeral(number).upper(),
    "decimalZero": lambda number: f"{number:02}",
    "none": lambda _: "",
}


def write_number(number: int, form: str) -> str:
    """Write a number in one of the `FORMS`, in digits for any other form."""
    return FORMS.get(form, str)(number) if 0 < number < _MOST else str(number)


class Numbering:
    """Counters of list paragraphs."""

    def __init__(self, root: Element | None) -> None:
        lists = [] if root is None else list(root.iter(f"{_W}num"))
        abstract = [] if root is None else list(root.iter(f"{_W}abstractNum"))
        self._abstract = {node.get(f"{_W}abstractNumId", ""): node for node in abstract}
        self._styled = {
            attribute_value(style): node for node in abstract if (style := node.find(f"{_W}styleLink")) is not None
        }
        self._lists = {node.get(f"{_W}numId", ""): node for node in lists}
        self._levels: dict[str, tuple[str, dict[int, Element], dict[int, int]]] = {}
        self._counts: dict[str, dict[int, int]] = {}
        self._begun: set[str] = set()

    def depth(self, number: str, style: str) -> int:
        """Return the list level of a paragraph style."""
        for depth, level in self._list(number)[1].items():
            if attribute_value(level.find(f"{_W}pStyle")) == style:
                return depth
        return 0

    def label(self, number: str, depth: int) -> str:
        """Return the next number of a list, "-" for a bullet, or ""."""
        key, levels, starts = self._list(number)
        if depth not in levels:
            return ""
        counts = self._counts.setdefault(key, {})
        if number not in self._begun:
            self._begun.add(number)
            for level, start in starts.items():
                counts[level] = start - 1
        counts[depth] = counts.get(depth, _start(levels[depth]) - 1) + 1
        for deeper in [level for level in counts if level > depth]:
            if attribute_value(levels[deeper].find(f"{_W}lvlRestart")) != "0":
                del counts[deeper]
        if self._form(levels[depth]) == "bullet":
            return "-"
        legal = levels[depth].find(f"{_W}isLgl") is not None

        def of_level(found: re.Match[str]) -> str:
            level = int(found[1]) - 1
            if level not in levels:
                return ""
            count = counts.setdefault(level, _start(levels[level])) if level <= depth else _start(levels[level])
            return write_number(count, "decimal" if legal else self._form(levels[level]))

        return re.sub(r"%([1-9])", of_level, attribute_value(levels[depth].find(f"{_W}lvlText"))).strip()

    def _form(self, level: Element) -> str:
        form = attribute_value(level.find(f"{_W}numFmt"))
        return form or attribute_value(next(level.iter(f"{_W}numFmt"), None)) or "decimal"

    def _list(self, number: str) -> tuple[str, dict[int, Element], dict[int, int]]:
        """Return the counter of the list, its levels, and the levels that start anew."""
        if number in self._levels:
            return self._levels[number]
        node = self._lists.get(number)
        key = "" if node is None else attribute_value(node.find(f"{_W}abstractNumId"))
        abstract = self._abstract.get(key)
        if abstract is not None and (link := attribute_value(abstract.find(f"{_W}numStyleLink"))):
            abstract = self._styled.get(link, abstract)
            key = abstract.get(f"{_W}abstractNumId", "")
        levels = {} if abstract is None else _by_depth(abstract)
        starts: dict[int, int] = {}
        for override in () if node is None else node.iter(f"{_W}lvlOverride"):
            depth = whole_number(override.get(f"{_W}ilvl"))
            levels |= _by_depth(override)
            if start := attribute_value(override.find(f"{_W}startOverride")):
                starts[depth] = whole_number(start, 1)
        self._levels[number] = key, levels, starts
        return self._levels[number]


def _by_depth(node: Element) -> dict[int, Element]:
    return {whole_number(level.get(f"{_W}ilvl")): level for level in node.iter(f"{_W}lvl")}


def _start(level: Element) -> int:
    return whole_number(attribute_value(level.find(f"{_W}start")), 1)


Bounds = tuple[int, int, int, int]
"""Left, top, right and bottom."""
Boxed = tuple[str, Bounds]
NOWHERE: Bounds = (0, 0, 0, 0)
# Maximum overlap of separate boxes, as a share of the smaller one.
_OVERLAP = 0.1


def order_boxes(items: Sequence[Boxed]) -> list[str]:
    """Return the texts in reading order."""
    return [text for text, _ in _ordered(list(items))]


def box_around(boxes: Sequence[Bounds]) -> Bounds:
    """Return the bounding box of boxes."""
    placed = [box for box in boxes if box != NOWHERE]
    if not placed:
        return NOWHERE
    left, top, right, bottom = zip(*placed, strict=True)
    return min(left), min(top), max(right), max(bottom)


def _ordered(items: list[Boxed]) -> list[Boxed]:
    if len(items) < 2:
        return items
    columns = _groups(items, 0)
    if len(columns) > 1:
        return [item for column in columns for item in _ordered(column)]
    bands = _groups(items, 1)
    if len(bands) == 1:
        return sorted(items, key=lambda item: (item[1][1], item[1][0]))
    joined = [bands[0]]
    for band in bands[1:]:
        if len(_groups(joined[-1], 0)) > 1 and len(_groups(band, 0)) > 1 and len(_groups(joined[-1] + band, 0)) > 1:
            joined[-1] = joined[-1] + band  # bands with the same gap between columns are read column by column
        else:
            joined.append(band)
    return [item for band in joined for item in _ordered(band)]


def _groups(items: Sequence[Boxed], axis: int) -> list[list[Boxed]]:
    """Split items at full-width gaps into columns (axis 0) or bands (axis 1)."""
    groups: list[list[Boxed]] = []
    end = 0.0
    for item in sorted(items, key=lambda item: (item[1][axis], item[1][1 - axis])):
        start, stop = item[1][axis], item[1][axis + 2]
        if groups and start < end - _OVERLAP * min(stop - start, end - groups[-1][0][1][axis]):
            groups[-1].append(item)
            end = max(end, stop)
        else:
            groups.append([item])
            end = stop
    return groups
