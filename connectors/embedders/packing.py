"""Packs texts into requests: as many as a vendor takes, by number and by tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from retrieval.ingestion.chunking.tokenizer import tokenizer_for

LESSON = 20_000
"""Tokens of a request whose count is worth learning from."""
USUAL = 1000
"""Tokens of a chunk, unless a client asks for others."""
ROOM = 1.01
BYTES_A_TOKEN = 4
"""No fewer tokens than this are assumed: the fallback tokenizer takes a word that it does not know for one token."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may hold. `tokens`: of all its texts together, as the vendor counts; None without such a limit.

    `concurrent`: requests at once; `per_minute`: requests that are begun in a minute, or `by_text`: the texts in them.
    """

    texts: int
    tokens: int | None
    concurrent: int = 16
    per_minute: float = 3000
    by_text: bool = False

    @property
    def full(self) -> int:
        """About how many texts of a usual length fill a request."""
        return self.texts if self.tokens is None else min(self.texts, self.tokens // USUAL)


def estimate(provider: str, model: str, texts: Sequence[str]) -> list[int]:
    """About how many tokens the vendor will count, by the tokenizer that stands for the model's own."""
    spans = tokenizer_for(provider, model).spans(texts)
    return [
        max(len(found), -(-len(text.encode("utf-8", "replace")) // BYTES_A_TOKEN))
        for found, text in zip(spans, texts, strict=True)
    ]


class Meter:
    """Learns from a vendor's own counts how many tokens an estimated one is, so that requests are filled and fit."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._ratio = 1.0
        self.unsure = limits.tokens is not None
        """Nothing was learnt yet: the first of several requests goes alone."""

    def learn(self, estimated: int, counted: int) -> None:
        """What one request was estimated at, and what the vendor counted. Small ones teach little."""
        if estimated >= LESSON:
            self._ratio = min(4.0, max(0.25, counted / estimated))
            self.unsure = False

    def pack(self, sizes: Sequence[int], texts: int | None = None) -> list[list[int]]:
        """`pack` by what was learnt, with a little room left, and `texts` a request at most where that is known."""
        limits = self._limits if texts is None else replace(self._limits, texts=min(texts, self._limits.texts))
        if limits.tokens is None:
            return pack(sizes, limits)
        return pack(sizes, replace(limits, tokens=int(limits.tokens / (self._ratio * ROOM))))


def pack(sizes: Sequence[int], limits: Limits) -> list[list[int]]:
    """The texts' numbers, in order, cut into requests. A text larger than a request travels alone."""
    requests: list[list[int]] = []
    room = 0
    for number, size in enumerate(sizes):
        if not requests or len(requests[-1]) >= limits.texts or (limits.tokens is not None and size > room):
            requests.append([])
            room = limits.tokens or 0
        requests[-1].append(number)
        room -= size
    return requests
