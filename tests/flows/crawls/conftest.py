"""A namespace that reads websites by the built-in reader."""

import pytest

from tests.flows.configured import Configured


@pytest.fixture
def space(db, allowed):
    return Configured(db, webScraperConfig={"provider": "BUILTIN"})
