"""Administration by organization-wide keys with the scope `admin`: keys, tenants, usage, quotas, audit log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial

from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from msgspec import UNSET

from api import permissions
from api.auth import Caller, SignedIn
from api.operation import idempotent, operation
from api.request import ApiRequest, TenantUse
from api.wire import admin
from api.wire import admin as wire
from api.wire.admin import (
    OrganizationAnswer,
    OrganizationData,
    OrganizationDetails,
    Quotas,
    UsageQuery,
    build_daily_usage,
    build_usage_group,
)
from api.wire.audit import AuditAnswer, AuditData, AuditEntry, AuditQuery
from api.wire.common import PaginationQuery, Timestamp
from retrieval import principals
from retrieval.accounts import api_keys, audit, quotas
from retrieval.accounts import quotas as limits
from retrieval.accounts.queries import organizations, tenants, usage
from retrieval.database.pagination import PAGE_SIZE, PageRequest
from retrieval.errors import ErrorCode, ServiceError
from retrieval.namespaces import namespaces
from retrieval.security import secrets

MAX_USAGE_PERIOD = timedelta(days=400)
_INVALID_REQUEST = ErrorCode.INVALID_REQUEST
_operation = partial(operation, tag="Administration", tenant=TenantUse.IGNORED, invalid=_INVALID_REQUEST)


@_operation("GET", "/v1/keys")
async def list_keys(request: ApiRequest, params: NamedDependency[PaginationQuery]) -> wire.KeysAnswer:
    """List API keys. Newest first, revoked keys included. The keys themselves are not stored."""
    page_request = await request.read_page(params.to_page())
    page = await api_keys.list_key_page(request.services.db, request.caller.organization, page_request)
    data = wire.KeysData(keys=[wire.Key.from_key(key) for key in page.items]).set_page(
        page_request, await request.write_cursor(page.cursor)
    )
    return wire.KeysAnswer(message="API keys fetched successfully", data=data)


@_operation("GET", "/v1/keys/current")
async def current_key(request: ApiRequest) -> wire.KeyAnswer:
    """Get the current API key.

    The scopes of the key, with its namespace, tenant and user if it is bound. Any valid key may call this. A person
    with a token of the identity provider gets their own scopes, with `role` and `expiresAt`.
    """
    if request.caller.signed_in is not None:
        person = wire.KeyData(_describe_person(request.caller, request.caller.signed_in))
        return wire.KeyAnswer(message="API key fetched successfully", data=person)
    key = await api_keys.find_key(request.services.db, request.caller.organization, request.caller.key_id)
    if key is None:
        raise RuntimeError("the key that was let in is gone")
    return wire.KeyAnswer(message="API key fetched successfully", data=wire.KeyData(wire.Key.from_key(key)))


@_operation(
    "POST",
    "/v1/keys",
    raises=(ErrorCode.NAMESPACE_NOT_FOUND,),
    example={"name": "Website", "scopes": ["search"]},
)
@idempotent
async def create_key(request: ApiRequest, data: JSONBody[wire.CreateKey]) -> wire.KeyMadeAnswer:
    """Create an API key. The key is shown only in this response."""
    services, organization = request.services, request.caller.organization
    usual = permissions.default_scopes(
        namespace_bound=data.namespace_id is not None, tenant_bound=data.tenant_id is not None
    )
    chosen = usual if data.scopes is None else data.scopes
    if set(chosen) - set(api_keys.KEY_SCOPES):
        message = f"Each entry of scopes must be one of {', '.join(api_keys.KEY_SCOPES)}."
        raise ServiceError(_INVALID_REQUEST, message, field="scopes", reason="not_allowed")
    _require_name(data.tenant_id, "tenantId")
    if data.namespace_id is not None:
        request.require_namespace(data.namespace_id)
        await namespaces.require_namespace(services.db, organization, data.namespace_id)
    principal = data.principal
    if principal is not None:
        principal = principals.normalize_user_name(principal, _INVALID_REQUEST, "principal")
    pepper = await services.run_in_thread(secrets.server_secret, services.db, services.ring, secrets.PEPPER_NAME)
    created, key = await api_keys.async_create_key(
        services.db,
        pepper,
        organization,
        data.name,
        scopes=list(dict.fromkeys(chosen)),
        namespace=data.namespace_id,
        tenant=data.tenant_id,
        principal=principal,
        principal_required=bool(data.principal_required),
    )
    return wire.KeyMadeAnswer(
        message="API key created successfully", data=wire.MadeKeyData(wire.Key.from_key(key), created.api_key)
    )


@_operation("DELETE", "/v1/keys/{key_id:str}", raises=(ErrorCode.NOT_FOUND,))
async def revoke_key(request: ApiRequest, key_id: FromPath[str]) -> wire.KeyAnswer:
    """Revoke an API key. It is refused at once and for good. Revoking it again has no effect."""
    key = await api_keys.async_revoke_key(request.services.db, request.caller.organization, key_id)
    if key is None:
        raise ServiceError(ErrorCode.NOT_FOUND, "There is no such API key.")
    return wire.KeyAnswer(message="API key revoked successfully", data=wire.KeyData(wire.Key.from_key(key)))


@_operation("GET", "/v1/tenants")
async def list_tenants(request: ApiRequest, params: NamedDependency[PaginationQuery]) -> wire.TenantsAnswer:
    """List tenants. Oldest first."""
    page_request = await request.read_page(params.to_page())
    page = await tenants.list_tenant_page(request.services.db, request.caller.organization, page_request)
    data = wire.TenantsData(tenants=[wire.Tenant.from_tenant(tenant) for tenant in page.items]).set_page(
        page_request, await request.write_cursor(page.cursor)
    )
    return wire.TenantsAnswer(message="Tenants fetched successfully", data=data)


@_operation("POST", "/v1/tenants", example={"id": "alice"})
@idempotent
async def create_tenant(request: ApiRequest, data: JSONBody[wire.CreateTenant]) -> wire.TenantAnswer:
    """Create a tenant. Creating an existing tenant has no effect."""
    db, organization, name = request.services.db, request.caller.organization, data.id
    _require_name(name, "id")
    tenant = await tenants.add_tenant(db, organization, name)
    return wire.TenantAnswer(
        message="Tenant created successfully", data=wire.TenantData(wire.Tenant.from_tenant(tenant))
    )


@_operation("DELETE", "/v1/tenants/{tenant_id:str}", raises=(ErrorCode.NOT_FOUND,))
async def delete_tenant(request: ApiRequest, tenant_id: FromPath[str]) -> wire.TenantDeletedAnswer:
    """Delete a tenant. Its data is kept; requests with it are refused until it is created again."""
    name = tenant_id
    if not await tenants.async_delete_tenant(request.services.db, request.caller.organization, name):
        raise ServiceError(ErrorCode.NOT_FOUND, "There is no such tenant.")
    return wire.TenantDeletedAnswer(message="Tenant deleted successfully", data=wire.ForgottenTenant(name))


@_operation("GET", "/v1/usage")
async def read_usage(request: ApiRequest, params: NamedDependency[UsageQuery]) -> wire.UsageAnswer:
    """Get the usage.

    Usage of the organization over all tenants; requests are those of this calendar minute. With `from`,
    `to` or `by` also by day, namespace or tenant, with tokens, their cost, and quotas.
    """
    services = request.services
    totals = await usage.count_usage(services.db, request.caller.organization)
    rate = request.context.rate
    limit, remaining = (rate.limit, rate.remaining) if rate else (0, 0)
    allowed = services.settings.namespace_limit if totals.namespace_limit is None else totals.namespace_limit
    data = wire.UsageData(
        documents=totals.documents,
        chunks=totals.chunks,
        storage_bytes=totals.storage_bytes,
        requests=wire.Allowance(limit - remaining, limit),
        namespaces=wire.Allowance(totals.namespaces, allowed),
    )
    await _add_usage_groups(request, params, data)
    return wire.UsageAnswer(message="Usage fetched successfully", data=data)


async def _add_usage_groups(request: ApiRequest, params: UsageQuery, data: wire.UsageData) -> None:
    """Add the usage by day, namespace or tenant, if requested."""
    services, organization = request.services, request.caller.organization
    if params.start is None and params.end is None and params.by is None and not params.daily:
        return
    today = datetime.now(UTC).date()
    end = params.end or max(today, params.start or today)
    start = params.start or end.replace(day=1)
    if not timedelta(0) <= end - start <= MAX_USAGE_PERIOD:
        message = f"from must not be after to, nor more than {MAX_USAGE_PERIOD.days} days before it."
        raise ServiceError(_INVALID_REQUEST, message, field="from", reason="out_of_bounds")
    by = usage.UsageDimension(params.by or "day")
    groups = await usage.report_usage(services.db, organization, by, start, end)
    uses = await quotas.list_usage_by_tenant(
        services.db, organization, [entry.key for entry in groups] if by is usage.UsageDimension.TENANT else []
    )
    data.start, data.end, data.by, data.currency = str(start), str(end), str(by), services.settings.price_currency
    data.used, data.limit = Quotas.from_numbers(uses[None].used), Quotas.from_numbers(uses[None].limits)
    usage_groups = [build_usage_group(entry, by, services.settings.prices, uses.get(entry.key)) for entry in groups]
    data.usage = usage_groups
    if params.daily:
        daily_tokens = await usage.list_daily_tokens(services.db, organization, start, end)
        data.daily = [build_daily_usage(entry, services.settings.prices) for entry in daily_tokens]


def _require_name(tenant: str | None, field: str) -> None:
    if tenant is not None and not tenants.is_tenant_id(tenant):
        message = f"{field} has up to 64 letters, digits, hyphens and underscores."
        raise ServiceError(_INVALID_REQUEST, message, field=field, reason="not_allowed")


def _describe_person(caller: Caller, signed_in: SignedIn) -> wire.Key:
    """Return a person's scopes and bounds in the form of a key."""
    issued, expires = (datetime.fromtimestamp(at, UTC) for at in (signed_in.person.issued, signed_in.person.expires))
    return wire.Key(
        id=caller.key_id,
        name=caller.key_name,
        hint="",
        scopes=[scope for scope in api_keys.KEY_SCOPES if scope in caller.scopes],
        namespace_id=caller.namespace,
        tenant_id=caller.bound_tenant,
        created_at=Timestamp.from_datetime(issued),
        revoked_at=None,
        principal=signed_in.person.principal,
        role=signed_in.role,
        expires_at=Timestamp.from_datetime(expires),
    )


