"""One setting over judged questions, through the search itself."""

from typing import Any

import pytest

from retrieval.evaluations import judge
from retrieval.evaluations.judge import Bench

WORDS = {"name": "words", "semanticWeight": 0.0, "keywordWeight": 1.0}


@pytest.mark.decision("D74")
def test_a_document_that_is_judged_by_both_of_its_ids_counts_once(library):
    owl, seal = library.put(["owls hunt"], external_id="owl"), library.put(["seals dive"], external_id="seal")
    nobody: Any = None
    bench = Bench(library.db, library.scope, nobody, nobody, lambda: nobody, "english")
    relevant = [
        {"documentId": owl, "grade": 1, "start": 0, "end": 4},
        {"externalId": "owl", "grade": 3},
        {"documentId": seal},
    ]
    questions = [
        {"query": "owls", "relevant": relevant, "filter": None},
        {"query": "owls", "relevant": relevant[:1], "filter": None},
    ]
    found = judge.judge(bench, questions, {}, WORDS, lambda: None)
    assert found.ranks == [[1, 1, None], [1]]
    assert [one["recallAt10"] for one in found.measures] == [0.5, 1.0]
    assert [one["spanRecallAt10"] for one in found.measures] == [1.0, 1.0]
    both = judge.judge(bench, [{**questions[0], "relevant": relevant[:2]}], {}, WORDS, lambda: None)
    assert both.measures[0]["recallAt10"] == both.measures[0]["ndcgAt10"] == 1.0
