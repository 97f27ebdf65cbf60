"""Context of one request: values that the middleware and the guards determine and handlers use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import unquote

from litestar.types import HTTPScope
from litestar.types import Scope as AsgiScope
from litestar.utils.path import normalize_path

from api.auth import Caller, Rate, require_permission
from api.links import Bearer
from api.permissions import PERMISSIONS, Reach
from retrieval.accounts.audit import Source
from retrieval.errors import ServiceError
from retrieval.origin import Origin
from retrieval.write_details import Details

_KEY = "retrieval.request_context"


@dataclass(slots=True)
class RequestContext:
    """State of one request. `caller` and `rate` are set once it is authenticated; `code` once an error was answered.

    `tenant` and `reach` are set by the guards: the tenant to act for ("" without one), and the key's reach (None for an
    organization-wide key). `namespace` is the one that the body names, once it is read; `principal`, the user on whose
    behalf the request is made. `request_id` is the client's if it sent one, `own_id` is generated; `details` go into
    the audit log's entry of a write.
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
    source: Source = Source.API
    follow_up: Callable[[Any], Awaitable[None]] | None = None
    """Receives the answer of an idempotent write, within its transaction."""


def attach_context(scope: AsgiScope, context: RequestContext) -> None:
    cast("dict[str, object]", scope)[_KEY] = context


def get_context(scope: AsgiScope) -> RequestContext:
    return cast("RequestContext", cast("dict[str, object]", scope)[_KEY])


def make_bearer(caller: Caller, principal: str | None, groups: Sequence[str]) -> Bearer:
    """The caller as links know it. A link reads a whole document, so it needs the permission of listing documents."""
    try:
        require_permission(caller, PERMISSIONS["POST /v1/documents"])
        may_read = True
    except ServiceError:
        may_read = False
    if caller.signed_in is not None:
        return Bearer(may_read, None, caller.signed_in.person.expires, principal, groups)
    return Bearer(may_read, caller.key_id, None, principal, groups)


_NAMED = ("v1", "groups")
"""Where names are free, and an empty one is none: `//staff` is what a proxy that decodes makes of `/%2Fstaff`."""
_NOBODYS = "%"
"""A segment that no name is spelled as."""


def normalize_request_path(scope: HTTPScope) -> str:
    """One spelling of the path, for all that decides by it: decoded, but for `/` and `%` in names below `/v1/<area>/`.

    Slashes at the end, and several of them, are one; below `/v1/groups/` they lead nowhere.
    """
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
        prefix, segments = tuple(decoded.split("/")[1:3]), decoded.split("/")[3:]  # the slash before them came encoded
    empty = _NOBODYS if prefix == _NAMED else ""
    return normalize_path("/".join((*prefix, *(_spelled(segment) or empty for segment in segments))))


def read_path_parameters(scope: Mapping[str, Any]) -> dict[str, str]:
    """Return the parameters of the matched path, decoded."""
    return {name: unquote(str(value)) for name, value in scope["path_params"].items()}


def _spelled(name: str) -> str:
    return name.replace("%", "%25").replace("/", "%2F")
