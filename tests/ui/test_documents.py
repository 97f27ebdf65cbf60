"""Documents page: search, confirmations, and the view of another user."""

from __future__ import annotations

import json

import pytest

from retrieval.ports import Scope
from tests.api.routes.test_resync import fail
from tests.library import Library
from tests.ui.conftest import visible_content
from tests.ui.test_actions import click
from tests.ui.test_addresses import address
from ui.parts import document_detail

FOR_ADA = {"users": ["ada@example.com"], "groups": [], "denied": {"users": [], "groups": []}, "public": False}


@pytest.fixture
def pages(org):
    """A namespace with pages of two sites and three files, one failed, one visible only to Ada."""
    namespace = org.namespace()
    library = Library(org.db, Scope(org.id, namespace, ""), None)
    for number in range(3):
        url = f"https://docs.example.org/page-{number}"
        library.put([f"Page {number}."], name=f"Guide {number}", external_id=url, document_type="URL", source="WEBSITE")
    library.put(name="Prices", external_id="https://shop.example.org/", document_type="URL", source="WEBSITE")
    library.put(name="harbour-seal.pdf", document_type="FILE", source="LOCAL_FILE")
    library.put(name="broken.pdf", status="FAILED", document_type="FILE", source="LOCAL_FILE", visible=False)
    secret = library.put(["Ada's plan."], name="plan.txt", source="LOCAL_FILE", document_type="FILE")
    org.db.rows(
        "update documents set access = %(access)s::jsonb where id = %(id)s",
        {"access": json.dumps(FOR_ADA), "id": secret},
    )
    return namespace


def labels(app):
    return [button.label for button in app.button]


def test_a_piece_of_the_name_finds_a_document_and_stands_in_the_address(app, org, pages):
    view = app(org.api_key, "documents", namespace=pages)
    view.text_input(key="find_q").set_value("SEAL").run()
    assert not view.exception
    assert "harbour-seal.pdf" in visible_content(view)
    assert "broken.pdf" not in visible_content(view)
    assert view.query_params["q"] in ("SEAL", ["SEAL"])
    linked = app(org.api_key, "documents", namespace=pages, q="example.org/page")
    assert "Guide 2" in visible_content(linked)
    assert "Prices" not in visible_content(linked)
    view.text_input(key="find_q").set_value("nowhere").run()
    assert "No document matches" in visible_content(view)
    click(view, "Clear filters")
    assert "broken.pdf" in visible_content(view)
    assert "q" not in view.query_params


def test_a_site_is_deleted_whole_and_nothing_else_once_it_was_shown(app, org, pages):
    view = app(org.api_key, "documents", namespace=pages)
    assert not [label for label in labels(view) if "Delete" in label], "nothing is done to all without a filter"
    view.pills(key="find_site").set_value("docs.example.org").run()
    assert "3 documents" in visible_content(view)
    assert "- Guide 2" in visible_content(view)
    view.button(key="delete-all").click().run()
    assert not view.exception
    assert "3 documents deleted successfully" in visible_content(view)
    remaining = org.client.post("/v1/documents", json={"namespaceId": pages, "filterConfig": {}}).json()["data"]
    assert {document["name"] for document in remaining["documents"]} == {
        "Prices",
        "harbour-seal.pdf",
        "broken.pdf",
        "plan.txt",
    }


