"""The middleware around the router: request id, authentication of closed routes, one log line for each request."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import structlog
from litestar.enums import ScopeType
from litestar.exceptions import MethodNotAllowedException
from litestar.types import (
    ASGIApp,
    HTTPReceiveMessage,
    HTTPResponseStartEvent,
    HTTPScope,
    Message,
    Receive,
    Scope,
    Send,
)

from api import request_context
from api.access_log import AccessLog, RequestCounts
from api.audit import AuditLog, audited_operation
from api.auth import Authenticator, credentials_of, unknown_rate
from api.cors import CrossOrigin
from api.errors import Rendered, render_error, to_service_error
from api.links import PREFIX, Kind
from api.mcp_hosts import PATH, Hosts
from api.rates import Networks, client_of
from api.request_context import RequestContext
from retrieval import origin, tracing, write_details
from retrieval.errors import ErrorCode, ServiceError
from retrieval.origin import Origin

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

log = structlog.get_logger()

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
_OPEN = re.compile(rf"/v1/oauth/|{PREFIX}[^/]+/(?:{'|'.join(Kind)})$")
"""Below /v1, yet without an API key: a state or a signature is the authority there. Counted by address."""

CLOSED = frozenset({"/metrics", PATH})
"""Outside /v1, where Prometheus and language models look, and behind a key all the same."""
_PROBES = frozenset({"/health", "/ready"})
_UNCOUNTED = _PROBES | {"/", "/docs", "/openapi.json"}
"""Neither key nor database: these answer whatever else is away. All other paths outside /v1 are counted by address."""
ALWAYS = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
"""On every answer that does not say something stricter by itself."""

_PREFLIGHT_BODY = b'{"success":true,"message":"This site may call the API.","data":null}'
_DRAIN_SECONDS = 2.0
_DRAIN_BYTES = 64 * 1024 * 1024


def _is_uncounted(path: str) -> bool:
    return path in _UNCOUNTED or path.startswith("/docs/")


def rendered_error(scope: HTTPScope, error: ServiceError) -> Rendered:
    """The error in the shape that this path's clients expect."""
    has_key = credentials_of(list(scope["headers"]), "").api_key is not None
    return render_error(error, scope["path"], has_key=has_key)