_quota_operation = partial(operation, tag="Administration", tenant=TenantUse.IGNORED, invalid=ErrorCode.INVALID_REQUEST)


@_quota_operation("GET", "/v1/organization")
async def get_organization(request: ApiRequest) -> OrganizationAnswer:
    """Get the organization. The key's organization with quotas; null means no limit."""
    return await _answer_organization(request, "Organization fetched successfully")


@_quota_operation("PATCH", "/v1/organization", example={"quotas": {"documents": 100000, "tokensPerMonth": None}})
async def update_organization(request: ApiRequest, data: JSONBody[admin.UpdateOrganization]) -> OrganizationAnswer:
    """Set the organization's quotas.

    Absent quotas stay, null removes a limit. Existing data is kept, however low the limit.
    """
    changes = data.quotas
    if changes is not UNSET:
        await request.services.run_in_thread(
            limits.set_organization_quotas, request.services.db, request.caller.organization, changes.to_values()
        )
    return await _answer_organization(request, "Organization updated successfully")


@_quota_operation(
    "PATCH", "/v1/tenants/{tenant_id:str}", raises=(ErrorCode.NOT_FOUND,), example={"quotas": {"documents": 1000}}
)
async def update_tenant(
    request: ApiRequest, tenant_id: FromPath[str], data: JSONBody[admin.UpdateTenant]
) -> admin.TenantAnswer:
    """Set a tenant's quotas. They apply besides the organization's. Absent quotas stay, null removes a limit."""
    db, organization, tenant = request.services.db, request.caller.organization, tenant_id
    changes = data.quotas
    if changes is not UNSET:
        await request.services.run_in_thread(limits.set_tenant_quotas, db, organization, tenant, changes.to_values())
    updated = await tenants.find_tenant(db, organization, tenant)
    if updated is None:
        raise ServiceError(ErrorCode.NOT_FOUND, "There is no such tenant.")
    return admin.TenantAnswer(
        message="Tenant updated successfully", data=admin.TenantData(admin.Tenant.from_tenant(updated))
    )


