"""One operation of the API: a thin handler, declared with its properties in one place.

The order of checks is part of the API: key and rate (the middleware), tenant and scope (guards), body, and then the
handler's look-ups.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import NoneType
from typing import Any, Generic, TypeVar, cast, get_args, get_type_hints

import msgspec
from litestar import Request, Response
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler, HTTPRouteHandler, route
from litestar.types import HTTPScope

from api import auth, decode, on_behalf, permissions, request_context, request_limits
from api.auth import Caller
from api.openapi import IDEMPOTENCY_KEY, Method, Operation, TenantUse, documented
from api.permissions import Reach
from api.request_context import RequestContext
from api.services import Services
from api.wire.common import Answer
from retrieval.access import viewers
from retrieval.accounts import idempotency, quotas, tenants
from retrieval.accounts.idempotency import HEADER, IdempotentRequest
from retrieval.database import sync_async
from retrieval.database.cursors import Cursors
from retrieval.database.pages import Part
from retrieval.errors import ErrorCode, ServiceError
from retrieval.namespaces import namespaces
from retrieval.ports import Scope
from retrieval.principals import Viewer

A = TypeVar("A", bound=Answer)
B = TypeVar("B")
Q = TypeVar("Q")
_TURN_SECONDS = 10.0
"""How long a write waits for others of its organization."""


@dataclass(frozen=True, slots=True)
class Call(Generic[B, Q]):
    """A request that has passed its checks. `tenant` is "" for the scope without one.

    `principal`: the name of the user on whose behalf it is made, None for the application itself.
    """

    services: Services
    caller: Caller
    tenant: str
    body: B
    query: Q
    path: Mapping[str, str]
    request: Request[Any, Any, Any]
    reach: Reach | None
    """What the key gets of the operation; None for an organization-wide key."""
    idempotent: IdempotentRequest | None = None
    """What must be done once: set where an Idempotency-Key came with a JSON body."""
    content: bytes = b""
    """The JSON body as it was sent."""
    principal: str | None = None
    groups: tuple[str, ...] = ()
    """That the user's own token lists, beside those stored."""

    def scope(self, namespace_id: str) -> Scope:
        """Return the scope in a namespace. A namespace outside of the key's bounds looks as if it did not exist."""
        self.require_namespace(namespace_id)
        return Scope(self.caller.organization, namespace_id, self.tenant)

    def require_namespace(self, namespace_id: str) -> None:
        if not namespace_id or "\x00" in namespace_id or self.caller.namespace not in {None, namespace_id}:
            raise namespaces.not_found()

    async def viewer(self, scope: Scope) -> Viewer | None:
        """Return the viewer of this scope's documents, or None for the application itself, which sees them all."""
        if self.principal is None:
            return None
        return await viewers.viewer(self.services.db, scope, self.principal, self.groups)

    def identify(self, content: bytes, invalid: ErrorCode) -> IdempotentRequest | None:
        """Return the idempotent request for a body that the handler has read itself."""
        return idempotent_request(self.request.scope, self.caller, self.tenant, content, invalid, self.principal)

    async def recall(self, idempotent: IdempotentRequest | None) -> bytes | None:
        """The answer given before under the same Idempotency-Key, if there is one."""
        return (
            None if idempotent is None else await idempotency.recall(self.services.db, self.services.ring, idempotent)
        )

    async def once(self, act: Callable[[], Awaitable[A]], idempotent: IdempotentRequest | None = None) -> A | bytes:
        """Do what creates something: once for each Idempotency-Key, straight away without one."""
        once = partial(self._for_the_key, idempotent or self.idempotent, act)
        return await (self._within_quotas(once) if self.caller.counted else once())

    async def _for_the_key(self, idempotent: IdempotentRequest | None, act: Callable[[], Awaitable[A]]) -> A | bytes:
        if idempotent is None:
            return await act()

        async def encoded() -> bytes:
            return msgspec.json.encode(await act())

        return await idempotency.once(self.services.db, self.services.ring, idempotent, encoded)

    async def _within_quotas(self, act: Callable[[], Awaitable[A | bytes]]) -> A | bytes:
        """Run the write, and undo it with QUOTA_EXCEEDED if it exceeds a quota. Writes of one organization run one at a
        time.

        A waiting write holds no connection, so one organization's burst does not block the requests of others.
        """
        db, organization = self.services.db, self.caller.organization
        end = time.monotonic() + _TURN_SECONDS
        while True:
            async with db.async_together(), db.async_transaction() as connection:
                if await sync_async.async_run(connection, quotas.turn(organization)):
                    usage_before = await sync_async.async_run(connection, quotas.read(organization, self.tenant))
                    answer = await act()
                    if quotas.limited(usage_before):
                        usage_after = await sync_async.async_run(connection, quotas.read(organization, self.tenant))
                        quotas.check(usage_before, usage_after)
                    return answer
            if time.monotonic() > end:
                message = "Other writes of this organization, whose quotas are counted, take too long. Try again later."
                raise ServiceError(ErrorCode.SERVICE_UNAVAILABLE, message, reason="busy", headers={"Retry-After": "2"})
            await asyncio.sleep(random.uniform(0.01, 0.05))  # noqa: S311 - spreads requests, hides nothing

    async def place(self, cursor: str | None, namespace_id: str = "", *, field: str = "cursor") -> str | None:
        """Return the position in the listing that a cursor stands for. Raises the area's `INVALID_*` for any other
        text."""
        if cursor is None:
            return None
        position = Cursors(await self.services.cursor_secret.read()).read(self._listing(namespace_id), cursor)
        if position is None:
            about = cast("Operation", self.request.route_handler.opt["operation"])
            message = "The cursor has expired, or is not one that this listing gave; start again without it."
            raise ServiceError(about.invalid, message, field=field, reason="bad_cursor")
        return position

    async def cursor(self, position: str | None, namespace_id: str = "") -> str | None:
        """Return the cursor for the client to continue from; None at the end."""
        if position is None:
            return None
        return Cursors(await self.services.cursor_secret.read()).write(self._listing(namespace_id), position)

    async def part(self, part: Part | None, namespace_id: str = "") -> Part | None:
        """The requested page of the listing with its decoded cursor; None if no page was requested."""
        return part and replace(part, cursor=await self.place(part.cursor, namespace_id))

    def _listing(self, namespace_id: str) -> tuple[str, ...]:
        viewer = "" if self.principal is None else f"u:{self.principal}"
        return self.caller.organization, namespace_id, self.tenant, self.request.scope["path"], viewer

    async def make_tenant_known(self) -> None:
        """Create the tenant on its first ingestion, where tenants are open."""
        if self.tenant and not self.caller.tenant_known and self.caller.tenants_open:
            await tenants.make_known(self.services.db, self.caller.organization, self.tenant)


