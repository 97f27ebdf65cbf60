"""Score texts by the token vectors of a query and of each text."""

# score  = sum over the query's tokens of weight * largest cosine with a token of the text / sum of weights
# weight = ln(1 + rank of the token in the vocabulary, which has frequent words first)

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers = npt.NDArray[np.float32]

# The vocabulary's ids of special tokens, signs and letters; "the" is the next one.
_BEFORE_WORDS: Final = 1995
_SMALLEST: Final = np.float32(1e-9)


def scale_tokens(vectors: Numbers) -> Numbers:
    """Scale token vectors to length 1."""
    scaled: Numbers = vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), _SMALLEST)
    return scaled


def find_cosines(query: Numbers, tokens: Numbers, lengths: Sequence[int]) -> Numbers:
    """Return the largest cosines (texts, query tokens) of padded unit vectors (texts, tokens, dimensions)."""
    products = tokens.reshape(-1, tokens.shape[-1]) @ query.T  # one product for all texts: BLAS starts its threads once
    cosines = products.reshape(*tokens.shape[:2], -1)
    cosines /= np.maximum(np.linalg.norm(tokens, axis=-1, keepdims=True), _SMALLEST)
    places = np.arange(tokens.shape[1])
    # Both ends of a text have a special token.
    is_word = (places > 0) & (places < np.array(lengths)[:, None] - 1)
    best: Numbers = np.where(is_word[..., None], cosines, np.float32(0)).max(axis=1)
    return best


def weigh_cosines(query_ids: Sequence[int], cosines: Numbers) -> list[float]:
    """Return a score in [0, 1] per text from cosines of the query's tokens; 0 without tokens."""
    if not query_ids:
        return [0.0] * len(cosines)
    weights = np.log1p(np.maximum(np.array(query_ids) - _BEFORE_WORDS, 1))
    scores: list[float] = np.clip(cosines @ (weights / weights.sum()), 0, 1).tolist()
    return scores
