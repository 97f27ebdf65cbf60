"""One request and its answer: what the middleware and the guards know about it and handlers may use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from litestar.types import Scope as AsgiScope

from api.auth import Caller, Rate
from api.permissions import Reach
from retrieval.origin import Origin

_KEY = "retrieval.request_context"


@dataclass(slots=True)
class RequestContext:
    """`caller` and `rate` are there once the request has been authenticated; `code` once an error was answered.

    `tenant` and `reach` are set by the guards: for whom the operation acts ("" without a tenant), and what the key gets
    of it (None for an organization-wide key). `namespace` is the one that the body names, once it is read;
    `principal`, on whose behalf the request is made.
    """

    request_id: str
    caller: Caller | None = None
    rate: Rate | None = None
    code: str | None = None
    status: int = 0
    tenant: str = ""
    principal: str | None = None
    groups: tuple[str, ...] = ()
    """That the principal's own token lists."""
    namespace: str | None = None
    reach: Reach | None = None
    origin: Origin | None = None
    """What this request tells the work that comes of it."""


def attach(scope: AsgiScope, context: RequestContext) -> None:
    cast("dict[str, object]", scope)[_KEY] = context


def of(scope: AsgiScope) -> RequestContext:
    return cast("RequestContext", cast("dict[str, object]", scope)[_KEY])
