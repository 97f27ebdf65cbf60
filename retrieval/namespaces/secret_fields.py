"""Which fields of a namespace's configs are secret: sealed at rest, masked or absent in answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

NAMES = frozenset({"accessKeyId", "secretAccessKey", "apiKey", "clientSecret"})


def within(place: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, dict[str, Any], str]]:
    """Every secret below `place`: its dotted path, the object it stands in and its key."""
    for key, value in place.items():
        if isinstance(value, dict):
            yield from within(value, f"{prefix}{key}.")
        elif key in NAMES and isinstance(value, str):
            yield f"{prefix}{key}", place, key
