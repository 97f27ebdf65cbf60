"""Choose where to cut a text: at the best boundary near the end of the size, with an overlap before the next chunk."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from retrieval.ingestion.chunking.graphemes import LONGEST, is_cut, last_cut, next_cut

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from retrieval.ingestion.chunking.structure import Headers
    from retrieval.ingestion.chunking.units import Units

# Every pattern is linear in the text: no repetition can be matched in two ways.
_HEADING: Final = re.compile(r"^ {0,3}#{1,6}[ \t][^\n]*", re.MULTILINE)
_ROW: Final = re.compile(r"^ {0,3}\|[^\n]*", re.MULTILINE)
_PARAGRAPH: Final = re.compile(r"\n[ \t\r]*\n")
_LINE: Final = re.compile(r"[\n\u2028\u2029]|\r(?!\n)")
_SENTENCE: Final = re.compile(
    r"[.!?…。！？｡](?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bDr\.)(?<!\bMr\.)(?<!\bcf\.)(?<!\bvs\.)(?<!\bFig\.)(?<!\b[A-Z]\.)"  # noqa: RUF001
    r"(?:(?<=[。！？｡])[\"'」』）】”’]{0,3}|[\"')\]»”’*_]{0,3}(?=\s))"  # noqa: RUF001
)

_LONGEST_WHOLE: Final = 4_000
"""Characters of a heading chain that is kept together; longer ones are tables of contents."""

Positions = list[int]


@dataclass(frozen=True, slots=True)
class Boundaries:
    """Character positions at which to cut, by rank, best first; and ranges that had better stay whole."""

    ranks: tuple[Positions, ...] = ()
    whole_starts: Positions = field(default_factory=list)
    whole_ends: Positions = field(default_factory=list)

    def best(self, low: int, high: int) -> int | None:
        """The last position of the best rank in [low, high] that does not tear apart what belongs together."""
        return self._last(self.ranks, low, high)

    def heading(self, low: int, high: int) -> int | None:
        """The last heading that starts in [low, high], unless it belongs to the one before it."""
        return self._last(self.ranks[:1], low, high)

    def _last(self, ranks: tuple[Positions, ...], low: int, high: int) -> int | None:
        for positions in ranks:
            for index in range(bisect_right(positions, high) - 1, bisect_left(positions, low) - 1, -1):
                if self.inside(positions[index]) is None:
                    return positions[index]
        return None

    def first(self, low: int, high: int) -> int | None:
        """The first position of any rank in [low, high] that does not tear apart what belongs together."""
        candidates = (positions[at] for positions in self.ranks if (at := bisect_left(positions, low)) < len(positions))
        return min(
            (position for position in candidates if position <= high and self.inside(position) is None), default=None
        )

    def inside(self, position: int) -> tuple[int, int] | None:
        """The range (start, end) that a cut at `position` would tear apart."""
        index = bisect_left(self.whole_starts, position) - 1
        if index >= 0 and position < self.whole_ends[index]:
            return self.whole_starts[index], self.whole_ends[index]
        return None


def find_boundaries(text: str, records: Sequence[tuple[int, int]] = ()) -> Boundaries:
    """The boundaries of a text, in one pass per kind. `records`: ranges to keep whole, such as those of JSON."""
    headings = [(match.start(), match.end()) for match in _HEADING.finditer(text)]
    rows = [(match.start(), match.end()) for match in _ROW.finditer(text)]
    paragraphs = [match.end() for match in _PARAGRAPH.finditer(text)]
    sentences = [match.end() for match in _SENTENCE.finditer(text)]
    if records:
        paragraphs = sorted({*paragraphs, *(start for start, _ in records)})
    whole = _merge_ranges(sorted(rows + list(records) + _with_first_sentence(text, headings, paragraphs, sentences)))
    return Boundaries(
        ([start for start, _ in headings], paragraphs, [match.end() for match in _LINE.finditer(text)], sentences),
        [start for start, _ in whole],
        [end for _, end in whole],
    )


def _with_first_sentence(
    text: str, headings: list[tuple[int, int]], paragraphs: Positions, sentences: Positions
) -> list[tuple[int, int]]:
    """Join each heading with the first sentence below it, or with the next heading and its first sentence."""
    ranges: list[tuple[int, int]] = []
    next_heading, next_end = len(text), len(text)
    for start, end in reversed(headings):
        ink = _INK.search(text, end)
        body = ink.start() if ink else len(text)
        if body < next_heading:
            next_end = min(_after(sentences, body, len(text)), _after(paragraphs, body, len(text)), next_heading)
        ranges.append((start, next_end if next_end - start <= _LONGEST_WHOLE else end))
        next_heading = start
    return ranges


def _after(positions: Positions, low: int, otherwise: int) -> int:
    index = bisect_right(positions, low)
    return positions[index] if index < len(positions) else otherwise


def _merge_ranges(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sorted ranges without overlaps."""
    merged: list[tuple[int, int]] = []
    for start, end in ranges:
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


