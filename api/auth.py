"""Authentication of API keys and identity-provider tokens, with request counts."""
# One statement looks up key and tenant, and counts the request unless a number is reserved (`api/rates.py`).

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import Any, LiteralString

from api import rates
from api.errors import to_service_error
from api.oidc.roles import ADMIN, ROLE_SCOPES, VIEWER, RoleAssignment, Roles
from api.oidc.tokens import Person, TokenVerifier, is_token
from api.permissions import BoundAccess, Permission
from api.queries_callers import BY_KEY, BY_ORGANIZATION, CallerRow
from api.rates import ADDRESS_REQUESTS_PER_MINUTE, AddressCounts, RateNumbers
from retrieval.accounts.queries import tenants
from retrieval.database.database import UNAVAILABLE_ERRORS, Database
from retrieval.database.disk_full import WRITE_ERRORS
from retrieval.errors import ErrorCode, ServiceError
from retrieval.security import secrets
from retrieval.security.secrets import KeyRing, hash_api_key

_MAX_REMEMBERED_CALLERS = 4096


@dataclass(frozen=True, slots=True)
class RateStatus:
    """Values of the rate limit headers; `reset` in Unix seconds."""

    limit: int
    remaining: int
    reset: int

    def to_headers(self) -> dict[str, str]:
        return {
            "X-RateLimit-Limit": str(self.limit),
            "X-RateLimit-Remaining": str(self.remaining),
            "X-RateLimit-Reset": str(self.reset),
        }


@dataclass(frozen=True, slots=True)
class SignedIn:
    """Person of a token and their role."""

    person: Person
    role: str


@dataclass(frozen=True, slots=True)
class Caller:
    """Authenticated API key, or a person with a token."""

    key_id: str  # for a person: their id and name
    key_name: str
    organization: str
    scopes: frozenset[str]
    namespace: str | None
    bound_tenant: str | None
    principal: str | None  # user that the key acts as
    principal_required: bool
    tenant_header: str | None  # "" is malformed, None is absent
    tenant_known: bool
    accepts_new_tenants: bool
    tenant_required: bool
    # The organization or one of its tenants has, or had, a quota.
    had_quota: bool
    signed_in: SignedIn | None = None

    @property
    def is_admin(self) -> bool:
        """Return whether the caller is a person with the role `admin`."""
        return self.signed_in is not None and self.signed_in.role == ADMIN


@dataclass(slots=True)
class Credentials:
    """Bearer key or token, X-Tenant-ID and client address of a request."""

    bearer: str | None = field(repr=False)
    # "" is a malformed or repeated header, None an absent one.
    tenant_header: str | None
    address: str
    resource: str | None = None  # additional audience of tokens on this path


