"""Hide, list and restore a passage in the app."""

from __future__ import annotations

import pytest

from tests.ui.conftest import visible_content


def press(app, label):
    next(button for button in app.button if button.label == label).click().run()
    assert not app.exception


def passages(org, space):
    answer = org.client.get("/v1/hidden-passages", params={"namespaceId": space})
    return answer.json()["data"]["hiddenPassages"]


@pytest.fixture
def document(org, space):
    request = {"namespaceId": space, "filterConfig": {"text": "owls"}}
    return org.client.post("/v1/documents", json=request).json()["data"]["documents"][0]["id"]


def test_a_passage_is_hidden_with_a_reason_listed_and_shown_again(app, org, space, document):
    view = app(org.api_key, "documents", namespace=space, document=document, tab="Chunks")
    press(view, "Hide")
    assert passages(org, space) == []  # without a reason
    view.text_input(key=f"hide-document-{document}-0-reason").set_value("old prices")
    press(view, "Hide")
    (passage,) = passages(org, space)
    assert (passage["reason"], passage["excerpt"]) == ("old prices", "Owls hunt mice at night.")
    assert "Passage hidden successfully. Documents lists hidden passages." in visible_content(view)
    assert "Hidden from search." in visible_content(view)
    assert "Hide" not in [button.label for button in view.button]

    listing = app(org.api_key, "documents", namespace=space)
    assert "Passages" in list(listing.dataframe[0].value["Hidden"])
    listing.session_state["hidden_passages"] = True
    listing.run()
    assert "old prices" in visible_content(listing)
    press(listing, "Show again")
    assert passages(org, space) == []
