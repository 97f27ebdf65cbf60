"""Search lab: shareable links, facet filters, missing documents, and judgements."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from retrieval.accounts import api_keys
from retrieval.ports import Scope
from tests.library import Library
from tests.ui.conftest import visible_content
from tests.ui.test_actions import click
from ui.client import Api
from ui.parts.search_results import best_excerpt, query_words

EVERYTHING = {
    "q": "seal owls",
    "columns": "semantic,keyword",
    "weight": "0.3",
    "top": "7",
    "least": "0.05",
    "filter": '{"topic": "seals"}',
    "where": '{"field": "document.type", "op": "eq", "value": "TEXT"}',
    "unit": "SECTION",
    "tokens": "99",
    "per": "2",
    "halflife": "30",
    "recency": "0.4",
}
SHARED = {
    "query": "seal owls",
    "topK": 7,
    "scoreThreshold": 0.05,
    "filter": {"metadata": {"topic": "seals"}, "where": {"field": "document.type", "op": "eq", "value": "TEXT"}},
    "perDocument": 2,
    "recency": {"halfLifeDays": 30.0, "weight": 0.4},
    "expand": {"unit": "SECTION", "maxTokens": 99},
    "explain": True,
}


def address(app: AppTest, name: str) -> Any:
    """A value of the page's address."""
    value = app.query_params.get(name)
    return value[0] if isinstance(value, list) else value


@pytest.fixture
def search_requests(monkeypatch) -> list[tuple[str, dict[str, Any], str]]:
    """Path, body and user of each search."""
    requests: list[tuple[str, dict[str, Any], str]] = []
    real = Api._send

    def watch(api: Api, method: str, path: str, **options: Any) -> Any:
        if path.startswith("/v1/search"):
            requests.append((path, options["json"], api.viewer))
        return real(api, method, path, **options)

    monkeypatch.setattr(Api, "_send", watch)
    return requests


def test_a_link_restores_everything(app, org, space, search_requests):
    other_namespace = org.namespace()
    view = app(org.api_key, "search", namespace=space, **EVERYTHING, **{"with": other_namespace})
    assert not view.exception
    assert not view.error, visible_content(view)
    everywhere = {**SHARED, "namespaceIds": [space, other_namespace]}
    latest = {path: body for path, body, _ in search_requests}
    assert latest == {
        "/v1/search": everywhere,
        "/v1/search/hybrid": {**everywhere, "hybridConfig": {"semanticWeight": 0.0, "keywordWeight": 1.0}},
    }
    assert {viewer for _, _, viewer in search_requests} == {""}
    assert {name: address(view, name) for name in EVERYTHING} == EVERYTHING
    assert address(view, "with") == other_namespace


def test_filters_are_chosen_from_values_with_their_counts(app, org, space):
    for number in range(2):
        Library(org.db, Scope(org.id, space, ""), None).put([f"Gull {number}."], metadata={"topic": "birds"})
    view = app(org.api_key, "search", namespace=space, q="seal owls", columns="keyword")
    view.session_state["lab_filters"] = True
    view.run()
    topics = view.pills(key="facet_filter_topic")
    assert topics.options == ["birds (2)", "seals (1)"]
    topics.set_value(['"seals"']).run()
    assert not view.exception
    assert json.loads(address(view, "filter")) == {"topic": "seals"}
    assert "1 document found" in visible_content(view)
    view.text_input(key="filter_where").set_value('{"field": "document.type", "op": "eq", "value": "FILE"}').run()
    assert "0 documents found" in visible_content(view)
    assert "Take the filter away" in visible_content(view)


