"""One request and its answer: what the middleware and the guards know about it and handlers may use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from litestar.types import Scope as AsgiScope

from api.auth import Caller, Rate, allow
from api.links import Bearer
from api.permissions import PERMISSIONS, Reach
from retrieval.errors import ServiceError
from retrieval.origin import Origin
from retrieval.write_details import Details

_KEY = "retrieval.request_context"


@dataclass(slots=True)
class RequestContext:
    """`caller` and `rate` are there once the request has been authenticated; `code` once an error was answered.

    `tenant` and `reach` are set by the guards: for whom the operation acts ("" without a tenant), and what the key gets
    of it (None for an organization-wide key). `namespace` is the one that the body names, once it is read;
    `principal`, on whose behalf the request is made. `request_id` is the client's where it sent one, `own_id` is made
    here; `details` are what the audit log tells of the write.
    """

    request_id: str
    own_id: str
    details: Details = field(default_factory=Details)
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


def bearer(caller: Caller, principal: str | None, groups: Sequence[str]) -> Bearer:
    """The caller as links know it. A link reads a whole document, so it needs the permission of listing documents."""
    try:
        allow(caller, PERMISSIONS["POST /v1/documents"])
        may_read = True
    except ServiceError:
        may_read = False
    if caller.signed_in is not None:
        return Bearer(may_read, None, caller.signed_in.person.expires, principal, groups)
    return Bearer(may_read, caller.key_id, None, principal, groups)
