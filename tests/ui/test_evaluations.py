"""Evaluations page: question sets from files, comparisons, and gates."""

from __future__ import annotations

import json
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from retrieval.accounts import api_keys
from retrieval.ingestion import sealed_configs
from tests.ui.conftest import visible_content
from tests.ui.test_actions import click, typed
from tests.ui.test_pages import pictures
from tests.ui.test_search_lab import address, questions
from ui.parts import question_sets

QUESTION = {"query": "Who hunts at night?", "relevant": [{"externalId": "owls"}]}
METRICS = ("ndcgAt10", "recallAt10", "recallAt100", "mrr")


def create_question_set(org, space, *questions_given) -> str:
    body = {"namespaceId": space, "name": "Animals", "questions": list(questions_given) or [QUESTION]}
    return org.client.post("/v1/evaluations", json=body).json()["data"]["evaluation"]["id"]


def run_of(org, space, evaluation, result: dict[str, Any] | None = None) -> str:
    """Insert a run of two settings, completed if a result is given."""
    settings = [{"name": name, "semanticWeight": 0.5, "keywordWeight": 0.5} for name in ("base", "new")]
    body = {"namespaceId": space, "settings": settings}
    run = org.client.post(f"/v1/evaluations/{evaluation}/runs", json=body).json()["data"]["run"]["id"]
    if result is not None:
        org.db.rows(
            "update evaluation_runs set status = 'COMPLETED', finished_at = now(), result = %(result)s"
            " where id = %(id)s returning id",
            {"id": run, "result": json.dumps({**result, "settings": measured(settings)})},
        )
    return run


def measured(settings) -> list[dict[str, Any]]:
    """Return results with the second setting better in every metric."""
    values = [
        {"value": 0.4, "ci95": [0.35, 0.45], "deltaCi95": None},
        {"value": 0.5, "ci95": [0.45, 0.55], "deltaCi95": [0.05, 0.15]},
    ]
    return [
        {
            **setting,
            "metrics": {**dict.fromkeys(METRICS, value), "spanRecallAt10": None},
            "latencyMs": {"p50": 5, "p95": 9},
        }
        for setting, value in zip(settings, values, strict=True)
    ]


def ranked_questions() -> list[dict[str, Any]]:
    """Return a win, a loss and a tie."""
    return [
        {"query": "won", "ranks": {"base": [None], "new": [1]}},
        {"query": "lost", "ranks": {"base": [1], "new": [2]}},
        {"query": "even", "ranks": {"base": [3], "new": [3]}},
    ]


def opened(app, org, space, evaluation, **parameters: str) -> AppTest:
    view: AppTest = app(org.api_key, "evaluations", namespace=space, evaluation=evaluation, **parameters)
    assert not view.exception
    assert not view.error, visible_content(view)
    return view


def test_a_question_set_is_made_of_beirs_files(app, org, space):
    view = app(org.api_key, "evaluations", namespace=space)
    assert "No question set yet" in visible_content(view)
    click(view, "New question set")
    typed(view, "Name", "Support")
    lines = [{"_id": "1", "text": "Who hunts?"}, {"_id": "2", "text": "Who dives?"}, {"_id": "3", "text": "Nobody?"}]
    queries = "\n".join(map(json.dumps, lines)).encode()
    judged = b"query-id\tcorpus-id\tscore\n1\towls\t2\n2\tseals\t1\n2\tgone\t0\n"
    view.file_uploader[0].set_value([("queries.jsonl", queries, "text/plain"), ("test.tsv", judged, "text/plain")])
    click(view, "Create question set")
    assert not view.exception
    assert "Created with 2 questions." in visible_content(view)
    assert "1 question without a judged document left out." in visible_content(view)
    assert "1 document of the answers are not in" not in visible_content(view)
    stored_questions = questions(org, space, address(view, "evaluation"))
    assert stored_questions == [
        {"query": "Who hunts?", "relevant": [{"externalId": "owls", "grade": 2}]},
        {"query": "Who dives?", "relevant": [{"externalId": "seals"}]},
    ]


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("queries.jsonl", b"{", "queries.jsonl, line 1 is not a JSON object"),
        ("queries.jsonl", b"\xff", "not text in UTF-8"),
        ("queries.jsonl", b'{"_id": "1", "text": "q"}', "is the file of judgements missing"),
        ("qrels.tsv", b"a\tb\n1\t2\tx", "line 2: not the ids"),
        ("queries.jsonl", b'{"query": "q", "relevant": [{}]}', "INVALID_REQUEST"),
    ],
)
def test_files_that_cannot_be_read_are_refused_in_words(app, org, space, name, content, why):
    view = app(org.api_key, "evaluations", namespace=space, new="yes")
    typed(view, "Name", "Broken")
    view.file_uploader[0].set_value((name, content, "text/plain"))
    click(view, "Create question set")
    assert not view.exception
    assert why in visible_content(view).replace("\\", "")
    assert not org.client.get("/v1/evaluations", params={"namespaceId": space}).json()["data"]["evaluations"]


