"""A content service's account at its stand-in; a module names its CONNECTOR and its STANDIN."""

from __future__ import annotations

import pytest

from connectors import registry
from connectors.http import retries
from tests.standins.place import APP, TestTokens


@pytest.fixture
def account(request, monkeypatch):
    """Asked again without a pause."""
    monkeypatch.setattr(retries, "FIRST_PAUSE", 0.01)
    with request.module.STANDIN.serving() as made:
        yield made


@pytest.fixture
def connector(request, account):
    return registry.make_connector(request.module.CONNECTOR, APP, account.settings)


@pytest.fixture
def tokens(account):
    return TestTokens(account)
