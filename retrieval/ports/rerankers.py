"""Protocols of rerankers. Import from `retrieval.ports`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


class Reranker(Protocol):
    """Thread-safe cross-encoder, local or hosted."""

    def rerank(self, query: str, texts: Sequence[str], *, seconds: float) -> Sequence[float]:
        """Score texts in [0, 1], in order. Raises Fatal, Retryable, or Skippable for unreadable texts."""
        # `seconds` limits the wait; a late call may occupy a thread for as long again.
        ...

    def check(self) -> None:
        """Raise Fatal or Retryable unless a text can be scored."""
        ...


@runtime_checkable
class AdditiveReranker(Protocol):
    """Reranker with a score to add to the search score."""

    # Relative to 1 for the search score.
    weight: float
    # Limit of texts per query.
    max_texts: int
