"""Choose cut positions in a text: the best boundary near the size limit, with an overlap into the next chunk."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from retrieval.ingestion.chunking.graphemes import MAX_CHARACTER_CODE_POINTS, is_cut, last_cut, next_cut

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from retrieval.ingestion.chunking.structure import Headers
    from retrieval.ingestion.chunking.units import Units

# Every pattern is linear in the text: no repetition can be matched in two ways.
_HEADING_PATTERN: Final = re.compile(r"^ {0,3}#{1,6}[ \t][^\n]*", re.MULTILINE)
_ROW_PATTERN: Final = re.compile(r"^ {0,3}\|[^\n]*", re.MULTILINE)
_PARAGRAPH_BREAK: Final = re.compile(r"\n[ \t\r]*\n")
_LINE_BREAK: Final = re.compile(r"[\n\u2028\u2029]|\r(?!\n)")
_SENTENCE_END: Final = re.compile(
    r"[.!?…。！？｡](?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bDr\.)(?<!\bMr\.)(?<!\bcf\.)(?<!\bvs\.)(?<!\bFig\.)(?<!\b[A-Z]\.)"  # noqa: RUF001
    r"(?:(?<=[。！？｡])[\"'」』）】”’]{0,3}|[\"')\]»”’*_]{0,3}(?=\s))"  # noqa: RUF001
)

# A longer chain of headings is a table of contents.
_MAX_HEADING_CHARACTERS: Final = 4_000

Positions = list[int]


@dataclass(frozen=True, slots=True)
class Boundaries:
    """Cut positions (character offsets) by rank, best first, and ranges to keep whole."""

    ranks: tuple[Positions, ...] = ()
    whole_starts: Positions = field(default_factory=list)
    whole_ends: Positions = field(default_factory=list)

    def best_position(self, low: int, high: int) -> int | None:
        """Return the last position of the best rank in [low, high] outside ranges to keep whole."""
        return self._last(self.ranks, low, high)

    def last_heading(self, low: int, high: int) -> int | None:
        """Return the last heading that starts in [low, high] outside ranges to keep whole."""
        return self._last(self.ranks[:1], low, high)

    def _last(self, ranks: tuple[Positions, ...], low: int, high: int) -> int | None:
        for positions in ranks:
            for index in range(bisect_right(positions, high) - 1, bisect_left(positions, low) - 1, -1):
                if self.enclosing_range(positions[index]) is None:
                    return positions[index]
        return None

    def first_position(self, low: int, high: int) -> int | None:
        """Return the first position of any rank in [low, high] outside ranges to keep whole."""
        candidates = (positions[at] for positions in self.ranks if (at := bisect_left(positions, low)) < len(positions))
        return min(
            (position for position in candidates if position <= high and self.enclosing_range(position) is None),
            default=None,
        )

    def enclosing_range(self, position: int) -> tuple[int, int] | None:
        """Return the range (start, end) that a cut at `position` would split."""
        index = bisect_left(self.whole_starts, position) - 1
        if index >= 0 and position < self.whole_ends[index]:
            return self.whole_starts[index], self.whole_ends[index]
        return None


def find_boundaries(text: str, records: Sequence[tuple[int, int]] = ()) -> Boundaries:
    """Find the boundaries of a text, in one pass per kind. `records`: ranges to keep whole, for example of JSON."""
    headings = [(match.start(), match.end()) for match in _HEADING_PATTERN.finditer(text)]
    rows = [(match.start(), match.end()) for match in _ROW_PATTERN.finditer(text)]
    paragraphs = [match.end() for match in _PARAGRAPH_BREAK.finditer(text)]
    sentences = [match.end() for match in _SENTENCE_END.finditer(text)]
    if records:
        paragraphs = sorted({*paragraphs, *(start for start, _ in records)})
    whole = _merge_ranges(sorted(rows + list(records) + _with_first_sentence(text, headings, paragraphs, sentences)))
    return Boundaries(
        (
            [start for start, _ in headings],
            paragraphs,
            [match.end() for match in _LINE_BREAK.finditer(text)],
            sentences,
        ),
        [start for start, _ in whole],
        [end for _, end in whole],
    )


def _with_first_sentence(
    text: str, headings: list[tuple[int, int]], paragraphs: Positions, sentences: Positions
) -> list[tuple[int, int]]:
    """Join each heading with the first sentence below, or with the next heading and the sentence below that."""
    ranges: list[tuple[int, int]] = []
    next_heading, next_end = len(text), len(text)
    for start, end in reversed(headings):
        ink = _NON_BLANK.search(text, end)
        body = ink.start() if ink else len(text)
        if body < next_heading:
            next_end = min(
                _next_position(sentences, body, len(text)), _next_position(paragraphs, body, len(text)), next_heading
            )
        ranges.append((start, next_end if next_end - start <= _MAX_HEADING_CHARACTERS else end))
        next_heading = start
    return ranges


def _next_position(positions: Positions, low: int, otherwise: int) -> int:
    index = bisect_right(positions, low)
    return positions[index] if index < len(positions) else otherwise


def _merge_ranges(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge overlapping sorted ranges."""
    merged: list[tuple[int, int]] = []
    for start, end in ranges:
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