def test_settings_are_compared_and_the_run_opens(app, org, space):
    evaluation = create_question_set(org, space)
    view = opened(app, org, space, evaluation)
    click(view, "Compare settings")
    assert not view.exception
    run = address(view, "run")
    assert address(view, "tab") == "Results"
    path = f"/v1/evaluations/{evaluation}/runs/{run}"
    started = org.client.get(path, params={"namespaceId": space}).json()["data"]["run"]
    assert [(setting["name"], setting["semanticWeight"]) for setting in started["settings"]] == [
        ("semantic", 1.0),
        ("hybrid", 0.5),
        ("keyword", 0.0),
    ]
    assert "Queued: it begins when a worker is free." in "".join(bar.proto.text for bar in view.get("progress"))
    org.db.rows(
        "update evaluation_runs set status = 'RUNNING', progress = '{\"asked\": 1, \"total\": 3}' where id = %(id)s"
        " returning id",
        {"id": run},
    )
    assert "1 of 3 searches" in "".join(bar.proto.text for bar in view.run().get("progress"))
    org.db.rows(
        "update evaluation_runs set status = 'FAILED', error = 'The model is away.', finished_at = now()"
        " where id = %(id)s returning id",
        {"id": run},
    )
    assert "The model is away" in visible_content(view.run())


def test_a_run_tells_intervals_wins_and_losses(app, org, space):
    evaluation = create_question_set(org, space)
    run_of(org, space, evaluation, {"questions": ranked_questions()})
    view = opened(app, org, space, evaluation, tab="Results")
    text = visible_content(view)
    assert "0.400 [0.350, 0.450]" in text
    assert "0.500 [0.450, 0.550]" in text
    assert "Latency p95" in text
    assert "1 / 1 / 1" in text
    winner = "**new** has the best nDCG@10, 0.500: +0.100 [+0.050, +0.150] against base."
    assert winner in text.replace("\\", "")
    changes = view.dataframe[1].value.to_dict("records")
    assert [(change["Question"], change["Change"]) for change in changes] == [
        ("won", "▲ win"),
        ("lost", "▼ loss"),
        ("even", "="),
    ]
    assert pictures(view) == 2


def test_a_run_that_found_nothing_says_so_instead_of_charts_of_zeros(app, org, space):
    evaluation = create_question_set(org, space)
    run = run_of(org, space, evaluation, {"questions": ranked_questions()})
    org.db.rows(
        "update evaluation_runs set result = replace(replace(result::text, '\"value\": 0.4', '\"value\": 0'),"
        " '\"value\": 0.5', '\"value\": 0')::jsonb where id = %(id)s",
        {"id": run},
    )
    view = opened(app, org, space, evaluation, tab="Results")
    assert "No setting found a judged document in its first 10." in visible_content(view)
    assert pictures(view) == 0
    (choice,) = [box for box in view.selectbox if box.label == "Run"]
    assert "Completed" not in str(choice.options), "the status in the label of a chosen run stays as it was"