def test_why_a_document_is_not_found_and_what_lifts_it(app, org, space):
    hidden = {"q": "owls hunt", "columns": "keyword", "filter": '{"topic": "seals"}', "tab": "Why not found?"}
    view = app(org.api_key, "search", namespace=space, **hidden)
    next(text_input for text_input in view.text_input if text_input.label == "Document").set_value("OWL").run()
    assert not view.exception
    assert "Not shown." in visible_content(view)
    assert "filter.metadata.topic" in visible_content(view).replace("\\", "")
    document = address(view, "document")
    click(view, "Search without this part of the filter")
    assert "Shown at rank 1." in visible_content(view)
    threshold_view = app(
        org.api_key, "search", namespace=space, **{**hidden, "document": document, "least": "0.9", "filter": ""}
    )
    assert "below the threshold" in visible_content(threshold_view)
    lift = next(button for button in threshold_view.button if button.label.startswith("Lower the minimum score to 0."))
    lift.click().run()
    assert "Shown at rank 1." in visible_content(threshold_view)


def test_a_document_that_the_user_may_not_see_is_said_to_be_that(app, org, space):
    body = {"namespaceId": space, "filterConfig": {"metadata": {"topic": "seals"}}, "data": {"access": {}}}
    (document,) = org.client.patch("/v1/documents", json=body).json()["data"]["documents"]
    parameters = {"q": "seal", "columns": "keyword", "tab": "Why not found?", "document": document["id"]}
    view = app(org.api_key, "search", namespace=space, **parameters)
    view.text_input(key="see_as_typed").set_value("bob").run()
    assert not view.exception
    assert "bob may not see" in visible_content(view)
    assert not view.feedback
    click(view, "Stop")
    assert "Shown at rank" in visible_content(view)


def questions(org, space, evaluation):
    path = f"/v1/evaluations/{evaluation}/questions"
    return org.client.get(path, params={"namespaceId": space}).json()["data"]["questions"]


def test_hits_are_judged_with_one_click_as_the_api_confirms_it(app, org, space):
    view = app(org.api_key, "search", namespace=space, q="owls seal", columns="keyword")
    sets = next(box for box in view.selectbox if box.label == "Question set")
    sets.options.append("Animals")  # typed: it is not among those that are offered
    sets.set_value("Animals").run()
    assert not view.exception
    assert len(view.feedback) == 2
    view.feedback[0].set_value(0).run()
    assert "was not marked as right" in visible_content(view)
    assert not org.client.get("/v1/evaluations", params={"namespaceId": space}).json()["data"]["evaluations"]
    view.feedback[0].set_value(1).run()
    assert not view.exception
    assert "is now marked as right in “Animals”: 1 right document" in visible_content(view)
    question_set = address(view, "set")
    (question,) = questions(org, space, question_set)
    assert (question["query"], len(question["relevant"])) == ("owls seal", 1)
    assert [feedback.value for feedback in view.feedback] == [1, None]
    view.feedback[1].set_value(1).run()
    assert len(questions(org, space, question_set)[0]["relevant"]) == 2
    view.feedback[1].set_value(0).run()
    assert "is not marked as right any more" in visible_content(view)
    assert len(questions(org, space, question_set)[0]["relevant"]) == 1
    view.feedback[0].set_value(0).run()
    assert "INVALID_REQUEST" in visible_content(view), "a set without questions is refused"
    assert len(questions(org, space, question_set)) == 1


def test_a_judgement_without_a_chosen_set_goes_to_one_of_its_own(app, org, space):
    view = app(org.api_key, "search", namespace=space, q="owls seal", columns="keyword")
    view.feedback[0].set_value(1).run()
    assert "is now marked as right in “Search lab”: 1 right document" in visible_content(view)
    other = app(org.api_key, "search", namespace=space, q="owls", columns="keyword")
    other.feedback[0].set_value(1).run()
    (kept,) = org.client.get("/v1/evaluations", params={"namespaceId": space}).json()["data"]["evaluations"]
    assert (kept["name"], kept["questionCount"]) == ("Search lab", 2)


def test_who_may_not_write_documents_does_not_judge(app, org, space):
    reader = api_keys.create_key(org.db, org.ring, org.id, "r", scopes=["namespaces:read", "documents:read", "search"])
    view = app(reader.api_key, "search", namespace=space, q="owls", columns="keyword")
    assert not view.exception
    assert not view.error
    assert "Question set" not in {box.label for box in view.selectbox}


