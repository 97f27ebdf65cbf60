"""Organizations with objects of every kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.api.every_operation.test_isolation import Worlds

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def worlds(base, api_db, ring) -> Iterator[Worlds]:
    created = Worlds(base, api_db, ring)
    yield created
    created.close()
