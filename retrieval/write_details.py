"""Collect details of the current write for the audit log."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

# Recorded ids per write.
MAX_OBJECTS = 100
# Recorded names per list.
MAX_LIST_NAMES = 50
# Recorded changes per request, approximately.
MAX_CHANGE_BYTES = 64 * 1024


@dataclass(slots=True)
class Details:
    """Changed objects of a write: first ids, total, and changes."""

    object_ids: list[str] = field(default_factory=list)
    count: int = 0
    changes: list[dict[str, Any]] = field(default_factory=list)
    size: int = 0
    # The request changed nothing and needs no entry.
    is_omitted: bool = False


_details: ContextVar[Details | None] = ContextVar("audit_details", default=None)


def begin_details() -> Details:
    """Start collecting details of the current request."""
    details = Details()
    _details.set(details)
    return details


def omit_entry() -> None:
    """Skip the audit entry of the current request, such as a dry run."""
    if (details := _details.get()) is not None:
        details.is_omitted = True


def record_objects(object_ids: Sequence[str]) -> None:
    """Record ids of objects changed by the current request."""
    if (details := _details.get()) is not None:
        details.count += len(object_ids)
        details.object_ids += object_ids[: max(0, MAX_OBJECTS - len(details.object_ids))]


def record_change(object_id: str, before: Any, after: Any) -> None:
    """Record access lists or members before and after the current request.

    Long lists keep only differing names, with their length as `<list>Count`; excess changes are dropped.
    """
    details = _details.get()
    if details is None or len(details.changes) >= MAX_OBJECTS or details.size > MAX_CHANGE_BYTES:
        return
    change = {"id": object_id, "before": _bounded(before, after), "after": _bounded(after, before)}
    details.size += len(json.dumps(change))
    details.changes.append(change)


def _bounded(value: Any, other: Any) -> Any:
    if not isinstance(value, dict):
        return value
    bounded: dict[str, Any] = {}
    other_fields = other if isinstance(other, dict) else {}
    for key, member in value.items():
        if not isinstance(member, list):
            bounded[key] = _bounded(member, other_fields.get(key))
            continue
        opposite = other_fields.get(key) or []
        if max(len(member), len(opposite)) <= MAX_LIST_NAMES:
            bounded[key] = member
        else:
            keys = set(opposite)
            bounded[key] = [name for name in member if name not in keys][:MAX_LIST_NAMES]
            bounded[f"{key}Count"] = len(member)
    return bounded