@pytest.mark.parametrize("page", ["documents", "namespaces"])
def test_documents_are_indexed_again_once_the_cost_was_confirmed(app, org, page):
    space = org.namespace()
    org.text(space, "Owls see in the dark.", name="owls")
    org.db.rows(
        "update run_documents m set status = 'FAILED' from documents d join partitions p on p.id ="
        " d.partition_id where d.id = m.document_id and p.namespace_id = %(space)s",
        {"space": space},
    )
    properties = '{"embeddingCount": 2, "tokenCount": 9}'
    org.db.rows(f"update documents d set status = 'FAILED', properties = '{properties}' from partitions p"
                " where p.id = d.partition_id and p.namespace_id = %(space)s", {"space": space})  # fmt: skip
    view = app(org.api_key, page, namespace=space, **({"q": "owls"} if page == "documents" else {"open": "yes"}))
    assert "to index again" not in visible_content(view), "the estimate is made once it is opened"
    view.session_state["index-again-0"] = True
    view.run()
    assert "1 document to index again" in visible_content(view)
    assert "2 chunks · 9 tokens · about 0.0000 USD" in visible_content(view)
    runs = {"namespaceId": space}
    assert len(org.client.get("/v1/ingest-job-runs", params=runs).json()["data"]["ingestJobRuns"]) == 1
    view.button(key="index-again").click().run()
    assert not view.exception
    assert "1 document queued" in visible_content(view)
    assert "to index again" not in visible_content(view)
    newest = org.client.get("/v1/ingest-job-runs", params=runs).json()["data"]["ingestJobRuns"][0]["id"]
    (link,) = [link for link in view.get("page_link") if link.proto.label == "Progress"]
    assert link.proto.query_string == f"namespace={space}&run={newest}"


def test_documents_and_searches_are_seen_as_another_person(app, org, pages):
    view = app(org.api_key, "documents", namespace=pages)
    assert "plan.txt" in visible_content(view)
    view.text_input(key="see_as_typed").set_value("bob@example.com").run()
    assert not view.exception
    assert "You see this page as" in visible_content(view)
    assert "plan.txt" not in visible_content(view)
    assert "6 documents:" in visible_content(view)
    view.query_params["site"] = "docs.example.org"
    view.run()
    assert not [label for label in labels(view) if "Delete" in label or "again" in label]
    view.switch_page("views/search.py")
    view.query_params["q"] = "Ada plan"
    view.run()
    assert not view.exception
    assert "plan.txt" not in visible_content(view)
    click(view, "Stop")
    assert "You see documents" not in visible_content(view)
    view.query_params.clear()
    view.switch_page("views/documents.py").run()
    assert "plan.txt" in visible_content(view)


def test_it_is_said_why_the_person_who_is_seen_as_sees_a_document_or_does_not(app, org, pages):
    def change(method, path, body):
        assert org.client.request(method, path, json=body).status_code == 200

    groups = {"staff": {"groups": ["auditors"]}, "auditors": {"users": ["bob@example.com"]}}
    for name, members in groups.items():
        change("PUT", f"/v1/groups/{name}", {"namespaceId": pages, "members": members})
    selection = {"namespaceId": pages, "filterConfig": {"text": "Prices"}}
    change("PATCH", "/v1/documents", {**selection, "data": {"access": {"groups": ["staff"]}}})
    view = app(org.api_key, "documents", namespace=pages)
    view.text_input(key="see_as_typed").set_value("bob@example.com").run()
    assert not view.exception
    assert "Seen: its own list names the group staff, which holds auditors." in visible_content(view)
    assert "Seen: it has no list, so that everyone with a key sees it." in visible_content(view)
    change(
        "PATCH", "/v1/documents", {**selection, "data": {"access": {"public": True, "denied": {"groups": ["staff"]}}}}
    )
    view.text_input(key="find_q").set_value("Prices").run()
    assert "No document matches." in visible_content(view)
    assert "its own list denies the group staff" in visible_content(view)
    documents = org.client.post("/v1/documents", json=selection).json()["data"]["documents"]
    view.query_params["document"] = documents[0]["id"]
    view.run()
    assert not view.exception
    assert "its own list denies the group staff, which holds auditors" in visible_content(view)


def test_a_document_whose_access_is_unknown_needs_attention(app, org, pages):
    org.db.rows(
        "update documents d set access = %(nobody)s::jsonb, access_reason = 'The item lists no sharing.'"
        " from partitions p where p.id = d.partition_id and p.namespace_id = %(space)s and d.name = 'Prices'",
        {"nobody": json.dumps({**FOR_ADA, "users": []}), "space": pages},
    )
    view = app(org.api_key, "documents", namespace=pages)
    (link,) = [button for button in view.button if "Needs attention" in button.label]
    assert "access of 1 document is unknown" in link.label
    link.click().run()
    assert "1 document:" in visible_content(view)
    view.toggle(key="find_access").set_value(False).run()
    assert "7 documents:" in visible_content(view)
    view.query_params["access"] = "unknown"  # as the link above does, on the page that is open
    view.run()
    assert "1 document:" in visible_content(view)
    (document,) = org.client.post(
        "/v1/documents", json={"namespaceId": pages, "filterConfig": {"accessStatuses": ["UNKNOWN"]}}
    ).json()["data"]["documents"]
    view = app(org.api_key, "documents", namespace=pages, document=document["id"], tab="Access")
    assert "The item lists no sharing" in visible_content(view)


