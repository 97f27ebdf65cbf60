"""Metrics equal trec_eval's, and intervals equal a paired bootstrap."""

from __future__ import annotations

import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from retrieval.evaluations import metrics
from retrieval.evaluations.metrics import JudgedDocument, RankedResult

GRADES = st.dictionaries(st.integers(0, 30), st.integers(1, 4), min_size=1, max_size=12)
RANKINGS = st.lists(st.integers(0, 150), unique=True, max_size=150)
THEIRS = {"ndcgAt10": "ndcg_cut_10", "recallAt10": "recall_10", "recallAt100": "recall_100", "mrr": "recip_rank"}


def rank_results(keys):
    return [RankedResult(str(key), 0, 10) for key in keys]


def of_trec_eval(grades, order):
    """Return trec_eval's metrics of a ranking; reciprocal rank within the first 100."""
    if not order:
        return dict.fromkeys(THEIRS, 0.0)
    judges = pytrec_eval.RelevanceEvaluator({"q": {str(key): grade for key, grade in grades.items()}}, THEIRS.values())
    values = judges.evaluate({"q": {str(key): float(-rank) for rank, key in enumerate(order[:100])}})["q"]
    return {name: values[theirs] for name, theirs in THEIRS.items()}


@given(GRADES, RANKINGS)
def test_measures_equal_trec_evals(grades, order):
    judged = [JudgedDocument(str(key), grade) for key, grade in grades.items()]
    measured = metrics.measure_question(judged, rank_results(order))
    for name, value in of_trec_eval(grades, order).items():
        assert measured[name] == pytest.approx(value, abs=1e-9), name
    assert measured["spanRecallAt10"] is None


@pytest.mark.parametrize(
    ("results", "share"),
    [
        ([], 0),
        ([RankedResult("d", 0, 100)], 0),
        ([RankedResult("d", 100, 200)], 1),
        ([RankedResult("d", 90, 150)], 0.5),
        ([RankedResult("d", 100, 150), RankedResult("d", 140, 160)], 0.6),
        ([RankedResult("d", 150, 300), RankedResult("d", 0, 150)], 1),
        ([RankedResult("e", 100, 200)], 0),
        ([RankedResult("e", 0, 1)] * 10 + [RankedResult("d", 100, 200)], 0),
    ],
)
def test_the_share_of_a_span_that_the_first_ten_results_cover(results, share):
    assert metrics.measure_question([JudgedDocument("d", span=(100, 200))], results)["spanRecallAt10"] == pytest.approx(
        share
    )