# Tokens searched backwards for a space; a longer word is cut.
_MAX_WORD_TOKENS: Final = 128
# A paragraph, line or sentence may end a chunk early by a twentieth of its size, or 16 tokens (less the overlap).
_MAX_TAIL_TOKENS, _TAIL_DIVISOR = 16, 20
# A quarter of the overlap may be dropped to start at a sentence, line or paragraph.
OVERLAP_TRIM_DIVISOR: Final = 4
_FIRST_CJK_CHARACTER: Final = "\u2e80"
_NON_BLANK: Final = re.compile(r"\S")

Range = tuple[int, int]


class Cutter:
    """Text with its tokens and boundaries. Positions are character offsets, counts are tokens."""

    def __init__(
        self,
        text: str,
        units: Units,
        size: int,
        overlap: int,
        headers: Headers,
        marks: Boundaries | None = None,
    ) -> None:
        self.text, self.size, self.overlap = text, size, overlap
        self.units, self.headers = units, headers
        small = len(self.units.starts) <= size
        self.marks = marks or (Boundaries() if small else find_boundaries(text, headers.structure.records.ranges))

    def with_size(self, size: int, overlap: int) -> Cutter:
        """Return a cutter of this text with a smaller size and overlap."""
        return Cutter(self.text, self.units, size, overlap, self.headers, self.marks)

    def cut_ranges(self, start: int = 0, cut: int = 0, stop: int | None = None) -> Iterator[Range]:
        """Yield chunks that end between `cut` and `stop`, without blank margins; the first starts at `start`."""
        stop = len(self.text) if stop is None else stop
        while cut < stop:
            end = self._end(start, cut, stop)
            if end > self._limit(start):
                start, end = cut, self._end(cut, cut, stop)
            chunk = _trim_range(self.text, start, end)
            if chunk[0] < chunk[1] and chunk[1] > cut:
                yield chunk
            start, cut = self.next_start(start, end), end

    def is_blank(self, start: int, end: int) -> bool:
        return _NON_BLANK.search(self.text, start, end) is None

    def _end(self, start: int, cut: int, stop: int) -> int:
        """Return the end of the chunk from `start`, above `cut` and at most `stop`."""
        limit = self._limit(start)
        if limit >= stop:
            return stop
        if limit <= cut:
            return next_cut(self.text, cut)
        last = self.units.last(limit)
        # A heading may end a chunk from half its size on, other boundaries only in its tail.
        half = self.units.starts[(self.units.last(cut) + last + 1) // 2]
        tail = max(
            half, self.units.starts[max(0, last - max(_MAX_TAIL_TOKENS - self.overlap, self.size // _TAIL_DIVISOR))]
        )
        best = self.marks.last_heading(max(half, cut + 1), limit) or self.marks.best_position(max(tail, cut + 1), limit)
        chosen = best if best is not None else self._inside_a_sentence(cut, half, limit)
        if is_cut(self.text, chosen, cut):
            return chosen
        return last_cut(self.text, cut, chosen) or (
            limit if limit - cut > MAX_CHARACTER_CODE_POINTS else next_cut(self.text, cut)
        )

    def _limit(self, start: int) -> int:
        """Return the last possible end of a chunk from `start`."""
        beyond = self.units.first(start) + self.token_limit(start)
        return self.units.starts[beyond] if beyond < len(self.units.starts) else len(self.text)

    def token_limit(self, start: int) -> int:
        """Return the token limit of a chunk from `start`, reduced by its table header."""
        return max(self.size - self.headers.token_cost(start), self.size // 2)

    def _inside_a_sentence(self, cut: int, half: int, limit: int) -> int:
        """Return a cut between words or before a whole range, else after a token."""
        starts = self.units.starts
        last = self.units.last(limit)
        nearest = map(starts.__getitem__, range(last, max(self.units.last(half), last - _MAX_WORD_TOKENS), -1))
        word = next((position for position in nearest if position > cut and between_words(self.text, position)), limit)
        enclosing = self.marks.enclosing_range(word)
        if enclosing and enclosing[0] > cut and self.units.count(*enclosing) <= self.size:
            return enclosing[0]
        return word

    def next_start(self, previous: int, cut: int) -> int:
        """Return the start of the next chunk: up to `overlap` tokens before the cut, at a boundary if near."""
        # Chunks of a table start with its header, so rows and records are not repeated.
        if self.headers.structure.is_tabular(cut):
            return cut
        last = self.units.last(cut)
        first = max(last - self.overlap, self.units.last(previous + 1))
        if first >= last or cut >= len(self.text):
            return cut
        starts = self.units.starts
        near = (
            position
            for position in starts[first : min(last, first + _MAX_WORD_TOKENS)]
            if self.units.first(position) >= first
        )
        allowed = (position for position in near if is_cut(self.text, position, previous))
        nearest = next(allowed, cut)
        if nearest != cut and not between_words(self.text, nearest):
            nearest = next((position for position in allowed if between_words(self.text, position)), nearest)
        boundary = self.marks.first_position(nearest, starts[first + (last - first) // OVERLAP_TRIM_DIVISOR])
        if boundary is not None and boundary < cut and is_cut(self.text, boundary, previous):
            return boundary
        enclosing = self.marks.enclosing_range(nearest)
        return (
            enclosing[1] if enclosing and enclosing[1] < cut and is_cut(self.text, enclosing[1], previous) else nearest
        )


def between_words(text: str, position: int) -> bool:
    """Return whether a space or a script without spaces borders this position."""
    previous, following = text[position - 1], text[position]
    return (
        previous.isspace()
        or following.isspace()
        or previous >= _FIRST_CJK_CHARACTER
        or following >= _FIRST_CJK_CHARACTER
    )


def _trim_range(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end