def test_who_may_see_a_document_is_said_and_changed(app, org, pages):
    (document,) = org.client.post(
        "/v1/documents", json={"namespaceId": pages, "filterConfig": {"text": "plan.txt"}}
    ).json()["data"]["documents"]
    view = app(org.api_key, "documents", namespace=pages, document=document["id"], tab="Access")
    assert not view.exception
    assert "ada@example.com" in visible_content(view)
    assert "Set by the request that ingested it" in visible_content(view)
    next(text_input for text_input in view.text_input if text_input.label.startswith("Denied users")).set_value(
        "bob, Eve"
    )
    click(view, "Set access")
    assert not view.exception
    access = org.client.post(
        "/v1/documents", json={"namespaceId": pages, "filterConfig": {"documentIds": [document["id"]]}}
    ).json()["data"]["documents"][0]["access"]
    assert access == {
        "users": ["ada@example.com"],
        "groups": [],
        "denied": {"users": ["bob", "Eve"], "groups": []},
        "public": False,
    }


def test_documents_are_found_by_the_values_of_their_metadata(app, org, space):
    library = Library(org.db, Scope(org.id, space, ""), None)
    for number in range(3):
        library.put(["Owls."], name=f"owl {number}", metadata={"topic": "owls", "year": 2020 + number % 2})
    view = app(org.api_key, "documents", namespace=space)
    topics = view.pills(key="facet_metadata_topic")
    assert topics.options == ["owls (3)", "seals (1)"]
    topics.set_value(['"owls"']).run()
    assert not view.exception
    assert address(view)["metadata"] == '{"topic": "owls"}'
    assert len(view.dataframe[0].value) == 3
    assert "1 to 3 of 3" in visible_content(view)
    assert view.pills(key="facet_metadata_topic").options == ["owls (3)", "seals (1)"], "others can be added"
    assert view.pills(key="facet_metadata_year").options == ["2020 (2)", "2021 (1)"]
    view.pills(key="facet_metadata_topic").set_value([]).run()
    assert "metadata" not in address(view)


def test_the_password_of_a_protected_file_is_given_at_its_failure(app, org):
    namespace = org.namespace()
    file = ("plan.pdf", b"%PDF-1.4", "application/pdf")
    answer = org.client.post("/v1/ingest/file", data={"namespaceId": namespace}, files={"file": file})
    document = answer.json()["data"]["documents"][0]["id"]
    fail(org, "The PDF is protected by a password. Give the password, or upload the file without one.", document)
    view = app(org.api_key, "documents", namespace=namespace, document=document)
    view.text_input(key=f"{document}-PASSWORD-field").set_value("canary-password")
    click(view, "Retry with this password")
    assert "1 document queued for resync" in visible_content(view)
    row = org.db.row(
        "select d.status, r.password is not null as kept from documents d join job_runs r on r.id = d.job_run_id"
        " where d.id = %(id)s",
        {"id": document},
    )
    assert row == {"status": "QUEUED_FOR_RESYNC", "kept": True}


def select(view, *rows):
    view.session_state["documents_table_0"] = {"selection": {"rows": list(rows), "columns": [], "cells": []}}
    return view.run()


def metadata_of(org, namespace):
    listed = org.client.post("/v1/documents", json={"namespaceId": namespace, "filterConfig": {}}).json()["data"]
    return {document["name"]: document["metadata"] for document in listed["documents"]}


