"""Answerability: how probable it is that what a search found answers its query.

The evidence is a logistic model over a few features of the candidates, one model for each way to search:

    nearest   semantic score of the candidate that is nearest by meaning
    lead      how much nearer it is than the ten nearest are on average; fewer are made up to ten by unrelated texts
    share     best BM25 score as a share of what a chunk with all words of the query could have; words that no chunk has
              count among them

Candidates are chunks that the viewer may see, and weights of words are those of the scores, so documents that are
hidden from the viewer change nothing. `bench.answerable` fits the models on public collections; an evaluation with
questions that nothing answers fits the scale and the offset of a namespace (`retrieval.evaluations.calibration`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from retrieval.keywords.bm25_scorer import Terms
from retrieval.search.answerability_models import MODELS
from retrieval.search.queries import HALF, Candidate

Way = Literal["semantic", "keyword", "hybrid"]

PUBLIC: Final = "fitted on public sets"


@dataclass(frozen=True, slots=True)
class Fit:
    """Scale and offset of the evidence, from an evaluation with so many questions."""

    scale: float
    offset: float
    evaluation_id: str
    questions: int

    @property
    def basis(self) -> str:
        return f"fitted on evaluation {self.evaluation_id} with {self.questions} questions"


@dataclass(frozen=True, slots=True)
class Answerability:
    """The probability that the query is answered, what it is based on, and the evidence before any fit."""

    probability: float
    basis: str
    evidence: float | None = None
    features: Mapping[str, float] | None = None


NOTHING: Final = Answerability(0.0, "nothing matches")


def choose_model(semantic_weight: float, keyword_weight: float) -> Way:
    """Return the name of the model for the weights of a search."""
    if semantic_weight > 0:
        return "hybrid" if keyword_weight > 0 else "semantic"
    return "keyword"


def estimate_answerability(way: Way, candidates: Sequence[Candidate], terms: Terms, fit: Fit | None) -> Answerability:
    """Estimate whether the candidates answer the query. candidates: chunks that the viewer may see."""
    if not candidates:
        return NOTHING
    features = measure_features(candidates[0], terms)
    evidence = weigh_evidence(way, features)
    basis = PUBLIC if fit is None else fit.basis
    return Answerability(round(apply_fit(evidence, fit), 4), basis, evidence, features)


def measure_features(candidate: Candidate, terms: Terms) -> dict[str, float]:
    """Measure the features of a search by any of its candidates, which know the best of all."""
    best = candidate.strongest / max(1 - candidate.strongest, 1e-9) * float(HALF)
    return {
        "nearest": candidate.nearest,
        "lead": candidate.nearest - candidate.nearby,
        "share": min(best / terms.possible, 1.0) if terms.possible > 0 else 0.0,
    }


def weigh_evidence(way: Way, features: Mapping[str, float]) -> float:
    """Return the log odds that the public model gives."""
    return sum(weight * features.get(name, 1.0) for name, weight in MODELS[way].items())


def apply_fit(evidence: float, fit: Fit | None) -> float:
    """Return the probability of the evidence under a fit, or under the public model alone."""
    odds = evidence if fit is None else fit.scale * evidence + fit.offset
    return 1 / (1 + math.exp(-max(min(odds, 30.0), -30.0)))


def load_fit(stored: Mapping[str, Any] | None, way: Way) -> Fit | None:
    """Return the fit of a partition for a way to search, if it has one."""
    values = (stored or {}).get(way)
    return None if values is None else Fit(**values)
