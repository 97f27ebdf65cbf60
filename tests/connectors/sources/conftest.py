"""A stand-in account and its connector, by CONNECTOR and STANDIN of the test module."""

from __future__ import annotations

from collections import Counter

import pytest

from connectors import registry
from connectors.http import retries
from retrieval.errors import Fatal
from tests.standins.account import Served
from tests.standins.account import serving as served
from tests.standins.place import APP, TestTokens


def walk(connector, tokens, cursor=None):
    """Return the listed items by id, the numbers of skipped ones by reason, and the last page."""
    pages = list(connector.iter_changes(tokens, cursor))
    assert [page.done for page in pages] == [False] * (len(pages) - 1) + [True]
    skipped = Counter()
    for page in pages:
        skipped.update(page.skipped)
    return {item.external_id: item for page in pages for item in page.items}, dict(skipped), pages[-1]


class ConfigTokens:
    """`TokenSource` of a connection with a config, that of the account by default."""

    def __init__(self, account, **changes):
        self.connection_id = f"conn_{id(self)}"
        self.failed = ""
        config = {**account.config, **changes}
        self._token = registry.read_config(account.connector, config, account.settings).access_token

    def token(self):
        return self._token

    def end_authorization(self, reason, refused):
        assert refused == self._token
        self.failed = reason
        return Fatal(reason)


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


@pytest.fixture
def elsewhere():
    """Another server with a log of requests."""
    with served(Served()) as other_server:
        yield other_server
