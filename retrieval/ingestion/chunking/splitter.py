"""Split a parsed text into chunks with exact offsets, reusing chunks of the previous version."""

from __future__ import annotations

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

# Each cut depends on the one before, so a changed word would move all later cuts. Chunks of the previous version that
# the text still contains are therefore kept, and only the text between them is cut.

# Characters of the lookup prefixes. Shorter chunks are cheaper to embed again.
_SHORT_PREFIX, _LONG_PREFIX = 32, 256
_MAX_CANDIDATES: Final = 16
# Matches examined for one with new text.
_MAX_EXAMINED_MATCHES: Final = 64
# Only a gap of at most this many new chunks is cut into even sizes.
_SMALL_GAP_CHUNKS: Final = 4
# Kept chunks on each side of a gap that may be cut again, if that adds no new chunk.
_MAX_JOINED_CHUNKS: Final = 4
# Factors of an even share of the gap, tried in order to avoid a small last chunk.
_SIZE_FACTORS: Final = (1.0, 1.1, 1.2, 1.35)


@dataclass(frozen=True, slots=True)
class PreviousChunk:
    """Chunk of the previous version; `shared`: leading characters that overlap the chunk before."""

    text: str
    shared: int


@dataclass(frozen=True, slots=True)
class _ChunkMatch:
    """Match of a previous chunk in the text: range, and minimal and preferred end of the chunk before."""

    start: int
    end: int
    min_previous_end: int
    previous_end: int


@dataclass(frozen=True, slots=True)
class _ChosenChunk:
    """Chosen chunk, with the range of the chunk before."""

    chunk: Range
    previous: Range
    is_kept: bool


def choose_ranges(cutter: Cutter, previous: Iterable[PreviousChunk]) -> list[Range]:
    """Return the range of each chunk: previous chunks where the text contains them, new cuts elsewhere."""
    matches = list(_find_matches(cutter, previous))
    return _ChunkPlan(cutter, matches).ranges() if matches else list(cutter.cut_ranges())


