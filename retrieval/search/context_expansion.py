"""Expand a hit to its section, page or document within a token limit: `parsed[start:end] == content`."""

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

# Start and end in characters.
Range = tuple[int, int]

_HEADING_PATTERN: Final = re.compile(r"^ {0,3}(#{1,6})[ \t][^\n]*|^ {0,3}(`{3,}|~{3,})", re.MULTILINE)
# Characters to tokenize on each side of a hit, per token of the limit.
_CHARACTERS_PER_TOKEN: Final = 8
# Longer tokens are words unknown to the tokenizer and count as several.
_MAX_TOKEN_LENGTH: Final = 32
_PART_TOKEN_LENGTH: Final = 4
# A cut moves at most this far to a word boundary.
_MAX_CUT_SHIFT: Final = 64


class Unit(StrEnum):
    """Extent of a context."""

    CHUNK = "CHUNK"
    SECTION = "SECTION"
    PAGE = "PAGE"
    DOCUMENT = "DOCUMENT"


@dataclass(frozen=True, slots=True)
class Expansion:
    """Unit of context and token limit."""

    unit: Unit
    max_tokens: int = 512


@dataclass(frozen=True, slots=True)
class Texts:
    """Tokenizer, and a reader of parsed text by key; None if unreadable."""

    tokenizer: Tokenizer
    read: Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class Context:
    """Excerpt of a parsed text: `parsed[start:end] == content`."""

    content: str
    start: int
    end: int


class ParsedText:
    """Parsed document; `pages` are the offsets of page starts."""

    def __init__(self, text: str, pages: Sequence[int], tokenizer: Tokenizer) -> None:
        self.text, self.pages, self._tokenizer = text, list(pages), tokenizer
        self._counted: dict[Range, list[Range]] = {}

    def expand_around(self, hit: Range, unit: Unit, max_tokens: int, within: Range | None = None) -> Range:
        """Return the unit around a hit, up to `max_tokens`, merged with `within`."""
        start, end = self._unit(hit, unit)
        if within is not None:
            start, end = min(start, within[0]), max(end, within[1])
        return self._cut(self.trim_blanks(min(start, hit[0]), max(end, hit[1])), self.trim_blanks(*hit), max_tokens)

    def fits_limit(self, part: Range, max_tokens: int) -> bool:
        return part[1] - part[0] <= max_tokens * _MAX_TOKEN_LENGTH and len(self._tokens(*part)) <= max_tokens

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
        """Return the section from the heading above the hit to the next heading of its level."""
        offsets = [offset for offset, _ in self._headings]
        first = bisect_right(offsets, hit[0]) - 1
        last = bisect_right(offsets, max(hit[0], hit[1] - 1)) - 1
        level = self._headings[last][1] if last >= 0 else 6
        ends = (offset for offset, depth in self._headings[last + 1 :] if depth <= level)
        return offsets[first] if first >= 0 else 0, next(ends, len(self.text))

    @cached_property
    def _headings(self) -> list[tuple[int, int]]:
        """Return offset and level of headings outside fenced code."""
        headings: list[tuple[int, int]] = []
        fence = ""
        for match in _HEADING_PATTERN.finditer(self.text):
            if match[2]:
                if not fence:
                    fence = match[2]
                elif match[2].startswith(fence):
                    fence = ""
            elif not fence:
                headings.append((match.start(), len(match[1])))
        return headings

    def _cut(self, unit: Range, hit: Range, max_tokens: int) -> Range:
        """Cut the unit around the hit to `max_tokens`."""
        reach = max_tokens * _CHARACTERS_PER_TOKEN
        if hit[0] == hit[1]:
            return hit
        low, high = max(unit[0], hit[0] - reach), min(unit[1], hit[1] + reach)
        tokens = self._tokens(low, high)
        if (low, high) == unit and len(tokens) <= max_tokens:
            return unit
        first = next((n for n, (_, end) in enumerate(tokens) if end > hit[0]), 0)
        last = next((n for n, (start, _) in enumerate(tokens) if start >= hit[1]), len(tokens))
        allowed = max_tokens
        while allowed > 0:
            part = self._window(tokens, first, last, allowed, hit)
            excess = len(self._tokens(*part)) - max_tokens
            if excess <= 0:
                return part
            allowed -= excess
        first_one = hit[0], min(hit[1], hit[0] + 1)
        return (
            first_one if self.fits_limit(first_one, max_tokens) else (hit[0], hit[0])
        )  # a character may be several tokens

    def _window(self, tokens: Sequence[Range], first: int, end_token: int, allowed: int, hit: Range) -> Range:
        """Return the hit with tokens on both sides; unused room goes to the other side."""
        if end_token - first >= allowed:
            end = tokens[first + allowed - 1][1] if first + allowed <= len(tokens) else hit[1]
            return self.trim_blanks(hit[0], max(hit[0] + 1, self._between_words(min(end, hit[1]), -1, hit[0] + 1)))
        room = allowed - (end_token - first)
        behind = min(room // 2, first)
        ahead = min(room - behind, len(tokens) - end_token)
        behind = min(room - ahead, first)
        start = tokens[first - behind][0] if behind else hit[0]
        end = tokens[end_token + ahead - 1][1] if ahead else hit[1]
        start = self._between_words(start, 1, hit[0]) if behind else hit[0]
        end = self._between_words(end, -1, hit[1]) if ahead else hit[1]
        return self.trim_blanks(min(start, hit[0]), max(end, hit[1]))

    def _between_words(self, offset: int, step: int, limit: int) -> int:
        """Move the offset to the next word boundary before `limit`; unchanged if too far."""
        text = self.text
        last = min(limit, offset + _MAX_CUT_SHIFT) if step > 0 else max(limit, offset - _MAX_CUT_SHIFT)
        for moved in range(offset, last, step):
            if moved <= 0 or moved >= len(text) or text[moved - 1].isspace() or text[moved].isspace():
                return moved
        return offset

    def _tokens(self, start: int, end: int) -> list[Range]:
        """Return token offsets in the whole text, cached."""
        if (counted := self._counted.get((start, end))) is not None:
            return counted
        tokens = self._counted[start, end] = []
        for low, high in self._tokenizer.spans([self.text[start:end]])[0]:
            if high - low <= _MAX_TOKEN_LENGTH:
                tokens.append((start + low, start + high))
            else:
                edges = [*range(start + low, start + high, _PART_TOKEN_LENGTH), start + high]
                tokens.extend(pairwise(edges))
        return tokens

    def trim_blanks(self, start: int, end: int) -> Range:
        """Trim blanks at both ends."""
        while start < end and self.text[start].isspace():
            start += 1
        while end > start and self.text[end - 1].isspace():
            end -= 1
        return start, end
