"""Split a parsed text into chunks of a maximum number of tokens at the best boundaries, with exact offsets.

A cut depends on the one before it, so a changed word would move all that follow. Chunks of the former version that the
text still holds are therefore kept, wherever they stand now, and only the text between them is cut.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from retrieval.ingestion.chunking import units
from retrieval.ingestion.chunking.cutter import GIVEN_SHARE, Cutter, Range, between_words
from retrieval.ingestion.chunking.graphemes import LONGEST, is_cut
from retrieval.ingestion.chunking.structure import Headers
from retrieval.ingestion.chunking.units import Units
from retrieval.ports import Chunk, Parsed, Tokenizer

_SHORT, _LONG = 32, 256
"""Characters by which a chunk is looked up. Shorter ones are not: they are as soon embedded again."""
_ALIKE: Final = 16
"""Of chunks that begin alike so many are looked for."""
_REACH: Final = 64
"""So many places are looked at for one that brings something new."""
_FEW: Final = 4
"""A gap of so few new chunks is cut with care; longer ones as a new text is."""
_JOINED: Final = 4
"""So many chunks on each side of a gap may be cut again with it, if that makes no more new ones."""
_ROOM: Final = (1.0, 1.1, 1.2, 1.35)
"""Of an even share of the gap: sizes to try, so that its last chunk is not a small rest."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A chunk of the former version, and how many of its first characters the one before it held too."""

    text: str
    shared: int


@dataclass(frozen=True, slots=True)
class _Place:
    """Position of a former chunk in the text: its range, and the least and best end of the chunk before it."""

    start: int
    end: int
    least: int
    best: int


@dataclass(frozen=True, slots=True)
class _Step:
    """A chunk that was chosen, and the start and end of the one before it."""

    chunk: Range
    before: Range
    is_kept: bool


def chunk_ranges(cutter: Cutter, pieces: Iterable[Piece]) -> list[Range]:
    """Start and end of each chunk: the former pieces where the text has them, the rest cut in between."""
    places = list(_places(cutter, pieces))
    return _Path(cutter, places).ranges() if places else list(cutter.ranges())