@pytest.mark.parametrize("broken", ["[1]", "{", "5", '{"a": ' * 40])
def test_a_broken_link_is_said_and_never_a_crash(app, org, space, broken):
    values = {"q": "owls", "columns": "keyword,x", "filter": broken, "where": broken, "top": "x", "halflife": "nan"}
    view = app(org.api_key, "search", namespace=space, **values, unit="NO", rerank="maybe")
    assert not view.exception
    assert "not a JSON object" in visible_content(view)


@pytest.mark.parametrize(
    ("query", "text", "marked"),
    [
        ("AT&T shares", "Shares of AT&T fell at once", ["Shares", "AT&amp;T"]),
        ("C++", "Written in C++, not in C", ["C++"]),
        ("IT department", "Ask the IT department, it knows", ["IT", "department"]),
        ("to be", "To be is to do", ["To", "be", "to"]),
        ("Preis für Strom", "Der Preis für Strom", ["Preis", "Strom"]),
        ("cafe strasse", "Das Café in der Stra\u00adße", ["Café", "Stra\u00adße"]),
        ("مدرسه", "هذه مَدرسة كبيرة", ["مَدرسة"]),
        ("1234", "घर १२३४", ["१२३४"]),
    ],
)
def test_words_are_marked_however_they_are_typed(query, text, marked):
    assert re.findall("<mark>(.*?)</mark>", best_excerpt(text, query_words(query))) == marked


def test_a_hit_shows_its_title_heading_and_marked_words_and_its_actions_in_a_menu(app, org, space):
    library = Library(org.db, Scope(org.id, space, ""), None)
    document = library.put(["# Rules\n\n## Refund\n\nA refund is paid within 30 days."], name="Policy")
    view = app(org.api_key, "search", namespace=space, q="refund", columns="keyword")
    assert not view.exception
    (card,) = [html.value for html in view.get("html") if 'class="hit"' in html.value]
    assert '<div class="path">Rules &gt; Refund</div>' in card
    assert "A <mark>refund</mark> is paid" in card
    (link,) = [link.proto.label for link in view.get("page_link") if "Policy" in link.proto.label]
    assert link.startswith("1. **Policy**")
    assert "Hide" not in [button.label for button in view.button]
    view.session_state[f"more-keyword-1-{document}-0-refund"] = True
    view.run()
    assert "Hide" in [button.label for button in view.button]


def test_a_hit_with_two_tables_shows_matching_rows_under_their_own_header(app, org, space):
    content = (
        "| Fruit | Price |\n| --- | --- |\n| Apple | 2 |\n\n| Town | Inhabitants |\n| --- | --- |\n| Ulm | 126000 |"
    )
    Library(org.db, Scope(org.id, space, ""), None).put([content], name="Lists")
    view = app(org.api_key, "search", namespace=space, q="Ulm", columns="keyword")
    (card,) = [html.value for html in view.get("html") if 'class="hit"' in html.value]
    assert "<tr><th>Town</th><th>Inhabitants</th></tr><tr><td><mark>Ulm</mark></td><td>126000</td></tr>" in card
    assert "Fruit" not in card


def test_a_hit_says_who_may_see_it(app, org, space):
    view = app(org.api_key, "search", namespace=space, q="owls", columns="keyword")
    assert not view.exception
    assert "Everyone" in visible_content(view)
    access = {"users": ["ada@example.com"], "groups": ["staff", "board"]}
    body = {"namespaceId": space, "filterConfig": {"text": "owls"}, "data": {"access": access}}
    assert org.client.patch("/v1/documents", json=body).status_code == 200
    limited = app(org.api_key, "search", namespace=space, q="owls", columns="keyword")
    assert "1 user, 2 groups" in visible_content(limited)
    limited.text_input(key="see_as_typed").set_value("ada@example.com").run()
    assert not limited.exception
    assert "1 document found" in visible_content(limited)
    assert "2 groups" not in visible_content(limited), "others are named to the key only"
