"""Calibration of answerability: separate answerable from unanswerable questions by probability.

Questions without a judged document are unanswerable. With MIN_QUESTIONS of both kinds, scale and offset of the evidence
are fitted (Platt, prior: the public model); figures come from cross-validation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, LiteralString

from retrieval.database.database import Database
from retrieval.search.answerability import Answerability, Fit, apply_fit, choose_side

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Points = npt.NDArray[np.float64]
    Flags = npt.NDArray[np.bool_]

# Per kind: answerable and unanswerable.
MIN_QUESTIONS: Final = 5
BIN_COUNT: Final = 10
KEPT_SHARE: Final = 0.95
_FOLD_COUNT: Final = 5
_NEWTON_STEPS: Final = 50
_PRIOR_WEIGHT: Final = 1.0


def describe_calibration(answered: Sequence[bool], answerabilities: Sequence[Answerability]) -> dict[str, Any]:
    """Return `calibration` of a setting's result; empty without questions of both kinds."""
    import numpy as np

    flags = np.array(answered, bool)
    if len(answerabilities) != len(flags) or flags.all() or not flags.any():
        return {}
    probabilities = np.array([estimate.probability for estimate in answerabilities])
    is_fitted = _can_fit(flags)
    if is_fitted:
        probabilities = _cross_fit(flags, answerabilities)
    bin_indexes = _bin_indexes(probabilities)
    return {
        "calibration": {
            "questions": len(flags),
            "unanswerable": int((~flags).sum()),
            "fitted": is_fitted,
            "auroc": round(compute_auroc(flags, probabilities), 4),
            "ece": round(calibration_error(flags, probabilities), 4),
            "refusedAt95": round(refused_share(flags, probabilities), 4),
            "bins": [
                {
                    "from": number / BIN_COUNT,
                    "to": (number + 1) / BIN_COUNT,
                    "questions": int((bin_indexes == number).sum()),
                    "probability": round(float(probabilities[bin_indexes == number].mean()), 4),
                    "answered": round(float(flags[bin_indexes == number].mean()), 4),
                }
                for number in range(BIN_COUNT)
                if (bin_indexes == number).any()
            ],
        }
    }


def fit_evaluation(
    evaluation_id: str,
    answered: Sequence[bool],
    settings: Sequence[Mapping[str, Any]],
    answerabilities: Sequence[Sequence[Answerability]],
) -> dict[str, Any]:
    """Return the fits by side in the format of `partitions.answerability`; the first setting of a side counts."""
    import numpy as np

    flags = np.array(answered, bool)
    fits: dict[str, Any] = {}
    for setting, estimates in zip(settings, answerabilities, strict=True):
        side = choose_side(setting["semanticWeight"], setting["keywordWeight"])
        if side not in fits and _can_fit(flags):
            scale, offset = _fit_platt(flags, estimates)
            fits[side] = {
                "scale": scale,
                "offset": offset,
                "evaluation_id": evaluation_id,
                "questions": len(flags),
            }
    return fits


def store_fits(db: Database, evaluation_id: str, epoch: int, fits: Mapping[str, Any]) -> None:
    """Store fits for searches of the evaluation's partition, valid for this epoch."""
    statement: LiteralString = """
        update partitions set answerability_epoch = %(epoch)s,
            answerability = case when answerability_epoch = %(epoch)s then coalesce(answerability, '{}') else '{}' end
                || %(fits)s::jsonb
        where id = (select partition_id from evaluations where id = %(evaluation)s)
    """
    if fits:
        db.execute(statement, {"evaluation": evaluation_id, "epoch": epoch, "fits": json.dumps(fits)})


def compute_auroc(answered: Flags, probabilities: Points) -> float:
    """Return the share of pairs with a higher probability for the answerable question; ties count half."""
    import numpy as np

    values, places, counts = np.unique(probabilities, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places] if len(values) else np.zeros(0)
    positive, negative = int(answered.sum()), int((~answered).sum())
    return float((ranks[answered].sum() - positive * (positive + 1) / 2) / (positive * negative))


def calibration_error(answered: Flags, probabilities: Points, weights: Points | None = None) -> float:
    """Return the expected calibration error over bins of equal width."""
    import numpy as np

    weights = np.ones(len(answered)) if weights is None else weights
    gaps = np.bincount(_bin_indexes(probabilities), weights * (probabilities - answered), BIN_COUNT)
    return float(np.abs(gaps).sum() / weights.sum())


def refused_share(answered: Flags, probabilities: Points) -> float:
    """Return the share of unanswerable questions below the threshold that keeps KEPT_SHARE of the others."""
    import numpy as np

    threshold = np.quantile(probabilities[answered], 1 - KEPT_SHARE, method="lower")
    return float((probabilities[~answered] < threshold).mean())


def _bin_indexes(probabilities: Points) -> Any:
    import numpy as np

    return np.minimum((probabilities * BIN_COUNT).astype(int), BIN_COUNT - 1)


def _can_fit(answered: Flags) -> bool:
    return min(int(answered.sum()), int((~answered).sum())) >= MIN_QUESTIONS


def _cross_fit(answered: Flags, answerabilities: Sequence[Answerability]) -> Points:
    """Return cross-validated probabilities."""
    import numpy as np

    folds = np.zeros(len(answered), int)
    for kind in (answered, ~answered):
        folds[kind] = np.arange(kind.sum()) % _FOLD_COUNT
    probabilities = np.zeros(len(answered))
    for fold in range(_FOLD_COUNT):
        training = [estimate for estimate, part in zip(answerabilities, folds, strict=True) if part != fold]
        scale, offset = _fit_platt(answered[folds != fold], training)
        fit = Fit(scale, offset, "", 0)
        for index in np.flatnonzero(folds == fold).tolist():
            evidence = answerabilities[index].evidence
            probabilities[index] = 0.0 if evidence is None else apply_fit(evidence, fit)
    return probabilities


def _fit_platt(answered: Flags, answerabilities: Sequence[Answerability]) -> tuple[float, float]:
    """Fit scale and offset by logistic regression, with a prior of 1 and 0."""
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
    for _ in range(_NEWTON_STEPS):
        odds = np.clip(design @ solution, -30, 30)
        probabilities = 1 / (1 + np.exp(-odds))
        gradient = design.T @ (flags - probabilities) - _PRIOR_WEIGHT * (solution - start)
        hessian = (design * (probabilities * (1 - probabilities))[:, None]).T @ design + _PRIOR_WEIGHT * np.eye(2)
        solution = solution + np.linalg.solve(hessian, gradient)
    return round(float(max(solution[0], 0.0)), 4), round(float(solution[1]), 4)
