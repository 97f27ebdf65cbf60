"""Numbers and bullets of lists, as they stand before each paragraph, and how lists are written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from xml.etree.ElementTree import Element

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_ROMAN = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"),
    (9, "ix"), (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip
_MOST = 30_000
"""A number beyond it is written in digits."""


Block = tuple[str, bool]
"""A piece of Markdown, and whether it is an item of a list."""


def item(label: str, depth: int, words: str) -> Block:
    """A paragraph with its number or bullet. Numbers of which Markdown has no lists, such as 2.1 or (a), are words."""
    if label == "-" or re.fullmatch(r"\d+[.)]", label):
        return f"{'  ' * depth}{label} {words}", True
    return f"{label} {words}".strip(), False


def joined(blocks: Iterable[Block]) -> list[str]:
    """The blocks, those of a list in one, which begins at the margin."""
    texts: list[str] = []
    indent = -1
    for text, is_item in blocks:
        if not is_item:
            indent = -1
            texts.append(text)
            continue
        own = len(text) - len(text.lstrip(" "))
        if indent < 0:
            indent = own
            texts.append(text[own:])
        else:
            texts[-1] += f"\n{text[min(own, indent) :]}"
    return texts


def value(node: Element | None) -> str:
    """The attribute `val` of an element, "" where there is none."""
    return "" if node is None else node.get(f"{_W}val", "")


def whole(text: str | None, usual: int = 0) -> int:
    """A whole number of an attribute; `usual` where there is none."""
    return int(text) if text and text.removeprefix("-").isdecimal() else usual


def roman(number: int) -> str:
    letters = ""
    for size, sign in _ROMAN:
        letters += sign * (number // size)
        number %= size
    return letters


def letters(number: int) -> str:
    """a to z, then aa to zz, as word processors count."""
    return chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 + 1)


FORMS: dict[str, Callable[[int], str]] = {
    "lowerLetter": letters,
    "upperLetter": lambda number: letters(number).upper(),
    "lowerRoman": roman,
    "upperRoman": lambda number: roman(number).upper(),
    "decimalZero": lambda number: f"{number:02}",
    "none": lambda _: "",
}


def written(number: int, form: str) -> str:
    """A number in one of the `FORMS`; in digits in any other."""
    return FORMS.get(form, str)(number) if 0 < number < _MOST else str(number)


class Numbering:
    """Counts the paragraphs of each list."""

    def __init__(self, root: Element | None) -> None:
        lists = [] if root is None else list(root.iter(f"{_W}num"))
        abstract = [] if root is None else list(root.iter(f"{_W}abstractNum"))
        self._abstract = {node.get(f"{_W}abstractNumId", ""): node for node in abstract}
        self._styled = {value(style): node for node in abstract if (style := node.find(f"{_W}styleLink")) is not None}
        self._lists = {node.get(f"{_W}numId", ""): node for node in lists}
        self._levels: dict[str, tuple[str, dict[int, Element], dict[int, int]]] = {}
        self._counts: dict[str, dict[int, int]] = {}
        self._begun: set[str] = set()

    def depth(self, number: str, style: str) -> int:
        """The level of a list that a paragraph style stands for."""
        for depth, level in self._list(number)[1].items():
            if value(level.find(f"{_W}pStyle")) == style:
                return depth
        return 0

    def label(self, number: str, depth: int) -> str:
        """The number of the next paragraph of a list, "-" for a bullet, "" for nothing."""
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
            if value(levels[deeper].find(f"{_W}lvlRestart")) != "0":
                del counts[deeper]
        if self._form(levels[depth]) == "bullet":
            return "-"
        legal = levels[depth].find(f"{_W}isLgl") is not None

        def of_level(found: re.Match[str]) -> str:
            level = int(found[1]) - 1
            if level not in levels:
                return ""
            count = counts.setdefault(level, _start(levels[level])) if level <= depth else _start(levels[level])
            return written(count, "decimal" if legal else self._form(levels[level]))

        return re.sub(r"%([1-9])", of_level, value(levels[depth].find(f"{_W}lvlText"))).strip()

    def _form(self, level: Element) -> str:
        form = value(level.find(f"{_W}numFmt"))
        return form or value(next(level.iter(f"{_W}numFmt"), None)) or "decimal"

    def _list(self, number: str) -> tuple[str, dict[int, Element], dict[int, int]]:
        """What the list is counted with, its levels, and where levels of it start anew."""
        if number in self._levels:
            return self._levels[number]
        node = self._lists.get(number)
        key = "" if node is None else value(node.find(f"{_W}abstractNumId"))
        abstract = self._abstract.get(key)
        if abstract is not None and (link := value(abstract.find(f"{_W}numStyleLink"))):
            abstract = self._styled.get(link, abstract)
            key = abstract.get(f"{_W}abstractNumId", "")
        levels = {} if abstract is None else _by_depth(abstract)
        starts: dict[int, int] = {}
        for override in () if node is None else node.iter(f"{_W}lvlOverride"):
            depth = whole(override.get(f"{_W}ilvl"))
            levels |= _by_depth(override)
            if start := value(override.find(f"{_W}startOverride")):
                starts[depth] = whole(start, 1)
        self._levels[number] = key, levels, starts
        return self._levels[number]


def _by_depth(node: Element) -> dict[int, Element]:
    return {whole(level.get(f"{_W}ilvl")): level for level in node.iter(f"{_W}lvl")}


def _start(level: Element) -> int:
    return whole(value(level.find(f"{_W}start")), 1)
