"""Rotating an API key: two steps, each of which the API has confirmed."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from retrieval.accounts import api_keys
from tests.ui.conftest import shown
from tests.ui.test_actions import click

KEYS = {"tab": "API keys"}


def of_name(org, name: str) -> list[dict]:
    keys = org.client.get("/v1/keys").json()["data"]["keys"]
    return [key for key in keys if key["name"] == name]


def rotated(app, key: str, org, name: str) -> AppTest:
    """The page after the first step for the key of a name."""
    seen = app(key, "keys", **KEYS)
    seen.button(key=f"rotate-{of_name(org, name)[0]['id']}").click().run()
    assert not seen.exception
    assert not seen.error, shown(seen)
    return seen


def test_a_key_is_rotated_and_the_old_one_works_until_it_is_revoked(app, org, space):
    bounds = {"scopes": ["search"], "namespace": space, "tenant": "alice", "principal": "ada@example.com"}
    old = api_keys.create_key(org.db, org.ring, org.id, "Website", **bounds)
    seen = rotated(app, org.api_key, org, "Website")
    new, before = of_name(org, "Website")
    assert seen.code[0].value.endswith(new["hint"])
    told = ("scopes", "namespaceId", "tenantId", "principal")
    assert (
        [new[name] for name in told]
        == [before[name] for name in told]
        == [["search"], space, "alice", "ada@example.com"]
    )
    assert not before["revokedAt"]
    assert next(button for button in seen.button if button.label == "Revoke the old key").disabled
    seen.checkbox(key="key_rotation_sure").check().run()
    click(seen, "Revoke the old key")
    assert not seen.exception
    assert [key["revokedAt"] is not None for key in of_name(org, "Website")] == [False, True]
    assert before["id"] == old.id
    assert not seen.code
    assert "key_rotation" not in seen.session_state


def test_both_keys_may_be_kept(app, org):
    api_keys.create_key(org.db, org.ring, org.id, "Website", scopes=["search"])
    seen = rotated(app, org.api_key, org, "Website")
    click(seen, "Keep both keys")
    assert not seen.exception
    assert [key["revokedAt"] for key in of_name(org, "Website")] == [None, None]
    assert not seen.code


def test_who_rotates_their_own_key_stays_signed_in(app, org):
    own = api_keys.create_key(org.db, org.ring, org.id, "Mine", scopes=["admin", "namespaces:read"])
    seen = rotated(app, own.api_key, org, "Mine")
    new = seen.code[0].value
    seen.checkbox(key="key_rotation_sure").check().run()
    click(seen, "Revoke the old key")
    assert not seen.exception
    assert seen.session_state["who"].api.key == new
    assert "1 revoked" in [one.label for one in seen.expander]


def test_the_key_of_the_session_is_told_apart_before_it_is_revoked(app, org):
    own = api_keys.create_key(org.db, org.ring, org.id, "Mine", scopes=["admin", "namespaces:read"])
    api_keys.create_key(org.db, org.ring, org.id, "Website", scopes=["search"])
    seen = app(own.api_key, "keys", **KEYS)
    told = [one.value for one in seen.markdown if "you are signed in with it" in one.value]
    assert len(told) == 1
    assert "**Mine**" in told[0]
    assert [one.value for one in seen.warning] == ["You are signed in with this key: revoking it signs you out."]
    seen.button(key=f"revoke-{own.id}").click().run()
    assert not seen.exception
    assert "who" not in seen.session_state


def test_a_refusal_is_shown_and_nothing_is_revoked(app, org):
    """Somebody else revoked the administrator's key between the page and the click."""
    own = api_keys.create_key(org.db, org.ring, org.id, "Mine", scopes=["admin", "namespaces:read"])
    api_keys.create_key(org.db, org.ring, org.id, "Website", scopes=["search"])
    seen = app(own.api_key, "keys", **KEYS)
    api_keys.revoke_key(org.db, org.id, own.id)
    seen.button(key=f"rotate-{of_name(org, 'Website')[0]['id']}").click().run()
    assert not seen.exception
    assert "not valid any more" in shown(seen)
    assert len(of_name(org, "Website")) == 1