class _ChunkPlan:
    """Sequence of chunks that reuses matches and adds few new chunks."""

    def __init__(self, cutter: Cutter, matches: Sequence[_ChunkMatch]) -> None:
        self.cutter, self.matches = cutter, matches
        self.trimmed_cutter = cutter.with_size(cutter.size, _trimmed_overlap(cutter.overlap))
        self.starts = [match.start for match in matches]
        self.steps: list[_ChosenChunk] = []

    def ranges(self) -> list[Range]:
        previous = (0, 0)
        while not self.cutter.is_blank(previous[1], len(self.cutter.text)):
            match = self._next(previous, previous[1])
            if match is not None and self.cutter.is_blank(
                previous[1], match.min_previous_end if previous[1] else match.start
            ):
                self.steps.append(_ChosenChunk((match.start, match.end), previous, is_kept=True))
            elif not self._fill(previous, match):
                break
            previous = self.steps[-1].chunk
        return [step.chunk for step in self.steps]

    def _next(self, previous: Range, beyond: int) -> _ChunkMatch | None:
        """Return the first match that ends after `beyond` and overlaps the chunk `previous` within the limit."""
        units = self.cutter.units
        shared = units.starts[max(0, units.last(previous[1]) - self.cutter.overlap)] if previous[1] else 0
        first = bisect_left(self.starts, max(shared, previous[0] + 1 if previous[1] else 0))
        return next(
            (match for match in self.matches[first : first + _MAX_EXAMINED_MATCHES] if match.end > beyond), None
        )

    def _fill(self, previous: Range, match: _ChunkMatch | None) -> bool:
        """Cut the text before `match`, joined with kept neighbours if that adds no chunk; False if nothing is left to
        cut."""
        gap = self._gap(previous, match)
        for _ in range(_MAX_JOINED_CHUNKS if len(gap) <= _SMALL_GAP_CHUNKS else 0):
            further = match and self._next(previous, match.end)
            if match is None or not (longer_gap := self._gap(previous, further, len(gap))):
                break
            gap, match = longer_gap, further
        for _ in range(_MAX_JOINED_CHUNKS if len(gap) <= _SMALL_GAP_CHUNKS else 0):
            last = self.steps[-1] if self.steps else None
            if last is None or not last.is_kept or not (longer_gap := self._gap(last.previous, match, len(gap))):
                break
            gap = longer_gap
            previous = self.steps.pop().previous
        for chunk in gap:
            self.steps.append(_ChosenChunk(chunk, previous, is_kept=False))
            previous = chunk
        return bool(gap)

    def _gap(self, previous: Range, match: _ChunkMatch | None, max_chunks: int | None = None) -> list[Range]:
        """Return new chunks after `previous` up to `match`; empty if more than `max_chunks`."""
        full = self._cut(self.cutter, previous, match.previous_end if match else len(self.cutter.text), max_chunks)
        if match is None or len(full) == 1 or len(full) > _SMALL_GAP_CHUNKS + 1:
            return full
        slim = self._cut(self.trimmed_cutter, previous, match.min_previous_end, max_chunks)
        return slim if slim and (not full or len(slim) < len(full)) else full

    def _cut(self, cutter: Cutter, previous: Range, stop: int, max_chunks: int | None) -> list[Range]:
        """Return chunks of similar size; empty if more than `max_chunks`."""
        start = cutter.next_start(*previous) if previous[1] else 0
        ranges = list(islice(cutter.cut_ranges(start, previous[1], stop), max_chunks and max_chunks + 1))
        if max_chunks is not None and len(ranges) > max_chunks:
            return []
        if 1 < len(ranges) <= _SMALL_GAP_CHUNKS:
            new = cutter.units.count(start, stop) - cutter.overlap
            for factor in _SIZE_FACTORS:
                size = cutter.overlap + int(factor * -(-new // len(ranges)))
                if not cutter.overlap < size < cutter.size:
                    break
                even = list(
                    islice(cutter.with_size(size, cutter.overlap).cut_ranges(start, previous[1], stop), len(ranges) + 1)
                )
                if len(even) == len(ranges):
                    return even
        return ranges


def _trimmed_overlap(overlap: int) -> int:
    return overlap - overlap // OVERLAP_TRIM_DIVISOR


def _find_matches(cutter: Cutter, previous: Iterable[PreviousChunk]) -> Iterator[_ChunkMatch]:
    """Yield the longest match of previous chunks at each start, in order."""
    text, units = cutter.text, cutter.units
    chunks_by_prefix: dict[str, list[PreviousChunk]] = defaultdict(list)
    for chunk in {chunk.text: chunk for chunk in previous if len(chunk.text) >= _SHORT_PREFIX}.values():
        chunks_by_prefix[chunk.text[:_SHORT_PREFIX]].append(chunk)
        if len(chunk.text) >= _LONG_PREFIX:
            chunks_by_prefix[chunk.text[:_LONG_PREFIX]].append(chunk)
    for start in _word_starts(cutter) if chunks_by_prefix else ():
        if text[start : start + _SHORT_PREFIX] not in chunks_by_prefix:
            continue
        candidates = (
            chunks_by_prefix.get(text[start : start + _LONG_PREFIX], [])[:_MAX_CANDIDATES]
            + chunks_by_prefix[text[start : start + _SHORT_PREFIX]][:_MAX_CANDIDATES]
        )
        present = [chunk for chunk in candidates if text.startswith(chunk.text, start)]
        present = [chunk for chunk in present if _is_valid_chunk(cutter, start, start + len(chunk.text))]
        if present:
            chunk = max(present, key=lambda chunk: len(chunk.text))
            previous_end = start + chunk.shared
            first_token = units.first(start) + _trimmed_overlap(units.count(start, previous_end))
            shared_end = units.starts[first_token] if chunk.shared and first_token < len(units.starts) else previous_end
            yield _ChunkMatch(start, start + len(chunk.text), min(shared_end, previous_end), previous_end)


def _word_starts(cutter: Cutter) -> Iterator[int]:
    """Yield token starts, without leading blanks."""
    text, reached = cutter.text, -1
    for start in cutter.units.starts:
        if start <= reached:
            continue
        reached = start
        while reached < len(text) and text[reached].isspace():
            reached += 1
        if reached < len(text):
            yield reached


def _is_valid_chunk(cutter: Cutter, start: int, end: int) -> bool:
    """Return whether a chunk with this range has word boundaries at both ends and an allowed size."""
    text = cutter.text
    at_start = start == 0 or (
        between_words(text, start) and is_cut(text, start, max(0, start - MAX_CHARACTER_CODE_POINTS))
    )
    at_end = end == len(text) or (
        between_words(text, end) and is_cut(text, end, max(start, end - MAX_CHARACTER_CODE_POINTS))
    )
    return at_start and at_end and cutter.units.count(start, end) <= cutter.token_limit(start)


def effective_size(requested: int, overlap: int, max_tokens: int) -> tuple[int, int]:
    """Return chunk size and overlap, scaled down to the model's token limit."""
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
        chunks.append(Chunk(len(chunks), parsed.text[start:end], start, end, page, count, header, rows))
    return chunks


def _page_number(pages: tuple[int, ...], start: int) -> int | None:
    return max(1, bisect_right(pages, start)) if pages else None
