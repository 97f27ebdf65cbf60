"""Options for the scores of candidates."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ScoreOptions:
    """Weights of both sides, and which candidates to return."""

    semantic_weight: float
    keyword_weight: float
    # Cosine of unrelated texts, a semantic score of 0.
    unrelated_cosine: float
    # Number of candidates; None for all.
    limit: int | None
    min_score: float
    with_pages: bool
