"""Validate and change the metadata of documents: free-form JSON within limits."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, LiteralString

import msgspec

from retrieval.conditions.model import INTEGER_RANGE_MESSAGE, equal_values, exceeds_integer_range, normalize_key
from retrieval.errors import ErrorCode, ServiceError
from retrieval.settings import Settings


@dataclass(frozen=True, slots=True)
class MetadataChange:
    """Metadata change, applied in order: `set` replaces keys, `append` adds list values, `remove` deletes list
    values."""

    set: Mapping[str, Any] = field(default_factory=dict)
    append: Mapping[str, Any] = field(default_factory=dict)
    remove: Mapping[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.set or self.append or self.remove)

    def applied(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Return the changed metadata; `append` skips values already present and turns a scalar into a list."""
        merged = {**metadata, **self.set}
        for key, values in self.append.items():
            merged[key] = _append_values(merged.get(key), _as_list(values))
        for key, values in self.remove.items():
            if isinstance(merged.get(key), list):
                removed_values = _as_list(values)
                merged[key] = [
                    value for value in merged[key] if not any(_equal(value, removed) for removed in removed_values)
                ]
        return merged


# Changes stored per document. Beyond this they are merged into one that sets their keys to the current values.
MAX_STORED_CHANGES = 20
# New `changes` of a document `d` with new metadata `c.metadata`.
NEW_CHANGES: LiteralString = f"""
    case when jsonb_array_length(d.changes) < {MAX_STORED_CHANGES} then d.changes || jsonb_build_array(
        jsonb_build_object('at', clock_timestamp()) || %(change)s::jsonb)
    else jsonb_build_array(jsonb_build_object('at', clock_timestamp(), 'set', (
        select jsonb_object_agg(k.key, c.metadata::jsonb -> k.key) from (
            select distinct jsonb_object_keys(coalesce(entry -> 'set', '{{}}') || coalesce(entry -> 'append', '{{}}')
                                              || coalesce(entry -> 'remove', '{{}}')) as key
            from jsonb_array_elements(d.changes || %(change)s::jsonb) entry
        ) k where c.metadata::jsonb ? k.key
    ))) end
"""


def serialize_change(change: MetadataChange) -> str:
    """Serialize a change as JSON for NEW_CHANGES."""
    return json.dumps({name: value for name, value in asdict(change).items() if value})


def merge_changes(
    requested: Mapping[str, Any] | None,
    accepted_at: datetime,
    changes: Sequence[Mapping[str, Any]],
    metadata_at: datetime | None,
) -> Mapping[str, Any] | None:
    """Apply later client changes to the metadata of a request; None: the document keeps its metadata."""
    # Metadata of a later request wins.
    if requested is None or (metadata_at is not None and metadata_at >= accepted_at):
        return None
    for change in later_changes(changes, accepted_at):
        requested = MetadataChange(change.get("set", {}), change.get("append", {}), change.get("remove", {})).applied(
            requested
        )
    return requested


def later_changes(changes: Sequence[Mapping[str, Any]], accepted_at: datetime) -> list[Mapping[str, Any]]:
    """Return the changes after `accepted_at`."""
    return [change for change in changes if datetime.fromisoformat(change["at"]) > accepted_at]


def _append_values(current: Any, added: list[Any]) -> list[Any]:
    values = [] if current is None else list(_as_list(current))
    for value in added:
        if not any(_equal(value, member) for member in values):
            values.append(value)
    return values


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, list | dict) or isinstance(right, list | dict):
        return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)
    return equal_values(left, right)


def accept_metadata(metadata: Mapping[str, Any], settings: Settings, code: ErrorCode, field: str) -> dict[str, Any]:
    """Return request metadata with keys in NFC. Raises ServiceError `code` for equal keys and exceeded limits."""
    accepted = normalize_keys(metadata, code, field)
    check_metadata(accepted, settings, code, field)
    return accepted


def normalize_keys(metadata: Mapping[str, Any], code: ErrorCode, field: str) -> dict[str, Any]:
    """Return metadata with keys in NFC. Raises ServiceError `code` for equal keys."""
    normalized = {normalize_key(key): value for key, value in metadata.items()}
    if len(normalized) < len(metadata):
        message = f"Two keys of {field} are the same in the composed form of Unicode (NFC); send one."
        raise _metadata_error(code, message, field, "equal_keys")
    return normalized


def check_metadata(metadata: Mapping[str, Any], settings: Settings, code: ErrorCode, field: str) -> None:
    """Raise ServiceError `code` for metadata beyond the limits of the settings."""
    if len(metadata) > settings.metadata_keys:
        raise _metadata_error(code, f"{field} may have up to {settings.metadata_keys} keys.", field, "too_many_keys")
    total = 0
    for key, value in metadata.items():
        if exceeds_integer_range(value):
            raise _metadata_error(code, f"{field}.{key}: {INTEGER_RANGE_MESSAGE}", f"{field}.{key}", "out_of_bounds")
        size = len(msgspec.json.encode(value))
        total += len(key.encode()) + size
        if len(key) > settings.metadata_key_characters:
            raise _metadata_error(
                code, f"A key of {field} may have {settings.metadata_key_characters} characters.", field, "key_too_long"
            )
        if size > settings.metadata_value_bytes:
            raise _metadata_error(
                code,
                f"A value of {field} may take {settings.metadata_value_bytes} bytes as JSON.",
                field,
                "value_too_large",
            )
    if total > settings.metadata_bytes:
        raise _metadata_error(code, f"{field} may take {settings.metadata_bytes} bytes in all.", field, "too_large")


def _metadata_error(code: ErrorCode, message: str, field: str, reason: str) -> ServiceError:
    return ServiceError(code, message, field=field, reason=reason)
