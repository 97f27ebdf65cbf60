"""Measures equal trec_eval's, intervals are those of a paired bootstrap."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.evaluations import metrics
from retrieval.evaluations.metrics import Found, Judged

pytestmark = pytest.mark.decision("D74")

GRADES = st.dictionaries(st.integers(0, 30), st.integers(1, 4), min_size=1, max_size=12)
RANKINGS = st.lists(st.integers(0, 60), unique=True, max_size=60)


def found(keys):
    return [Found(str(key), 0, 10) for key in keys]


def of_trec_eval(grades, order):
    """What `trec_eval -m ndcg_cut.10 -m recall.10,100 -m recip_rank -M 100` prints, written down from its manual."""
    ideal = sorted(grades.values(), reverse=True)
    gain = sum(grades.get(key, 0) / math.log2(rank + 1) for rank, key in enumerate(order[:10], 1))
    best = sum(grade / math.log2(rank + 1) for rank, grade in enumerate(ideal[:10], 1))
    ranks = [rank for rank, key in enumerate(order[:100], 1) if key in grades]
    return {
        "ndcgAt10": gain / best,
        "recallAt10": len([rank for rank in ranks if rank <= 10]) / len(grades),
        "recallAt100": len(ranks) / len(grades),
        "mrr": 1 / ranks[0] if ranks else 0,
    }


@given(GRADES, RANKINGS)
@settings(max_examples=200, deadline=None)
def test_measures_equal_trec_evals(grades, order):
    judged = [Judged(str(key), grade) for key, grade in grades.items()]
    measured = metrics.measure(judged, found(order))
    for name, value in of_trec_eval(grades, order).items():
        assert measured[name] == pytest.approx(value, abs=1e-9), name
    assert measured["spanRecallAt10"] is None


def test_a_document_counts_at_its_best_result():
    judged = [Judged("b", 3)]
    measured = metrics.measure(judged, found(["a", "a", "a", "b", "b"]))
    assert measured["mrr"] == 0.5
    assert metrics.ranks([*judged, Judged("c")], found(["a", "a", "b"])) == [2, None]


@pytest.mark.parametrize(
    ("results", "share"),
    [
        ([], 0),
        ([Found("d", 0, 100)], 0),
        ([Found("d", 100, 200)], 1),
        ([Found("d", 90, 150)], 0.5),
        ([Found("d", 100, 150), Found("d", 140, 160)], 0.6),
        ([Found("d", 150, 300), Found("d", 0, 150)], 1),
        ([Found("e", 100, 200)], 0),
        ([Found("e", 0, 1)] * 10 + [Found("d", 100, 200)], 0),
    ],
)
def test_the_share_of_a_span_that_the_first_ten_results_cover(results, share):
    assert metrics.measure([Judged("d", span=(100, 200))], results)["spanRecallAt10"] == pytest.approx(share)


def test_intervals_are_those_of_a_paired_bootstrap():
    rng = np.random.default_rng(5)
    first = rng.uniform(0, 0.5, 200)
    second = first + 0.1
    values = {
        name: [{**dict.fromkeys(metrics.NAMES), "mrr": float(one)} for one in part]
        for name, part in (("first", first), ("second", second))
    }
    compared = metrics.compare(values)
    one, other = compared["first"]["mrr"], compared["second"]["mrr"]
    assert one.value == pytest.approx(first.mean())
    assert one.low < one.value < one.high
    assert one.delta is None
    assert other.delta == pytest.approx((0.1, 0.1))  # paired: the same questions, the same difference
    half = 1.96 * first.std() / math.sqrt(200)
    assert one.high - one.low == pytest.approx(2 * half, rel=0.2)
    assert compared == metrics.compare(values)
    assert compared["first"]["spanRecallAt10"] is None
