"""Questions with better or worse results than the first setting."""

from retrieval.evaluations import metrics
from retrieval.evaluations.metrics import Tally

QUESTIONS = [
    {"query": "same", "ranks": {"base": [3, None], "new": [7, 3]}},
    {"query": "found", "ranks": {"base": [None], "new": [1]}},
    {"query": "a little worse", "ranks": {"base": [9], "new": [10]}},
    {"query": "lost", "ranks": {"base": [2, 5], "new": [None, None]}},
]


def test_wins_and_losses_are_counted_by_the_first_judged_document():
    assert metrics.tally_questions(QUESTIONS, "base", "new") == Tally(better=1, same=1, worse=2)
    changed_queries = [change["query"] for change in metrics.most_changed(QUESTIONS, "base", "new", 3)]
    assert changed_queries == ["found", "lost", "a little worse"]
    assert metrics.first_rank(QUESTIONS[0], "new") == 3
    assert metrics.first_rank(QUESTIONS[0], "unknown") is None