def operation(
    method: Method, path: str, *, tag: str, body: type[Any] | None = None, **stated: Any
) -> Callable[[Callable[[Call[Any, Any]], Awaitable[Answer | bytes]]], HTTPRouteHandler]:
    """Register a handler under `method` and `path`; `stated`: further fields of `Operation`.

    Body, query and answer are those of the handler's annotations, unless a `body` is given. The first sentence of its
    docstring is the summary, the rest the description.
    """

    def register(handler: Callable[[Call[Any, Any]], Awaitable[Answer | bytes]]) -> HTTPRouteHandler:
        types, permission = _types(handler), permissions.of(method, path)
        about = Operation(method, path, permission=permission, **types | ({"body": body} if body else {}) | stated)
        read_query = decode.query_reader(about.query, about.invalid)
        read_body = decode.body_reader(about.body, about.invalid)
        retried = about.creates and about.form is None

        async def handle(request: Request[Any, Any, Any]) -> Response[bytes]:
            services = cast("Services", request.app.state.services)
            context = request_context.of(request.scope)
            caller, tenant = cast("Caller", context.caller), context.tenant
            query = read_query(request.scope["query_string"])
            content = await _json(request, services, about) if about.body else b""
            body = read_body(content) if about.body else None
            context.namespace = getattr(body, "namespace_id", None)
            call: Call[Any, Any] = Call(
                services=services,
                caller=caller,
                tenant=tenant,
                query=query,
                body=body,
                content=content,
                path=_path(request),
                request=request,
                reach=context.reach,
                idempotent=idempotent_request(request.scope, caller, tenant, content, about.invalid, context.principal)
                if retried
                else None,
                principal=context.principal,
                groups=context.groups,
            )
            return answer(await call.recall(call.idempotent) or await handler(call), about.media_type)

        summary, _, description = " ".join((handler.__doc__ or "").split()).partition(". ")
        first, *words = handler.__name__.split("_")
        return route(
            path,
            http_method=[method],
            status_code=200,
            opt={"operation": about, "structs": about.structs},
            guards=_GUARDS,
            operation_class=documented(about),
            name=handler.__name__,
            operation_id=first + "".join(word.capitalize() for word in words),
            tags=[tag],
            summary=summary.removesuffix("."),
            description=" ".join(filter(None, (description, *permission.in_words()))),
        )(handle)

    return register


