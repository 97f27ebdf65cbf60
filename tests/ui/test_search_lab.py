"""The search lab: links that restore a search, filters chosen from values, why not, and judging with one click."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from retrieval.accounts import api_keys
from tests.ui.conftest import shown
from tests.ui.test_actions import click
from ui.client import Api
from ui.parts.search_reasons import address_without
from ui.parts.search_request import SearchRequest
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
def asked(monkeypatch) -> list[tuple[str, dict[str, Any], str]]:
    """Path, body and user of each search."""
    found: list[tuple[str, dict[str, Any], str]] = []
    real = Api._send

    def watch(api: Api, method: str, path: str, **options: Any) -> Any:
        if path.startswith("/v1/search"):
            found.append((path, options["json"], api.viewer))
        return real(api, method, path, **options)

    monkeypatch.setattr(Api, "_send", watch)
    return found


def test_a_link_restores_everything(app, org, space, asked):
    other = org.namespace()
    seen = app(org.api_key, "search", namespace=space, **EVERYTHING, **{"with": other})
    assert not seen.exception
    assert not seen.error, shown(seen)
    everywhere = {**SHARED, "namespaceIds": [space, other]}
    latest = {path: body for path, body, _ in asked}
    assert latest == {
        "/v1/search": everywhere,
        "/v1/search/hybrid": {**everywhere, "hybridConfig": {"semanticWeight": 0.0, "keywordWeight": 1.0}},
    }
    assert {viewer for _, _, viewer in asked} == {""}
    assert {name: address(seen, name) for name in EVERYTHING} == EVERYTHING
    assert address(seen, "with") == other


def test_back_restores_the_filter_that_was_before(app, org, space):
    seen = app(org.api_key, "search", namespace=space, q="seal owls", columns="keyword")
    assert "2 documents found" in shown(seen)
    field = next(one for one in seen.text_input if one.label.startswith("Metadata filter"))
    field.set_value('{"topic": "seals"}').run()
    assert "1 document found" in shown(seen)
    del seen.query_params["filter"]
    seen.run()
    assert "2 documents found" in shown(seen)
    assert address(seen, "filter") is None


def test_stop_words_alone_are_told_where_nothing_is_found(app, org, space):
    seen = app(org.api_key, "search", namespace=space, q="where it is", columns="keyword")
    assert "stop words alone" in shown(seen)
    seen = app(org.api_key, "search", namespace=space, q="zebras", columns="keyword")
    assert "stop words alone" not in shown(seen)
    assert "Nothing found" in shown(seen)


def test_filters_are_chosen_from_values_with_their_counts(app, org, space):
    seen = app(org.api_key, "search", namespace=space, q="seal owls", columns="keyword")
    seen.session_state["lab_filters"] = True
    seen.run()
    seen.selectbox(key="facet_field").set_value("metadata.topic").run()
    values = seen.multiselect(key="facet_values_metadata.topic")
    assert values.options == ["seals (1)"]
    values.set_value(['"seals"']).run()
    click(seen, "Add filter")
    assert not seen.exception
    assert json.loads(address(seen, "filter")) == {"topic": "seals"}
    assert "1 document found" in shown(seen)
    seen.selectbox(key="facet_field").set_value("document.type").run()
    seen.multiselect(key="facet_values_document.type").set_value(['"FILE"']).run()
    click(seen, "Add filter")
    assert json.loads(address(seen, "where")) == {"field": "document.type", "op": "in", "value": ["FILE"]}
    assert "0 documents found" in shown(seen)
    assert "Take the filter away" in shown(seen)


def test_why_a_document_is_not_found_and_what_lifts_it(app, org, space):
    hidden = {"q": "owls hunt", "columns": "keyword", "filter": '{"topic": "seals"}', "tab": "Why not found?"}
    seen = app(org.api_key, "search", namespace=space, **hidden)
    next(one for one in seen.text_input if one.label == "Document").set_value("OWL").run()
    assert not seen.exception
    assert "Not shown." in shown(seen)
    assert "filter.metadata.topic" in shown(seen).replace("\\", "")
    document = address(seen, "document")
    click(seen, "Search without this part of the filter")
    assert "Shown at rank 1." in shown(seen)
    again = app(
        org.api_key, "search", namespace=space, **{**hidden, "document": document, "least": "0.9", "filter": ""}
    )
    assert "below the threshold" in shown(again)
    lift = next(button for button in again.button if button.label.startswith("Lower the minimum score to 0."))
    lift.click().run()
    assert "Shown at rank 1." in shown(again)


def test_what_is_not_searchable_says_so_and_a_stranger_is_not_there(app, org, space):
    there = {"q": "owls", "columns": "keyword", "tab": "Why not found?"}
    seen = app(org.api_key, "search", namespace=space, **there, find="broken")
    assert not seen.exception
    assert "Its status is FAILED" in shown(seen).replace("\\", "")
    seen = app(org.api_key, "search", namespace=space, **there, find="no such name")
    assert "No document of this namespace has" in shown(seen)
    seen = app(org.api_key, "search", namespace=space, **there, document="doc_of_somebody_else")
    assert "There is no such document in this namespace" in shown(seen)


def test_a_document_that_the_user_may_not_see_is_said_to_be_that(app, org, space):
    body = {"namespaceId": space, "filterConfig": {"metadata": {"topic": "seals"}}, "data": {"access": {}}}
    (document,) = org.client.patch("/v1/documents", json=body).json()["data"]["documents"]
    there = {"q": "seal", "columns": "keyword", "tab": "Why not found?", "document": document["id"]}
    seen = app(org.api_key, "search", namespace=space, **there)
    seen.text_input(key="see_as_typed").set_value("bob").run()
    assert not seen.exception
    assert "bob may not see" in shown(seen)
    assert not seen.feedback
    click(seen, "Stop")
    assert "Shown at rank" in shown(seen)


def questions(org, space, evaluation):
    path = f"/v1/evaluations/{evaluation}/questions"
    return org.client.get(path, params={"namespaceId": space}).json()["data"]["questions"]


def test_hits_are_judged_with_one_click_as_the_api_confirms_it(app, org, space):
    seen = app(org.api_key, "search", namespace=space, q="owls seal", columns="keyword")
    assert not seen.feedback
    sets = next(box for box in seen.selectbox if box.label == "Question set")
    sets.options.append("Animals")  # typed: it is not among those that are offered
    sets.set_value("Animals").run()
    assert not seen.exception
    assert len(seen.feedback) == 2
    seen.feedback[0].set_value(0).run()
    assert "was not marked as right" in shown(seen)
    assert not org.client.get("/v1/evaluations", params={"namespaceId": space}).json()["data"]["evaluations"]
    seen.feedback[0].set_value(1).run()
    assert not seen.exception
    assert "is now marked as right in “Animals”: 1 right document" in shown(seen)
    made = address(seen, "set")
    (question,) = questions(org, space, made)
    assert (question["query"], len(question["relevant"])) == ("owls seal", 1)
    assert [one.value for one in seen.feedback] == [1, None]
    seen.feedback[1].set_value(1).run()
    assert len(questions(org, space, made)[0]["relevant"]) == 2
    seen.feedback[1].set_value(0).run()
    assert "is not marked as right any more" in shown(seen)
    assert len(questions(org, space, made)[0]["relevant"]) == 1
    seen.feedback[0].set_value(0).run()
    assert "INVALID_REQUEST" in shown(seen), "a set without questions is refused"
    assert len(questions(org, space, made)) == 1


def test_who_may_not_write_documents_does_not_judge(app, org, space):
    reader = api_keys.create_key(org.db, org.ring, org.id, "r", scopes=["namespaces:read", "documents:read", "search"])
    seen = app(reader.api_key, "search", namespace=space, q="owls", columns="keyword")
    assert not seen.exception
    assert not seen.error
    assert "Question set" not in {box.label for box in seen.selectbox}


def test_a_bound_key_searches_without_the_options_that_it_is_not_shown(app, org, space):
    bound = api_keys.create_key(org.db, org.ring, org.id, "bound", namespace=space)
    seen = app(bound.api_key, "search", namespace=space, q="owls", columns="keyword")
    assert not seen.exception
    assert not seen.error, shown(seen)
    assert "1 document found" in shown(seen)


@pytest.mark.parametrize("broken", ["[1]", "{", "5", '{"a": ' * 40])
def test_a_broken_link_is_said_and_never_a_crash(app, org, space, broken):
    values = {"q": "owls", "columns": "keyword,x", "filter": broken, "where": broken, "top": "x", "halflife": "nan"}
    seen = app(org.api_key, "search", namespace=space, **values, unit="NO", rerank="maybe")
    assert not seen.exception
    assert "not a JSON object" in shown(seen)


def test_stop_words_are_not_marked_and_other_forms_are():
    words = query_words("What do the owls hunt at night?")
    assert words == {"owls", "hunt", "night"}
    assert best_excerpt("The owl was hunting what it does at nights.", words) == (
        "The <mark>owl</mark> was <mark>hunting</mark> what it does at <mark>nights</mark>."
    )


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


def test_a_part_of_the_filter_is_taken_out_by_its_place():
    where = {"all": [{"field": "x"}, {"field": "y"}]}
    wanted = SearchRequest("ns", "q", ("semantic",), 0.5, 10, least=0, metadata={"a": 1, "b": 2}, condition=where)
    assert address_without(wanted, "filter.metadata.a leaves it out.") == {"filter": '{"b": 2}'}
    assert address_without(wanted, "filter.where.all[0] leaves it out.") == {"where": '{"all": [{"field": "y"}]}'}
    assert address_without(wanted, "filter.where leaves it out.") == {"where": None}
