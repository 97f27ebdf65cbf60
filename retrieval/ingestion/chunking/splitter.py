"""Split a parsed text into chunks with exact offsets, and keep chunks of the previous version."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from retrieval.ingestion.chunking import units
from retrieval.ingestion.chunking.cutter import OVERLAP_TRIM_DIVISOR, Cutter, Range, between_words
from retrieval.ingestion.chunking.graphemes import MAX_CHARACTER_CODE_POINTS, is_cut
from retrieval.ingestion.chunking.structure import Headers
from retrieval.ingestion.chunking.units import Units
from retrieval.ports import Chunk, Parsed, Tokenizer

# Each cut depends on the one before, so one changed word would move all later cuts. Chunks of the previous version that
# the text still contains are therefore kept, and only the gaps between them are cut.

# A previous chunk is found by its first characters. Shorter chunks are not looked up: they are cheap to embed again.
_SHORT_PREFIX_CHARACTERS, _LONG_PREFIX_CHARACTERS = 32, 256
# Previous chunks compared at one position of the text, for each prefix.
_MAX_CANDIDATES: Final = 16
# Matches examined for the next one after a chunk.
_MAX_EXAMINED_MATCHES: Final = 64
# A gap of more new chunks is neither joined with kept chunks nor cut into even sizes.
_SMALL_GAP_CHUNKS: Final = 4
# Kept chunks on each side of a small gap that may be cut again with it.
_MAX_JOINED_CHUNKS: Final = 4
# Sizes of the chunks of a gap, as factors of an even share. The first that needs no additional chunk is used.
_SIZE_FACTORS: Final = (1.0, 1.1, 1.2, 1.35)
# Predecessor of the first chunk.
_NO_CHUNK: Final[Range] = (0, 0)


@dataclass(frozen=True, slots=True)
class PreviousChunk:
    """Chunk of the previous version. `shared`: number of first characters also in the chunk before."""

    text: str
    shared: int


@dataclass(frozen=True, slots=True)
class _ChunkMatch:
    """Range of a previous chunk in the text."""

    start: int
    end: int
    # End of the chunk before, for the same overlap as in the previous version.
    previous_end: int
    # The same for an overlap trimmed by `OVERLAP_TRIM_DIVISOR`.
    min_previous_end: int


@dataclass(frozen=True, slots=True)
class _PlannedChunk:
    """Ranges of a chunk and its predecessor. `is_kept`: a chunk of the previous version."""

    chunk: Range
    previous: Range
    is_kept: bool


def choose_ranges(cutter: Cutter, previous: Iterable[PreviousChunk]) -> list[Range]:
    """Return the range of each chunk: previous chunks found in the text, new cuts elsewhere."""
    matches = list(_find_matches(cutter, previous))
    return _ChunkPlan(cutter, matches).plan_ranges() if matches else list(cutter.cut_ranges())


class _ChunkPlan:
    """Sequence of chunks that keeps matches and adds few new chunks."""

    def __init__(self, cutter: Cutter, matches: Sequence[_ChunkMatch]) -> None:
        self.cutter, self.matches = cutter, matches
        self.trimmed_cutter = cutter.with_size(cutter.size, _trimmed_overlap(cutter.overlap))
        self.match_starts = [match.start for match in matches]
        self.planned: list[_PlannedChunk] = []

    def plan_ranges(self) -> list[Range]:
        """Return the ranges of the chunks up to the end of the text."""
        previous = _NO_CHUNK
        while not self.cutter.is_blank(previous[1], len(self.cutter.text)):
            match = self._find_next_match(previous, min_end=previous[1])
            if match is not None and self._is_adjacent(previous, match):
                self.planned.append(_PlannedChunk((match.start, match.end), previous, is_kept=True))
            elif not self._fill_gap(previous, match):
                break
            previous = self.planned[-1].chunk
        return [step.chunk for step in self.planned]

    def _is_adjacent(self, previous: Range, match: _ChunkMatch) -> bool:
        """Check that the match may follow the chunk `previous` directly."""
        gap_end = match.start if previous == _NO_CHUNK else match.min_previous_end
        return self.cutter.is_blank(previous[1], gap_end)

    def _find_next_match(self, previous: Range, min_end: int) -> _ChunkMatch | None:
        """Return the first match that ends after `min_end`, and overlaps the chunk `previous` at most as allowed."""
        min_start = 0
        if previous != _NO_CHUNK:
            units = self.cutter.units
            overlap_start = units.starts[max(0, units.last(previous[1]) - self.cutter.overlap)]
            min_start = max(overlap_start, previous[0] + 1)
        first = bisect_left(self.match_starts, min_start)
        examined = self.matches[first : first + _MAX_EXAMINED_MATCHES]
        return next((match for match in examined if match.end > min_end), None)

    def _fill_gap(self, previous: Range, match: _ChunkMatch | None) -> bool:
        """Plan new chunks from the chunk `previous` to the match or the end of the text; False if the gap is blank."""
        new_chunks = self._cut_gap(previous, match)
        if len(new_chunks) <= _SMALL_GAP_CHUNKS:
            # A longer gap of as many chunks has chunks of better size: kept chunks after and before it are cut again.
            for _ in range(_MAX_JOINED_CHUNKS):
                if match is None:
                    break
                next_match = self._find_next_match(previous, min_end=match.end)
                longer_gap = self._cut_gap(previous, next_match, max_chunks=len(new_chunks))
                if not longer_gap:
                    break
                new_chunks, match = longer_gap, next_match
            for _ in range(_MAX_JOINED_CHUNKS):
                if not self.planned or not self.planned[-1].is_kept:
                    break
                longer_gap = self._cut_gap(self.planned[-1].previous, match, max_chunks=len(new_chunks))
                if not longer_gap:
                    break
                new_chunks = longer_gap
                previous = self.planned.pop().previous
        for chunk in new_chunks:
            self.planned.append(_PlannedChunk(chunk, previous, is_kept=False))
            previous = chunk
        return bool(new_chunks)

    def _cut_gap(self, previous: Range, match: _ChunkMatch | None, max_chunks: int | None = None) -> list[Range]:
        """Return the new chunks from the chunk `previous` to the match; empty if they are more than `max_chunks`."""
        if match is None:
            return self._cut_evenly(self.cutter, previous, len(self.cutter.text), max_chunks)
        new_chunks = self._cut_evenly(self.cutter, previous, match.previous_end, max_chunks)
        if len(new_chunks) == 1 or len(new_chunks) > _SMALL_GAP_CHUNKS + 1:
            return new_chunks
        # A smaller overlap may save a chunk.
        trimmed_chunks = self._cut_evenly(self.trimmed_cutter, previous, match.min_previous_end, max_chunks)
        if trimmed_chunks and (not new_chunks or len(trimmed_chunks) < len(new_chunks)):
            return trimmed_chunks
        return new_chunks

    def _cut_evenly(self, cutter: Cutter, previous: Range, stop: int, max_chunks: int | None) -> list[Range]:
        """Return chunks of similar size up to `stop`; empty if they are more than `max_chunks`."""
        start = 0 if previous == _NO_CHUNK else cutter.next_start(*previous)
        limit = None if max_chunks is None else max_chunks + 1
        ranges = list(islice(cutter.cut_ranges(start, previous[1], stop), limit))
        if max_chunks is not None and len(ranges) > max_chunks:
            return []
        if not 1 < len(ranges) <= _SMALL_GAP_CHUNKS:
            return ranges
        # Cut at full size, the last chunk may be small.
        even_share = math.ceil((cutter.units.count(start, stop) - cutter.overlap) / len(ranges))
        for factor in _SIZE_FACTORS:
            size = cutter.overlap + int(factor * even_share)
            if not cutter.overlap < size < cutter.size:
                break
            smaller_cutter = cutter.with_size(size, cutter.overlap)
            even_ranges = list(islice(smaller_cutter.cut_ranges(start, previous[1], stop), len(ranges) + 1))
            if len(even_ranges) == len(ranges):
                return even_ranges
        return ranges


def _trimmed_overlap(overlap: int) -> int:
    return overlap - overlap // OVERLAP_TRIM_DIVISOR


def _find_matches(cutter: Cutter, previous: Iterable[PreviousChunk]) -> Iterator[_ChunkMatch]:
    """Yield the longest match of previous chunks at each position, in order."""
    text = cutter.text
    chunks_by_prefix = _index_by_prefix(previous)
    if not chunks_by_prefix:
        return
    for start in _word_starts(cutter):
        short_prefix = text[start : start + _SHORT_PREFIX_CHARACTERS]
        if short_prefix not in chunks_by_prefix:
            continue
        long_prefix = text[start : start + _LONG_PREFIX_CHARACTERS]
        candidates = (
            chunks_by_prefix.get(long_prefix, [])[:_MAX_CANDIDATES] + chunks_by_prefix[short_prefix][:_MAX_CANDIDATES]
        )
        found = [
            chunk
            for chunk in candidates
            if text.startswith(chunk.text, start) and _is_valid_chunk(cutter, start, start + len(chunk.text))
        ]
        if found:
            yield _match_chunk(cutter, max(found, key=lambda chunk: len(chunk.text)), start)


def _index_by_prefix(previous: Iterable[PreviousChunk]) -> dict[str, list[PreviousChunk]]:
    """Return the chunks with distinct texts by their short and long prefix."""
    chunks_by_prefix: dict[str, list[PreviousChunk]] = defaultdict(list)
    chunks_by_text = {chunk.text: chunk for chunk in previous if len(chunk.text) >= _SHORT_PREFIX_CHARACTERS}
    for chunk in chunks_by_text.values():
        chunks_by_prefix[chunk.text[:_SHORT_PREFIX_CHARACTERS]].append(chunk)
        if len(chunk.text) >= _LONG_PREFIX_CHARACTERS:
            chunks_by_prefix[chunk.text[:_LONG_PREFIX_CHARACTERS]].append(chunk)
    return chunks_by_prefix


def _match_chunk(cutter: Cutter, chunk: PreviousChunk, start: int) -> _ChunkMatch:
    """Return the match of a previous chunk at a position."""
    units, previous_end = cutter.units, start + chunk.shared
    min_previous_end = previous_end
    first_token = units.first(start) + _trimmed_overlap(units.count(start, previous_end))
    if chunk.shared and first_token < len(units.starts):
        min_previous_end = min(units.starts[first_token], previous_end)
    return _ChunkMatch(start, start + len(chunk.text), previous_end, min_previous_end)


def _word_starts(cutter: Cutter) -> Iterator[int]:
    """Yield the position of each token after leading blanks."""
    text, word_start = cutter.text, -1
    for token_start in cutter.units.starts:
        if token_start <= word_start:
            continue
        word_start = token_start
        while word_start < len(text) and text[word_start].isspace():
            word_start += 1
        if word_start < len(text):
            yield word_start


def _is_valid_chunk(cutter: Cutter, start: int, end: int) -> bool:
    """Return whether a chunk with this range has word boundaries at both ends and an allowed size."""
    is_start_valid = start == 0 or _is_word_boundary(cutter.text, start, 0)
    is_end_valid = end == len(cutter.text) or _is_word_boundary(cutter.text, end, start)
    return is_start_valid and is_end_valid and cutter.units.count(start, end) <= cutter.token_limit(start)


def _is_word_boundary(text: str, position: int, min_context: int) -> bool:
    """Check for a cut between words and characters, by the text after `min_context`."""
    context_start = max(min_context, position - MAX_CHARACTER_CODE_POINTS)
    return between_words(text, position) and is_cut(text, position, context_start)


def effective_size(requested: int, overlap: int, max_tokens: int) -> tuple[int, int]:
    """Return the requested size and overlap; above the model's token limit, this limit and a proportional overlap."""
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
    previous: Iterable[PreviousChunk] = (),
    headers: Headers | None = None,
) -> list[Chunk]:
    """Split a text into chunks of at most `size` tokens and `overlap` shared tokens; blank text has no chunks."""
    if not 0 <= overlap < size:
        raise ValueError("The overlap must be at least 0 and less than the size.")
    if not parsed.text.strip():
        return []
    # A single character above `size` tokens still becomes one chunk; rows and records that fit are never split.
    headers = headers or Headers.for_document(parsed, tokenizer, size)
    cutter = Cutter(parsed.text, tokens or units.read_units(parsed.text, tokenizer), size, overlap, headers)
    chunks: list[Chunk] = []
    for start, end in choose_ranges(cutter, previous):
        count = cutter.units.count(start, end)
        page = _page_number(parsed.pages, start)
        header, rows = headers.chunk_header(start, end), tuple(headers.structure.rows(start, end))
        text = parsed.text[start:end]
        chunks.append(Chunk(len(chunks), text, start, end, page, tokens=count, header=header, rows=rows))
    return chunks


def _page_number(pages: tuple[int, ...], start: int) -> int | None:
    return max(1, bisect_right(pages, start)) if pages else None
