"""A stand-in account and its connector, by parameter or by SERVICE or STANDIN of the test module."""

from __future__ import annotations

import pytest

from connectors import registry
from connectors.http import retries
from tests.connectors.sources.reading import ConfigTokens
from tests.standins import github
from tests.standins.account import Served
from tests.standins.account import serving as served
from tests.standins.accounts import serving_account
from tests.standins.place import APP, TestTokens


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0.01)


@pytest.fixture
def account(request):
    standin = getattr(request.module, "STANDIN", None)
    service = getattr(request, "param", None) or getattr(request.module, "SERVICE", None)
    with serving_account(service) if service else standin.serving() as served_account:
        yield served_account


@pytest.fixture
def connector(account):
    app = {} if hasattr(account, "config") else APP
    return registry.make_connector(account.connector, app, account.settings)


@pytest.fixture
def tokens(account):
    return ConfigTokens(account) if hasattr(account, "config") else TestTokens(account)


@pytest.fixture
def hub():
    """A repository at GitHub."""
    with github.serving() as account:
        yield account


@pytest.fixture
def elsewhere():
    """Another server with a log of requests."""
    with served(Served()) as other_server:
        yield other_server
