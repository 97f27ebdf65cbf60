"""Which request the work of this context came of: told to logs, traces and job runs, never a secret."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Origin:
    """`request_id` as the client got it; `traceparent` by W3C Trace Context, None where nobody traces."""

    request_id: str | None = None
    traceparent: str | None = None


_NOBODY = Origin()
_origin: ContextVar[Origin] = ContextVar("origin", default=_NOBODY)


def come_of(origin: Origin) -> None:
    """From now on this context works for that request."""
    _origin.set(origin)


def current() -> Origin:
    return _origin.get()


def values() -> dict[str, Any]:
    """The parameters `request_id` and `traceparent` of a statement that makes a job run."""
    origin = _origin.get()
    return {"request_id": origin.request_id, "traceparent": origin.traceparent}