def _types(handler: Callable[..., Any]) -> dict[str, Any]:
    """The types of body, query and answer that the handler's annotations name; None where there is none."""
    hints = get_type_hints(handler)
    returned = hints.pop("return")
    (call,) = hints.values()
    body, query = (None if kind in {Any, NoneType} else kind for kind in get_args(call))
    answers = [kind for kind in (returned, *get_args(returned)) if isinstance(kind, type) and issubclass(kind, Answer)]
    return {"body": body, "query": query, "answer": answers[0] if answers else None}


def answer(content: Answer | bytes, media_type: str = "application/json") -> Response[bytes]:
    """200 with a JSON body, always; bytes are one that was given before, or of another media type."""
    body = content if isinstance(content, bytes) else msgspec.json.encode(content)
    return Response(body, media_type=media_type, status_code=200)


async def _json(request: Request[Any, Any, Any], services: Services, about: Operation) -> bytes:
    settings = services.settings
    headers = dict(request.scope["headers"])
    if about.bare and not headers.keys() & _OF_A_BODY and headers.get(b"content-length", b"0") == b"0":
        return b"{}"
    return await request_limits.read_json(
        request.receive,
        list(request.scope["headers"]),
        cap=settings.max_body_bytes,
        seconds=settings.body_seconds,
        invalid=about.invalid,
        whole=about.whole,
    )


_OF_A_BODY = frozenset({b"content-type", b"transfer-encoding"})


def _path(request: Request[Any, Any, Any]) -> Mapping[str, str]:
    """Path parameters; a NUL, which no id holds and the database refuses, becomes something that is never found."""
    return {name: value.replace("\x00", "\ufffd") for name, value in request_context.parameters(request.scope).items()}


Connection = ASGIConnection[Any, Any, Any, Any]


async def has_a_caller(connection: Connection, _: BaseRouteHandler) -> None:
    """Refuse a request without a key by the route that was matched, whatever its path looked like."""
    if _context(connection).caller is None:
        raise auth.unauthorized()


async def acts_for_a_tenant(connection: Connection, handler: BaseRouteHandler) -> None:
    """Put the tenant to act for into the request's context."""
    tenant = cast("Operation", handler.opt["operation"]).tenant
    if tenant is not TenantUse.IGNORED:
        context = _context(connection)
        context.tenant = auth.tenant_of(_caller(connection), may_be_new=tenant is TenantUse.MADE)


async def acts_for_a_principal(connection: Connection, handler: BaseRouteHandler) -> None:
    """Keep the user to act for in the request's context; 403 for all but reading on behalf of one."""
    about = cast("Operation", handler.opt["operation"])
    context, caller = _context(connection), _caller(connection)
    acting = on_behalf.principal_of(list(connection.scope["headers"]), caller, about.invalid)
    context.principal, context.groups = acting.user, acting.groups
    if acting.user is not None and not about.permission.on_behalf:
        raise on_behalf.refused(caller)


async def holds_the_scope(connection: Connection, handler: BaseRouteHandler) -> None:
    """Put what the key gets of the operation into the request's context; 403 without the scope or out of its bounds."""
    permission = cast("Operation", handler.opt["operation"]).permission
    _context(connection).reach = auth.allow(_caller(connection), permission)


_GUARDS = (has_a_caller, acts_for_a_tenant, acts_for_a_principal, holds_the_scope)


def _context(connection: Connection) -> RequestContext:
    return request_context.of(connection.scope)


def _caller(connection: Connection) -> auth.Caller:
    return cast("auth.Caller", _context(connection).caller)


_KEY = re.compile(IDEMPOTENCY_KEY.encode().replace(b"$", rb"\Z"))
_NAME = HEADER.lower().encode()


def idempotent_request(
    scope: HTTPScope, caller: Caller, tenant: str, content: bytes, invalid: ErrorCode, principal: str | None
) -> IdempotentRequest | None:
    """Return the request as stored under its Idempotency-Key, or None without the header.

    Two tenants, two API keys and two users never see each other's answers.
    """
    keys = [value for name, value in scope["headers"] if name == _NAME]
    if not keys:
        return None
    if len(keys) > 1 or not _KEY.match(keys[0]):
        raise ServiceError(
            invalid,
            f"{HEADER} has 1 to 255 printable ASCII characters, and is sent once.",
            field=HEADER,
            reason="invalid_idempotency_key",
        )
    parts = [scope["method"].encode(), scope["path"].encode(), scope["query_string"], content]
    digest = hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()
    owner = f"{caller.key_id}/{tenant}" if principal is None else f"{caller.key_id}/{tenant}/{principal}"
    return IdempotentRequest(owner, keys[0].decode("ascii"), digest)
