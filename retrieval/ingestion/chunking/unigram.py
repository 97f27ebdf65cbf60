"""SentencePiece's unigram model on NumPy: a vocabulary of 250,000 pieces in 5 MB, ready in a fraction of a second.

The best segmentation of a text is the one whose pieces have the highest sum of scores (Viterbi). Pieces are found by
64-bit hashes of all parts of the text at once, never one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Codes = npt.NDArray[np.uint32]
    Numbers = npt.NDArray[np.int64]
    _Token = tuple[int, int]
    """Id of a piece, and its characters."""
    Hashes = npt.NDArray[np.uint64]

_MARK: Final = "\u2581"
"""The character that stands for a space in pieces, where it is always the first."""
_WORDS, _WORD = 20_000, 32
"""Words whose tokens are remembered, and characters of such a word, at most."""
_BASE: Final = 0x9E3779B97F4A7C15
_INVERSE: Final = pow(_BASE, -1, 2**64)
_SPREAD: Final = np.uint64(0xBF58476D1CE4E5B9)
_FILTER_BITS: Final = 22
_UNKNOWN_BELOW: Final = 10.0
"""Score of an unknown character below that of the least likely piece."""
_PART: Final = 8192
"""Characters whose parts are hashed at once."""


@dataclass(frozen=True, slots=True)
class Normalizer:
    """Replacement of single characters: `codes` in ascending order, and where the replacement of each begins."""

    codes: Codes
    starts: Numbers
    replacements: Codes

    def normalize(self, text: str) -> tuple[Codes, Numbers]:
        """Characters as the model reads them, with a mark for each run of spaces and one before the text, and the
        character of the text that each comes from."""
        source_codes = _codes(text)
        places = np.minimum(np.searchsorted(self.codes, source_codes), len(self.codes) - 1)
        is_replaced = self.codes[places] == source_codes
        counts = np.where(is_replaced, self.starts[places + 1] - self.starts[places], 1)
        sources = np.repeat(np.arange(len(source_codes)), counts)
        within = np.arange(len(sources)) - np.repeat(np.cumsum(counts) - counts, counts)
        replaced = is_replaced[sources]
        codes = source_codes[sources]
        codes[replaced] = self.replacements[(self.starts[places[sources]] + within)[replaced]]
        is_space = codes == ord(" ")
        is_piece = ~is_space
        is_piece[1:] |= ~is_space[:-1]
        is_piece[:1] = True
        codes, sources = codes[is_piece], sources[is_piece]
        codes[codes == ord(" ")] = ord(_MARK)
        if not len(codes) or codes[0] != ord(_MARK):
            codes = np.concatenate([np.array([ord(_MARK)], np.uint32), codes])
            sources = np.concatenate([np.zeros(1, np.int64), sources])
        return codes, sources


@dataclass(slots=True)
class UnigramTokenizer:
    """Tokenizer with the pieces that `text` is made of; a piece's number is its id. `specials` are never in a text.

    Safe to use from several threads.
    """

    name: str
    text: str = field(repr=False)
    lengths: Numbers = field(repr=False)
    scores: npt.NDArray[np.float32] = field(repr=False)
    unknown: int
    specials: Sequence[int]
    normalizer: Normalizer = field(repr=False)
    _hashes: Hashes = field(init=False, repr=False)
    _ids: npt.NDArray[np.int32] = field(init=False, repr=False)
    _filter: npt.NDArray[np.bool_] = field(init=False, repr=False)
    _longest: int = field(init=False)
    _words: dict[str, list[_Token]] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        ends = np.cumsum(self.lengths)
        begins = ends - self.lengths
        sums, inverses = _prefix_hashes(_codes(self.text))
        hashes = (sums[ends] - sums[begins]) * inverses[begins]
        order = np.argsort(hashes)
        order = order[~np.isin(order, [self.unknown, *self.specials])]
        self._hashes, self._ids = hashes[order], order.astype(np.int32)
        self._filter = np.zeros(1 << _FILTER_BITS, np.bool_)
        self._filter[self._hashes >> np.uint64(64 - _FILTER_BITS)] = True
        self._longest = int(self.lengths.max())
        self.text = ""

    def spans(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """Per text, the character offsets (start, end) of each token, without special tokens."""
        spans: list[list[tuple[int, int]]] = []
        for text in texts:
            codes, sources = self.normalizer.normalize(text)
            lengths = [length for _, length in self._segment(codes)]
            ends = np.cumsum(lengths, dtype=np.int64)
            pairs = zip(sources[ends - lengths].tolist(), (sources[ends - 1] + 1).tolist(), strict=True)
            spans.append(list(pairs) if text else [])
        return spans

    def ids(self, text: str) -> list[int]:
        """Ids of the text's tokens, without special tokens."""
        return [piece for piece, _ in self._segment(self.normalizer.normalize(text)[0])]

    def _segment(self, codes: Codes) -> list[_Token]:
        """The best tokens in order. A mark always begins a piece, so words are segmented alone, and remembered."""
        text = codes.tobytes().decode("utf-32-le", "surrogatepass")
        words = [_MARK + word for word in text[1:].split(_MARK)]
        tokens = {word: self._words[word] for word in words if word in self._words}
        unseen = list(dict.fromkeys(word for word in words if word not in tokens))
        if unseen:
            best = iter(self._search(_codes("".join(unseen))))
            for word in unseen:
                tokens[word], missing = [], len(word)
                while missing:
                    tokens[word].append(token := next(best))
                    missing -= token[1]
            if len(self._words) > _WORDS:
                self._words.clear()
            self._words.update((word, tokens[word]) for word in unseen if len(word) <= _WORD)
        return [token for word in words for token in tokens[word]]

    def _search(self, codes: Codes) -> list[_Token]:
        """Find the best tokens by Viterbi's algorithm."""
        count = len(codes)
        unknown_score = float(self.scores.min()) - _UNKNOWN_BELOW
        best, tokens = [-1e30] * (count + 1), [(0, 0)] * (count + 1)
        best[0] = 0.0
        for at, matches in enumerate(self._matches(codes)):
            base = best[at]
            if base + unknown_score > best[at + 1]:
                best[at + 1], tokens[at + 1] = base + unknown_score, (self.unknown, 1)
            for length, piece, score in matches:
                if base + score > best[at + length]:
                    best[at + length], tokens[at + length] = base + score, (piece, length)
        path: list[_Token] = []
        while count:
            path.append(tokens[count])
            count -= tokens[count][1]
        return path[::-1]

    def _matches(self, codes: Codes) -> list[list[tuple[int, int, float]]]:
        """Pieces that begin at each character: length, id and score."""
        matches: list[list[tuple[int, int, float]]] = [[] for _ in codes]
        for start in range(0, len(codes), _PART):
            part = codes[start : start + _PART + self._longest]
            sums, inverses = _prefix_hashes(part)
            for length in range(1, min(self._longest, len(part)) + 1):
                stop = min(len(part) - length + 1, _PART)
                hashes = (sums[length : length + stop] - sums[:stop]) * inverses[:stop]
                maybe = np.flatnonzero(self._filter[hashes >> np.uint64(64 - _FILTER_BITS)])
                probable_hashes = hashes[maybe]
                places = np.minimum(np.searchsorted(self._hashes, probable_hashes), len(self._hashes) - 1)
                equal = self._hashes[places] == probable_hashes
                ids = self._ids[places[equal]]
                for at, piece, score in zip(
                    maybe[equal].tolist(), ids.tolist(), self.scores[ids].tolist(), strict=True
                ):
                    matches[start + at].append((length, piece, score))
        return matches


def _codes(text: str) -> Codes:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def _prefix_hashes(codes: Codes) -> tuple[Hashes, Hashes]:
    """Sums of the first characters' hashes, each times a power of the base, and the inverses of these powers."""
    mixed = (codes.astype(np.uint64) + np.uint64(1)) * _SPREAD
    mixed ^= mixed >> np.uint64(31)
    mixed *= _SPREAD
    powers = np.full(len(codes), _BASE, np.uint64)
    inverses = np.full(len(codes) + 1, _INVERSE, np.uint64)
    powers[:1] = inverses[0] = 1
    sums = np.zeros(len(codes) + 1, np.uint64)
    np.cumsum(mixed * np.cumprod(powers, dtype=np.uint64), out=sums[1:])
    return sums, np.cumprod(inverses, dtype=np.uint64)