class Authenticator:
    """Authentication of requests, with the last known rates for answers during a database outage."""

    def __init__(
        self, db: Database, ring: KeyRing, tokens: TokenVerifier | None = None, roles: Roles | None = None
    ) -> None:
        self._db = db
        self._tokens = tokens
        self._roles = roles or Roles(())
        self._ring = ring
        self._pepper: bytes | None = None
        self._opening = asyncio.Lock()
        # Organization and rate by key hash or `organization:…`.
        self._last_rates: OrderedDict[bytes, tuple[str, RateStatus]] = OrderedDict()
        self._numbers = RateNumbers(db)
        self._addresses = AddressCounts(db)

    async def authenticate(self, credentials: Credentials) -> tuple[RateStatus, Caller | ServiceError]:
        """Return the rate to report, and the caller or an error: 401 or, above a limit, 429."""
        if credentials.bearer is None:
            return await self._refuse_address(credentials.address)
        if self._tokens is not None and is_token(credentials.bearer):
            return await self._authenticate_token(self._tokens, credentials)
        key_hash = b""
        try:
            key_hash = hash_api_key(credentials.bearer, pepper=await self._load_pepper())
            parameters = {"hash": key_hash, "tenant": credentials.tenant_header}
            row, minute, request_number = await self._find_caller(BY_KEY, key_hash, parameters)
        except UNAVAILABLE_ERRORS as error:
            return self._last_rate(key_hash), to_service_error(error)
        if row is None:
            return await self._refuse_address(credentials.address)
        rate = _rate_status(minute, request_number, row.requests_per_minute)
        self._remember_rate(key_hash, row.organization_id, rate)
        if request_number > rate.limit:
            return rate, _rate_limit_error(rate)
        return rate, _key_caller(row, credentials.tenant_header)

    async def _authenticate_token(
        self, tokens: TokenVerifier, credentials: Credentials
    ) -> tuple[RateStatus, Caller | ServiceError]:
        try:
            person = await tokens.verify_token(credentials.bearer or "", credentials.resource)
            assignment = self._roles.find_assignment(person.groups)
        except ServiceError as refusal:
            return await self._refuse_address(credentials.address, refusal)
        cache_key = f"organization:{assignment.organization or ''}".encode()
        try:
            await self._load_pepper()
            parameters = {"organization": assignment.organization, "tenant": credentials.tenant_header}
            row, minute, request_number = await self._find_caller(BY_ORGANIZATION, cache_key, parameters)
        except UNAVAILABLE_ERRORS as error:
            return self._last_rate(cache_key), to_service_error(error)
        if row is None:
            message = "The organization that this installation gives your groups a role in is not there."
            missing = ServiceError(ErrorCode.FORBIDDEN, message, reason="no_organization")
            return await self._refuse_address(credentials.address, missing)
        rate = _rate_status(minute, request_number, row.requests_per_minute)
        self._remember_rate(cache_key, row.organization_id, rate)
        if request_number > rate.limit:
            return rate, _rate_limit_error(rate)
        return rate, _person_caller(row, credentials.tenant_header, person, assignment)

    async def close(self) -> None:
        """Return unused request numbers."""
        if self._tokens is not None:
            await self._tokens.close()
        await self._numbers.close()

    async def _find_caller(
        self, statements: tuple[LiteralString, LiteralString], cache_key: bytes, parameters: dict[str, Any]
    ) -> tuple[CallerRow | None, int, int]:
        """Return the row of a valid caller, the minute and the request's number in it."""
        # `statements`: look-up without and with counting. `cache_key` finds the organization whose reserved numbers may
        # be used.
        look_up, look_up_and_count = statements
        organization = self._last_rates[cache_key][0] if cache_key in self._last_rates else None
        if organization is not None and (reserved := self._numbers.use_reserved(organization)) is not None:
            minute, request_number = reserved
            used = False
            try:
                row = await self._db.async_fetch_one(CallerRow, look_up, parameters, plan_once=True)
                used = row is not None
            finally:
                if not used:
                    self._numbers.return_reserved(organization, minute, request_number)
            if row is None or row.minute == minute:
                return row, minute, request_number
        count = self._numbers.begin_reserving(organization) if self._numbers.is_writable else 0
        try:
            if not count:
                return await self._find_uncounted(look_up, parameters)
            values = {**parameters, "count": count}
            row = await self._db.async_fetch_one(CallerRow, look_up_and_count, values, plan_once=True)
        except WRITE_ERRORS as error:
            self._numbers.note_unwritable(error)
            return await self._find_uncounted(look_up, parameters)
        finally:
            self._numbers.end_reserving(organization, count)
        if row is None:
            return None, 0, 0
        minute, limit = row.counted_minute, row.requests_per_minute
        return row, minute, self._numbers.add_reserved(row.organization_id, minute, row.requests, count, limit)

    async def _find_uncounted(
        self, look_up: LiteralString, parameters: dict[str, Any]
    ) -> tuple[CallerRow | None, int, int]:
        """Look up the caller and count in this process, so reads work while the database is read-only."""
        row = await self._db.async_fetch_one(CallerRow, look_up, parameters, plan_once=True)
        if row is None:
            return None, 0, 0
        return row, row.minute, self._numbers.count_locally(row.organization_id, row.minute)

    async def _refuse_address(
        self, address: str, refusal: ServiceError | None = None
    ) -> tuple[RateStatus, ServiceError]:
        """Count a request without a valid key by the address; return the refusal."""
        minute, requests = await self._addresses.count_request(address)
        rate = _rate_status(minute, requests, ADDRESS_REQUESTS_PER_MINUTE)
        if requests > ADDRESS_REQUESTS_PER_MINUTE:
            return rate, _rate_limit_error(rate)
        return rate, refusal or unauthorized_error()

    async def _load_pepper(self) -> bytes:
        """Load the pepper on the first request."""
        # Concurrent first requests wait, so both pools are opened once.
        if (pepper := self._pepper) is not None:
            return pepper
        async with self._opening:
            if (pepper := self._pepper) is None:
                await self._db.async_execute("select 1")
                pepper = await asyncio.to_thread(secrets.server_secret, self._db, self._ring, secrets.PEPPER_NAME)
                self._pepper = pepper
        return pepper

    def _last_rate(self, cache_key: bytes) -> RateStatus:
        if cache_key in self._last_rates:
            return self._last_rates[cache_key][1]
        return unknown_rate()

    def _remember_rate(self, cache_key: bytes, organization: str, rate: RateStatus) -> None:
        self._last_rates[cache_key] = organization, rate
        self._last_rates.move_to_end(cache_key)
        if len(self._last_rates) > _MAX_REMEMBERED_CALLERS:
            self._last_rates.popitem(last=False)


