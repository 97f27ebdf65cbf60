"""API operations within this process, with their checks, limits and audit."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, cast
from urllib.parse import urlencode

import msgspec
from litestar import Litestar
from litestar.types import HTTPScope

from api import auth, on_behalf, permissions, request_context
from api.audit import AuditLog, audited_operation
from api.auth import Caller
from api.errors import render_error, to_service_error
from api.in_process import run_request
from api.links import FileKind
from api.request_context import RequestContext
from api.services import Services
from retrieval.errors import ServiceError

# Headers of the outer request that do not apply to the inner one.
_DROPPED_HEADERS = frozenset({b"content-type", b"content-length", b"transfer-encoding", b"accept", b"idempotency-key"})
# Body objects around the arguments of tools.
_BODY_PREFIXES = re.compile(r"\b(?:ingestConfig\.config|pagination)\.")
_SCOPE_KEYS = ("type", "asgi", "http_version", "server", "client", "scheme", "root_path")


class RefusedOperation(Exception):
    """Error response of an operation."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__(body.get("message", ""))
        self.body = body

    @property
    def display_text(self) -> str:
        """Error for a model: code, message and argument."""
        error = self.body.get("error")
        if not isinstance(error, dict):
            return f"{error}: {self.body.get('message')}"
        field = error["details"].get("field")
        location = f" (argument: {field})" if field else ""
        return _BODY_PREFIXES.sub("", f"{error['code']}: {error['message']}{location}")


@dataclass(frozen=True, slots=True)
class OperationCaller:
    """Caller of the MCP request, with methods to run API operations."""

    app: Litestar
    services: Services
    scope: HTTPScope
    context: RequestContext

    @property
    def caller(self) -> Caller:
        return cast("Caller", self.context.caller)

    def is_allowed(self, operation: str) -> bool:
        """Return whether the caller may run the operation."""
        permission = permissions.OPERATION_PERMISSIONS[operation]
        try:
            auth.require_permission(self.caller, permission)
        except ServiceError:
            return False
        return permission.allows_on_behalf or not on_behalf.needs_principal(list(self.scope["headers"]), self.caller)

    async def make_link(self, document_id: str) -> str | None:
        """Return a signed link to a document's parsed text; None for a key without access to documents."""
        signer, context = await self.services.links.make_signer(), self.context
        return signer.make_link(
            document_id,
            FileKind.PARSED,
            request_context.make_link_holder(self.caller, context.principal, context.groups),
        )

    async def run_operation(
        self, method: str, path: str, *, query: dict[str, Any] | None = None, body: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the body of an operation's response; raise RefusedOperation for an error."""
        content = b"" if body is None else msgspec.json.encode(body)
        scope = self._build_scope(method, path, query or {}, content)
        context = replace(self.context, status=0, code=None, tenant="", bound_access=None, namespace=None)
        request_context.attach_context(scope, context)
        status, answered = await run_request(self.app, scope, content)
        context.status = status
        self.context.rate, self.context.principal = context.rate, context.principal
        self.context.groups = context.groups
        if audited_operation(scope, context) is not None:
            try:
                await AuditLog(self.services.audit).record_write(scope, context, answered)
            except Exception as error:
                raise RefusedOperation(msgspec.json.decode(render_error(to_service_error(error)).body)) from error
        response = cast("dict[str, Any]", msgspec.json.decode(answered))
        if status != 200:
            raise RefusedOperation(response)
        return response

    def _build_scope(self, method: str, path: str, query: dict[str, Any], content: bytes) -> HTTPScope:
        outer = cast("dict[str, Any]", self.scope)
        headers = [(name, value) for name, value in outer["headers"] if name not in _DROPPED_HEADERS]
        headers += [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
        inner = {name: outer[name] for name in _SCOPE_KEYS if name in outer}
        parameters = {name: value for name, value in query.items() if value is not None}
        inner |= {"method": method, "path": path, "raw_path": path.encode(), "headers": headers}
        inner |= {"query_string": urlencode(parameters).encode(), "extensions": {}}
        return cast("HTTPScope", inner)
