"""Tokens of a text as flat arrays of character offsets, in bounded memory."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

from retrieval.ingestion.chunking.graphemes import last_cut
from retrieval.ports import Tokenizer

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    # One row per token: start and end.
    Offsets = npt.NDArray[np.int64]

# The tokenizer's cost per character grows with the length of a text.
TOKENIZER_PIECE_CHARACTERS: Final = 8_000
_PIECES_PER_CALL: Final = 32
# A longer token is an unknown word that the tokenizer returned whole.
MAX_TOKEN_CHARACTERS: Final = 32
_MAX_GAP_CHARACTERS: Final = 256
_CHARACTERS_PER_TOKEN: Final = 4


@dataclass(frozen=True, slots=True)
class Units:
    """Tokens by character offset, in order; an overlong token counts as several."""

    starts: array[int]
    ends: array[int]

    def first(self, position: int) -> int:
        """Return the first token that ends after `position`."""
        return bisect_right(self.ends, position)

    def last(self, position: int) -> int:
        """Return the number of tokens that start before `position`."""
        return bisect_left(self.starts, position)

    def count(self, start: int, end: int) -> int:
        return max(0, self.last(end) - self.first(start))


def read_units(text: str, tokenizer: Tokenizer) -> Units:
    """Tokenize a text in pieces cut at paragraphs."""
    import numpy as np

    pieces = list(_piece_ranges(text))
    batches: list[Offsets] = [np.zeros((0, 2), np.int64)]
    for number in range(0, len(pieces), _PIECES_PER_CALL):
        batch = pieces[number : number + _PIECES_PER_CALL]
        for (offset, _), spans in zip(batch, tokenizer.spans([text[a:b] for a, b in batch]), strict=True):
            flat = np.fromiter(chain.from_iterable(spans), np.int64, 2 * len(spans))
            batches.append(flat.reshape(-1, 2) + offset)
    offsets = _split_long_tokens(np.concatenate(batches), len(text))
    return Units(_to_array(offsets[:, 0]), _to_array(offsets[:, 1]))


def _to_array(column: npt.NDArray[np.int64]) -> array[int]:
    # An array is faster than NumPy to search one number at a time.
    numbers = array("q")
    numbers.frombytes(column.tobytes())
    return numbers


def _piece_ranges(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    while start < len(text):
        end = min(len(text), start + TOKENIZER_PIECE_CHARACTERS)
        if end < len(text):
            end = _piece_end(text, start, end)
        yield start, end
        start = end


def _piece_end(text: str, start: int, end: int) -> int:
    middle = start + TOKENIZER_PIECE_CHARACTERS // 2
    for separator in ("\n\n", "\n", " "):
        if (position := text.rfind(separator, middle, end)) >= 0:
            return position + len(separator)
    return last_cut(text, start, end) or end


def _split_long_tokens(offsets: Offsets, length: int) -> Offsets:
    """Split overlong tokens and gaps, so that each count stands for bounded text."""
    import numpy as np

    if (np.diff(offsets, axis=0) < 0).any():
        offsets = np.maximum.accumulate(offsets, axis=0)
    starts, ends = offsets[:, 0], offsets[:, 1]
    gap_starts, gap_ends = np.append(0, ends), np.append(starts, length)
    gaps = np.flatnonzero(gap_ends - gap_starts > _MAX_GAP_CHARACTERS)
    long = np.flatnonzero(ends - starts > MAX_TOKEN_CHARACTERS)
    if not len(gaps) and not len(long):
        return offsets
    parts = [np.delete(offsets, long, axis=0)]
    for begin, end in [*zip(gap_starts[gaps], gap_ends[gaps], strict=True), *offsets[long]]:
        edges = np.append(np.arange(begin, end, _CHARACTERS_PER_TOKEN), end)
        parts.append(np.stack([edges[:-1], edges[1:]], axis=1))
    divided = np.concatenate(parts)
    return divided[np.lexsort((divided[:, 1], divided[:, 0]))]
