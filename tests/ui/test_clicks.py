"""Double clicks on create buttons create and show one object."""

from __future__ import annotations

import pytest

from tests.ui.test_actions import click, typed
from ui.parts import widgets


@pytest.fixture
def hasty(monkeypatch):
    """However long this machine takes for a page, the second click comes soon after the first."""
    monkeypatch.setattr(widgets, "SECOND_CLICK_SECONDS", 600.0)


def test_two_clicks_create_one_key_and_show_it(app, org, hasty):
    org.namespace()
    view = app(org.api_key, "keys", tab="API keys")
    typed(view, "Name", "Website")
    click(view, "Create API key")
    first = [code.value for code in view.code]
    click(view, "Create API key")
    assert [code.value for code in view.code] == first
    assert [key["name"] for key in org.client.get("/v1/keys").json()["data"]["keys"]].count("Website") == 1
    view.run()
    assert [code.value for code in view.code] == first, "until it is copied, whatever else happens on the page"
    click(view, "I copied it")
    assert not view.code


def test_two_clicks_rotate_a_secret_once(app, org, hasty):
    view = app(org.api_key, "webhooks")
    typed(view, "URL", "https://93.184.216.34/hook")
    click(view, "Add webhook")
    secrets = [code.value for code in view.code]
    for _ in range(2):
        click(view, "Rotate secret")
        secrets += [code.value for code in view.code]
    assert len(secrets) == 3
    assert secrets[0] != secrets[1] == secrets[2]
