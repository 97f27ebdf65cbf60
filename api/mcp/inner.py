"""Asks operations of the API within this process: each tool is one, with the checks, limits and audit that it has.

Nothing that a key, a tenant or a person may not do over HTTP is reachable here, since nothing else answers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, cast
from urllib.parse import urlencode

import msgspec
from litestar import Litestar
from litestar.types import HTTPScope, Message

from api import auth, on_behalf, permissions, request_context
from api.audit import AuditLog, written
from api.auth import Caller
from api.errors import render, understand
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
        """For a model: the code, what is wrong and where."""
        error = self.body.get("error")
        if not isinstance(error, dict):
            return f"{error}: {self.body.get('message')}"
        field = error["details"].get("field")
        where = f" (argument: {field})" if field else ""
        return _OUTER.sub("", f"{error['code']}: {error['message']}{where}")


@dataclass(frozen=True, slots=True)
class Inner:
    """The caller of an outer request, who asks operations."""

    app: Litestar
    services: Services
    scope: HTTPScope
    context: RequestContext

    @property
    def caller(self) -> Caller:
        return cast("Caller", self.context.caller)

    def may(self, operation: str) -> bool:
        """Tell whether the key holds the scope of the operation, within its bounds and for the user who asks."""
        permission = permissions.PERMISSIONS[operation]
        try:
            auth.allow(self.caller, permission)
        except ServiceError:
            return False
        return permission.on_behalf or not on_behalf.is_asked(list(self.scope["headers"]), self.caller)

    async def link(self, document_id: str) -> str | None:
        """A link to the parsed text of a document that an operation has shown, for the user on whose behalf it was
        asked; None for a key that may not read documents."""
        signer, context = await self.services.links.signer(), self.context
        return signer.link(
            document_id, Kind.PARSED, request_context.bearer(self.caller, context.principal, context.groups)
        )

    async def ask(
        self, method: str, path: str, *, query: dict[str, Any] | None = None, body: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """The answer of an operation as it is over HTTP. Refused with its error."""
        content = b"" if body is None else msgspec.json.encode(body)
        scope = self._scope(method, path, query or {}, content)
        context = replace(self.context, status=0, code=None, tenant="", reach=None, namespace=None)
        request_context.attach(scope, context)
        status, answered = await _answer_of(self.app, scope, content)
        context.status = status
        self.context.rate, self.context.principal = context.rate, context.principal
        self.context.groups = context.groups
        if written(scope, context) is not None:
            try:
                await AuditLog(self.services.audit).record(scope, context, answered)
            except Exception as error:
                raise Refused(msgspec.json.decode(render(understand(error)).body)) from error
        found = cast("dict[str, Any]", msgspec.json.decode(answered))
        if status != 200:
            raise Refused(found)
        return found

    def _scope(self, method: str, path: str, query: dict[str, Any], content: bytes) -> HTTPScope:
        outer = cast("dict[str, Any]", self.scope)
        headers = [(name, value) for name, value in outer["headers"] if name not in _OWN]
        headers += [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
        inner = {name: outer[name] for name in _KEPT if name in outer}
        asked = {name: value for name, value in query.items() if value is not None}
        inner |= {"method": method, "path": path, "raw_path": path.encode(), "headers": headers}
        inner |= {"query_string": urlencode(asked).encode(), "extensions": {}}
        return cast("HTTPScope", inner)


async def _answer_of(app: Litestar, scope: HTTPScope, content: bytes) -> tuple[int, bytes]:
    asked = [{"type": "http.request", "body": content, "more_body": False}]
    status, parts = 0, []

    async def receive() -> Any:
        return asked.pop() if asked else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        elif message["type"] == "http.response.body":
            parts.append(message["body"])

    await app(scope, receive, send)
    return status, b"".join(parts)