class RequestMiddleware:
    """Wraps the router, so that its own 404s and 405s are authenticated, counted, marked and logged like all others."""

    def __init__(
        self,
        router: ASGIApp,
        authenticator: Authenticator,
        trusted_proxies: Networks = (),
        access: AccessLog | None = None,
        audit: AuditLog | None = None,
        tracer: Tracer | None = None,
        *,
        mcp_hosts: Hosts | None = None,
        cross_origin: CrossOrigin | None = None,
    ) -> None:
        self._router = router
        self._access = access
        self._audit = audit
        self._tracer = tracer
        self._mcp_hosts = mcp_hosts
        self._cross_origin = cross_origin
        self.counts = RequestCounts()
        self._authenticator = authenticator
        self._trusted_proxies = trusted_proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == ScopeType.HTTP:
            await self._http(scope, receive, send)
        else:
            await self._router(scope, receive, send)

    async def _http(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        scope["path"] = request_context.normalize_request_path(scope)
        own_id = "req_" + secrets.token_hex(12)
        details = write_details.begin_details()
        context = RequestContext(_sent_request_id(scope["headers"]) or own_id, own_id, details)
        request_context.attach_context(scope, context)
        span = self._begin(scope, context)
        started = time.perf_counter()
        cors_headers = self._cross_origin.answer_headers(scope) if self._cross_origin else {}
        wire = _Wire(receive, send, context, scope, self._audit, cors_headers)
        with structlog.contextvars.bound_contextvars(request_id=context.request_id):
            if span is None:
                await self._serve(scope, context, wire)
            else:
                with tracing.within_span(span):
                    await self._serve(scope, context, wire)
            self._say(scope, context, started)
        if span is not None:
            _end(span, scope, context)

    async def _serve(self, scope: HTTPScope, context: RequestContext, wire: _Wire) -> None:
        preflight_headers = self._cross_origin.preflight_headers(scope) if self._cross_origin else None
        if preflight_headers is not None:
            # Browsers send preflights without a key, so they count for no one.
            await _answer(wire.send, context, Rendered(200, _PREFLIGHT_BODY, preflight_headers))
            return
        refusal = await self._authenticate(scope, context)
        refusal = self._other_host(scope, context) or refusal or _not_a_method(scope, context)
        if refusal is not None and self._mcp_hosts and scope["path"] == PATH:
            refusal = self._mcp_hosts.challenge(refusal)
        if refusal is None:
            await self._router(scope, wire.receive, wire.send)
        else:
            await _answer(wire.send, context, rendered_error(scope, refusal))

    def _begin(self, scope: HTTPScope, context: RequestContext) -> Span | None:
        """Begin the span of a request, if requests are traced, and set the origin of the work that it causes."""
        span = None
        if self._tracer is not None and not _is_uncounted(scope["path"]):
            traceparent = next((value for name, value in scope["headers"] if name == b"traceparent"), b"")
            span = tracing.begin_request(self._tracer, scope["method"], traceparent.decode("latin-1") or None)
        context.origin = Origin(context.request_id, None if span is None else tracing.format_traceparent(span))
        origin.come_of(context.origin)
        return span

    def _say(self, scope: HTTPScope, context: RequestContext, started: float) -> None:
        milliseconds = round((time.perf_counter() - started) * 1000, 1)
        organization = context.caller.organization if context.caller else None
        is_probe = scope["path"] in _PROBES
        if not is_probe:
            route = cast("dict[str, str]", scope).get("path_template")
            self.counts.answered(route, scope["path"], context.status, context.code)
        if self._access is not None and context.status < 400 and not is_probe:
            self._access.answered(
                context.request_id, scope["method"], scope["path"], context.status, organization, milliseconds
            )
            return
        if self._access is not None:
            self._access.write()
        say = log.debug if is_probe else log.info
        say(
            "request.answered",
            method=scope["method"],
            path=scope["path"],
            status=context.status,
            code=context.code,
            organization=organization,
            milliseconds=milliseconds,
        )

    def _other_host(self, scope: HTTPScope, context: RequestContext) -> ServiceError | None:
        """The refusal of a request to `/mcp` for another host or from another origin, with a key or without."""
        refusal = self._mcp_hosts.refusal(scope) if self._mcp_hosts and scope["path"] == PATH else None
        if refusal is not None:
            context.code = refusal.code
        return refusal

    async def _authenticate(self, scope: HTTPScope, context: RequestContext) -> ServiceError | None:
        path = scope["path"]
        if _is_uncounted(path):
            return None
        is_open = _OPEN.match(path) is not None or not (path.startswith("/v1/") or path in CLOSED)
        address = client_of(scope, self._trusted_proxies)
        credentials = credentials_of([] if is_open else list(scope["headers"]), address)
        credentials.resource = self._mcp_hosts.resource if self._mcp_hosts and path == PATH else None
        try:
            context.rate, caller = await self._authenticator.authenticate(credentials)
        except Exception as error:  # noqa: BLE001  (the outermost handler: whatever it is, the client gets an answer)
            context.rate, caller = unknown_rate(), to_service_error(error)
        if is_open and isinstance(caller, ServiceError) and caller.code is not ErrorCode.RATE_LIMIT_EXCEEDED:
            return None
        if isinstance(caller, ServiceError):
            context.code = caller.code
            return caller
        context.caller = caller
        if context.origin is not None:
            context.origin.organization = caller.organization
        return None


@dataclass(slots=True)
class _Wire:
    """Adds the headers of every answer, has a write's audit entry committed before it, and reads what a client still
    sends so that it gets to see the answer."""

    _receive: Receive
    _send: Send
    _exchange: RequestContext
    _scope: HTTPScope
    _audit: AuditLog | None
    _cors_headers: Mapping[str, str] = field(default_factory=dict)
    _unread: bool = field(default=True)
    _head: HTTPResponseStartEvent | None = field(default=None)
    """The head of the answer to a write, until its entry in the audit log is committed."""

    async def receive(self) -> HTTPReceiveMessage:
        message = cast("HTTPReceiveMessage", await self._receive())
        self._unread = message["type"] == "http.request" and message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._exchange.status = message["status"]
            if self._audit is not None and audited_operation(self._scope, self._exchange) is not None:
                self._head = message
                return
        elif self._head is not None and self._audit is not None and message["type"] == "http.response.body":
            head, self._head, audit, self._audit = self._head, None, self._audit, None
            try:
                await audit.record(self._scope, self._exchange, message["body"])
            except Exception as error:  # noqa: BLE001  (the outermost handler: whatever it is, the client gets an answer)
                refusal = to_service_error(error)
                self._exchange.code = refusal.code
                await _answer(self.send, self._exchange, rendered_error(self._scope, refusal))
                return
            await self.send(head)
        await self._pass_on(message)

    async def _pass_on(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            extra = {"X-Request-Id": self._exchange.request_id}
            if self._exchange.rate is not None:
                extra.update(self._exchange.rate.headers())
            names = {name.lower() for name, _ in message["headers"]}
            message["headers"] = [
                *message["headers"],
                *((name.lower().encode(), value.encode()) for name, value in extra.items()),
                *((name, value) for name, value in ALWAYS if name not in names),
                *(
                    (name.lower().encode(), value.encode("latin-1"))
                    for name, value in self._cors_headers.items()
                    if name.lower().encode() not in names
                ),
            ]
            if self._unread and message["status"] not in {200, 408}:
                await self._drain()
        await self._send(message)

    async def _drain(self) -> None:
        remaining = _DRAIN_BYTES
        try:
            async with asyncio.timeout(_DRAIN_SECONDS):
                while self._unread and remaining > 0:
                    message = await self.receive()
                    remaining -= len(message["body"]) if message["type"] == "http.request" else remaining
        except TimeoutError:
            log.info("request.body_not_read")


def _end(span: Span, scope: HTTPScope, context: RequestContext) -> None:
    """End the span under the route's pattern, because a path may hold ids and a query anything."""
    route = cast("dict[str, str]", scope).get("path_template") or "unknown"
    organization = context.caller.organization if context.caller else ""
    tracing.close_request(span, scope["method"], route, context.status, context.request_id, organization)


def _not_a_method(scope: HTTPScope, context: RequestContext) -> ServiceError | None:
    """The router would answer OPTIONS by itself, with a 204 that no operation of the contract has."""
    if scope["method"] != "OPTIONS":
        return None
    refusal = to_service_error(MethodNotAllowedException())
    context.code = refusal.code
    return refusal


def _sent_request_id(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The client's own id if it is a sane one."""
    header = next((value for name, value in headers if name == b"x-request-id"), b"")
    return header.decode() if _REQUEST_ID.fullmatch(header) else None


async def _answer(send: Send, context: RequestContext, rendered: Rendered) -> None:
    headers = {"Content-Type": "application/json", "Content-Length": str(len(rendered.body)), **rendered.headers}
    context.status = rendered.status
    await send(
        {
            "type": "http.response.start",
            "status": rendered.status,
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        }
    )
    await send({"type": "http.response.body", "body": rendered.body, "more_body": False})
