"""Parameters of which CI takes a few, and `.ci/proofs` all."""

from collections.abc import Iterable

import pytest


def nightly_except(values: Iterable, *ci) -> list:
    """Mark all values but those of `ci` as slow; for cases that take the same path."""
    params = list(values)
    assert set(ci) <= set(params), f"not among the cases: {set(ci) - set(params)}"
    return [value if value in ci else pytest.param(value, marks=pytest.mark.slow) for value in params]
