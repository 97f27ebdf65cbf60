"""Administration of an organization: keys, tenants, usage. For organization-wide keys of the scope `admin`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial

from msgspec import UNSET

from api import permissions, request_context
from api.auth import Caller, SignedIn
from api.openapi import TenantUse
from api.operation import Call, operation
from api.wire import admin
from api.wire import admin as wire
from api.wire.admin import OrganizationAnswer, OrganizationData, OrganizationDetails, Quotas, UsageQuery, group
from api.wire.audit import AuditAnswer, AuditData, AuditEntry, AuditQuery
from api.wire.common import PartQuery, Timestamp
from retrieval import principals
from retrieval.accounts import api_keys, audit, organizations, quotas, tenants, usage
from retrieval.accounts import quotas as limits
from retrieval.database.pages import PAGE, Part
from retrieval.errors import ErrorCode, ServiceError
from retrieval.namespaces import namespaces
from retrieval.security import secrets

LONGEST = timedelta(days=400)
"""The longest time that usage is answered for."""

_INVALID = ErrorCode.INVALID_REQUEST
_operation = partial(operation, tag="Administration", tenant=TenantUse.IGNORED, invalid=_INVALID)


@_operation("GET", "/v1/keys")
async def list_keys(call: Call[None, PartQuery]) -> wire.KeysAnswer:
    """List API keys. Newest first, revoked ones too. The keys themselves are not kept."""
    part = await call.part(call.query.part())
    page = await api_keys.list_part(call.services.db, call.caller.organization, part)
    data = wire.KeysData(keys=[wire.Key.of(key) for key in page.items]).lead_on(part, await call.cursor(page.cursor))
    return wire.KeysAnswer(message="API keys fetched successfully", data=data)


@_operation("GET", "/v1/keys/current")
async def current_key(call: Call[None, None]) -> wire.KeyAnswer:
    """Get the key of this request.

    The scopes of the key and its namespace, tenant and user, if it is bound. Any valid key may call this. A person with
    a token of the identity provider gets their own scopes, with `role` and `expiresAt`.
    """
    if call.caller.signed_in is not None:
        person = wire.KeyData(_of_person(call.caller, call.caller.signed_in))
        return wire.KeyAnswer(message="API key fetched successfully", data=person)
    key = await api_keys.one(call.services.db, call.caller.organization, call.caller.key_id)
    if key is None:
        raise RuntimeError("the key that was let in is gone")
    return wire.KeyAnswer(message="API key fetched successfully", data=wire.KeyData(wire.Key.of(key)))


@_operation(
    "POST",
    "/v1/keys",
    raises=(ErrorCode.NAMESPACE_NOT_FOUND,),
    example={"name": "Website", "scopes": ["search"]},
    creates=True,
)
async def create_key(call: Call[wire.CreateKey, None]) -> wire.KeyMadeAnswer | bytes:
    """Create an API key. The answer is the only place that shows the key."""
    services, body, organization = call.services, call.body, call.caller.organization
    usual = permissions.default_scopes(namespace=body.namespace_id is not None, tenant=body.tenant_id is not None)
    chosen = usual if body.scopes is None else body.scopes
    if set(chosen) - set(api_keys.SCOPES):
        message = f"Each entry of scopes must be one of {', '.join(api_keys.SCOPES)}."
        raise ServiceError(_INVALID, message, field="scopes", reason="not_allowed")
    _require_name(body.tenant_id, "tenantId")
    if body.namespace_id is not None:
        call.require_namespace(body.namespace_id)
        await namespaces.require(services.db, organization, body.namespace_id)
    principal = None if body.principal is None else principals.user_name(body.principal, _INVALID, "principal")
    pepper = await services.in_thread(secrets.server_secret, services.db, services.ring, secrets.PEPPER)

    async def create() -> wire.KeyMadeAnswer:
        created, key = await api_keys.add(
            services.db,
            pepper,
            organization,
            body.name,
            scopes=list(dict.fromkeys(chosen)),
            namespace=body.namespace_id,
            tenant=body.tenant_id,
            principal=principal,
            principal_required=bool(body.principal_required),
        )
        return wire.KeyMadeAnswer(
            message="API key created successfully", data=wire.MadeKeyData(wire.Key.of(key), created.api_key)
        )

    return await call.once(create)


@_operation("DELETE", "/v1/keys/{key_id:str}", raises=(ErrorCode.NOT_FOUND,))
async def revoke_key(call: Call[None, None]) -> wire.KeyAnswer:
    """Revoke an API key. It is refused from now on, for good. Revoking it again changes nothing."""
    key = await api_keys.end(call.services.db, call.caller.organization, call.path["key_id"])
    if key is None:
        raise ServiceError(ErrorCode.NOT_FOUND, "There is no such API key.")
    return wire.KeyAnswer(message="API key revoked successfully", data=wire.KeyData(wire.Key.of(key)))


@_operation("GET", "/v1/tenants")
async def list_tenants(call: Call[None, PartQuery]) -> wire.TenantsAnswer:
    """List tenants. Oldest first: those that may be sent in X-Tenant-ID."""
    part = await call.part(call.query.part())
    page = await tenants.list_part(call.services.db, call.caller.organization, part)
    data = wire.TenantsData(tenants=[wire.Tenant.of(tenant) for tenant in page.items]).lead_on(
        part, await call.cursor(page.cursor)
    )
    return wire.TenantsAnswer(message="Tenants fetched successfully", data=data)


@_operation("POST", "/v1/tenants", example={"id": "alice"}, creates=True)
async def create_tenant(call: Call[wire.CreateTenant, None]) -> wire.TenantAnswer | bytes:
    """Make a tenant known. Nothing changes if it is known already."""
    db, organization, name = call.services.db, call.caller.organization, call.body.id
    _require_name(name, "id")

    async def create() -> wire.TenantAnswer:
        tenant = await tenants.add(db, organization, name)
        return wire.TenantAnswer(message="Tenant created successfully", data=wire.TenantData(wire.Tenant.of(tenant)))

    return await call.once(create)


@_operation("DELETE", "/v1/tenants/{tenant_id:str}", raises=(ErrorCode.NOT_FOUND,))
async def delete_tenant(call: Call[None, None]) -> wire.TenantDeletedAnswer:
    """Forget a tenant. Requests with it are refused until it is known again; its data stays."""
    name = call.path["tenant_id"]
    if not await tenants.forget(call.services.db, call.caller.organization, name):
        raise ServiceError(ErrorCode.NOT_FOUND, "There is no such tenant.")
    return wire.TenantDeletedAnswer(message="Tenant deleted successfully", data=wire.ForgottenTenant(name))


@_operation("GET", "/v1/usage")
async def read_usage(call: Call[None, UsageQuery]) -> wire.UsageAnswer:
    """Read the usage.

    Of the whole organization, over all tenants; the requests are those of this calendar minute. With `from`,
    `to` or `by` also by day, namespace or tenant, with tokens, their cost, and quotas.
    """
    services = call.services
    totals = await usage.read(services.db, call.caller.organization)
    rate = request_context.of(call.request.scope).rate
    limit, remaining = (rate.limit, rate.remaining) if rate else (0, 0)
    allowed = services.settings.namespace_limit if totals.namespace_limit is None else totals.namespace_limit
    data = wire.UsageData(
        documents=totals.documents,
        chunks=totals.chunks,
        storage_bytes=totals.storage_bytes,
        requests=wire.Allowance(limit - remaining, limit),
        namespaces=wire.Allowance(totals.namespaces, allowed),
    )
    await _report(call, data)
    return wire.UsageAnswer(message="Usage fetched successfully", data=data)


async def _report(call: Call[None, UsageQuery], data: wire.UsageData) -> None:
    """Add the usage by day, namespace or tenant, if the query requests it."""
    query, services, organization = call.query, call.services, call.caller.organization
    if query.start is None and query.end is None and query.by is None:
        return
    today = datetime.now(UTC).date()
    end = query.end or max(today, query.start or today)
    start = query.start or end.replace(day=1)
    if not timedelta(0) <= end - start <= LONGEST:
        message = f"from must not be after to, nor more than {LONGEST.days} days before it."
        raise ServiceError(_INVALID, message, field="from", reason="out_of_bounds")
    by = usage.By(query.by or "day")
    groups = await usage.report(services.db, organization, by, start, end)
    uses = await quotas.uses(
        services.db, organization, [entry.key for entry in groups] if by is usage.By.TENANT else []
    )
    data.start, data.end, data.by, data.currency = str(start), str(end), str(by), services.settings.price_currency
    data.used, data.limit = Quotas.of(uses[None].used), Quotas.of(uses[None].limits)
    usage_groups = [group(entry, by, services.settings.prices, uses.get(entry.key)) for entry in groups]
    data.usage = usage_groups


def _require_name(tenant: str | None, field: str) -> None:
    if tenant is not None and not tenants.is_name(tenant):
        message = f"{field} has up to 64 letters, digits, hyphens and underscores."
        raise ServiceError(_INVALID, message, field=field, reason="not_allowed")


def _of_person(caller: Caller, signed_in: SignedIn) -> wire.Key:
    """Return a person's scopes and bounds in the form of a key."""
    issued, expires = (datetime.fromtimestamp(at, UTC) for at in (signed_in.person.issued, signed_in.person.expires))
    return wire.Key(
        id=caller.key_id,
        name=caller.key_name,
        hint="",
        scopes=[scope for scope in api_keys.SCOPES if scope in caller.scopes],
        namespace_id=caller.namespace,
        tenant_id=caller.bound_tenant,
        created_at=Timestamp.of(issued),
        revoked_at=None,
        principal=signed_in.person.principal,
        role=signed_in.role,
        expires_at=Timestamp.of(expires),
    )


