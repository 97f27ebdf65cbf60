"""Context of a request, set by the middleware and guards."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import unquote

from litestar.types import HTTPScope
from litestar.types import Scope as AsgiScope
from litestar.utils.path import normalize_path

from api.auth import Caller, RateStatus, require_permission
from api.links import LinkHolder
from api.permissions import OPERATION_PERMISSIONS, BoundAccess
from retrieval.accounts.audit import Source
from retrieval.errors import ServiceError
from retrieval.origin import Origin
from retrieval.write_details import Details

_SCOPE_KEY = "retrieval.request_context"


@dataclass(slots=True)
class RequestContext:
    """State of a request."""

    request_id: str  # the client's, else `own_id`
    own_id: str
    details: Details = field(default_factory=Details)  # for the audit entry of a write
    caller: Caller | None = None
    rate: RateStatus | None = None
    code: str | None = None
    status: int = 0
    tenant: str = ""  # to act for
    principal: str | None = None  # user to act for
    groups: tuple[str, ...] = ()
    namespace: str | None = None  # named by the body
    bound_access: BoundAccess | None = None  # None for an organization-wide key
    # Passed on to the work that follows.
    origin: Origin | None = None
    source: Source = Source.API
    # Receives the answer of an idempotent write, within its transaction.
    follow_up: Callable[[Any], Awaitable[None]] | None = None


def attach_context(scope: AsgiScope, context: RequestContext) -> None:
    cast("dict[str, object]", scope)[_SCOPE_KEY] = context


def get_context(scope: AsgiScope) -> RequestContext:
    return cast("RequestContext", cast("dict[str, object]", scope)[_SCOPE_KEY])


def make_link_holder(caller: Caller, principal: str | None, groups: Sequence[str]) -> LinkHolder:
    """Return the caller as a holder of links."""
    # A link opens a whole document, so it needs the permission of listing documents.
    try:
        require_permission(caller, OPERATION_PERMISSIONS["POST /v1/documents"])
        may_read = True
    except ServiceError:
        may_read = False
    if caller.signed_in is not None:
        return LinkHolder(may_read, None, caller.signed_in.person.expires, principal, groups)
    return LinkHolder(may_read, caller.key_id, None, principal, groups)


# Below these segments names are free, and an empty name is an error: a decoding proxy makes `//staff` of `/%2Fstaff`.
_FREE_NAME_PREFIX = ("v1", "groups")
# No encoded name contains a bare percent sign.
_INVALID_SEGMENT = "%"


def normalize_request_path(scope: HTTPScope) -> str:
    """Return the decoded path, with `/` and `%` in names below `/v1/<area>/` encoded and repeated slashes joined."""
    decoded, raw = normalize_path(scope["path"]), scope["raw_path"]
    if not decoded.startswith("/v1/") or (b"%" not in raw and b"//" not in raw):
        return decoded
    path = raw.decode("latin-1").strip("/")
    version, _, tail = path.partition("/")
    area, _, names = tail.lstrip("/").partition("/")
    prefix: tuple[str, ...] = (unquote(version), unquote(area))
    if names and "/".join(prefix) == "/".join(decoded.split("/")[1:3]):
        segments = [unquote(segment) for segment in names.split("/")]
    else:
        prefix, segments = tuple(decoded.split("/")[1:3]), decoded.split("/")[3:]  # the slash was encoded
    empty = _INVALID_SEGMENT if prefix == _FREE_NAME_PREFIX else ""
    return normalize_path("/".join((*prefix, *(_encode_segment(segment) or empty for segment in segments))))


def read_path_parameters(scope: Mapping[str, Any]) -> dict[str, str]:
    """Return the decoded parameters of the matched path."""
    return {name: unquote(str(value)) for name, value in scope["path_params"].items()}


def _encode_segment(name: str) -> str:
    return name.replace("%", "%25").replace("/", "%2F")