async def _answer_organization(request: ApiRequest, message: str) -> OrganizationAnswer:
    organization = await request.services.run_in_thread(
        organizations.get_organization, request.services.db, request.caller.organization
    )
    if organization is None:
        raise RuntimeError("the organization of a key is gone")
    return OrganizationAnswer(
        message=message, data=OrganizationData(OrganizationDetails.from_organization(organization))
    )


@operation("GET", "/v1/audit", tag="Administration", tenant=TenantUse.IGNORED, invalid=ErrorCode.INVALID_REQUEST)
async def list_audit_entries(request: ApiRequest, params: NamedDependency[AuditQuery]) -> AuditAnswer:
    """List audit entries.

    One entry for each write, refused writes included. In the order of `sort`, newest first by default;
    50 per page. An entry must match all filters.
    """
    db, organization, audit_filter = request.services.db, request.caller.organization, params.to_filter()
    page_request = PageRequest(params.page_size or PAGE_SIZE, await request.read_cursor(params.cursor))
    page = await audit.list_entries(db, organization, page_request, audit_filter, oldest_first=params.sort == "oldest")
    total = await audit.count_entries(db, organization, audit_filter)
    entries = [AuditEntry.from_entry(entry) for entry in page.items]
    cursor = await request.write_cursor(page.cursor)
    data = AuditData(entries, len(entries), page.cursor is not None, cursor, UNSET if total is None else total)
    return AuditAnswer(message="Audit entries fetched successfully", data=data)


ROUTE_HANDLERS = (
    list_keys,
    current_key,
    create_key,
    revoke_key,
    list_tenants,
    create_tenant,
    delete_tenant,
    read_usage,
    get_organization,
    update_organization,
    update_tenant,
    list_audit_entries,
)
