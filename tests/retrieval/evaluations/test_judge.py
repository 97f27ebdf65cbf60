"""Judge one setting on questions by running searches."""

from typing import Any

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
