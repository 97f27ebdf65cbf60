"""Every page: empty, filled, with a failing API, an expired key, and a link to a foreign namespace."""

from __future__ import annotations

import dataclasses

import pytest

from retrieval.accounts import api_keys
from retrieval.connections import queries_schedules
from retrieval.jobs import levers
from retrieval.jobs.levers import Lever
from retrieval.ports import Scope
from retrieval.webhooks import queries
from tests.library import Library
from tests.ui.conftest import HOSTILE, sign_in, visible_content
from tests.ui.test_addresses import address

NAMESPACE_PAGES = ("overview", "namespaces", "runs", "documents", "search", "evaluations", "connections", "keys")


@pytest.mark.parametrize("page", sorted(set(NAMESPACE_PAGES) - {"keys"}))
def test_an_empty_page_says_what_to_do_next(app, org, page):
    view = app(org.api_key, page)
    assert not view.exception
    assert not view.error
    assert len(view.info) + len(view.metric) > 0, visible_content(view)


@pytest.mark.parametrize("page", NAMESPACE_PAGES)
def test_a_filled_page_shows_what_is_there(app, org, space, page):
    view = app(org.api_key, page, namespace=space)
    assert not view.exception
    assert not view.error, [error.value for error in view.error]
    words = {"overview": "Needs attention", "namespaces": "Storage", "runs": "QUEUED", "documents": "owls"}
    assert words.get(page, "") in visible_content(view)


@pytest.mark.parametrize("page", ["overview", "documents", "search"])
def test_an_api_that_is_gone_is_said_in_words(app, org, space, page, monkeypatch):
    view = app(org.api_key, page, namespace=space)
    signed_in = view.session_state["who"]
    away = type(signed_in.api)("http://127.0.0.1:9", signed_in.api.key)
    view.session_state["who"] = type(signed_in)(away, signed_in.key_name, signed_in.scopes, None, None)
    view.run()
    assert not view.exception
    assert "cannot be reached" in visible_content(view)
    assert "UNREACHABLE" in visible_content(view)
    if "try_again" in {button.key for button in view.button}:  # parts that move by themselves try again by themselves
        view.session_state["who"] = signed_in
        view.button(key="try_again").click().run()
        assert not view.exception
        assert "UNREACHABLE" not in visible_content(view)


@pytest.mark.parametrize("page", NAMESPACE_PAGES)
def test_a_key_that_has_ended_leads_back_to_the_form(app, org, space, page):
    extra = api_keys.create_key(org.db, org.ring, org.id, "leaving")
    view = app(extra.api_key, page, namespace=space)
    api_keys.revoke_key(org.db, org.id, extra.id)
    view.run()
    assert not view.exception
    assert "not valid any more" in visible_content(view)
    assert "who" not in view.session_state
    assert view.query_params.get("namespace") in (space, [space], None)


@pytest.mark.parametrize("page", ["overview", "documents"])
def test_a_link_into_a_foreign_namespace_shows_nothing_of_it(app, organization, space, page):
    stranger = organization()
    stranger.namespace()
    view = app(stranger.api_key, page, namespace=space)
    assert not view.exception
    assert "does not exist, or is not yours" in visible_content(view)
    assert "owls" not in visible_content(view)


def test_what_a_key_may_not_do_is_not_offered(app, org, space):
    reader = api_keys.create_key(org.db, org.ring, org.id, "reader", scopes=["namespaces:read", "documents:read"])
    view = app(reader.api_key, "documents", namespace=space)
    assert not view.exception
    assert not [button for button in view.button if "Delete" in button.label or "again" in button.label]
    view.switch_page("views/namespaces.py").run()
    assert "New namespace" not in [button.label for button in view.button]


def test_signing_out_forgets_everything(app, org, space):
    view = app(org.api_key, "documents", namespace=space)
    next(button for button in view.button if button.label == "Sign out").click().run()
    assert not view.exception
    assert "who" not in view.session_state
    assert "documents_table_0" not in view.session_state
    assert "owls" not in visible_content(view)
    sign_in(view, org.api_key)
    assert "who" in view.session_state


def test_the_namespace_that_was_opened_is_the_one_of_the_next_page(app, org, space):
    other_namespace = org.namespace()
    view = app(org.api_key, "runs")
    assert chosen_namespace(view) == space, "the one with the most documents"
    view.switch_page("views/namespaces.py")
    for name, value in (("namespace", other_namespace), ("open", "yes")):
        view.query_params[name] = value
    view.run()
    view.query_params.clear()
    view.switch_page("views/runs.py").run()
    assert chosen_namespace(view) == other_namespace
    assert chosen_namespace(app(org.api_key, "runs")) == other_namespace, "after the next sign-in"
    assert org.client.delete(f"/v1/namespaces/{other_namespace}").status_code == 200
    assert chosen_namespace(app(org.api_key, "runs")) == space


def chosen_namespace(view):
    return address(view)["namespace"]


