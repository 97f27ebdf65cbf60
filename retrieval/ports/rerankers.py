"""The port of rerankers: models that read a query and a text together. Others import it from `retrieval.ports`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


class Reranker(Protocol):
    """A cross-encoder, here or at a vendor. Safe to use from several threads."""

    def rerank(self, query: str, texts: Sequence[str], *, seconds: float) -> Sequence[float]:
        """Score how well each text answers the query, in [0, 1], in the order of the texts.

        Fatal or Retryable; Skippable if the texts are at fault.

        `seconds`: how long it may take; a call that is late may go on for as long again.
        """
        ...

    def check(self) -> None:
        """Raise Fatal or Retryable unless one text can be scored now."""
        ...


@runtime_checkable
class Adding(Protocol):
    """A reranker whose score is added to that of the search instead of taking its place."""

    weight: float
    """Of its score, beside 1 for the score of the search."""
    most: int
    """The best texts that it reads, at most."""
