"""Details of the write that a request asks for, collected where it is carried out, for the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

OBJECTS = 100
"""Objects of one write that are named; of more, the number is told."""


@dataclass(slots=True)
class Details:
    """The objects that a write changed: the ids of the first `OBJECTS`, their number, and what changed of them."""

    object_ids: list[str] = field(default_factory=list)
    count: int = 0
    changes: list[dict[str, Any]] = field(default_factory=list)


_details: ContextVar[Details | None] = ContextVar("audit_details", default=None)


def begin() -> Details:
    """Collect the details of the request that is served from here on."""
    details = Details()
    _details.set(details)
    return details


def record_objects(object_ids: Sequence[str]) -> None:
    """Name the objects that the current request changed."""
    if (details := _details.get()) is not None:
        details.count += len(object_ids)
        details.object_ids += object_ids[: max(0, OBJECTS - len(details.object_ids))]


def record_change(object_id: str, before: Any, after: Any) -> None:
    """Tell who had access to an object, or belonged to it, before the current request and after it."""
    if (details := _details.get()) is not None and len(details.changes) < OBJECTS:
        details.changes.append({"id": object_id, "before": before, "after": after})
