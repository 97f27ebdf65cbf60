"""Origin of the work in this context: the request, for logs, traces and job runs. Contains no secret."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Origin:
    """Request that the work belongs to: `request_id` as returned to the client; `traceparent` by W3C Trace Context,
    None without tracing.

    `organization`: the one that the work belongs to, once known. Only the creator of an Origin changes it.
    """

    request_id: str | None = None
    traceparent: str | None = None
    organization: str | None = None


_NOBODY = Origin()
_origin: ContextVar[Origin] = ContextVar("origin", default=_NOBODY)


def come_of(origin: Origin) -> None:
    """Set the request that this context works for."""
    _origin.set(origin)


def work_for(organization: str) -> None:
    """Set the organization that this context works for, whatever request it served before."""
    previous = _origin.get()
    _origin.set(Origin(previous.request_id, previous.traceparent, organization))


def current_origin() -> Origin:
    return _origin.get()


def origin_params() -> dict[str, Any]:
    """The parameters `request_id` and `traceparent` of a statement that makes a job run."""
    origin = _origin.get()
    return {"request_id": origin.request_id, "traceparent": origin.traceparent}