async def count_more(db: Database, caller: Caller, count: int) -> RateStatus:
    """Count further requests for a call; raise RATE_LIMIT_EXCEEDED and count none above the limit."""
    try:
        limit, minute, requests = await rates.count_more(db, caller.organization, count)
    except WRITE_ERRORS:
        return unknown_rate()  # the request itself was counted in this process
    if minute is None or requests is None:
        raise _rate_limit_error(_rate_status(int(time.time()) // 60, limit, limit))
    return _rate_status(minute, requests, limit)


def read_credentials(headers: list[tuple[bytes, bytes]], address: str) -> Credentials:
    """Read Authorization and X-Tenant-ID; a repeated key counts as none, a malformed or repeated tenant as ""."""
    values: dict[bytes, list[bytes]] = {b"authorization": [], b"x-tenant-id": []}
    for name, value in headers:
        if name in values:
            values[name].append(value)
    authorization = values[b"authorization"]
    scheme, _, bearer = (authorization[0] if len(authorization) == 1 else b"").strip().partition(b" ")
    tenant_values = values[b"x-tenant-id"]
    tenant = tenant_values[0].decode("latin-1") if len(tenant_values) == 1 else ""
    return Credentials(
        bearer=bearer.strip().decode("latin-1") if scheme.lower() == b"bearer" else None,
        tenant_header=(tenant if tenants.is_tenant_id(tenant) else "") if tenant_values else None,
        address=address,
    )


def choose_tenant(caller: Caller, *, may_be_new: bool) -> str:
    """Return the tenant to act for, "" if absent; raise for a malformed, unknown or missing tenant."""
    tenant = caller.tenant_header
    if tenant is not None and not tenant:
        raise ServiceError(
            ErrorCode.INVALID_TENANT_ID,
            "X-Tenant-ID has up to 64 letters, digits, hyphens and underscores, and is sent once.",
        )
    if caller.bound_tenant is not None:
        if tenant not in {None, caller.bound_tenant}:
            raise ServiceError(ErrorCode.FORBIDDEN, "This API key is bound to another tenant.", reason="other_tenant")
        return caller.bound_tenant
    if tenant is None:
        if caller.tenant_required:
            raise ServiceError(ErrorCode.MISSING_TENANT_ID, "The X-Tenant-ID header is required.")
        return ""
    if not caller.tenant_known and not (may_be_new and caller.accepts_new_tenants):
        raise ServiceError(ErrorCode.INVALID_TENANT_ID, "The tenant in X-Tenant-ID is not known.")
    return tenant


def require_permission(caller: Caller, permission: Permission) -> BoundAccess | None:
    """Return the access of a bound key, None for other keys; raise FORBIDDEN without the scope or the access."""
    scope = permission.scope
    if scope is not None and scope not in caller.scopes:
        raise ServiceError(
            ErrorCode.FORBIDDEN, f"This API key may not do this: it lacks the scope {scope}.", reason="missing_scope"
        )
    if permission.needs_admin_role and caller.signed_in is not None and not caller.is_admin:
        raise ServiceError(ErrorCode.FORBIDDEN, "This needs the role admin.", reason="admins_only")
    access = permission.find_access(
        namespace_bound=caller.namespace is not None, tenant_bound=caller.bound_tenant is not None
    )
    if access is BoundAccess.REFUSED:
        raise bound_key_error()
    return access


def bound_key_error() -> ServiceError:
    return ServiceError(
        ErrorCode.FORBIDDEN,
        "This API key is bound to a namespace or a tenant: only a key for the whole organization may do this.",
        reason="bound_key",
    )


def unauthorized_error() -> ServiceError:
    return ServiceError(
        ErrorCode.UNAUTHORIZED, "The API key is missing, wrong or revoked. Send `Authorization: Bearer <API_KEY>` once."
    )


def _rate_limit_error(rate: RateStatus) -> ServiceError:
    return ServiceError(
        ErrorCode.RATE_LIMIT_EXCEEDED,
        f"The limit of {rate.limit} requests a minute is reached. Try again when the next minute begins.",
        # The window follows the database's clock; a differing local clock must not ask for more than a minute.
        headers={"Retry-After": str(min(60, max(1, rate.reset - int(time.time()))))},
    )


def _key_caller(row: CallerRow, tenant_header: str | None) -> Caller:
    return Caller(
        key_id=row.id,
        key_name=row.name,
        organization=row.organization_id,
        scopes=frozenset(row.scopes),
        namespace=row.namespace_id,
        bound_tenant=row.tenant,
        principal=row.principal,
        principal_required=row.principal_required,
        tenant_header=tenant_header,
        tenant_known=row.tenant_known,
        accepts_new_tenants=row.tenants == "open",
        tenant_required=row.tenant_required,
        had_quota=row.counted,
    )


async def find_service_caller(db: Database, name: str, organization: str, tenant: str | None) -> Caller | None:
    """Return the caller for ingestion by this service itself; None without the organization."""
    parameters = {"organization": organization, "tenant": tenant}
    row = await db.async_fetch_one(CallerRow, BY_ORGANIZATION[0], parameters)
    if row is None:
        return None
    scopes = frozenset({"ingest:write"})
    return replace(_key_caller(row, tenant), key_id=name.lower(), key_name=name, scopes=scopes)


def _person_caller(row: CallerRow, tenant_header: str | None, person: Person, assignment: RoleAssignment) -> Caller:
    return Caller(
        key_id=person.id,
        key_name=person.name,
        organization=row.organization_id,
        scopes=ROLE_SCOPES[assignment.role],
        namespace=assignment.namespace,
        bound_tenant=assignment.tenant,
        principal=person.principal if assignment.role == VIEWER else None,
        principal_required=False,
        tenant_header=tenant_header,
        tenant_known=row.tenant_known,
        accepts_new_tenants=row.tenants == "open",
        tenant_required=row.tenant_required,
        had_quota=row.counted,
        signed_in=SignedIn(person, assignment.role),
    )


def _rate_status(minute: int, requests: int, limit: int) -> RateStatus:
    return RateStatus(limit, max(0, limit - requests), (minute + 1) * 60)


def unknown_rate() -> RateStatus:
    """Return the rate to report without a count."""
    # The organization's limit is unknown too: the limit of requests without a valid key stands in for it.
    return RateStatus(ADDRESS_REQUESTS_PER_MINUTE, ADDRESS_REQUESTS_PER_MINUTE, (int(time.time()) // 60 + 1) * 60)
