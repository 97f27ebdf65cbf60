"""The decorators of route functions: `operation` declares one operation of the API, `idempotent` runs a write once.

The order of checks is part of the API: key and rate (the middleware), tenant and scope (guards), body, and then the
look-ups of dependencies and the handler.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast, get_args, get_type_hints

from litestar import Request
from litestar.connection import ASGIConnection
from litestar.di import Provide
from litestar.handlers import BaseRouteHandler, HTTPRouteHandler, route
from litestar.response import Stream
from msgspec import Raw, Struct

from api import auth, decode, on_behalf, permissions, request_context
from api.openapi import operation_class
from api.request import ApiRequest, Method, Operation, TenantUse
from api.request_context import RequestContext

A = TypeVar("A", bound=Struct | Raw)
P = ParamSpec("P")


def operation(
    method: Method,
    path: str,
    *,
    tag: str,
    body: type[Any] | None = None,
    dependencies: Mapping[str, Callable[..., Any]] | None = None,
    notifies: bool = False,
    **stated: Any,
) -> Callable[[Callable[..., Awaitable[Struct | Raw | bytes | Stream | None]]], HTTPRouteHandler]:
    """Register a route function under `method` and `path`; `stated`: further fields of `Operation`.

    `data` is the decoded JSON body, `params` the decoded query string. The first sentence of the docstring is the
    summary, the rest the description. body: the type of the JSON body where the route function does not name it.
    notifies: wake the dispatcher after the response.
    """

    def register(handler: Callable[..., Awaitable[Struct | Raw | bytes | Stream | None]]) -> HTTPRouteHandler:
        hints, permission = get_type_hints(handler), permissions.find_permission(method, path)
        about = Operation(
            method,
            path,
            permission=permission,
            body=body or hints.get("data"),
            query=hints.get("params"),
            answer=stated.pop("answer", None) or _answer(hints["return"]),
            creates=stated.pop("creates", hasattr(handler, "__wrapped__")),
            **stated,
        )
        providers = {name: Provide(dependency) for name, dependency in (dependencies or {}).items()}
        if about.query is not None:
            providers["params"] = Provide(read_params, sync_to_thread=False)
        summary, _, description = " ".join((handler.__doc__ or "").split()).partition(". ")
        first, *words = handler.__name__.split("_")
        return route(
            path,
            http_method=[method],
            status_code=about.status,
            media_type=about.media_type,
            request_class=ApiRequest,
            guards=_GUARDS,
            before_request=None if about.body is None else recall_answer if about.creates else decode_body,
            after_response=notify_dispatcher if notifies else None,
            dependencies=providers,
            opt={
                "operation": about,
                "structs": about.structs,
                "read_body": decode.json_reader(about.body, about.invalid) if about.body else None,
                "read_query": decode.query_reader(about.query, about.invalid),
            },
            operation_class=operation_class(about),
            name=handler.__name__,
            operation_id=first + "".join(word.capitalize() for word in words),
            tags=[tag],
            summary=summary.removesuffix("."),
            description=" ".join(filter(None, (description, *permission.in_words()))),
        )(handler)

    return register


def idempotent(
    handler: Callable[Concatenate[ApiRequest, P], Awaitable[A]],
) -> Callable[..., Awaitable[A | bytes]]:
    """Run the handler once for each Idempotency-Key, within the quotas, and give its answer to repeated requests.

    The handler is one transaction with its stored answer. What takes long, such as a call of a vendor, belongs into a
    dependency, which runs before.
    """

    @wraps(handler)
    async def run_once(request: ApiRequest, *args: P.args, **kwargs: P.kwargs) -> A | bytes:
        return await request.once(partial(handler, request, *args, **kwargs), await request.body())

    return run_once


async def decode_body(request: Request[Any, Any, Any]) -> None:
    """Refuse an invalid body. Litestar itself takes an empty body for a missing argument of the route function."""
    await request.json()


async def recall_answer(request: Request[Any, Any, Any]) -> bytes | None:
    """Return the stored answer to a repeated request, which is sent in place of the handler's."""
    await decode_body(request)
    return await cast("ApiRequest", request).recall(await request.body())


def read_params(request: ApiRequest) -> Any:
    """Decode the query string into the struct of the operation."""
    return request.route_handler.opt["read_query"](request.scope["query_string"])


async def notify_dispatcher(request: Request[Any, Any, Any]) -> None:
    cast("ApiRequest", request).services.notices.send()


def _answer(returned: Any) -> type[Struct] | None:
    """The struct that the handler returns; None for bytes."""
    kinds = (kind for kind in (returned, *get_args(returned)) if isinstance(kind, type))
    return next((kind for kind in kinds if issubclass(kind, Struct)), None)


Connection = ASGIConnection[Any, Any, Any, Any]


async def require_caller(connection: Connection, _: BaseRouteHandler) -> None:
    """Refuse a request without a key by the route that was matched, whatever its path looked like."""
    if _context(connection).caller is None:
        raise auth.unauthorized_error()


async def set_tenant(connection: Connection, handler: BaseRouteHandler) -> None:
    """Put the tenant to act for into the request's context."""
    tenant = cast("Operation", handler.opt["operation"]).tenant
    if tenant is not TenantUse.IGNORED:
        context = _context(connection)
        context.tenant = auth.tenant_of(_caller(connection), may_be_new=tenant is TenantUse.MADE)


async def set_principal(connection: Connection, handler: BaseRouteHandler) -> None:
    """Keep the user to act for in the request's context; 403 for all but reading on behalf of one."""
    about = cast("Operation", handler.opt["operation"])
    context, caller = _context(connection), _caller(connection)
    acting = on_behalf.principal_of(list(connection.scope["headers"]), caller, about.invalid)
    context.principal, context.groups = acting.user, acting.groups
    if acting.user is not None and not about.permission.on_behalf:
        raise on_behalf.refused_operation(caller)


async def require_scope(connection: Connection, handler: BaseRouteHandler) -> None:
    """Put what the key gets of the operation into the request's context; 403 without the scope or out of its bounds."""
    permission = cast("Operation", handler.opt["operation"]).permission
    _context(connection).reach = auth.require_permission(_caller(connection), permission)


_GUARDS = (require_caller, set_tenant, set_principal, require_scope)


def _context(connection: Connection) -> RequestContext:
    return request_context.get_context(connection.scope)


def _caller(connection: Connection) -> auth.Caller:
    return cast("auth.Caller", _context(connection).caller)
