"""Judge one setting on questions by running searches."""

from typing import Any

import pytest

from retrieval.evaluations import judge
from retrieval.evaluations.judge import JudgeContext, StoredQuestion

KEYWORD_SETTING = {"name": "words", "semanticWeight": 0.0, "keywordWeight": 1.0}


def test_a_document_that_is_judged_by_both_of_its_ids_counts_once(library):
    owl, seal = library.put(["owls hunt"], external_id="owl"), library.put(["seals dive"], external_id="seal")
    nobody: Any = None
    bench = JudgeContext(library.db, library.scope, nobody, nobody, lambda _: nobody, "english")
    relevant = [
        {"documentId": owl, "grade": 1, "start": 0, "end": 4},
        {"externalId": "owl", "grade": 3},
        {"documentId": seal},
    ]
    questions = [
        StoredQuestion(1, "owls", relevant, None),
        StoredQuestion(2, "owls", relevant[:1], None),
    ]
    judgement = judge.judge_setting(bench, questions, {}, KEYWORD_SETTING, lambda: None)
    assert judgement.ranks == [[1, 1, None], [1]]
    assert [measure["recallAt10"] for measure in judgement.measures] == [0.5, 1.0]
    assert [measure["spanRecallAt10"] for measure in judgement.measures] == [1.0, 1.0]
    both = judge.judge_setting(
        bench, [StoredQuestion(1, "owls", relevant[:2], None)], {}, KEYWORD_SETTING, lambda: None
    )
    assert both.measures[0]["recallAt10"] == both.measures[0]["ndcgAt10"] == 1.0


def test_a_judged_document_counts_where_a_result_names_it(library):
    for name in ("report", "copy"):
        library.put(["owls hunt"], external_id=name)
    library.put(["owls and many other birds of the night"], external_id="other")
    nobody: Any = None
    bench = JudgeContext(library.db, library.scope, nobody, nobody, lambda _: nobody, "english")
    relevant = [{"externalId": "report"}, {"externalId": "copy"}]
    questions = [
        StoredQuestion(at, "owls", judged, None) for at, judged in enumerate((*([r] for r in relevant), relevant))
    ]
    judgement = judge.judge_setting(bench, questions, {}, KEYWORD_SETTING, lambda: None)
    assert judgement.ranks == [[1], [1], [1, 2]]
    assert [measures["recallAt10"] for measures in judgement.measures] == [1.0, 1.0, 1.0]


class Backwards:
    """Reranker that reverses the order."""

    def rerank(self, query: str, texts: Any, *, seconds: float) -> list[float]:
        return [(at + 1) / len(texts) for at in range(len(texts))]

    def check(self) -> None:
        pass


@pytest.mark.parametrize(
    ("reranks", "overrides", "first", "reranked"),
    [
        (True, {}, "seal", 1),
        (True, {"rerank": True}, "seal", 1),
        (True, {"rerank": {"candidates": 10}}, "seal", 1),
        (True, {"rerank": False}, "owl", None),
        (False, {}, "owl", None),
    ],
)
def test_a_setting_is_reranked_where_a_search_is(library, reranks, overrides, first, reranked):
    library.put(["owls and owls"], external_id="owl")
    library.put(["seals dive and know of owls, of whales, of walruses and of the sea"], external_id="seal")
    nobody: Any = None
    bench = JudgeContext(library.db, library.scope, nobody, nobody, lambda _: Backwards(), "english", reranks)
    questions = [StoredQuestion(1, "owls", [{"externalId": first}], None)]
    judged = judge.judge_setting(bench, questions, {}, {**KEYWORD_SETTING, **overrides}, lambda: None)
    assert (judged.ranks, judged.reranked) == ([[1]], reranked)
    (setting_result,) = judge.run_result(questions, [{**KEYWORD_SETTING, **overrides}], [judged], {})["settings"]
    assert setting_result.get("reranked") == reranked