def test_webhooks_and_schedules_that_fail_need_attention(app, org):
    empty = org.namespace(webScraperConfig={"provider": "BUILTIN"})
    hook = org.client.post("/v1/webhooks", json={"url": "https://93.184.216.34/hook", "events": ["*"]}).json()["data"]
    config = {"source": "WEBSITE", "config": {"url": "https://docs.example.com/"}}
    run = org.client.post("/v1/ingest/website", json={"namespaceId": empty, "ingestConfig": config}).json()["data"]
    body = {"namespaceId": empty, "ingestJobRunId": run["ingestJobRunId"], "intervalMinutes": 60}
    schedule = org.client.post("/v1/schedules", json=body).json()["data"]["schedule"]
    assert " fails: " not in links(app(org.api_key, "overview", namespace=empty))
    failure = {"webhook": hook["webhook"]["id"], "gone": False, "failed": False, "reason": "The endpoint answered 500."}
    queries.mark_failing(org.db, failure)
    queries_schedules.record_reason(org.db, schedule["id"], "The quota is reached.", refused=True)
    view = links(app(org.api_key, "overview", namespace=empty)).replace("\\", "")
    assert "The webhook https://93.184.216.34/hook fails: The endpoint answered 500." in view
    assert "The schedule of https://docs.example.com/ fails: The quota is reached." in view
    page = app(org.api_key, "schedules", namespace=empty)
    assert "The quota is reached" in page.error[0].value


def test_a_connection_with_a_reason_is_failing(app, org, space):
    assert "Team box" not in links(app(org.api_key, "overview", namespace=space))
    org.db.rows(
        "insert into connections (id, partition_id, name, connector, status, status_reason)"
        " select 'conn_trouble', id, 'Team box', 'BOX', 'ACTIVE', 'Box does not accept the app.' from partitions"
        " where namespace_id = %(namespace)s",
        {"namespace": space},
    )
    view = links(app(org.api_key, "overview", namespace=space)).replace("\\", "")
    assert "The connection “Team box” fails: Box does not accept the app." in view


def test_a_paused_pool_is_in_a_red_strip(app, org, space):
    lever = Lever("Prefect's work pool `retrieval` is paused: nothing new begins until it is resumed there.")
    levers.record_levers(org.db, [lever])
    try:
        (strip,) = [
            html.value for html in app(org.api_key, "runs", namespace=space).get("html") if "strip" in html.value
        ]
    finally:
        levers.record_levers(org.db, [])
    assert "<strong>Nothing moves</strong>" in strip
    assert "Prefect&#x27;s work pool <code>retrieval</code> is paused." in strip
    # A text of the namespace waits.
    assert "waiting for" in strip


def test_a_remedy_is_offered_only_where_it_helps_with_the_shared_reason(app, org):
    space = org.namespace()
    library = Library(org.db, Scope(org.id, space, ""), None)
    errors = ["The site answers 404: there is no such page."] * 2 + ["The parser stopped.", "The store is full."]
    for number, error in enumerate(errors):
        document = library.put(name=f"document {number}", status="FAILED", visible=False)
        org.db.rows("update documents set error = %(error)s where id = %(id)s", {"id": document, "error": error})
    view = app(org.api_key, "overview", namespace=space)
    assert not view.exception
    assert "2 pages that their sites do not have" in links(view)
    assert [button.label for button in view.button if "Retry" in button.label] == ["Retry all"]
    text = visible_content(view).replace("\\", "")
    assert "The site answers 404: there is no such page." in text
    assert "The parser stopped." not in text


def test_an_address_that_is_never_fetched_has_no_retry(app, org, space):
    refusal = "The port of the address is not one of a web server: 80, 443 or above 1023."
    org.db.rows("update documents set error = %(error)s where name = 'broken.pdf'", {"error": refusal})
    for page, query in (("overview", {}), ("documents", {"status": "FAILED"})):
        view = app(org.api_key, page, namespace=space, **query)
        labels = [button.label for button in view.button]
        assert "1 page whose address cannot be fetched" in (links(view) if page == "overview" else labels)
        assert "Use another address" in links(view)
        assert not [label for label in labels if "Retry" in label]


def links(view):
    return "\n".join(link.value for link in view.get("page_link"))


def test_hostile_text_is_shown_as_text(app, org, space):
    documents = org.client.post("/v1/documents", json={"namespaceId": space, "filterConfig": {}}).json()["data"]
    hostile = next(document for document in documents["documents"] if document["name"] == HOSTILE)
    view = app(org.api_key, "documents", namespace=space, document=hostile["id"])
    assert not view.exception
    markdown = "\n".join(str(part.value) for part in [*view.markdown, *view.header, *view.caption, *view.error])
    assert "<script>" not in markdown
    assert "](javascript" not in markdown
    assert "![y]" not in markdown


def pictures(view):
    """How many charts a page draws."""
    return len(view.get("arrow_vega_lite_chart")) + len(view.get("vega_lite_chart"))


def test_a_reader_has_the_search_the_documents_and_the_syncs_alone(app, org, space):
    view = app(org.api_key, "overview", namespace=space)
    person = view.session_state["who"]
    reads = frozenset({"namespaces:read", "documents:read", "search"})
    view.session_state["who"] = dataclasses.replace(person, role="viewer", sees_all=False, scopes=reads)
    view.run()
    assert not view.exception
    assert "Last complete sync" in visible_content(view)
    assert "Needs attention" not in visible_content(view)


def test_a_bound_key_sees_ids_and_names_and_changes_no_namespace(app, org, space):
    bound = api_keys.create_key(org.db, org.ring, org.id, "bound", namespace=space, tenant="alice")
    view = app(bound.api_key, "namespaces", namespace=space)
    assert not view.exception
    assert "New namespace" not in [button.label for button in view.button]
    use = ["Documents", "Failed", "Chunks", "Storage", "Last change", "Searches, 30 days"]
    assert list(view.dataframe[0].value.columns) == ["Name", *use]
    view.query_params["open"] = "yes"
    view.run()
    assert not view.exception
    assert "is not shown the configuration" in visible_content(view)
    assert "may not delete" in visible_content(view)
    view.switch_page("views/connections.py").run()
    assert not view.exception
    assert len(view.pills(key="connections_connect").options) == 8
