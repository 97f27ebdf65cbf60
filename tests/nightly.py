"""Parameter sets with a few values in CI and all values in `.ci/proofs`."""

from collections.abc import Iterable

import pytest


def nightly_except(values: Iterable, *ci) -> list:
    """Mark all values except `ci` as slow."""
    params = list(values)
    assert set(ci) <= set(params), f"not among the cases: {set(ci) - set(params)}"
    return [value if value in ci else pytest.param(value, marks=pytest.mark.slow) for value in params]
