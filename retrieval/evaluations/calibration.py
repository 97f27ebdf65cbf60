"""Calibration of answerability: how well the probabilities of a run tell answerable questions from others.

A question that judges no document is one that nothing answers. With MIN of both kinds a scale and an offset of the
evidence are fitted (Platt, with a prior towards the public model), and the figures of the new probabilities come from
questions that they were not fitted on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, LiteralString

from retrieval.database.database import Database
from retrieval.search.answerability import Answerability, Fit, apply_fit, choose_model

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Points = npt.NDArray[np.float64]
    Flags = npt.NDArray[np.bool_]

MIN: Final = 5
"""Questions with an answer, and without one, that a fit needs at least."""
BINS: Final = 10
KEPT: Final = 0.95
_FOLDS: Final = 5
_STEPS: Final = 50
_PRIOR: Final = 1.0


def describe_calibration(answered: Sequence[bool], answerabilities: Sequence[Answerability]) -> dict[str, Any]:
    """Return `calibration` of a setting's result; nothing without questions of both kinds."""
    import numpy as np

    flags = np.array(answered, bool)
    if len(answerabilities) != len(flags) or flags.all() or not flags.any():
        return {}
    probabilities = np.array([estimate.probability for estimate in answerabilities])
    is_fitted = _can_fit(flags)
    if is_fitted:
        probabilities = _cross_fit(flags, answerabilities)
    places = _bins(probabilities)
    return {
        "calibration": {
            "questions": len(flags),
            "unanswerable": int((~flags).sum()),
            "fitted": is_fitted,
            "auroc": round(auroc(flags, probabilities), 4),
            "ece": round(calibration_error(flags, probabilities), 4),
            "refusedAt95": round(refused_share(flags, probabilities), 4),
            "bins": [
                {
                    "from": number / BINS,
                    "to": (number + 1) / BINS,
                    "questions": int((places == number).sum()),
                    "probability": round(float(probabilities[places == number].mean()), 4),
                    "answered": round(float(flags[places == number].mean()), 4),
                }
                for number in range(BINS)
                if (places == number).any()
            ],
        }
    }


def fit_evaluation(
    evaluation_id: str,
    answered: Sequence[bool],
    settings: Sequence[Mapping[str, Any]],
    answerabilities: Sequence[Sequence[Answerability]],
) -> dict[str, Any]:
    """Return the fits by the way to search, as partitions have them; of two settings of one way the first counts."""
    import numpy as np

    flags = np.array(answered, bool)
    fits: dict[str, Any] = {}
    for setting, estimates in zip(settings, answerabilities, strict=True):
        model = choose_model(setting["semanticWeight"], setting["keywordWeight"])
        if model not in fits and _can_fit(flags):
            scale, offset = _fit_platt(flags, estimates)
            fits[model] = {
                "scale": scale,
                "offset": offset,
                "evaluation_id": evaluation_id,
                "questions": len(flags),
            }
    return fits


def store_fits(db: Database, evaluation_id: str, epoch: int, fits: Mapping[str, Any]) -> None:
    """Have searches of the evaluation's partition use the fits while the namespace's model stays the same."""
    statement: LiteralString = """
        update partitions set answerability_epoch = %(epoch)s,
            answerability = case when answerability_epoch = %(epoch)s then coalesce(answerability, '{}') else '{}' end
                || %(fits)s::jsonb
        where id = (select partition_id from evaluations where id = %(evaluation)s)
    """
    if fits:
        db.execute(statement, {"evaluation": evaluation_id, "epoch": epoch, "fits": json.dumps(fits)})


def auroc(answered: Flags, probabilities: Points) -> float:
    """The share of pairs in which the answered question has the higher probability; ties count half."""
    import numpy as np

    values, places, counts = np.unique(probabilities, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places] if len(values) else np.zeros(0)
    positive, negative = int(answered.sum()), int((~answered).sum())
    return float((ranks[answered].sum() - positive * (positive + 1) / 2) / (positive * negative))


def calibration_error(answered: Flags, probabilities: Points, weights: Points | None = None) -> float:
    """The expected calibration error: by bins of equal width, the distance of the mean probability and the truth."""
    import numpy as np

    weights = np.ones(len(answered)) if weights is None else weights
    gaps = np.bincount(_bins(probabilities), weights * (probabilities - answered), BINS)
    return float(np.abs(gaps).sum() / weights.sum())


def refused_share(answered: Flags, probabilities: Points) -> float:
    """The share of unanswerable questions below the probability that keeps KEPT of the answerable ones."""
    import numpy as np

    least = np.quantile(probabilities[answered], 1 - KEPT, method="lower")
    return float((probabilities[~answered] < least).mean())


def _bins(probabilities: Points) -> Any:
    import numpy as np

    return np.minimum((probabilities * BINS).astype(int), BINS - 1)


def _can_fit(answered: Flags) -> bool:
    return min(int(answered.sum()), int((~answered).sum())) >= MIN


def _cross_fit(answered: Flags, answerabilities: Sequence[Answerability]) -> Points:
    """The probabilities of each part of the questions by a fit on the other parts."""
    import numpy as np

    folds = np.zeros(len(answered), int)
    for kind in (answered, ~answered):
        folds[kind] = np.arange(kind.sum()) % _FOLDS
    probabilities = np.zeros(len(answered))
    for fold in range(_FOLDS):
        training = [estimate for estimate, part in zip(answerabilities, folds, strict=True) if part != fold]
        scale, offset = _fit_platt(answered[folds != fold], training)
        fit = Fit(scale, offset, "", 0)
        for at in np.flatnonzero(folds == fold).tolist():
            evidence = answerabilities[at].evidence
            probabilities[at] = 0.0 if evidence is None else apply_fit(evidence, fit)
    return probabilities


def _fit_platt(answered: Flags, answerabilities: Sequence[Answerability]) -> tuple[float, float]:
    """Scale and offset of the evidence by logistic regression, with a prior of 1 and 0."""
    import numpy as np

    pairs = [
        (estimate.evidence, flag)
        for estimate, flag in zip(answerabilities, answered, strict=True)
        if estimate.evidence is not None
    ]
    if not pairs:
        return 1.0, 0.0
    evidence, flags = (np.array(values, float) for values in zip(*pairs, strict=True))
    design = np.column_stack([evidence, np.ones(len(evidence))])
    start = np.array([1.0, 0.0])
    solution = start.copy()
    for _ in range(_STEPS):
        odds = np.clip(design @ solution, -30, 30)
        probabilities = 1 / (1 + np.exp(-odds))
        gradient = design.T @ (flags - probabilities) - _PRIOR * (solution - start)
        hessian = (design * (probabilities * (1 - probabilities))[:, None]).T @ design + _PRIOR * np.eye(2)
        solution = solution + np.linalg.solve(hessian, gradient)
    return round(float(max(solution[0], 0.0)), 4), round(float(solution[1]), 4)
