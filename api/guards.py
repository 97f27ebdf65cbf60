"""Litestar guards of every operation, in the contract's order: a caller, its tenant, for whom, its scope; then the body
is read."""

from __future__ import annotations

from typing import Any, cast

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from api import auth, on_behalf, request_context
from api.operation import Operation, TenantUse
from api.request_context import RequestContext

Connection = ASGIConnection[Any, Any, Any, Any]


async def has_a_caller(connection: Connection, handler: BaseRouteHandler) -> None:
    """By the route that was matched, whatever the path looked like: no operation of the contract runs for nobody."""
    if "operation" in handler.opt and _context(connection).caller is None:
        raise auth.unauthorized()


async def acts_for_a_tenant(connection: Connection, handler: BaseRouteHandler) -> None:
    """The tenant to act for, into the request's context."""
    about: Operation | None = handler.opt.get("operation")
    if about is not None and about.tenant is not TenantUse.IGNORED:
        context = _context(connection)
        context.tenant = auth.tenant_of(_caller(connection), may_be_new=about.tenant is TenantUse.MADE)


async def acts_for_a_principal(connection: Connection, handler: BaseRouteHandler) -> None:
    """Keep the user to act for in the request's context; 403 for all but reading on behalf of one."""
    about: Operation | None = handler.opt.get("operation")
    if about is not None:
        context, caller = _context(connection), _caller(connection)
        acting = on_behalf.principal_of(list(connection.scope["headers"]), caller, about.invalid)
        context.principal, context.groups = acting.user, acting.groups
        if acting.user is not None and not about.permission.on_behalf:
            raise on_behalf.refused(caller)


async def holds_the_scope(connection: Connection, handler: BaseRouteHandler) -> None:
    """What the key gets of the operation, into the request's context; 403 without the scope or out of its bounds."""
    about: Operation | None = handler.opt.get("operation")
    if about is not None:
        context = _context(connection)
        context.reach = auth.allow(_caller(connection), about.permission)


GUARDS = (has_a_caller, acts_for_a_tenant, acts_for_a_principal, holds_the_scope)


def _context(connection: Connection) -> RequestContext:
    return request_context.of(connection.scope)


def _caller(connection: Connection) -> auth.Caller:
    return cast("auth.Caller", _context(connection).caller)
