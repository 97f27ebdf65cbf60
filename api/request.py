"""Litestar's request with the caller, tenant and user of this service, and with bodies that are read strictly."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import random
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any, Literal, TypeVar, cast

import msgspec
from litestar import Request
from litestar.datastructures import State

from api import request_context, request_limits
from api.auth import Caller
from api.permissions import Permission, Reach
from api.request_context import RequestContext
from api.services import Services
from retrieval.access.queries import memberships
from retrieval.accounts import idempotency, quotas
from retrieval.accounts.idempotency import HEADER, IdempotentRequest
from retrieval.accounts.queries import tenants
from retrieval.database.cursors import Cursors
from retrieval.database.pagination import PageRequest
from retrieval.errors import ErrorCode, ServiceError
from retrieval.namespaces import namespaces
from retrieval.ports import Scope
from retrieval.principals import Viewer

A = TypeVar("A", bound=msgspec.Struct | msgspec.Raw)
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
IDEMPOTENCY_KEY = "^[!-~]([ -~]{0,253}[!-~])?$"
_KEY = re.compile(IDEMPOTENCY_KEY.encode().replace(b"$", rb"\Z"))
_KEY_NAME = HEADER.lower().encode()
_OF_A_BODY = frozenset({b"content-type", b"transfer-encoding"})
_TURN_SECONDS = 10.0
"""How long a write waits for others of its organization."""


class TenantUse(StrEnum):
    """`IGNORED`: the header plays no part. `KNOWN`: it must name a known tenant. `MADE`: it may name a new one."""

    IGNORED = "ignored"
    KNOWN = "known"
    MADE = "made"


@dataclass(frozen=True, slots=True)
class Operation:
    """Properties of an operation that its checks and its documentation need."""

    method: Method
    path: str
    answer: type[msgspec.Struct] | None
    """None where the answer is no JSON but bytes of `media_type`."""
    invalid: ErrorCode
    permission: Permission
    media_type: str = "application/json"
    status: int = 200
    """HTTP status of a success."""
    tenant: TenantUse = TenantUse.KNOWN
    body: type[Any] | None = None
    query: type[Any] | None = None
    form: type[Any] | None = None
    """The fields of a multipart form; the handler reads the body itself, for it is streamed."""
    failed: ErrorCode = ErrorCode.INTERNAL_ERROR
    raises: tuple[ErrorCode, ...] = ()
    example: Any = None
    stores: bool = True
    """False for a POST that changes nothing, whatever its scope."""
    bare: bool = False
    """Nothing at all may be sent instead of a JSON body, which is one without fields."""
    whole: bool = True
    """False for a JSON body that is made of others, which the handler checks one by one."""
    creates: bool = False
    """It takes an Idempotency-Key: its handler is `idempotent`, or calls `ApiRequest.once`."""

    @property
    def writes(self) -> bool:
        """Tell whether the operation changes something. Some reads are POST because they have a body."""
        scope = self.permission.scope or ""
        return self.creates or (
            self.stores and self.method != "GET" and scope != "search" and not scope.endswith(":read")
        )

    @property
    def structs(self) -> tuple[type[Any], ...]:
        """Structs that the OpenAPI document describes as components: all that the operation takes and returns."""
        return tuple(kind for kind in (self.answer, self.body, self.query, self.form) if kind is not None)


class ApiRequest(Request[Caller, None, State]):
    """The request class of the application. Its body is limited in size and time, and decoded without conversions."""

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
        """The tenant to act for; "" without one."""
        return self.context.tenant

    @property
    def principal(self) -> str | None:
        """The user on whose behalf the request is made; None for the application itself."""
        return self.context.principal

    @property
    def reach(self) -> Reach | None:
        """What the key may see of the operation; None for an organization-wide key."""
        return self.context.reach

    @property
    def path_params(self) -> dict[str, Any]:
        """Path parameters, decoded. A NUL, which no id contains and the database refuses, is replaced."""
        parameters = request_context.read_path_parameters(self.scope)
        return {name: value.replace("\x00", "\ufffd") for name, value in parameters.items()}

    async def body(self) -> bytes:
        """Read a JSON body within its limits. Raises 408, 413, 415, or the operation's error for malformed text."""
        if not hasattr(self, "_bytes"):
            about, headers = self.operation, list(self.scope["headers"])
            self._bytes = b"{}" if about.bare and _is_empty(headers) else await read_json(self, about.invalid, about)
        return self._bytes

    async def json(self) -> Any:
        """Decode the body into the operation's struct. A string is never taken for a number."""
        if not hasattr(self, "_struct"):
            self._struct = self.route_handler.opt["read_body"](await self.body())
            self.context.namespace = getattr(self._struct, "namespace_id", None)
        return self._struct

    def scope_of(self, namespace_id: str) -> Scope:
        """Return the scope in a namespace. A namespace outside of the key's bounds looks as if it did not exist."""
        self.require_namespace(namespace_id)
        return Scope(self.caller.organization, namespace_id, self.tenant)

    def require_namespace(self, namespace_id: str) -> None:
        if not namespace_id or "\x00" in namespace_id or self.caller.namespace not in {None, namespace_id}:
            raise namespaces.not_found()

    async def find_viewer(self, scope: Scope) -> Viewer | None:
        """Return the viewer of this scope's documents, or None for the application itself, which sees them all."""
        if self.principal is None:
            return None
        return await memberships.find_viewer(self.services.db, scope, self.principal, self.context.groups)

    async def read_cursor(self, cursor: str | None, namespace_id: str = "", *, field: str = "cursor") -> str | None:
        """Return the position in the listing that a cursor encodes. Raises the operation's error for any other text."""
        if cursor is None:
            return None
        position = Cursors(await self.services.cursor_secret.read()).read(self._listing(namespace_id), cursor)
        if position is None:
            message = "The cursor has expired, or is not one that this listing gave; start again without it."
            raise ServiceError(self.operation.invalid, message, field=field, reason="bad_cursor")
        return position

    async def write_cursor(self, position: str | None, namespace_id: str = "") -> str | None:
        """Return the cursor for the client to continue from; None at the end."""
        if position is None:
            return None
        return Cursors(await self.services.cursor_secret.read()).write(self._listing(namespace_id), position)

    async def read_page(self, part: PageRequest | None, namespace_id: str = "") -> PageRequest | None:
        """Return the requested page of the listing with its decoded cursor; None if no page was requested."""
        return part and replace(part, cursor=await self.read_cursor(part.cursor, namespace_id))

    async def save_tenant(self) -> None:
        """Create the tenant on its first ingestion, where tenants are open."""
        if self.tenant and not self.caller.tenant_known and self.caller.tenants_open:
            await tenants.register_tenant(self.services.db, self.caller.organization, self.tenant)

    async def identify(self, content: bytes) -> IdempotentRequest | None:
        """Return the request as stored under its Idempotency-Key, or None without the header.

        Two tenants, two API keys and two users never see each other's answers.
        """
        keys = [value for name, value in self.scope["headers"] if name == _KEY_NAME]
        if not keys:
            return None
        if len(keys) > 1 or not _KEY.match(keys[0]):
            message = f"{HEADER} has 1 to 255 printable ASCII characters, and is sent once."
            raise ServiceError(self.operation.invalid, message, field=HEADER, reason="invalid_idempotency_key")
        scope = self.scope
        parts = [scope["method"].encode(), scope["path"].encode(), scope["query_string"], content]
        plain = hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()
        keyed = hmac.digest(await self.services.cursor_secret.read(), plain, hashlib.sha256)
        owner = f"{self.caller.key_id}/{self.tenant}" + ("" if self.principal is None else f"/{self.principal}")
        return IdempotentRequest(owner, keys[0].decode("ascii"), keyed, plain)

    async def recall(self, content: bytes) -> bytes | None:
        """Return the stored answer to a request with this content and Idempotency-Key, if there is one."""
        idempotent, services = await self.identify(content), self.services
        return None if idempotent is None else await idempotency.stored_answer(services.db, services.ring, idempotent)

    async def once(self, act: Callable[[], Awaitable[A]], content: bytes) -> A | bytes:
        """Run a write within the quotas, and only once for each Idempotency-Key."""
        run = partial(self._once, act, await self.identify(content))
        return await (self._within_quotas(run) if self.caller.counted else run())

    async def _once(self, act: Callable[[], Awaitable[A]], idempotent: IdempotentRequest | None) -> A | bytes:
        if idempotent is None:
            return await act()

        async def encode() -> bytes:
            answer = await act()
            if self.context.follow_up is not None:
                await self.context.follow_up(answer)
            return msgspec.json.encode(answer)

        return await idempotency.answer_once(self.services.db, self.services.ring, idempotent, encode)

    async def _within_quotas(self, act: Callable[[], Awaitable[A | bytes]]) -> A | bytes:
        """Run the write, and undo it with QUOTA_EXCEEDED if it exceeds a quota. Writes of one organization run one at a
        time.

        A waiting write holds no connection, so one organization's burst does not block the requests of others.
        """
        db, organization = self.services.db, self.caller.organization
        end = time.monotonic() + _TURN_SECONDS
        while True:
            async with db.async_together(), db.async_transaction() as connection:
                if await quotas.try_lock(connection, organization):
                    usage_before = await quotas.async_read_usage(connection, organization, self.tenant)
                    answer = await act()
                    if quotas.has_limits(usage_before):
                        usage_after = await quotas.async_read_usage(connection, organization, self.tenant)
                        quotas.check_uses(usage_before, usage_after)
                    return answer
            if time.monotonic() > end:
                message = "Other writes of this organization, whose quotas are counted, take too long. Try again later."
                raise ServiceError(ErrorCode.SERVICE_UNAVAILABLE, message, reason="busy", headers={"Retry-After": "2"})
            await asyncio.sleep(random.uniform(0.01, 0.05))  # noqa: S311 - spreads requests, hides nothing

    def _listing(self, namespace_id: str) -> tuple[str, ...]:
        viewer = "" if self.principal is None else f"u:{self.principal}"
        return self.caller.organization, namespace_id, self.tenant, self.scope["path"], viewer


async def read_json(request: ApiRequest, invalid: ErrorCode, about: Operation | None = None) -> bytes:
    """Read a JSON body within the limits of the settings. `invalid`: the code of the error for malformed JSON."""
    settings = request.services.settings
    return await request_limits.read_json(
        request.receive,
        list(request.scope["headers"]),
        cap=settings.max_body_bytes,
        seconds=settings.body_seconds,
        invalid=invalid,
        whole=about is None or about.whole,
    )


def _is_empty(headers: list[tuple[bytes, bytes]]) -> bool:
    fields = dict(headers)
    return not fields.keys() & _OF_A_BODY and fields.get(b"content-length", b"0") == b"0"
