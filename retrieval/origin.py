"""Origin of the work in this context, for logs, traces and job runs; without secrets."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Origin:
    """Request behind the work: `request_id` of the response; `traceparent` by W3C Trace Context, None without tracing.

    `organization` is set when known; only the creator of an Origin changes it.
    """

    request_id: str | None = None
    traceparent: str | None = None
    organization: str | None = None


_NO_ORIGIN = Origin()
_origin: ContextVar[Origin] = ContextVar("origin", default=_NO_ORIGIN)


def set_origin(origin: Origin) -> None:
    """Set the origin of this context."""
    _origin.set(origin)


def set_organization(organization: str) -> None:
    """Set the organization of this context, and keep the request."""
    previous = _origin.get()
    _origin.set(Origin(previous.request_id, previous.traceparent, organization))


def current_origin() -> Origin:
    return _origin.get()


def origin_params() -> dict[str, Any]:
    """Return the parameters `request_id` and `traceparent` for inserts of job runs."""
    origin = _origin.get()
    return {"request_id": origin.request_id, "traceparent": origin.traceparent}