def test_questions_are_added_renamed_and_deleted(app, org, space):
    evaluation = create_question_set(org, space)
    view = opened(app, org, space, evaluation, tab="Questions")
    assert "Who hunts at night?" in visible_content(view)
    area = next(text_area for text_area in view.text_area if text_area.label.startswith("Or questions"))
    area.set_value('{"query": "Who dives?", "relevant": {"seals": 3}}')
    click(view, "Add")
    assert not view.exception
    assert "Added: 2 questions now." in visible_content(view)
    assert questions(org, space, evaluation)[1]["relevant"] == [{"externalId": "seals", "grade": 3}]
    view = opened(app, org, space, evaluation, tab="Edit")
    typed(view, "Name", "Beasts")
    view.run()
    click(view, "Save name")
    assert "Renamed. “Beasts”: 2 questions." in visible_content(view)
    view.checkbox[0].check().run()
    click(view, "Delete question set")
    assert not view.exception
    assert "“Beasts” is deleted." in visible_content(view)
    assert "No question set yet" in visible_content(view)


def test_another_model_is_tried_behind_a_gate_and_cancelled(app, org, space):
    evaluation = create_question_set(org, space)
    view = opened(app, org, space, evaluation, tab="Gate")
    view.number_input(key="gate_value").set_value(0.4)
    click(view, "Embed again behind the gate")
    assert not view.exception
    assert not view.error, visible_content(view)
    assert "Begun: the new vectors are made now" in visible_content(view)
    assert "The namespace is being embedded again." in visible_content(view)
    assert "Embed again behind the gate" not in {button.label for button in view.button}
    row = org.db.row("select pending from namespaces where id = %(id)s", {"id": space})
    gate = json.loads(org.ring.open(row["pending"], row=sealed_configs.row_name(space, "pending")))["gate"]
    assert gate == {"evaluationId": evaluation, "metric": "ndcgAt10", "minimum": None, "notWorseThan": 0.4}
    (run,) = org.client.get("/v1/ingest-job-runs", params={"namespaceId": space, "source": "REEMBED"}).json()["data"][
        "ingestJobRuns"
    ]
    org.client.post(f"/v1/ingest-job-runs/{run['id']}/cancel", json={"namespaceId": space})
    view.run()
    assert "Embed again behind the gate" in {button.label for button in view.button}


def test_who_may_only_search_reads_and_compares(app, org, space):
    evaluation = create_question_set(org, space)
    reader = api_keys.create_key(org.db, org.ring, org.id, "r", scopes=["namespaces:read", "search"])
    view = app(reader.api_key, "evaluations", namespace=space)
    assert not view.exception
    assert "New question set" not in {button.label for button in view.button}
    view = app(reader.api_key, "evaluations", namespace=space, evaluation=evaluation)
    assert not view.exception
    assert "Compare settings" in {button.label for button in view.button}
    missing_view = app(reader.api_key, "evaluations", namespace=space, evaluation="eval_of_somebody_else")
    assert "does not exist here any more" in visible_content(missing_view)


def test_searches_without_good_results_become_a_question_set(app, org, space):
    org.db.rows(
        "insert into weak_searches (partition_id, query, searches, probability)"
        " select id, 'zebra stripes', 3, 0.1 from partitions where namespace_id = %(space)s",
        {"space": space},
    )
    evaluation = create_question_set(org, space, {"query": "owls", "relevant": [{"externalId": "x"}]})
    view = app(org.api_key, "evaluations", namespace=space)
    assert "**zebra stripes** :gray[3 times" in visible_content(view)
    click(view, "Add")
    assert "Added without right documents." in visible_content(view)
    stored = org.client.get(f"/v1/evaluations/{evaluation}/questions", params={"namespaceId": space}).json()["data"]
    assert {question["query"] for question in stored["questions"]} == {"owls", "zebra stripes"}
    click(view, "New question set of these")
    assert "zebra stripes" in view.text_area(key=question_sets.LINES_KEY).value