def test_selected_documents_get_metadata_by_key(app, org, pages):
    known = {"filterConfig": {"text": "Prices"}, "data": {"metadata": {"year": 1999}}}
    org.client.patch("/v1/documents", json={"namespaceId": pages, **known})
    view = select(app(org.api_key, "documents", namespace=pages), 0, 1)
    names = list(view.dataframe[0].value["Name"][:2])
    next(field for field in view.text_input if field.label == "Key").set_value("year")
    next(field for field in view.text_input if field.label == "Value").set_value("2026")
    click(view, "Change metadata")
    assert not view.exception
    assert "2 documents changed" in visible_content(view)
    changed = {name for name, metadata in metadata_of(org, pages).items() if metadata == {"year": 2026}}
    assert changed == set(names)


def test_selected_documents_are_hidden_and_deleted_and_no_others(app, org, pages):
    view = select(app(org.api_key, "documents", namespace=pages), 0)
    name = view.dataframe[0].value["Name"][0]
    view.text_input(key="bulk-hide-reason").set_value("old prices").run()
    view.button(key="hide-all").click().run()
    assert "1 document hidden from search" in visible_content(view)
    assert list(view.dataframe[0].value["Hidden"]).count("All of it") == 1
    view.button(key="delete-all").click().run()
    assert not view.exception
    assert name not in metadata_of(org, pages)
    assert len(metadata_of(org, pages)) == 6


def test_a_selection_ends_with_another_list(app, org, pages):
    view = select(app(org.api_key, "documents", namespace=pages), 0)
    assert "1 selected" in str(view)
    view.text_input(key="find_q").set_value("SEAL").run()
    assert "All 1 that match" in str(view)
    assert "1 selected" not in str(view)


def test_the_number_of_many_documents_is_typed_before_they_are_deleted(app, org):
    namespace = org.namespace()
    library = Library(org.db, Scope(org.id, namespace, ""), None)
    for number in range(101):
        library.put(name=f"old {number}", visible=False)
    view = app(org.api_key, "documents", namespace=namespace, q="old")
    assert view.button(key="delete-all").disabled
    view.text_input(key="delete-number").set_value("100").run()
    assert view.button(key="delete-all").disabled
    view.text_input(key="delete-number").set_value("101").run()
    view.button(key="delete-all").click().run()
    assert metadata_of(org, namespace) == {}


@pytest.mark.parametrize(
    ("content", "rendered"),
    [
        ("# Title\n\nText.", "**Title**  \n\nText."),
        ("![y](http://203.0.113.9/p.png)", "y"),
        ("![y][1]", "!\\[y][1]"),
        ("[x](javascript:alert)", "x"),
        ("[a [b]](https://a.example)", r"[a [b]]\(https\://a.example)"),
        ("[a][1]\n\n[1]: //a.example", "[a][1]\n\n[1]\\: //a.example"),
        (r"\:red[x] costs \$5 or \\$6", r"\:red[x] costs \$5 or \$6"),
        ("<script>alert(1)</script>", "&lt;script>alert(1)&lt;/script>"),
        (":red[$5] and $6 at http://a.example", r"\:red[\$5] and \$6 at http\://a.example"),
        ("| a | b |\n|:---|---:|\n| 1 | 2 |", "| a | b |\n|:---|---:|\n| 1 | 2 |"),
    ],
)
def test_a_chunk_is_rendered_without_links_pictures_and_html(content, rendered):
    assert document_detail.render_markdown(content) == rendered


def test_the_chunks_are_a_list_and_the_source_is_a_switch_away(app, org):
    namespace = org.namespace()
    texts = ["# Diving\n\nThe harbour seal dives.", "It sleeps at sea."]
    document = Library(org.db, Scope(org.id, namespace, ""), None).put(texts, name="seals")
    view = app(org.api_key, "documents", namespace=namespace, document=document)
    (chunks,) = view.radio
    assert [option.partition(" ")[0] for option in chunks.options] == ["0", "1"]
    assert "**Diving**  \n\nThe harbour seal dives." in [part.value for part in view.markdown]
    chunks.set_value("1").run()
    assert "It sleeps at sea." in [part.value for part in view.markdown]
    assert view.query_params["chunk"] in ("1", ["1"])
    view.toggle(key="chunk_source").set_value(True).run()
    assert not view.exception
    assert any("<mark>It sleeps at sea.</mark>" in part.proto.body for part in view.get("html"))
