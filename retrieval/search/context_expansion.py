"""Context expansion: the part of a parsed text around a hit, in whole units and bounded in tokens.

    parsed[start:end] == content        offsets in characters, blanks at both ends left out

A context never holds more than the tokens allowed, as the embedding model's tokenizer counts them. A unit that is too
large is cut around the hit, between words where that is possible; a hit that is too large itself is cut at its end.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from typing import Final

from retrieval.ports import Tokenizer

Range = tuple[int, int]
"""Start and end, as offsets of characters."""

_HEADING: Final = re.compile(r"^ {0,3}(#{1,6})[ \t][^\n]*|^ {0,3}(`{3,}|~{3,})", re.MULTILINE)
_CHARACTERS_PER_TOKEN: Final = 8
"""Characters on each side of a hit that are looked at, for each token allowed."""
_LONGEST_TOKEN: Final = 32
"""Characters of a real token at most; what is longer is a word the tokenizer gave up on, and counts as several."""
_SHORT_TOKEN: Final = 4
_WORD: Final = 64
"""Characters by which a cut may move to stand between words."""


class Unit(StrEnum):
    """Extent of a hit's context."""

    CHUNK = "CHUNK"
    SECTION = "SECTION"
    PAGE = "PAGE"
    DOCUMENT = "DOCUMENT"


@dataclass(frozen=True, slots=True)
class Expansion:
    """Context around a hit, with a token limit."""

    unit: Unit
    max_tokens: int = 512


@dataclass(frozen=True, slots=True)
class Texts:
    """Source of contexts. `read`: returns a parsed text by its key, None if it cannot be read."""

    tokenizer: Tokenizer
    read: Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class Context:
    """A part of the parsed document: `parsed[start:end] == content`."""

    content: str
    start: int
    end: int


class ParsedText:
    """A parsed document. `pages`: the offset at which each page starts; empty if it has none."""

    def __init__(self, text: str, pages: Sequence[int], tokenizer: Tokenizer) -> None:
        self.text, self.pages, self._tokenizer = text, list(pages), tokenizer
        self._counted: dict[Range, list[Range]] = {}

    def around(self, hit: Range, unit: Unit, most: int, within: Range | None = None) -> Range:
        """The unit that holds the hit, with at most `most` tokens. within: a larger unit that was found before."""
        start, end = self._unit(hit, unit)
        if within is not None:
            start, end = min(start, within[0]), max(end, within[1])
        return self._cut(self.trimmed(min(start, hit[0]), max(end, hit[1])), self.trimmed(*hit), most)

    def fits(self, part: Range, most: int) -> bool:
        """Tell if a part has at most `most` tokens."""
        return part[1] - part[0] <= most * _LONGEST_TOKEN and len(self._tokens(*part)) <= most

    def _unit(self, hit: Range, unit: Unit) -> Range:
        if unit is Unit.CHUNK:
            return hit
        if unit is Unit.PAGE and self.pages:
            return self._page(hit)
        return (0, len(self.text)) if unit is Unit.DOCUMENT else self._section(hit)

    def _page(self, hit: Range) -> Range:
        first = max(bisect_right(self.pages, hit[0]) - 1, 0)
        last = bisect_right(self.pages, max(hit[0], hit[1] - 1))
        start = self.pages[first] if self.pages[first] <= hit[0] else 0
        return start, self.pages[last] if last < len(self.pages) else len(self.text)

    def _section(self, hit: Range) -> Range:
        """From the heading above the hit to the next one that is no part of the section in which the hit ends."""
        places = [offset for offset, _ in self._headings]
        first = bisect_right(places, hit[0]) - 1
        last = bisect_right(places, max(hit[0], hit[1] - 1)) - 1
        level = self._headings[last][1] if last >= 0 else 6
        ends = (offset for offset, depth in self._headings[last + 1 :] if depth <= level)
        return places[first] if first >= 0 else 0, next(ends, len(self.text))

    @cached_property
    def _headings(self) -> list[tuple[int, int]]:
        """Place and level of each, in order; lines within fenced code are none."""
        headings: list[tuple[int, int]] = []
        fence = ""
        for match in _HEADING.finditer(self.text):
            if match[2]:
                if not fence:
                    fence = match[2]
                elif match[2].startswith(fence):
                    fence = ""
            elif not fence:
                headings.append((match.start(), len(match[1])))
        return headings

    def _cut(self, unit: Range, hit: Range, most: int) -> Range:
        """Return the part of the unit around the hit that fits into `most` tokens."""
        reach = most * _CHARACTERS_PER_TOKEN
        if hit[0] == hit[1]:
            return hit
        low, high = max(unit[0], hit[0] - reach), min(unit[1], hit[1] + reach)
        tokens = self._tokens(low, high)
        if (low, high) == unit and len(tokens) <= most:
            return unit
        first = next((n for n, (_, end) in enumerate(tokens) if end > hit[0]), 0)
        last = next((n for n, (start, _) in enumerate(tokens) if start >= hit[1]), len(tokens))
        allowed = most
        while allowed > 0:
            part = self._window(tokens, first, last, allowed, hit)
            excess = len(self._tokens(*part)) - most
            if excess <= 0:
                return part
            allowed -= excess
        first_one = hit[0], min(hit[1], hit[0] + 1)
        return first_one if self.fits(first_one, most) else (hit[0], hit[0])  # a character may be several tokens

    def _window(self, tokens: Sequence[Range], first: int, after: int, allowed: int, hit: Range) -> Range:
        """So many tokens, the hit's in the middle; what one side has no use for goes to the other."""
        if after - first >= allowed:
            end = tokens[first + allowed - 1][1] if first + allowed <= len(tokens) else hit[1]
            return self.trimmed(hit[0], max(hit[0] + 1, self._between_words(min(end, hit[1]), -1, hit[0] + 1)))
        room = allowed - (after - first)
        behind = min(room // 2, first)
        ahead = min(room - behind, len(tokens) - after)
        behind = min(room - ahead, first)
        start = tokens[first - behind][0] if behind else hit[0]
        end = tokens[after + ahead - 1][1] if ahead else hit[1]
        start = self._between_words(start, 1, hit[0]) if behind else hit[0]
        end = self._between_words(end, -1, hit[1]) if ahead else hit[1]
        return self.trimmed(min(start, hit[0]), max(end, hit[1]))

    def _between_words(self, place: int, step: int, limit: int) -> int:
        """The nearest place between two words on the way to `limit`; the place itself if there is none near."""
        text = self.text
        last = min(limit, place + _WORD) if step > 0 else max(limit, place - _WORD)
        for moved in range(place, last, step):
            if moved <= 0 or moved >= len(text) or text[moved - 1].isspace() or text[moved].isspace():
                return moved
        return place

    def _tokens(self, start: int, end: int) -> list[Range]:
        """Return the tokens of a part, as offsets in the whole text; an overlong one counts as several. Results are
        cached."""
        if (counted := self._counted.get((start, end))) is not None:
            return counted
        tokens = self._counted[start, end] = []
        for low, high in self._tokenizer.spans([self.text[start:end]])[0]:
            if high - low <= _LONGEST_TOKEN:
                tokens.append((start + low, start + high))
            else:
                edges = [*range(start + low, start + high, _SHORT_TOKEN), start + high]
                tokens.extend(pairwise(edges))
        return tokens

    def trimmed(self, start: int, end: int) -> Range:
        """Without the blanks at its ends."""
        while start < end and self.text[start].isspace():
            start += 1
        while end > start and self.text[end - 1].isspace():
            end -= 1
        return start, end
