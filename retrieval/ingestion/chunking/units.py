"""The tokens of a text as flat arrays of character offsets, found in one tokenizer pass and bounded memory."""

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

    Offsets = npt.NDArray[np.int64]
    """One row a token: start and end."""

PIECE: Final = 8_000
"""Characters a tokenizer gets at once; its cost per character grows with longer texts."""
_BATCH: Final = 32
LONGEST_TOKEN: Final = 32
"""Characters of a real token at most; what is longer is a word the tokenizer gave up on and told as one."""
_LONGEST_GAP: Final = 256
_CHARACTERS_PER_TOKEN: Final = 4


@dataclass(frozen=True, slots=True)
class Units:
    """Tokens by offset, in order. Several may share a character; a token too long to be one counts as several."""

    starts: array[int]
    ends: array[int]

    def first(self, position: int) -> int:
        """The first token that reaches beyond `position`."""
        return bisect_right(self.ends, position)

    def last(self, position: int) -> int:
        """One more than the last token that begins before `position`."""
        return bisect_left(self.starts, position)

    def count(self, start: int, end: int) -> int:
        return max(0, self.last(end) - self.first(start))


def read_units(text: str, tokenizer: Tokenizer) -> Units:
    """The tokens of `text`, cut into pieces at paragraphs for the tokenizer."""
    import numpy as np

    pieces = list(_pieces(text))
    batches: list[Offsets] = [np.zeros((0, 2), np.int64)]
    for number in range(0, len(pieces), _BATCH):
        batch = pieces[number : number + _BATCH]
        for (offset, _), spans in zip(batch, tokenizer.spans([text[a:b] for a, b in batch]), strict=True):
            flat = np.fromiter(chain.from_iterable(spans), np.int64, 2 * len(spans))
            batches.append(flat.reshape(-1, 2) + offset)
    offsets = _bounded(np.concatenate(batches), len(text))
    return Units(_flat(offsets[:, 0]), _flat(offsets[:, 1]))


def _flat(column: npt.NDArray[np.int64]) -> array[int]:
    """Copy the numbers into an array that is fast to search one at a time."""
    numbers = array("q")
    numbers.frombytes(column.tobytes())
    return numbers


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    while start < len(text):
        end = min(len(text), start + PIECE)
        if end < len(text):
            end = _piece_end(text, start, end)
        yield start, end
        start = end


def _piece_end(text: str, start: int, end: int) -> int:
    middle = start + PIECE // 2
    for separator in ("\n\n", "\n", " "):
        if (position := text.rfind(separator, middle, end)) >= 0:
            return position + len(separator)
    return last_cut(text, start, end) or end


def _bounded(offsets: Offsets, length: int) -> Offsets:
    """Split tokens and gaps of more than a few characters, so that each count stands for bounded text."""
    import numpy as np

    if (np.diff(offsets, axis=0) < 0).any():
        offsets = np.maximum.accumulate(offsets, axis=0)
    starts, ends = offsets[:, 0], offsets[:, 1]
    gap_starts, gap_ends = np.append(0, ends), np.append(starts, length)
    gaps = np.flatnonzero(gap_ends - gap_starts > _LONGEST_GAP)
    long = np.flatnonzero(ends - starts > LONGEST_TOKEN)
    if not len(gaps) and not len(long):
        return offsets
    parts = [np.delete(offsets, long, axis=0)]
    for begin, end in [*zip(gap_starts[gaps], gap_ends[gaps], strict=True), *offsets[long]]:
        edges = np.append(np.arange(begin, end, _CHARACTERS_PER_TOKEN), end)
        parts.append(np.stack([edges[:-1], edges[1:]], axis=1))
    divided = np.concatenate(parts)
    return divided[np.lexsort((divided[:, 1], divided[:, 0]))]
