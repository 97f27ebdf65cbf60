"""Rotate an API key in two confirmed steps."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from retrieval.accounts import api_keys
from tests.ui.conftest import visible_content
from tests.ui.test_actions import click

KEYS_TAB = {"tab": "API keys"}


def of_name(org, name: str) -> list[dict]:
    keys = org.client.get("/v1/keys").json()["data"]["keys"]
    return [key for key in keys if key["name"] == name]


def rotated(app, key: str, org, name: str) -> AppTest:
    """The page after the first step for the key of a name."""
    view = app(key, "keys", **KEYS_TAB)
    view.button(key=f"rotate-{of_name(org, name)[0]['id']}").click().run()
    assert not view.exception
    assert not view.error, visible_content(view)
    return view


def test_a_key_is_rotated_and_the_old_one_works_until_it_is_revoked(app, org, space):
    bounds = {"scopes": ["search"], "namespace": space, "tenant": "alice", "principal": "ada@example.com"}
    old = api_keys.create_key(org.db, org.ring, org.id, "Website", **bounds)
    view = rotated(app, org.api_key, org, "Website")
    new, replaced = of_name(org, "Website")
    assert view.code[0].value.endswith(new["hint"])
    copied_fields = ("scopes", "namespaceId", "tenantId", "principal")
    assert (
        [new[name] for name in copied_fields]
        == [replaced[name] for name in copied_fields]
        == [["search"], space, "alice", "ada@example.com"]
    )
    assert not replaced["revokedAt"]
    assert next(button for button in view.button if button.label == "Revoke the old key").disabled
    view.checkbox(key="key_rotation_sure").check().run()
    click(view, "Revoke the old key")
    assert not view.exception
    assert [key["revokedAt"] is not None for key in of_name(org, "Website")] == [False, True]
    assert replaced["id"] == old.id
    assert not view.code
    assert "key_rotation" not in view.session_state


def test_who_rotates_their_own_key_stays_signed_in(app, org):
    own_key = api_keys.create_key(org.db, org.ring, org.id, "Mine", scopes=["admin", "namespaces:read"])
    view = rotated(app, own_key.api_key, org, "Mine")
    new = view.code[0].value
    view.checkbox(key="key_rotation_sure").check().run()
    click(view, "Revoke the old key")
    assert not view.exception
    assert view.session_state["who"].api.key == new
    assert "1 revoked" in [expander.label for expander in view.expander]
