"""Limits of a model server, found by requests of growing size until one is refused, too slow, or cut off silently."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from connectors.embedders.refusals import TextsRefused
from connectors.http.retries import RateLimited, TransientError

if TYPE_CHECKING:
    from retrieval.ports import Embeddings

    # Texts and seconds -> vectors of length 1.
    Embed = Callable[[Sequence[str], float], Embeddings]

# No larger request follows a slower one, because it would take twice as long.
SLOW_SECONDS: Final = 0.7
# Tokens of the probed texts.
LENGTHS: Final = (128, 256, 512, 1024, 2048, 4096, 8192)
# Tokens that models put around a text, and a few more.
_SPECIALS: Final = 8
# A smaller cosine distance of two texts of different lengths means that the server cut both off.
_SAME: Final = 1e-5
# Words that are one token each in common vocabularies.
_WORDS: Final = (
    "the and of to in is for on that with as was at by from are this be an have not which one you were all her she"
    " there would their we him been has when who will no more if out so up said what its about than into them can"
    " only other time new some could these two may first then do any like my now over such our man me even most made"
)


def count_texts(embed: Embed, max_texts: int, end: float) -> int | None:
    """Measure the texts of a request, at most `max_texts`, by doubling; None for a rate limit."""
    passed = 1
    while passed < max_texts:
        began = time.monotonic()
        try:
            embed([f"check {number}" for number in range(passed * 2)], end - began)
        except RateLimited:
            return None
        except (TextsRefused, TransientError):
            break
        passed *= 2
        if time.monotonic() - began > SLOW_SECONDS:
            break
    return passed


def measure_text(embed: Embed, end: float) -> int | None:
    """Measure the tokens of the longest text embedded whole; None for a rate limit."""
    words = random.Random(0).choices(_WORDS.split(), k=LENGTHS[-1])  # noqa: S311 - the same text for every server
    passed = [LENGTHS[0] // 2]
    former = None
    for length in LENGTHS:
        began = time.monotonic()
        try:
            vector = embed([" ".join(words[: length - _SPECIALS])], end - began)[0]
        except RateLimited:
            return passed[-1] if former is not None else None
        except (TextsRefused, TransientError):
            break
        if former is not None and 1 - float(vector @ former) < _SAME:
            return passed[-2]  # the text before was cut off, too
        passed.append(length)
        former = vector
        if time.monotonic() - began > SLOW_SECONDS:
            break
    return passed[-1]
