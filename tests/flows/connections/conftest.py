"""A namespace with a connection to an account on loopback."""

from __future__ import annotations

import pytest

from connectors import registry
from tests.flows.connected import connected_space
from tests.standins import memory
from tests.standins.accounts import serving_account


@pytest.fixture
def account(request, monkeypatch):
    """Account of the parametrized content service; by default one in memory."""
    connector = getattr(request, "param", "MEMORY")
    if connector == "MEMORY":
        monkeypatch.setitem(registry.CONNECTOR_FACTORIES, "BOX", "tests.standins.memory:make")
    with memory.serving("BOX") if connector == "MEMORY" else serving_account(connector) as opened:
        yield opened


@pytest.fixture
def space(db, account, monkeypatch):
    with connected_space(db, account, monkeypatch) as connected:
        yield connected
