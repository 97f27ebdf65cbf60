"""Details of a request's write, collected where it is carried out, for the audit log."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

OBJECTS = 100
"""Objects of one write that are named; of more, the number is told."""
NAMES = 50
"""Names of a list that are told whole."""
BYTES = 64 * 1024
"""Changes that one request tells of, about."""


@dataclass(slots=True)
class Details:
    """The objects that a write changed: the ids of the first `OBJECTS`, their number, and what changed of them."""

    object_ids: list[str] = field(default_factory=list)
    count: int = 0
    changes: list[dict[str, Any]] = field(default_factory=list)
    size: int = 0
    is_omitted: bool = False
    """Whether there is no entry, for nothing was changed."""


_details: ContextVar[Details | None] = ContextVar("audit_details", default=None)


def begin_details() -> Details:
    """Collect the details of the request that is served from here on."""
    details = Details()
    _details.set(details)
    return details


def omit_entry() -> None:
    """Write no entry for the current request: it only told what it would change."""
    if (details := _details.get()) is not None:
        details.is_omitted = True


def record_objects(object_ids: Sequence[str]) -> None:
    """Name the objects that the current request changed."""
    if (details := _details.get()) is not None:
        details.count += len(object_ids)
        details.object_ids += object_ids[: max(0, OBJECTS - len(details.object_ids))]


def record_change(object_id: str, before: Any, after: Any) -> None:
    """Record access lists or members of an object before and after the current request.

    Of a list of more than `NAMES` names, the differing ones are recorded, at most `NAMES`, with their number as
    `<list>Count`. Changes beyond `BYTES` per request are dropped.
    """
    details = _details.get()
    if details is None or len(details.changes) >= OBJECTS or details.size > BYTES:
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
        if max(len(member), len(opposite)) <= NAMES:
            bounded[key] = member
        else:
            keys = set(opposite)
            bounded[key] = [name for name in member if name not in keys][:NAMES]
            bounded[f"{key}Count"] = len(member)
    return bounded