_WORD_REACH: Final = 128
"""Tokens to look back for the space before a word; a longer word is cut."""
_TAIL, _TAIL_SHARE = 16, 20
"""A paragraph, line or sentence ends a chunk if so few tokens, or such a part of the size, are lost by it. Of the few
the overlap is taken off, for it holds again what was torn."""
GIVEN_SHARE: Final = 4
"""One part in so many of an overlap may be given up for it to begin at a sentence, line or paragraph."""
_CJK: Final = "\u2e80"
_INK: Final = re.compile(r"\S")

Range = tuple[int, int]
"""Start and end, as offsets of characters."""


class Cutter:
    """One text with its tokens and boundaries. Positions are character offsets, counts are tokens."""

    def __init__(
        self,
        text: str,
        tokens: Units,
        size: int,
        overlap: int,
        headers: Headers,
        marks: Boundaries | None = None,
    ) -> None:
        self.text, self.size, self.overlap = text, size, overlap
        self.units, self.headers = tokens, headers
        small = len(self.units.starts) <= size
        self.marks = marks or (Boundaries() if small else find_boundaries(text, headers.structure.records.ranges))

    def sized(self, size: int, overlap: int) -> Cutter:
        """Return a cutter of this text with another size and overlap; neither may be larger than this one's."""
        return Cutter(self.text, self.units, size, overlap, self.headers, self.marks)

    def ranges(self, start: int = 0, cut: int = 0, stop: int | None = None) -> Iterator[Range]:
        """Yield the chunks between `cut` and `stop`, without blank margins; the first begins at `start`."""
        stop = len(self.text) if stop is None else stop
        while cut < stop:
            end = self._end(start, cut, stop)
            if end > self._limit(start):
                start, end = cut, self._end(cut, cut, stop)
            chunk = _trimmed(self.text, start, end)
            if chunk[0] < chunk[1] and chunk[1] > cut:
                yield chunk
            start, cut = self.next_start(start, end), end

    def is_blank(self, start: int, end: int) -> bool:
        """Is there nothing to read in this range, which may be empty?"""
        return _INK.search(self.text, start, end) is None

    def _end(self, start: int, cut: int, stop: int) -> int:
        """Return the end of the chunk from `start`; it is beyond `cut` and at most `stop`."""
        limit = self._limit(start)
        if limit >= stop:
            return stop
        if limit <= cut:
            return next_cut(self.text, cut)
        last = self.units.last(limit)
        half = self.units.starts[(self.units.last(cut) + last + 1) // 2]
        tail = max(half, self.units.starts[max(0, last - max(_TAIL - self.overlap, self.size // _TAIL_SHARE))])
        best = self.marks.heading(max(half, cut + 1), limit) or self.marks.best(max(tail, cut + 1), limit)
        chosen = best if best is not None else self._inside_a_sentence(cut, half, limit)
        if is_cut(self.text, chosen, cut):
            return chosen
        return last_cut(self.text, cut, chosen) or (limit if limit - cut > LONGEST else next_cut(self.text, cut))

    def _limit(self, start: int) -> int:
        """The furthest place at which a chunk may end that begins at `start`."""
        beyond = self.units.first(start) + self.room(start)
        return self.units.starts[beyond] if beyond < len(self.units.starts) else len(self.text)

    def room(self, start: int) -> int:
        """Tokens that a chunk may have that begins at `start`: within a table its header takes some of the size."""
        return max(self.size - self.headers.cost(start), self.size // 2)

    def _inside_a_sentence(self, cut: int, half: int, limit: int) -> int:
        """A place between words, or before the heading or table row that would be torn apart; else after a token."""
        starts = self.units.starts
        last = self.units.last(limit)
        nearest = map(starts.__getitem__, range(last, max(self.units.last(half), last - _WORD_REACH), -1))
        word = next((position for position in nearest if position > cut and between_words(self.text, position)), limit)
        torn = self.marks.inside(word)
        if torn and torn[0] > cut and self.units.count(*torn) <= self.size:
            return torn[0]
        return word

    def next_start(self, previous: int, cut: int) -> int:
        """Return the start of the next chunk: `overlap` tokens before the cut, or the next sentence, or else the next
        word.

        Rows and records are not repeated: chunks of a table begin with its header instead.
        """
        if self.headers.structure.is_tabular(cut):
            return cut
        last = self.units.last(cut)
        first = max(last - self.overlap, self.units.last(previous + 1))
        if first >= last or cut >= len(self.text):
            return cut
        starts = self.units.starts
        near = (
            position
            for position in starts[first : min(last, first + _WORD_REACH)]
            if self.units.first(position) >= first
        )
        allowed = (position for position in near if is_cut(self.text, position, previous))
        nearest = next(allowed, cut)
        if nearest != cut and not between_words(self.text, nearest):
            nearest = next((position for position in allowed if between_words(self.text, position)), nearest)
        whole = self.marks.first(nearest, starts[first + (last - first) // GIVEN_SHARE])
        if whole is not None and whole < cut and is_cut(self.text, whole, previous):
            return whole
        torn = self.marks.inside(nearest)
        return torn[1] if torn and torn[1] < cut and is_cut(self.text, torn[1], previous) else nearest


def between_words(text: str, position: int) -> bool:
    """Is one of the two characters around this place no part of a word, or of a script without spaces?"""
    previous, following = text[position - 1], text[position]
    return previous.isspace() or following.isspace() or previous >= _CJK or following >= _CJK


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """The range without the blanks at its ends."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end
