"""Estimate the probability that search results answer the query, by a logistic model for each `SearchSide`.

Features of the models:
nearest   best semantic score
lead      `nearest` minus the mean of the ten best semantic scores
share     best BM25 score, divided by the BM25 score of a chunk with all words of the query
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from retrieval.keywords.bm25_scorer import QueryTerms
from retrieval.search.answerability_models import ANSWERED_SHARES, SIDE_MODELS
from retrieval.search.queries import BM25_HALF_SCORE, Candidate

SearchSide = Literal["semantic", "keyword", "hybrid"]
Verdict = Literal["likely", "unclear", "unlikely"]

PUBLIC_BASIS: Final = "fitted on public sets"
MIN_LIKELY_PROBABILITY: Final = 0.7
MIN_UNCLEAR_PROBABILITY: Final = 0.3
# Bound of log odds, to avoid an overflow.
MAX_LOG_ODDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Fit:
    """Correction of the evidence by an evaluation of the partition: `scale` times evidence plus `offset`."""

    scale: float
    offset: float
    evaluation_id: str
    questions: int

    @property
    def basis(self) -> str:
        return f"fitted on evaluation {self.evaluation_id} with {self.questions} questions"


@dataclass(frozen=True, slots=True)
class Answerability:
    """Probability of an answer, with the origin."""

    probability: float
    # The data on which the probability is fitted, in words.
    basis: str
    # Log odds of the public model; None without candidates.
    evidence: float | None = None
    features: Mapping[str, float] | None = None
    # Measured share of public held-out questions with this verdict that have an answer; None with a fit.
    answered_share: float | None = None

    @property
    def verdict(self) -> Verdict:
        return judge_probability(self.probability)


NO_MATCHES: Final = Answerability(0.0, "nothing matches")


def judge_probability(probability: float) -> Verdict:
    """Return the verdict in words."""
    if probability >= MIN_LIKELY_PROBABILITY:
        return "likely"
    return "unclear" if probability >= MIN_UNCLEAR_PROBABILITY else "unlikely"


def choose_side(semantic_weight: float, keyword_weight: float) -> SearchSide:
    """Return the side of a search by its weights."""
    if semantic_weight > 0:
        return "hybrid" if keyword_weight > 0 else "semantic"
    return "keyword"


def estimate_answerability(
    side: SearchSide, candidates: Sequence[Candidate], terms: QueryTerms, fit: Fit | None
) -> Answerability:
    """Estimate answerability from a search's candidates."""
    if not candidates:
        return NO_MATCHES
    features = measure_features(candidates[0], terms)
    evidence = weigh_evidence(side, features)
    probability = round(apply_fit(evidence, fit), 4)
    if fit is not None:
        return Answerability(probability, fit.basis, evidence, features)
    answered_share = ANSWERED_SHARES[side][judge_probability(probability)]
    return Answerability(probability, PUBLIC_BASIS, evidence, features, answered_share)


def measure_features(candidate: Candidate, terms: QueryTerms) -> dict[str, float]:
    """Return the features of a search from any of the candidates."""
    # `best_semantic`, `mean_best_semantic` and `best_keyword` are the same in all candidates of a search.
    # Candidates are visible chunks, so documents hidden from the viewer do not influence the features.
    # The keyword score is bm25 / (bm25 + BM25_HALF_SCORE).
    best_bm25 = candidate.best_keyword / max(1 - candidate.best_keyword, 1e-9) * float(BM25_HALF_SCORE)
    return {
        "nearest": candidate.best_semantic,
        "lead": candidate.best_semantic - candidate.mean_best_semantic,
        "share": min(best_bm25 / terms.max_score, 1.0) if terms.max_score > 0 else 0.0,
    }


def weigh_evidence(side: SearchSide, features: Mapping[str, float]) -> float:
    """Return the log odds of the public model."""
    weights = SIDE_MODELS[side]
    return sum(weights[name] * features[name] for name in weights if name != "constant") + weights["constant"]


def apply_fit(evidence: float, fit: Fit | None) -> float:
    """Return the probability of the evidence, corrected by the fit if there is one."""
    log_odds = evidence if fit is None else fit.scale * evidence + fit.offset
    bounded = max(-MAX_LOG_ODDS, min(log_odds, MAX_LOG_ODDS))
    return 1 / (1 + math.exp(-bounded))


def load_fit(stored_fits: Mapping[str, Any] | None, side: SearchSide) -> Fit | None:
    """Load a side's fit from the partition's column; None without one."""
    values = (stored_fits or {}).get(side)
    return None if values is None else Fit(**values)
