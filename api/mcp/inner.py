"""Run API operations within this process. Each tool is one operation, with its checks, limits and audit.

Nothing that a key, tenant or person may not do over HTTP is reachable here, because only these operations answer.
"""

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
from api.in_process import answer_of
from api.links import Kind
from api.request_context import RequestContext
from api.services import Services
from retrieval.errors import ServiceError

_OWN = frozenset({b"content-type", b"content-length", b"transfer-encoding", b"accept", b"idempotency-key"})
"""Headers of the outer request that do not hold for the inner one."""
_OUTER = re.compile(r"\b(?:ingestConfig\.config|pagination)\.")
"""What a body has around the fields that tools take as arguments."""
_KEPT = ("type", "asgi", "http_version", "server", "client", "scheme", "root_path")


class Refused(Exception):
    """The operation answered with an error, in the body that it has over HTTP."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__(body.get("message", ""))
        self.body = body

    @property
    def words(self) -> str:
        """Return the error for a model: the code, the message and the argument."""
        error = self.body.get("error")
        if not isinstance(error, dict):
            return f"{error}: {self.body.get('message')}"
        field = error["details"].get("field")
        location = f" (argument: {field})" if field else ""
        return _OUTER.sub("", f"{error['code']}: {error['message']}{location}")


@dataclass(frozen=True, slots=True)
class Inner:
    """The authenticated caller of the MCP request, with methods to run API operations on its behalf."""

    app: Litestar
    services: Services
    scope: HTTPScope
    context: RequestContext

    @property
    def caller(self) -> Caller:
        return cast("Caller", self.context.caller)

    def may(self, operation: str) -> bool:
        """Tell whether the caller may run the operation, by the key's scopes and bounds and the user it acts for."""
        permission = permissions.PERMISSIONS[operation]
        try:
            auth.require_permission(self.caller, permission)
        except ServiceError:
            return False
        return permission.on_behalf or not on_behalf.is_asked(list(self.scope["headers"]), self.caller)

    async def link(self, document_id: str) -> str | None:
        """Return a signed link to the parsed text of a document that an operation has returned, bound to the user of
        the request. None for a key that may not read documents."""
        signer, context = await self.services.links.signer(), self.context
        return signer.link(
            document_id, Kind.PARSED, request_context.make_bearer(self.caller, context.principal, context.groups)
        )

    async def ask(
        self, method: str, path: str, *, query: dict[str, Any] | None = None, body: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the body of an operation's response as over HTTP. Raises Refused with the error body."""
        content = b"" if body is None else msgspec.json.encode(body)
        scope = self._scope(method, path, query or {}, content)
        context = replace(self.context, status=0, code=None, tenant="", reach=None, namespace=None)
        request_context.attach_context(scope, context)
        status, answered = await answer_of(self.app, scope, content)
        context.status = status
        self.context.rate, self.context.principal = context.rate, context.principal
        self.context.groups = context.groups
        if audited_operation(scope, context) is not None:
            try:
                await AuditLog(self.services.audit).record(scope, context, answered)
            except Exception as error:
                raise Refused(msgspec.json.decode(render_error(to_service_error(error)).body)) from error
        response = cast("dict[str, Any]", msgspec.json.decode(answered))
        if status != 200:
            raise Refused(response)
        return response

    def _scope(self, method: str, path: str, query: dict[str, Any], content: bytes) -> HTTPScope:
        outer = cast("dict[str, Any]", self.scope)
        headers = [(name, value) for name, value in outer["headers"] if name not in _OWN]
        headers += [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
        inner = {name: outer[name] for name in _KEPT if name in outer}
        parameters = {name: value for name, value in query.items() if value is not None}
        inner |= {"method": method, "path": path, "raw_path": path.encode(), "headers": headers}
        inner |= {"query_string": urlencode(parameters).encode(), "extensions": {}}
        return cast("HTTPScope", inner)
