"""Decorators of route functions: `operation` and `idempotent`."""
# Order of checks: key and rate (middleware), tenant and scope (guards), body, dependencies, handler.

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

AnswerT = TypeVar("AnswerT", bound=Struct | Raw)
HandlerP = ParamSpec("HandlerP")


def operation(
    method: Method,
    path: str,
    *,
    tag: str,
    body: type[Any] | None = None,
    dependencies: Mapping[str, Callable[..., Any]] | None = None,
    notifies: bool = False,
    **declared: Any,
) -> Callable[[Callable[..., Awaitable[Struct | Raw | bytes | Stream | None]]], HTTPRouteHandler]:
    """Register a route function; `declared` are further fields of `Operation`."""
    # `data` is the decoded body, `params` the query. The docstring's first sentence is the summary, the rest the
    # description. `notifies` wakes the dispatcher after the response.

    def register_handler(handler: Callable[..., Awaitable[Struct | Raw | bytes | Stream | None]]) -> HTTPRouteHandler:
        hints, permission = get_type_hints(handler), permissions.find_permission(method, path)
        about = Operation(
            method,
            path,
            permission=permission,
            body=body or hints.get("data"),
            query=hints.get("params"),
            answer=declared.pop("answer", None) or _answer_struct(hints["return"]),
            creates=declared.pop("creates", hasattr(handler, "__wrapped__")),
            **declared,
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
            guards=_ROUTE_GUARDS,
            before_request=None if about.body is None else find_stored_answer if about.creates else decode_body,
            after_response=notify_dispatcher if notifies else None,
            dependencies=providers,
            opt={
                "operation": about,
                "structs": about.structs,
                "read_body": decode.make_json_reader(about.body, about.invalid) if about.body else None,
                "read_query": decode.make_query_reader(about.query, about.invalid),
            },
            operation_class=operation_class(about),
            name=handler.__name__,
            operation_id=first + "".join(word.capitalize() for word in words),
            tags=[tag],
            summary=summary.removesuffix("."),
            description=" ".join(filter(None, (description, *permission.describe_access()))),
        )(handler)

    return register_handler


def idempotent(
    handler: Callable[Concatenate[ApiRequest, HandlerP], Awaitable[AnswerT]],
) -> Callable[..., Awaitable[AnswerT | bytes]]:
    """Run the handler once for each Idempotency-Key, within the quotas."""
    # The handler runs in one transaction with its stored response, so slow calls belong in a dependency.

    @wraps(handler)
    async def run_once(request: ApiRequest, *args: HandlerP.args, **kwargs: HandlerP.kwargs) -> AnswerT | bytes:
        return await request.run_once(partial(handler, request, *args, **kwargs), await request.body())

    return run_once


async def decode_body(request: Request[Any, Any, Any]) -> None:
    """Refuse an invalid body."""
    # Litestar takes an empty body for a missing argument.
    await request.json()


async def find_stored_answer(request: Request[Any, Any, Any]) -> bytes | None:
    """Return the stored response to a repeated request, or None."""
    await decode_body(request)
    return await cast("ApiRequest", request).find_stored_answer(await request.body())


def read_params(request: ApiRequest) -> Any:
    """Decode the query string into the operation's struct."""
    return request.route_handler.opt["read_query"](request.scope["query_string"])


async def notify_dispatcher(request: Request[Any, Any, Any]) -> None:
    cast("ApiRequest", request).services.notices.send()


def _answer_struct(returned: Any) -> type[Struct] | None:
    """Return the struct that the handler returns; None for bytes."""
    kinds = (kind for kind in (returned, *get_args(returned)) if isinstance(kind, type))
    return next((kind for kind in kinds if issubclass(kind, Struct)), None)


Connection = ASGIConnection[Any, Any, Any, Any]


async def require_caller(connection: Connection, _: BaseRouteHandler) -> None:
    """Refuse a request without a key, by the matched route."""
    if _get_context(connection).caller is None:
        raise auth.unauthorized_error()


async def set_tenant(connection: Connection, handler: BaseRouteHandler) -> None:
    """Set the tenant to act for in the request's context."""
    tenant = cast("Operation", handler.opt["operation"]).tenant
    if tenant is not TenantUse.IGNORED:
        context = _get_context(connection)
        context.tenant = auth.choose_tenant(_get_caller(connection), may_be_new=tenant is TenantUse.ANY)


async def set_principal(connection: Connection, handler: BaseRouteHandler) -> None:
    """Set the user to act for. Raises FORBIDDEN for operations without `allows_on_behalf`."""
    about = cast("Operation", handler.opt["operation"])
    context, caller = _get_context(connection), _get_caller(connection)
    acting = on_behalf.choose_principal(list(connection.scope["headers"]), caller, about.invalid)
    context.principal, context.groups = acting.user, acting.groups
    if acting.user is not None and not about.permission.allows_on_behalf:
        raise on_behalf.refused_operation_error(caller)


async def require_scope(connection: Connection, handler: BaseRouteHandler) -> None:
    """Set the access of a bound key; raise FORBIDDEN without the scope or the access."""
    permission = cast("Operation", handler.opt["operation"]).permission
    _get_context(connection).bound_access = auth.require_permission(_get_caller(connection), permission)


_ROUTE_GUARDS = (require_caller, set_tenant, set_principal, require_scope)


def _get_context(connection: Connection) -> RequestContext:
    return request_context.get_context(connection.scope)


def _get_caller(connection: Connection) -> auth.Caller:
    return cast("auth.Caller", _get_context(connection).caller)
