"""Middleware around the router: request ids, authentication, counts and the access log."""

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
from api.auth import Authenticator, read_credentials, unknown_rate
from api.cors import CrossOrigin
from api.errors import RenderedError, render_error, to_service_error
from api.links import FILES_PATH, FileKind
from api.mcp_hosts import MCP_PATH, McpHosts
from api.rates import Networks, find_client
from api.request_context import RequestContext
from retrieval import origin, tracing, write_details
from retrieval.errors import ErrorCode, ServiceError
from retrieval.origin import Origin

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

log = structlog.get_logger()

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
_PUSH_PATH = "/v1/push/"
# No API key: a state or a signature authorizes. Counted by address.
_OPEN_PATHS = re.compile(rf"/v1/oauth/|{_PUSH_PATH}|{FILES_PATH}[^/]+/(?:{'|'.join(FileKind)})$")
# Paths outside /v1 that need a key.
CLOSED_PATHS = frozenset({"/metrics", MCP_PATH})
_PROBE_PATHS = frozenset({"/health", "/ready"})
# Paths that answer without key and database; others outside /v1 are counted by address.
_UNCOUNTED_PATHS = _PROBE_PATHS | {"/", "/docs", "/openapi.json"}
DEFAULT_HEADERS = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
_PREFLIGHT_BODY = b'{"success":true,"message":"This site may call the API.","data":null}'
_DRAIN_SECONDS = 2.0
_DRAIN_BYTES = 64 * 1024 * 1024


def _is_uncounted(path: str) -> bool:
    return path in _UNCOUNTED_PATHS or path.startswith("/docs/")


def render_for_path(scope: HTTPScope, error: ServiceError) -> RenderedError:
    """Render an error in the format of the path's clients."""
    has_key = read_credentials(list(scope["headers"]), "").bearer is not None
    return render_error(error, scope["path"], has_key=has_key)


