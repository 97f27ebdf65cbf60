"""Superscripts and subscripts on a PDF's page, found by the sizes and baselines of letters."""

from __future__ import annotations

import ctypes
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from connectors.parsers.inline_forms import LOWERED, RAISED, write_forms

_SMALLER, _SAME = 0.88, 0.06
"""Of a letter's height: a script is smaller than its base, and its letters differ less from each other."""
_GAP, _BLANK = 0.3, 0.75
"""Of a letter's height: between neighbours, and between words of one script."""
_UP, _DOWN = (0.12, 0.75), (-0.45, -0.05)
"""Of the base's height: ranges of the distance between the baselines."""
_LONGEST, _LONGEST_WORD = 24, 3
"""Characters of a script, and letters of a raised one without digits; longer ones are lines of small print."""
_CONTEXT = 24
"""Letters and digits on each side of a script by which it is found in the Markdown."""
_UPRIGHT = 0.1
"""Radians."""
_LEFT, _NEAR = 0.15, 2.0
"""Of the height, and in points: where the base of a script is looked for."""
_DASHES = frozenset("-\u2212\u2013\u2010\u2011")
_SIGNS, _ENDING = re.compile(r"[\W_]*"), re.compile(r"[\W_]*$")


@dataclass(frozen=True, slots=True)
class Script:
    """A superscript or subscript, its word, and the letters and digits around these."""

    text: str
    is_raised: bool
    base: str
    prefix: str
    suffix: str


@dataclass(frozen=True, slots=True)
class _Letter:
    start: float
    end: float
    height: float
    baseline: float


def find_scripts(words: Any) -> tuple[Script, ...]:
    """Return the scripts of a pypdfium2 text page, in the order of the file."""
    import pypdfium2.raw as pdfium

    page, bounds = words.raw, pdfium.FS_RECTF()
    heights: list[float] = []
    for index in range(words.count_chars()):
        pdfium.FPDFText_GetLooseCharBox(page, index, bounds)
        heights.append(bounds.top - bounds.bottom)
    finder = _Finder(page, heights)
    scripts: list[Script] = []
    base, end = -1, 0
    for index, height in enumerate(heights):
        if index < end or height <= 0:
            continue
        if base >= 0 and height < _SMALLER * heights[base] and (script := finder.script_at(base, index)):
            scripts.append(script)
            end = index + len(script.text)
        else:
            base = index
    return tuple(scripts)


class _Finder:
    """Reads places of letters on one text page."""

    def __init__(self, page: Any, heights: Sequence[float]) -> None:
        self._page, self._heights = page, heights

    def script_at(self, base: int, start: int) -> Script | None:
        """Return the script that starts there, at the letter before it or at the one to its left."""
        import pypdfium2.raw as pdfium

        if self._blank(start) or abs(pdfium.FPDFText_GetCharAngle(self._page, start)) > _UPRIGHT:
            return None
        first = self._letter(start)
        is_apart = not self._carries(base, start, first)
        if is_apart:
            # PDFium sorts the texts of a line, so that those of a table may come between.
            near_x, near_y = first.start - _LEFT * first.height, first.baseline + _LEFT * first.height
            base = pdfium.FPDFText_GetCharIndexAtPos(self._page, near_x, near_y, _NEAR, _NEAR)
            if base < 0 or not self._carries(base, base + 1, first):
                return None
        end = self._last(start, first) + 1
        text = self._text(range(start, end))
        is_raised = first.baseline > self._letter(base).baseline
        is_word = is_raised and not any(map(str.isdigit, text)) and sum(map(str.isalpha, text)) > _LONGEST_WORD
        following = base + 1 if is_apart else end
        return (
            None if is_word or end - start > _LONGEST else self._described(base, text, following, is_raised=is_raised)
        )

    def _carries(self, base: int, start: int, first: _Letter) -> bool:
        """Tell whether a letter of full size is at the left of a smaller one, with another script between."""
        if self._blank(base):
            return False
        full = self._letter(base)
        beside = self._letter(start - 1) if start - 1 > base and self._heights[start - 1] > 0 else full
        rise = (first.baseline - full.baseline) / full.height
        is_near = -_GAP * full.height < first.start - beside.end < _GAP * full.height
        is_off = _UP[0] < rise < _UP[1] or _DOWN[0] < rise < _DOWN[1]
        return is_near and is_off and first.height < _SMALLER * full.height

    def _described(self, base: int, text: str, following: int, *, is_raised: bool) -> Script:
        prefix = self._text(range(max(0, base - 3 * _CONTEXT), base + 1))
        suffix = self._text(range(following, min(following + 3 * _CONTEXT, len(self._heights))))
        word = prefix.split()[-1]
        return Script(
            text, is_raised, word, _solid(prefix[: len(prefix) - len(word)])[-_CONTEXT:], _solid(suffix)[:_CONTEXT]
        )

    def _last(self, start: int, first: _Letter) -> int:
        last, previous = start, first
        for index in range(start + 1, min(start + _LONGEST + 2, len(self._heights))):
            if self._heights[index] <= 0 or self._blank(index):
                continue
            letter = self._letter(index)
            is_alike = abs(letter.height - first.height) < _SAME * first.height
            gap = (letter.start - previous.end) / first.height
            is_level = abs(letter.baseline - first.baseline) < _SAME * first.height
            if not (is_alike and is_level and -_GAP < gap < (_GAP if index == last + 1 else _BLANK)):
                break
            last, previous = index, letter
        return last

    def _letter(self, index: int) -> _Letter:
        import pypdfium2.raw as pdfium

        bounds, x, y = pdfium.FS_RECTF(), ctypes.c_double(), ctypes.c_double()
        pdfium.FPDFText_GetLooseCharBox(self._page, index, bounds)
        pdfium.FPDFText_GetCharOrigin(self._page, index, x, y)
        return _Letter(bounds.left, bounds.right, bounds.top - bounds.bottom, y.value)

    def _blank(self, index: int) -> bool:
        return not self._text((index,)).strip()

    def _text(self, indexes: Iterable[int]) -> str:
        import pypdfium2.raw as pdfium

        return "".join(chr(pdfium.FPDFText_GetUnicode(self._page, index)) for index in indexes)


