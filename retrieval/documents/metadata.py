"""Metadata that clients attach to documents: free-form JSON within limits, its changes, and how they are merged."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, LiteralString

import msgspec

from retrieval.conditions.model import WHOLE_WORDS, equal_values, is_beyond, normalize_key
from retrieval.errors import ErrorCode, ServiceError
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
                removed_values = _list(values)
                merged[key] = [
                    value for value in merged[key] if not any(_equal(value, removed) for removed in removed_values)
                ]
        return merged


MOST = 20
"""Changes of one document that are kept one by one: beyond these all are one that sets their keys to what they are."""
KEPT: LiteralString = f"""
    case when jsonb_array_length(d.changes) < {MOST} then d.changes || jsonb_build_array(
        jsonb_build_object('at', clock_timestamp()) || %(change)s::jsonb)
    else jsonb_build_array(jsonb_build_object('at', clock_timestamp(), 'set', (
        select jsonb_object_agg(k.key, c.metadata::jsonb -> k.key) from (
            select distinct jsonb_object_keys(coalesce(one -> 'set', '{{}}') || coalesce(one -> 'append', '{{}}')
                                              || coalesce(one -> 'remove', '{{}}')) as key
            from jsonb_array_elements(d.changes || %(change)s::jsonb) one
        ) k where c.metadata::jsonb ? k.key
    ))) end
"""
"""The new value of `changes` of a document `d` whose metadata becomes `c.metadata`."""


def serialize_change(change: Change) -> str:
    """Serialize a change as JSON, for KEPT."""
    return json.dumps({name: value for name, value in asdict(change).items() if value})


def merge_changes(
    wanted: Mapping[str, Any] | None,
    accepted: datetime,
    changes: Sequence[Mapping[str, Any]],
    metadata_at: datetime | None,
) -> Mapping[str, Any] | None:
    """Apply later changes of clients to the metadata of a request; None: the document keeps its metadata.

    Changes made after the request was accepted are applied to it; metadata of a later request is kept.
    """
    if wanted is None or (metadata_at is not None and metadata_at >= accepted):
        return None
    for change in later_changes(changes, accepted):
        wanted = Change(change.get("set", {}), change.get("append", {}), change.get("remove", {})).applied(wanted)
    return wanted


def later_changes(changes: Sequence[Mapping[str, Any]], accepted: datetime) -> list[Mapping[str, Any]]:
    """Return the changes that were made after that moment."""
    return [change for change in changes if datetime.fromisoformat(change["at"]) > accepted]


def _joined(present: Any, added: list[Any]) -> list[Any]:
    values = [] if present is None else list(_list(present))
    for value in added:
        if not any(_equal(value, member) for member in values):
            values.append(value)
    return values


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, list | dict) or isinstance(right, list | dict):
        return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)
    return equal_values(left, right)


def accept_metadata(metadata: Mapping[str, Any], settings: Settings, code: ErrorCode, field: str) -> dict[str, Any]:
    """Return metadata of a request with keys in NFC. Raises ServiceError `code` for equal keys and beyond limits."""
    accepted = normalize_keys(metadata, code, field)
    check_metadata(accepted, settings, code, field)
    return accepted


def normalize_keys(metadata: Mapping[str, Any], code: ErrorCode, field: str) -> dict[str, Any]:
    """Return metadata with keys in NFC. Raises ServiceError `code` if two become equal."""
    normalized = {normalize_key(key): value for key, value in metadata.items()}
    if len(normalized) < len(metadata):
        message = f"Two keys of {field} are the same in the composed form of Unicode (NFC); send one."
        raise _refused(code, message, field, "equal_keys")
    return normalized


def check_metadata(metadata: Mapping[str, Any], settings: Settings, code: ErrorCode, field: str) -> None:
    """ServiceError `code` if there are too many keys, one of them or all together are too large, or a number is."""
    if len(metadata) > settings.metadata_keys:
        raise _refused(code, f"{field} may have up to {settings.metadata_keys} keys.", field, "too_many_keys")
    total = 0
    for key, value in metadata.items():
        if is_beyond(value):
            raise _refused(code, f"{field}.{key}: {WHOLE_WORDS}", f"{field}.{key}", "out_of_bounds")
        size = len(msgspec.json.encode(value))
        total += len(key.encode()) + size
        if len(key) > settings.metadata_key_characters:
            raise _refused(
                code, f"A key of {field} may have {settings.metadata_key_characters} characters.", field, "key_too_long"
            )
        if size > settings.metadata_value_bytes:
            raise _refused(
                code,
                f"A value of {field} may take {settings.metadata_value_bytes} bytes as JSON.",
                field,
                "value_too_large",
            )
    if total > settings.metadata_bytes:
        raise _refused(code, f"{field} may take {settings.metadata_bytes} bytes in all.", field, "too_large")


def _refused(code: ErrorCode, message: str, field: str, reason: str) -> ServiceError:
    return ServiceError(code, message, field=field, reason=reason)