_quota_operation = partial(operation, tag="Administration", tenant=TenantUse.IGNORED, invalid=ErrorCode.INVALID_REQUEST)


@_quota_operation("GET", "/v1/organization")
async def get_organization(call: Call[None, None]) -> OrganizationAnswer:
    """Get the organization. That of the key, with its quotas; null is no limit."""
    return await _organization(call, "Organization fetched successfully")


@_quota_operation("PATCH", "/v1/organization", example={"quotas": {"documents": 100000, "tokensPerMonth": None}})
async def update_organization(call: Call[admin.UpdateOrganization, None]) -> OrganizationAnswer:
    """Set the organization's quotas.

    What is absent stays, null removes a limit. What is there already stays, however low the limit.
    """
    changes = call.body.quotas
    if changes is not UNSET:
        await call.services.in_thread(
            limits.set_organization, call.services.db, call.caller.organization, changes.values()
        )
    return await _organization(call, "Organization updated successfully")


@_quota_operation(
    "PATCH", "/v1/tenants/{tenant_id:str}", raises=(ErrorCode.NOT_FOUND,), example={"quotas": {"documents": 1000}}
)
async def update_tenant(call: Call[admin.UpdateTenant, None]) -> admin.TenantAnswer:
    """Set a tenant's quotas. They hold beside the organization's. What is absent stays, null removes a limit."""
    db, organization, tenant = call.services.db, call.caller.organization, call.path["tenant_id"]
    changes = call.body.quotas
    if changes is not UNSET:
        await call.services.in_thread(limits.set_tenant, db, organization, tenant, changes.values())
    updated = await tenants.one(db, organization, tenant)
    if updated is None:
        raise ServiceError(ErrorCode.NOT_FOUND, "There is no such tenant.")
    return admin.TenantAnswer(message="Tenant updated successfully", data=admin.TenantData(admin.Tenant.of(updated)))


async def _organization(
    call: Call[admin.UpdateOrganization, None] | Call[None, None], message: str
) -> OrganizationAnswer:
    organization = await call.services.in_thread(organizations.get, call.services.db, call.caller.organization)
    if organization is None:
        raise RuntimeError("the organization of a key is gone")
    return OrganizationAnswer(message=message, data=OrganizationData(OrganizationDetails.of(organization)))


@operation("GET", "/v1/audit", tag="Administration", tenant=TenantUse.IGNORED, invalid=ErrorCode.INVALID_REQUEST)
async def list_audit_entries(call: Call[None, AuditQuery]) -> AuditAnswer:
    """Read the audit log.

    One entry for every write, refused ones too, newest first, 50 a page by default. Entries must match all filters.
    """
    cursor = await call.place(call.query.cursor)
    part = Part(call.query.page_size or PAGE, cursor)
    page = await audit.list_part(call.services.db, call.caller.organization, part, call.query.wanted())
    entries = [AuditEntry.of(entry) for entry in page.items]
    data = AuditData(entries, len(entries), page.cursor is not None, await call.cursor(page.cursor))
    return AuditAnswer(message="Audit entries fetched successfully", data=data)


HANDLERS = (
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
