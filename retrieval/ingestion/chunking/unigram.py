"""SentencePiece's unigram model on NumPy: 250,000 pieces in 5 MB."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Codes = npt.NDArray[np.uint32]
    Numbers = npt.NDArray[np.int64]
    # Piece id and its length in characters.
    _Token = tuple[int, int]
    Hashes = npt.NDArray[np.uint64]

# The best segmentation has the highest sum of piece scores (Viterbi). Pieces are found by 64-bit hashes of all parts of
# a text at once.

# Stands for a space in pieces, always as their first character.
_SPACE_MARK: Final = "\u2581"
_MAX_CACHED_WORDS, _MAX_CACHED_WORD_CHARACTERS = 20_000, 32
_HASH_BASE: Final = 0x9E3779B97F4A7C15
_INVERSE_BASE: Final = pow(_HASH_BASE, -1, 2**64)
_HASH_MULTIPLIER: Final = np.uint64(0xBF58476D1CE4E5B9)
_FILTER_BITS: Final = 22
# Distance of an unknown character's score below the least likely piece.
_UNKNOWN_PENALTY: Final = 10.0
# Characters hashed at once.
_HASH_BATCH_CHARACTERS: Final = 8192


@dataclass(frozen=True, slots=True)
class Normalizer:
    """Replacement of single characters; `codes` ascend, `starts` index `replacements`."""

    codes: Codes
    starts: Numbers
    replacements: Codes

    def normalize(self, text: str) -> tuple[Codes, Numbers]:
        """Return the characters for the model, a mark for each run of spaces, and the source index of each."""
        source_codes = _code_points(text)
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
        codes[codes == ord(" ")] = ord(_SPACE_MARK)
        if not len(codes) or codes[0] != ord(_SPACE_MARK):
            codes = np.concatenate([np.array([ord(_SPACE_MARK)], np.uint32), codes])
            sources = np.concatenate([np.zeros(1, np.int64), sources])
        return codes, sources


@dataclass(slots=True)
class UnigramTokenizer:
    """Tokenizer by unigram scores, safe for several threads; `specials` never occur in a text."""

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
        sums, inverses = _prefix_hashes(_code_points(self.text))
        hashes = (sums[ends] - sums[begins]) * inverses[begins]
        order = np.argsort(hashes)
        order = order[~np.isin(order, [self.unknown, *self.specials])]
        self._hashes, self._ids = hashes[order], order.astype(np.int32)
        self._filter = np.zeros(1 << _FILTER_BITS, np.bool_)
        self._filter[self._hashes >> np.uint64(64 - _FILTER_BITS)] = True
        self._longest = int(self.lengths.max())
        self.text = ""

    def spans(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """Return the character offsets (start, end) of each token per text, without special tokens."""
        spans: list[list[tuple[int, int]]] = []
        for text in texts:
            codes, sources = self.normalizer.normalize(text)
            lengths = [length for _, length in self._segment(codes)]
            ends = np.cumsum(lengths, dtype=np.int64)
            pairs = zip(sources[ends - lengths].tolist(), (sources[ends - 1] + 1).tolist(), strict=True)
            spans.append(list(pairs) if text else [])
        return spans

    def ids(self, text: str) -> list[int]:
        """Return the ids of the text's tokens, without special tokens."""
        return [piece for piece, _ in self._segment(self.normalizer.normalize(text)[0])]

    def _segment(self, codes: Codes) -> list[_Token]:
        """Return the best tokens in order."""
        # A mark always starts a piece, so words are segmented and cached separately.
        text = codes.tobytes().decode("utf-32-le", "surrogatepass")
        words = [_SPACE_MARK + word for word in text[1:].split(_SPACE_MARK)]
        tokens = {word: self._words[word] for word in words if word in self._words}
        unseen = list(dict.fromkeys(word for word in words if word not in tokens))
        if unseen:
            best = iter(self._search(_code_points("".join(unseen))))
            for word in unseen:
                tokens[word], remaining = [], len(word)
                while remaining:
                    tokens[word].append(token := next(best))
                    remaining -= token[1]
            if len(self._words) > _MAX_CACHED_WORDS:
                self._words.clear()
            self._words.update((word, tokens[word]) for word in unseen if len(word) <= _MAX_CACHED_WORD_CHARACTERS)
        return [token for word in words for token in tokens[word]]

    def _search(self, codes: Codes) -> list[_Token]:
        """Find the best tokens by Viterbi's algorithm."""
        count = len(codes)
        unknown_score = float(self.scores.min()) - _UNKNOWN_PENALTY
        best, tokens = [-1e30] * (count + 1), [(0, 0)] * (count + 1)
        best[0] = 0.0
        for position, matches in enumerate(self._matches(codes)):
            base = best[position]
            if base + unknown_score > best[position + 1]:
                best[position + 1], tokens[position + 1] = base + unknown_score, (self.unknown, 1)
            for length, piece, score in matches:
                if base + score > best[position + length]:
                    best[position + length], tokens[position + length] = base + score, (piece, length)
        path: list[_Token] = []
        while count:
            path.append(tokens[count])
            count -= tokens[count][1]
        return path[::-1]

    def _matches(self, codes: Codes) -> list[list[tuple[int, int, float]]]:
        """Return the pieces that start at each character: length, id and score."""
        matches: list[list[tuple[int, int, float]]] = [[] for _ in codes]
        for start in range(0, len(codes), _HASH_BATCH_CHARACTERS):
            part = codes[start : start + _HASH_BATCH_CHARACTERS + self._longest]
            sums, inverses = _prefix_hashes(part)
            for length in range(1, min(self._longest, len(part)) + 1):
                stop = min(len(part) - length + 1, _HASH_BATCH_CHARACTERS)
                hashes = (sums[length : length + stop] - sums[:stop]) * inverses[:stop]
                candidates = np.flatnonzero(self._filter[hashes >> np.uint64(64 - _FILTER_BITS)])
                candidate_hashes = hashes[candidates]
                places = np.minimum(np.searchsorted(self._hashes, candidate_hashes), len(self._hashes) - 1)
                equal = self._hashes[places] == candidate_hashes
                ids = self._ids[places[equal]]
                for position, piece, score in zip(
                    candidates[equal].tolist(), ids.tolist(), self.scores[ids].tolist(), strict=True
                ):
                    matches[start + position].append((length, piece, score))
        return matches


def _code_points(text: str) -> Codes:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def _prefix_hashes(codes: Codes) -> tuple[Hashes, Hashes]:
    """Return prefix sums of character hashes times powers of the base, and the inverse powers."""
    mixed = (codes.astype(np.uint64) + np.uint64(1)) * _HASH_MULTIPLIER
    mixed ^= mixed >> np.uint64(31)
    mixed *= _HASH_MULTIPLIER
    powers = np.full(len(codes), _HASH_BASE, np.uint64)
    inverses = np.full(len(codes) + 1, _INVERSE_BASE, np.uint64)
    powers[:1] = inverses[0] = 1
    sums = np.zeros(len(codes) + 1, np.uint64)
    np.cumsum(mixed * np.cumprod(powers, dtype=np.uint64), out=sums[1:])
    return sums, np.cumprod(inverses, dtype=np.uint64)
