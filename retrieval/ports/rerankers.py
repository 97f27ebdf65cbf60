"""The port of rerankers: models that read a query and a text together. Others import it from `retrieval.ports`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Reranker(Protocol):
    """A cross-encoder, here or at a vendor. Safe to use from several threads."""

    def rerank(self, query: str, texts: Sequence[str], *, seconds: float) -> Sequence[float]:
        """Score how well each text answers the query, in [0, 1], in the order of the texts. Fatal or Retryable.

        `seconds`: how long it may take; a call that is late may go on for as long again.
        """
        ...

    def check(self) -> None:
        """Raise Fatal or Retryable unless one text can be scored now."""
        ...