class _Path:
    """A way through the text that uses its places, with as few new chunks between them as will do."""

    def __init__(self, cutter: Cutter, places: Sequence[_Place]) -> None:
        self.cutter, self.places = cutter, places
        self.slim = cutter.sized(cutter.size, _kept_share(cutter.overlap))
        self.starts = [span.start for span in places]
        self.steps: list[_Step] = []

    def ranges(self) -> list[Range]:
        previous = (0, 0)
        while not self.cutter.is_blank(previous[1], len(self.cutter.text)):
            span = self._next(previous, previous[1])
            if span is not None and self.cutter.is_blank(previous[1], span.least if previous[1] else span.start):
                self.steps.append(_Step((span.start, span.end), previous, is_kept=True))
            elif not self._fill(previous, span):
                break
            previous = self.steps[-1].chunk
        return [step.chunk for step in self.steps]

    def _next(self, before: Range, beyond: int) -> _Place | None:
        """The first place that ends after `beyond` and shares with the chunk `before` no more than it may."""
        units = self.cutter.units
        shared = units.starts[max(0, units.last(before[1]) - self.cutter.overlap)] if before[1] else 0
        first = bisect_left(self.starts, max(shared, before[0] + 1 if before[1] else 0))
        return next((span for span in self.places[first : first + _REACH] if span.end > beyond), None)

    def _fill(self, before: Range, place: _Place | None) -> bool:
        """Cut the text before `place`, with kept neighbours if that adds no chunk; False if there is nothing to cut."""
        gap = self._gap(before, place)
        for _ in range(_JOINED if len(gap) <= _FEW else 0):
            further = place and self._next(before, place.end)
            if place is None or not (joined := self._gap(before, further, len(gap))):
                break
            gap, place = joined, further
        for _ in range(_JOINED if len(gap) <= _FEW else 0):
            last = self.steps[-1] if self.steps else None
            if last is None or not last.is_kept or not (joined := self._gap(last.before, place, len(gap))):
                break
            gap = joined
            before = self.steps.pop().before
        for chunk in gap:
            self.steps.append(_Step(chunk, before, is_kept=False))
            before = chunk
        return bool(gap)

    def _gap(self, before: Range, place: _Place | None, most: int | None = None) -> list[Range]:
        """New chunks after `before` up to `place`; none if that takes more than `most`."""
        full = self._cut(self.cutter, before, place.best if place else len(self.cutter.text), most)
        if place is None or len(full) == 1 or len(full) > _FEW + 1:
            return full
        slim = self._cut(self.slim, before, place.least, most)
        return slim if slim and (not full or len(slim) < len(full)) else full

    def _cut(self, cutter: Cutter, before: Range, stop: int, most: int | None) -> list[Range]:
        """Chunks of about one size; none if there are more than `most`."""
        start = cutter.next_start(*before) if before[1] else 0
        ranges = list(islice(cutter.ranges(start, before[1], stop), most and most + 1))
        if most is not None and len(ranges) > most:
            return []
        if 1 < len(ranges) <= _FEW:
            new = cutter.units.count(start, stop) - cutter.overlap
            for room in _ROOM:
                size = cutter.overlap + int(room * -(-new // len(ranges)))
                if not cutter.overlap < size < cutter.size:
                    break
                even = list(islice(cutter.sized(size, cutter.overlap).ranges(start, before[1], stop), len(ranges) + 1))
                if len(even) == len(ranges):
                    return even
        return ranges


def _kept_share(overlap: int) -> int:
    return overlap - overlap // GIVEN_SHARE


def _places(cutter: Cutter, pieces: Iterable[Piece]) -> Iterator[_Place]:
    """Yield the positions of former chunks in the text, by start; at each start the longest."""
    text, units = cutter.text, cutter.units
    pieces_by_start: dict[str, list[Piece]] = defaultdict(list)
    for piece in {piece.text: piece for piece in pieces if len(piece.text) >= _SHORT}.values():
        pieces_by_start[piece.text[:_SHORT]].append(piece)
        if len(piece.text) >= _LONG:
            pieces_by_start[piece.text[:_LONG]].append(piece)
    for start in _word_starts(cutter) if pieces_by_start else ():
        if text[start : start + _SHORT] not in pieces_by_start:
            continue
        alike = (
            pieces_by_start.get(text[start : start + _LONG], [])[:_ALIKE]
            + pieces_by_start[text[start : start + _SHORT]][:_ALIKE]
        )
        standing = [piece for piece in alike if text.startswith(piece.text, start)]
        standing = [piece for piece in standing if _fits(cutter, start, start + len(piece.text))]
        if standing:
            piece = max(standing, key=lambda piece: len(piece.text))
            best = start + piece.shared
            least = units.first(start) + _kept_share(units.count(start, best))
            shared_end = units.starts[least] if piece.shared and least < len(units.starts) else best
            yield _Place(start, start + len(piece.text), min(shared_end, best), best)


def _word_starts(cutter: Cutter) -> Iterator[int]:
    """Yield each position where a token begins that may be the first of a chunk, without leading blanks."""
    text, reached = cutter.text, -1
    for start in cutter.units.starts:
        if start <= reached:
            continue
        reached = start
        while reached < len(text) and text[reached].isspace():
            reached += 1
        if reached < len(text):
            yield reached


def _fits(cutter: Cutter, start: int, end: int) -> bool:
    """Is this a chunk that begins and ends between words and is no longer than it may be?"""
    text = cutter.text
    at_start = start == 0 or (between_words(text, start) and is_cut(text, start, max(0, start - LONGEST)))
    at_end = end == len(text) or (between_words(text, end) and is_cut(text, end, max(start, end - LONGEST)))
    return at_start and at_end and cutter.units.count(start, end) <= cutter.room(start)


def effective_size(requested: int, overlap: int, max_tokens: int) -> tuple[int, int]:
    """Chunk size and overlap as used: a size above the model's limit is lowered to it, the overlap in proportion."""
    if requested <= max_tokens:
        return requested, overlap
    return max_tokens, overlap * max_tokens // requested


def split_text(
    parsed: Parsed,
    tokenizer: Tokenizer,
    size: int,
    overlap: int,
    *,
    tokens: Units | None = None,
    before: Iterable[Piece] = (),
    headers: Headers | None = None,
) -> list[Chunk]:
    """Chunks of at most `size` tokens that share at most `overlap` with the one before; blank text gives none.

    Cuts before a heading in the second half, else near the end between paragraphs, lines, sentences or words, and
    never cuts a character: one that has more than `size` tokens is a chunk of its own. `tokens`: of the text, if known.
    `before`: chunks of a former version, of this size and overlap; what the text still holds of them is kept.
    `headers`: of the text's tables, if known. Rows and records that fit are never torn.
    """
    if not 0 <= overlap < size:
        raise ValueError("The overlap must be at least 0 and less than the size.")
    if not parsed.text.strip():
        return []
    headers = headers or Headers.of(parsed, tokenizer, size)
    cutter = Cutter(parsed.text, tokens or units.read_units(parsed.text, tokenizer), size, overlap, headers)
    chunks: list[Chunk] = []
    for start, end in chunk_ranges(cutter, before):
        count = cutter.units.count(start, end)
        page = _page(parsed.pages, start)
        header, rows = headers.of_chunk(start, end), tuple(headers.structure.rows(start, end))
        chunks.append(Chunk(len(chunks), parsed.text[start:end], start, end, page, count, header, rows))
    return chunks


def _page(pages: tuple[int, ...], start: int) -> int | None:
    return max(1, bisect_right(pages, start)) if pages else None
