"""A namespace with a connection to an account on loopback."""

from __future__ import annotations

import pytest

from connectors import registry
from tests.flows.connected import connected_space
from tests.standins import memory
from tests.standins.accounts import serving_account


@pytest.fixture
def account(request, monkeypatch):
    """The content service that the test names by a parameter; one in memory, in the place of Box, if it names none."""
    connector = getattr(request, "param", "MEMORY")
    if connector == "MEMORY":
        monkeypatch.setitem(registry.CONNECTOR_FACTORIES, "BOX", "tests.standins.memory:make")
    with memory.serving("BOX") if connector == "MEMORY" else serving_account(connector) as made:
        yield made


@pytest.fixture
def space(db, account, monkeypatch):
    with connected_space(db, account, monkeypatch) as made:
        yield made