class RequestMiddleware:
    """Middleware around the router; 404 and 405 responses of the router are authenticated, counted and logged too."""

    def __init__(
        self,
        router: ASGIApp,
        authenticator: Authenticator,
        trusted_proxies: Networks = (),
        access: AccessLog | None = None,
        audit: AuditLog | None = None,
        tracer: Tracer | None = None,
        *,
        mcp_hosts: McpHosts | None = None,
        cross_origin: CrossOrigin | None = None,
    ) -> None:
        self._router = router
        self._access_log = access
        self._audit = audit
        self._tracer = tracer
        self._mcp_hosts = mcp_hosts
        self._cross_origin = cross_origin
        self.counts = RequestCounts()
        self._authenticator = authenticator
        self._trusted_proxies = trusted_proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == ScopeType.HTTP:
            await self._handle_http(scope, receive, send)
        else:
            await self._router(scope, receive, send)

    async def _handle_http(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        scope["path"] = request_context.normalize_request_path(scope)
        own_id = "req_" + secrets.token_hex(12)
        details = write_details.begin_details()
        context = RequestContext(_read_request_id(scope["headers"]) or own_id, own_id, details)
        request_context.attach_context(scope, context)
        span = self._begin_span(scope, context)
        started = time.perf_counter()
        cors_headers = self._cross_origin.answer_headers(scope) if self._cross_origin else {}
        channel = _ResponseWriter(receive, send, context, scope, self._audit, cors_headers)
        with structlog.contextvars.bound_contextvars(request_id=context.request_id):
            if span is None:
                await self._serve(scope, context, channel)
            else:
                with tracing.within_span(span):
                    await self._serve(scope, context, channel)
            self._log_request(scope, context, started)
        if span is not None:
            _end_span(span, scope, context)

    async def _serve(self, scope: HTTPScope, context: RequestContext, channel: _ResponseWriter) -> None:
        preflight_headers = self._cross_origin.preflight_headers(scope) if self._cross_origin else None
        if preflight_headers is not None:
            # Browsers send preflights without a key, so they count for no one.
            await _send_response(channel.send, context, RenderedError(200, _PREFLIGHT_BODY, preflight_headers))
            return
        refusal = await self._authenticate(scope, context)
        refusal = self._refuse_other_host(scope, context) or refusal or _refuse_options(scope, context)
        if refusal is not None and self._mcp_hosts and scope["path"] == MCP_PATH:
            refusal = self._mcp_hosts.add_challenge(refusal)
        if refusal is None:
            await self._router(scope, channel.receive, channel.send)
        else:
            await _send_response(channel.send, context, render_for_path(scope, refusal))

    def _begin_span(self, scope: HTTPScope, context: RequestContext) -> Span | None:
        """Begin the span of a traced request, and set the origin of the work that follows."""
        span = None
        if self._tracer is not None and not _is_uncounted(scope["path"]):
            traceparent = next((value for name, value in scope["headers"] if name == b"traceparent"), b"")
            span = tracing.begin_request(self._tracer, scope["method"], traceparent.decode("latin-1") or None)
        context.origin = Origin(context.request_id, None if span is None else tracing.format_traceparent(span))
        origin.set_origin(context.origin)
        return span

    def _log_request(self, scope: HTTPScope, context: RequestContext, started: float) -> None:
        milliseconds = round((time.perf_counter() - started) * 1000, 1)
        organization = context.caller.organization if context.caller else None
        is_probe = scope["path"] in _PROBE_PATHS
        # The rest of a push address is known to its service only.
        path = _PUSH_PATH if scope["path"].startswith(_PUSH_PATH) else scope["path"]
        if not is_probe:
            route = cast("dict[str, str]", scope).get("path_template")
            self.counts.count_request(route, scope["path"], context.status, context.code)
        if self._access_log is not None and context.status < 400 and not is_probe:
            self._access_log.add_request(
                context.request_id, scope["method"], path, context.status, organization, milliseconds
            )
            return
        if self._access_log is not None:
            self._access_log.write_lines()
        write_log = log.debug if is_probe else log.info
        write_log(
            "request.answered",
            method=scope["method"],
            path=path,
            status=context.status,
            code=context.code,
            organization=organization,
            milliseconds=milliseconds,
        )

    def _refuse_other_host(self, scope: HTTPScope, context: RequestContext) -> ServiceError | None:
        """Return the refusal of a request to `/mcp` for another host or origin."""
        refusal = self._mcp_hosts.find_refusal(scope) if self._mcp_hosts and scope["path"] == MCP_PATH else None
        if refusal is not None:
            context.code = refusal.code
        return refusal

    async def _authenticate(self, scope: HTTPScope, context: RequestContext) -> ServiceError | None:
        path = scope["path"]
        if _is_uncounted(path):
            return None
        is_open = _OPEN_PATHS.match(path) is not None or not (path.startswith("/v1/") or path in CLOSED_PATHS)
        address = find_client(scope, self._trusted_proxies)
        credentials = read_credentials([] if is_open else list(scope["headers"]), address)
        credentials.resource = self._mcp_hosts.audience if self._mcp_hosts and path == MCP_PATH else None
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
class _ResponseWriter:
    """ASGI channel with default headers, audit entries committed before the response, and drained request bodies."""

    _receive: Receive
    _send: Send
    _exchange: RequestContext
    _scope: HTTPScope
    _audit: AuditLog | None
    _cors_headers: Mapping[str, str] = field(default_factory=dict)
    _unread: bool = field(default=True)
    # Head of the response to a write until its audit entry is committed.
    _head: HTTPResponseStartEvent | None = field(default=None)

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
                await audit.record_write(self._scope, self._exchange, message["body"])
            except Exception as error:  # noqa: BLE001  (the outermost handler: whatever it is, the client gets an answer)
                refusal = to_service_error(error)
                self._exchange.code = refusal.code
                await _send_response(self.send, self._exchange, render_for_path(self._scope, refusal))
                return
            await self.send(head)
        await self._pass_on(message)

    async def _pass_on(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            extra = {"X-Request-Id": self._exchange.request_id}
            if self._exchange.rate is not None:
                extra.update(self._exchange.rate.to_headers())
            names = {name.lower() for name, _ in message["headers"]}
            message["headers"] = [
                *message["headers"],
                *((name.lower().encode(), value.encode()) for name, value in extra.items()),
                *((name, value) for name, value in DEFAULT_HEADERS if name not in names),
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


def _end_span(span: Span, scope: HTTPScope, context: RequestContext) -> None:
    """End the span under the route's pattern, without ids or queries of the path."""
    route = cast("dict[str, str]", scope).get("path_template") or "unknown"
    organization = context.caller.organization if context.caller else ""
    tracing.close_request(span, scope["method"], route, context.status, context.request_id, organization)


def _refuse_options(scope: HTTPScope, context: RequestContext) -> ServiceError | None:
    """Refuse OPTIONS."""
    # The router would answer 204 itself.
    if scope["method"] != "OPTIONS":
        return None
    refusal = to_service_error(MethodNotAllowedException())
    context.code = refusal.code
    return refusal


def _read_request_id(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return a valid X-Request-Id of the client, else None."""
    header = next((value for name, value in headers if name == b"x-request-id"), b"")
    return header.decode() if _REQUEST_ID.fullmatch(header) else None


async def _send_response(send: Send, context: RequestContext, rendered: RenderedError) -> None:
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
