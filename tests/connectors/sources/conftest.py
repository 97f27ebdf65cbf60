"""A stand-in account and its connector, by CONNECTOR and STANDIN of the test module."""

from __future__ import annotations

import pytest

from connectors import registry
from connectors.http import retries
from tests.standins.place import APP, TestTokens


@pytest.fixture
def account(request, monkeypatch):
    monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0.01)
    with request.module.STANDIN.serving() as served_account:
        yield served_account


@pytest.fixture
def connector(request, account):
    return registry.make_connector(request.module.CONNECTOR, APP, account.settings)


@pytest.fixture
def tokens(account):
    return TestTokens(account)
