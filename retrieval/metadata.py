"""A document's own metadata: what it may hold (D26) and how a change goes into it (D37)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from retrieval.errors import ErrorCode, ServiceError
from retrieval.filters import same
from retrieval.settings import Settings


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


def check(metadata: Mapping[str, Any], limits: Settings, code: ErrorCode, where: str) -> None:
    """ServiceError `code`, naming the field, unless the metadata keeps the limits."""
    if len(metadata) > limits.metadata_keys:
        raise ServiceError(code, f"Metadata may have at most {limits.metadata_keys} keys.", field=where)
    for key, value in metadata.items():
        if len(key) > limits.metadata_key_characters or key.startswith("$"):
            message = f"A metadata key has at most {limits.metadata_key_characters} characters and no `$` in front."
            raise ServiceError(code, message, field=where)
        if _size(value) > limits.metadata_value_bytes:
            message = f"A metadata value may have at most {limits.metadata_value_bytes} bytes as JSON."
            raise ServiceError(code, message, field=f"{where}.{key}")
    if _size(dict(metadata)) > limits.metadata_bytes:
        raise ServiceError(code, f"Metadata may have at most {limits.metadata_bytes} bytes in all.", field=where)


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


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())
