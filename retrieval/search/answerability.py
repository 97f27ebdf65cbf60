"""Estimate the probability that search results answer the query, by a logistic model per side.

nearest   semantic score of the nearest candidate
lead      difference of `nearest` and the mean of the ten nearest
share     best BM25 score as a share of the score of a chunk with all words of the query
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
# Least probability of `likely` and of `unclear`.
LIKELY_PROBABILITY: Final = 0.7
UNCLEAR_PROBABILITY: Final = 0.3


@dataclass(frozen=True, slots=True)
class Fit:
    """Scale and offset of the evidence, fitted by an evaluation."""

    scale: float
    offset: float
    evaluation_id: str
    questions: int

    @property
    def basis(self) -> str:
        return f"fitted on evaluation {self.evaluation_id} with {self.questions} questions"


@dataclass(frozen=True, slots=True)
class Answerability:
    """Probability of an answer, with its basis, evidence (log odds) and features."""

    probability: float
    basis: str
    evidence: float | None = None
    features: Mapping[str, float] | None = None
    # Share of held-out questions with this verdict that have an answer; None for a fit, whose probability is measured.
    answered_share: float | None = None

    @property
    def verdict(self) -> Verdict:
        return judge_probability(self.probability)


NO_MATCHES: Final = Answerability(0.0, "nothing matches")


def judge_probability(probability: float) -> Verdict:
    """Return the verdict in words."""
    if probability >= LIKELY_PROBABILITY:
        return "likely"
    return "unclear" if probability >= UNCLEAR_PROBABILITY else "unlikely"


def choose_model(semantic_weight: float, keyword_weight: float) -> SearchSide:
    """Return the model for the weights of a search."""
    if semantic_weight > 0:
        return "hybrid" if keyword_weight > 0 else "semantic"
    return "keyword"


def estimate_answerability(
    side: SearchSide, candidates: Sequence[Candidate], terms: QueryTerms, fit: Fit | None
) -> Answerability:
    """Estimate answerability from visible candidates."""
    if not candidates:
        return NO_MATCHES
    features = measure_features(candidates[0], terms)
    evidence = weigh_evidence(side, features)
    probability = round(apply_fit(evidence, fit), 4)
    if fit is not None:
        return Answerability(probability, fit.basis, evidence, features)
    share = ANSWERED_SHARES[side][judge_probability(probability)]
    return Answerability(probability, PUBLIC_BASIS, evidence, features, share)


def measure_features(candidate: Candidate, terms: QueryTerms) -> dict[str, float]:
    """Measure the features of a search from any candidate."""
    # Features use visible chunks only, so hidden documents change nothing.
    best = candidate.strongest / max(1 - candidate.strongest, 1e-9) * float(BM25_HALF_SCORE)
    return {
        "nearest": candidate.nearest,
        "lead": candidate.nearest - candidate.nearby,
        "share": min(best / terms.max_score, 1.0) if terms.max_score > 0 else 0.0,
    }


def weigh_evidence(side: SearchSide, features: Mapping[str, float]) -> float:
    """Return the log odds of the public model."""
    return sum(weight * features.get(name, 1.0) for name, weight in SIDE_MODELS[side].items())


def apply_fit(evidence: float, fit: Fit | None) -> float:
    """Return the probability under a fit, or under the public model."""
    odds = evidence if fit is None else fit.scale * evidence + fit.offset
    return 1 / (1 + math.exp(-max(min(odds, 30.0), -30.0)))


def load_fit(stored: Mapping[str, Any] | None, side: SearchSide) -> Fit | None:
    """Return the partition's fit of a side, None without one."""
    values = (stored or {}).get(side)
    return None if values is None else Fit(**values)
