"""Calibrated probabilities compared with labels, and the fit of a namespace."""

import numpy as np

from retrieval.evaluations import calibration
from retrieval.search import search
from retrieval.search.answerability import Answerability, apply_fit
from retrieval.search.search import Query


def estimates(evidences):
    return [Answerability(round(apply_fit(evidence, None), 4), "", evidence) for evidence in evidences]


def test_a_fit_corrects_probabilities_that_are_all_too_high():
    dice = np.random.default_rng(1)
    truth = dice.normal(size=300)
    answered = [bool(flag) for flag in dice.random(300) < 1 / (1 + np.exp(-3 * truth))]
    report = calibration.describe_calibration(answered, estimates(truth + 2))["calibration"]
    assert report["fitted"]
    assert (
        report["ece"]
        < 0.08
        < calibration.calibration_error(
            np.array(answered), np.array([estimate.probability for estimate in estimates(truth + 2)])
        )
    )
    assert report["questions"] == sum(part["questions"] for part in report["bins"]) == 300
    assert report["unanswerable"] == answered.count(False)
    settings = [{"semanticWeight": 0.5, "keywordWeight": 0.5}]
    (fit,) = calibration.fit_evaluation("ev_1", answered, settings, [estimates(truth + 2)]).values()
    assert 2 < fit["scale"] < 4
    assert -8 < fit["offset"] < -4


def test_searches_use_a_fit_until_the_model_changes_or_the_evaluation_is_deleted(library):
    library.put(["owls hunt"])
    values = {"partition": library.partition}
    library.db.rows("insert into evaluations (id, partition_id, name) values ('ev_1', %(partition)s, 'e')", values)

    def basis():
        query = Query("owls", semantic_weight=0.0, keyword_weight=1.0)
        response = search.run_search(library.db, library.scope, query, viewer=None, embedder=None, vectors=None)
        return response.answerability.basis

    fit = {"scale": 1.0, "offset": 0.0, "evaluation_id": "ev_1", "questions": 12}
    calibration.store_fits(library.db, "ev_1", 0, {"keyword": fit})
    calibration.store_fits(library.db, "ev_1", 0, {"hybrid": fit})
    assert basis() == "fitted on evaluation ev_1 with 12 questions"
    library.db.rows("update namespaces set epoch = epoch + 1 where id = %(id)s", {"id": library.scope.namespace})
    assert basis() == "fitted on public sets"
    calibration.store_fits(library.db, "ev_1", 1, {"hybrid": fit})
    assert basis() == "fitted on public sets", "the fit of the model before is gone"
