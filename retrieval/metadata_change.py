"""How a change goes into a document's own metadata (D37)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from retrieval.filters import same


@dataclass(frozen=True, slots=True)
class Change:
    """`set` replaces by key; then `append` adds values to lists; then `remove` takes values out of lists."""

    set: Mapping[str, Any] = field(default_factory=dict)
    append: Mapping[str, Any] = field(default_factory=dict)
    remove: Mapping[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.set or self.append or self.remove)

    def applied(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """The metadata after the change. A value that is in a list is not appended again; a scalar becomes a list."""
        merged = {**metadata, **self.set}
        for key, values in self.append.items():
            merged[key] = _joined(merged.get(key), _list(values))
        for key, values in self.remove.items():
            if isinstance(merged.get(key), list):
                gone = _list(values)
                merged[key] = [value for value in merged[key] if not any(_equal(value, one) for one in gone)]
        return merged


def _joined(present: Any, added: list[Any]) -> list[Any]:
    values = [] if present is None else list(_list(present))
    for value in added:
        if not any(_equal(value, one) for one in values):
            values.append(value)
    return values


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, list | dict) or isinstance(right, list | dict):
        return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)
    return same(left, right)