def mark_scripts(text: str, scripts: Sequence[Script]) -> str:
    """Return the text of a page with its scripts in plain text, each at the place whose neighbourhood is most alike."""
    if not scripts:
        return text
    solid, places = place_letters(text)
    marked: dict[int, tuple[int, str]] = {}
    for script in scripts:
        needle = _solid(script.base) + _solid(script.text)
        if not _solid(script.text):
            continue
        spans = [_span(text, places, at, script) for at in find_places(solid, needle)]
        candidates = [
            (_likeness(solid, at, needle, script), -at, span)
            for at, span in zip(find_places(solid, needle), spans, strict=True)
            if span and span[0] not in marked
        ]
        if candidates:
            start, end, words = max(candidates)[2]
            marked[start] = end, words
    pieces, at = list[str](), 0
    for start, (end, words) in sorted(marked.items()):
        if start >= at:
            pieces += [text[at:start], words]
            at = end
    return write_forms("".join([*pieces, text[at:]]))


def _span(text: str, places: Sequence[int], at: int, script: Script) -> tuple[int, int, str] | None:
    """Return where the script and the space before it stand, and its characters; None for another cell or line."""
    base, inner = _solid(script.base), _solid(script.text)
    first, last = places[at + len(base)], places[at + len(base) + len(inner) - 1] + 1
    start = places[at + len(base) - 1] + 1 if base else first
    between, signs, ending = text[start:first], _SIGNS.match(script.text), _ENDING.search(script.text)
    if "|" in text[start:last] or "\n\n" in text[start:last]:
        return None
    sign = between.rstrip()[-1:]
    sign = sign if signs and sign in (_DASHES if _DASHES & {*signs[0]} else {*signs[0]}) else ""
    signs_between = between.rstrip().removesuffix(sign).split()
    last += len(ending[0]) if ending and text.startswith(ending[0], last) else 0
    words = (RAISED if script.is_raised else LOWERED).mark(sign + " ".join(text[first:last].split()))
    is_tail = not script.base[-1:].isalnum()  # punctuation of the base; other signs belong after the script
    return (
        start,
        last,
        "".join([*signs_between, words] if is_tail else [words, *(f" {extra}" for extra in signs_between)]),
    )


def _likeness(solid: str, at: int, needle: str, script: Script) -> int:
    prefix, suffix = solid[max(0, at - _CONTEXT) : at], solid[at + len(needle) : at + len(needle) + _CONTEXT]
    pairs = [zip(reversed(prefix), reversed(script.prefix), strict=False), zip(suffix, script.suffix, strict=False)]
    return sum(len(list(takewhile(lambda pair: pair[0] == pair[1], side))) for side in pairs)


def find_places(solid: str, needle: str) -> list[int]:
    """Return the offsets of a text in another."""
    offsets, at = [], solid.find(needle)
    while at >= 0:
        offsets.append(at)
        at = solid.find(needle, at + 1)
    return offsets


def place_letters(text: str) -> tuple[str, list[int]]:
    """Return the letters and digits of a text, and the place of each."""
    letters: list[str] = []
    places: list[int] = []
    for offset, character in enumerate(text):
        for letter in _solid(character):
            letters.append(letter)
            places.append(offset)
    return "".join(letters), places


def _solid(text: str) -> str:
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return "".join(filter(str.isalnum, plain.casefold()))
