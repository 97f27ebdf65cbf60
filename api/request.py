"""Litestar request with caller, tenant and strictly decoded body."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import random
import re
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any, Literal, TypeVar, cast

import msgspec
from litestar import Request
from litestar.datastructures import State

from api import request_context, request_limits
from api.auth import Caller
from api.permissions import BoundAccess, Permission
from api.request_context import RequestContext
from api.services import Services
from retrieval.access.queries import memberships
from retrieval.accounts import idempotency, quotas
from retrieval.accounts.idempotency import IDEMPOTENCY_HEADER, IdempotentRequest
from retrieval.accounts.queries import tenants
from retrieval.database.cursors import Cursors
from retrieval.database.pagination import PageRequest
from retrieval.errors import ErrorCode, ServiceError
from retrieval.namespaces import namespaces
from retrieval.ports import Scope
from retrieval.principals import Viewer

AnswerT = TypeVar("AnswerT", bound=msgspec.Struct | msgspec.Raw)
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
IDEMPOTENCY_KEY = "^[!-~]([ -~]{0,253}[!-~])?$"
_IDEMPOTENCY_KEY = re.compile(IDEMPOTENCY_KEY.encode().replace(b"$", rb"\Z"))
_IDEMPOTENCY_HEADER = IDEMPOTENCY_HEADER.lower().encode()
_BODY_HEADERS = frozenset({b"content-type", b"transfer-encoding"})
# Limit of a write's wait for the other writes of its organization.
_WRITE_WAIT_SECONDS = 10.0


class TenantUse(StrEnum):
    """Use of X-Tenant-ID: ignored, for known tenants only, or for new tenants too."""

    IGNORED = "ignored"
    KNOWN = "known"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class Operation:
    """Declaration of an operation, for its checks and documentation."""

    method: Method
    path: str
    # None for a response of `media_type` that is not JSON.
    answer: type[msgspec.Struct] | None
    invalid: ErrorCode
    permission: Permission
    media_type: str = "application/json"
    status: int = 200
    tenant: TenantUse = TenantUse.KNOWN
    body: type[Any] | None = None
    query: type[Any] | None = None
    # Fields of a multipart form; the handler streams the body.
    form: type[Any] | None = None
    failed: ErrorCode = ErrorCode.INTERNAL_ERROR
    raises: tuple[ErrorCode, ...] = ()
    example: Any = None
    # False for a POST that changes nothing.
    stores: bool = True
    body_optional: bool = False
    # False for a JSON body of independent parts that the handler checks one by one.
    checks_whole_body: bool = True
    # Accepts an Idempotency-Key: the handler is `idempotent` or calls `ApiRequest.run_once`.
    creates: bool = False

    @property
    def is_write(self) -> bool:
        """Return whether the operation changes data; some reads are POST because they have a body."""
        scope = self.permission.scope or ""
        return self.creates or (
            self.stores and self.method != "GET" and scope != "search" and not scope.endswith(":read")
        )

    @property
    def structs(self) -> tuple[type[Any], ...]:
        """Return the structs that become components of the OpenAPI document."""
        return tuple(kind for kind in (self.answer, self.body, self.query, self.form) if kind is not None)


class ApiRequest(Request[Caller, None, State]):
    """Request with a body of limited size and duration."""

    __slots__ = ("_bytes", "_struct")

    @property
    def context(self) -> RequestContext:
        return request_context.get_context(self.scope)

    @property
    def operation(self) -> Operation:
        return cast("Operation", self.route_handler.opt["operation"])

    @property
    def services(self) -> Services:
        return cast("Services", self.app.state.services)

    @property
    def caller(self) -> Caller:
        return cast("Caller", self.context.caller)

    @property
    def tenant(self) -> str:
        """Tenant to act for; "" if absent."""
        return self.context.tenant

    @property
    def principal(self) -> str | None:
        """User of the request; None for the application itself."""
        return self.context.principal

    @property
    def bound_access(self) -> BoundAccess | None:
        """Access of a bound key in the operation; None for an organization-wide key."""
        return self.context.bound_access

    @property
    def path_params(self) -> dict[str, Any]:
        """Decoded path parameters, with NUL replaced."""
        # No id contains NUL, and PostgreSQL rejects it.
        parameters = request_context.read_path_parameters(self.scope)
        return {name: value.replace("\x00", "\ufffd") for name, value in parameters.items()}

    async def body(self) -> bytes:
        """Read a JSON body within the limits; raise 408, 413, 415 or the operation's error."""
        if not hasattr(self, "_bytes"):
            operation, is_bodyless = self.operation, _has_no_body(list(self.scope["headers"]))
            if operation.body_optional and is_bodyless:
                self._bytes = b"{}"
            else:
                self._bytes = await read_json(self, operation.invalid, operation)
        return self._bytes

    async def json(self) -> Any:
        """Decode the body strictly into the operation's struct."""
        if not hasattr(self, "_struct"):
            self._struct = self.route_handler.opt["read_body"](await self.body())
            self.context.namespace = getattr(self._struct, "namespace_id", None)
        return self._struct

    @asynccontextmanager
    async def watch_client(self) -> AsyncIterator[Callable[[], bool]]:
        """Yield a function that returns False after the client disconnected. The body must have been read."""
        disconnected = threading.Event()

        async def watch() -> None:
            while (await self.receive())["type"] != "http.disconnect":
                pass
            disconnected.set()

        watcher = asyncio.create_task(watch())
        try:
            yield lambda: not disconnected.is_set()
        finally:
            watcher.cancel()

    def scope_of(self, namespace_id: str) -> Scope:
        """Return the scope in a namespace; NAMESPACE_NOT_FOUND outside the key's bounds."""
        self.require_namespace(namespace_id)
        return Scope(self.caller.organization, namespace_id, self.tenant)

    def require_namespace(self, namespace_id: str) -> None:
        if not namespace_id or "\x00" in namespace_id or self.caller.namespace not in {None, namespace_id}:
            raise namespaces.not_found()

    async def find_viewer(self, scope: Scope) -> Viewer | None:
        """Return the viewer of the scope's documents; None for the application, which sees all."""
        if self.principal is None:
            return None
        return await memberships.find_viewer(self.services.db, scope, self.principal, self.context.groups)

    async def read_cursor(self, cursor: str | None, namespace_id: str = "", *, field: str = "cursor") -> str | None:
        """Decode a cursor into its position; raise the operation's error for other text."""
        if cursor is None:
            return None
        position = Cursors(await self.services.cursor_secret.load()).read(self._listing_key(namespace_id), cursor)
        if position is None:
            message = "The cursor has expired or belongs to another listing; start again without it."
            raise ServiceError(self.operation.invalid, message, field=field, reason="bad_cursor")
        return position

    async def write_cursor(self, position: str | None, namespace_id: str = "") -> str | None:
        """Encode a position as a cursor; None at the end."""
        if position is None:
            return None
        return Cursors(await self.services.cursor_secret.load()).write(self._listing_key(namespace_id), position)

    async def read_page(self, page: PageRequest | None, namespace_id: str = "") -> PageRequest | None:
        """Return the requested page with its cursor decoded; None without a page."""
        return page and replace(page, cursor=await self.read_cursor(page.cursor, namespace_id))

    async def save_tenant(self) -> None:
        """Register the tenant on its first ingestion if the organization accepts new tenants."""
        if self.tenant and not self.caller.tenant_known and self.caller.accepts_new_tenants:
            await tenants.register_tenant(self.services.db, self.caller.organization, self.tenant)

    async def read_idempotency(self, content: bytes) -> IdempotentRequest | None:
        """Return the request under the Idempotency-Key; None without the header."""
        # The owner separates the answers of tenants, keys and users.
        keys = [value for name, value in self.scope["headers"] if name == _IDEMPOTENCY_HEADER]
        if not keys:
            return None
        if len(keys) > 1 or not _IDEMPOTENCY_KEY.match(keys[0]):
            message = f"{IDEMPOTENCY_HEADER} must have 1 to 255 printable ASCII characters and be sent once."
            raise ServiceError(
                self.operation.invalid, message, field=IDEMPOTENCY_HEADER, reason="invalid_idempotency_key"
            )
        scope = self.scope
        parts = [scope["method"].encode(), scope["path"].encode(), scope["query_string"], content]
        plain = hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()
        keyed = hmac.digest(await self.services.cursor_secret.load(), plain, hashlib.sha256)
        owner = f"{self.caller.key_id}/{self.tenant}" + ("" if self.principal is None else f"/{self.principal}")
        return IdempotentRequest(owner, keys[0].decode("ascii"), keyed, plain)

    async def find_stored_answer(self, content: bytes) -> bytes | None:
        """Return the stored answer to this content and Idempotency-Key, if any."""
        idempotent, services = await self.read_idempotency(content), self.services
        return None if idempotent is None else await idempotency.find_answer(services.db, services.ring, idempotent)

    async def run_once(self, act: Callable[[], Awaitable[AnswerT]], content: bytes) -> AnswerT | bytes:
        """Run a write within the quotas, once for each Idempotency-Key."""
        run = partial(self._run_idempotent, act, await self.read_idempotency(content))
        return await (self._within_quotas(run) if self.caller.had_quota else run())

    async def _run_idempotent(
        self, act: Callable[[], Awaitable[AnswerT]], idempotent: IdempotentRequest | None
    ) -> AnswerT | bytes:
        if idempotent is None:
            return await act()

        async def encode_answer() -> bytes:
            answer = await act()
            if self.context.follow_up is not None:
                await self.context.follow_up(answer)
            return msgspec.json.encode(answer)

        return await idempotency.answer_once(self.services.db, self.services.ring, idempotent, encode_answer)

    async def _within_quotas(self, act: Callable[[], Awaitable[AnswerT | bytes]]) -> AnswerT | bytes:
        """Run the write; undo it with QUOTA_EXCEEDED above a quota."""
        # Writes of one organization run one at a time. A waiting write holds no connection, so a burst of one
        # organization does not block others.
        db, organization = self.services.db, self.caller.organization
        end = time.monotonic() + _WRITE_WAIT_SECONDS
        while True:
            async with db.async_together(), db.async_transaction() as connection:
                if await quotas.try_lock_organization(connection, organization):
                    usage_before = await quotas.async_read_usage(connection, organization, self.tenant)
                    answer = await act()
                    if quotas.has_limits(usage_before):
                        usage_after = await quotas.async_read_usage(connection, organization, self.tenant)
                        quotas.check_usage(usage_before, usage_after)
                    return answer
            if time.monotonic() > end:
                message = "Another write of this organization takes too long. Try again later."
                raise ServiceError(ErrorCode.SERVICE_UNAVAILABLE, message, reason="busy", headers={"Retry-After": "2"})
            await asyncio.sleep(random.uniform(0.01, 0.05))  # noqa: S311 - jitter, not a secret

    def _listing_key(self, namespace_id: str) -> tuple[str, ...]:
        viewer = "" if self.principal is None else f"u:{self.principal}"
        return self.caller.organization, namespace_id, self.tenant, self.scope["path"], viewer


async def read_json(request: ApiRequest, invalid: ErrorCode, operation: Operation | None = None) -> bytes:
    """Read a JSON body within the settings' limits; raise `invalid` for malformed JSON."""
    settings = request.services.settings
    return await request_limits.read_json(
        request.receive,
        list(request.scope["headers"]),
        cap=settings.max_body_bytes,
        seconds=settings.body_seconds,
        invalid=invalid,
        checks_whole_body=operation is None or operation.checks_whole_body,
    )


def _has_no_body(headers: list[tuple[bytes, bytes]]) -> bool:
    fields = dict(headers)
    return not fields.keys() & _BODY_HEADERS and fields.get(b"content-length", b"0") == b"0"
