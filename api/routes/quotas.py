"""The organization of a key, its quotas and those of its tenants."""

from __future__ import annotations

from functools import partial

from msgspec import UNSET

from api.operation import Call, TenantUse, operation
from api.wire import admin
from api.wire.admin import OrganizationAnswer, OrganizationData, OrganizationDetails
from retrieval.accounts import organizations, tenants
from retrieval.accounts import quotas as limits
from retrieval.errors import ErrorCode, ServiceError

_operation = partial(operation, tag="Administration", tenant=TenantUse.IGNORED, invalid=ErrorCode.INVALID_REQUEST)


@_operation("GET", "/v1/organization")
async def get_organization(call: Call[None, None]) -> OrganizationAnswer:
    """Get the organization. That of the key, with its quotas; null is no limit."""
    return await _organization(call, "Organization fetched successfully")


@_operation("PATCH", "/v1/organization", example={"quotas": {"documents": 100000, "tokensPerMonth": None}})
async def update_organization(call: Call[admin.UpdateOrganization, None]) -> OrganizationAnswer:
    """Set the organization's quotas.

    What is absent stays, null removes a limit. What is there already stays, however low the limit.
    """
    given = call.body.quotas
    if given is not UNSET:
        await call.services.in_thread(
            limits.set_organization, call.services.db, call.caller.organization, given.values()
        )
    return await _organization(call, "Organization updated successfully")


@_operation(
    "PATCH", "/v1/tenants/{tenant_id:str}", raises=(ErrorCode.NOT_FOUND,), example={"quotas": {"documents": 1000}}
)
async def update_tenant(call: Call[admin.UpdateTenant, None]) -> admin.TenantAnswer:
    """Set a tenant's quotas. They hold beside the organization's. What is absent stays, null removes a limit."""
    db, organization, tenant = call.services.db, call.caller.organization, call.path["tenant_id"]
    given = call.body.quotas
    if given is not UNSET:
        await call.services.in_thread(limits.set_tenant, db, organization, tenant, given.values())
    found = await tenants.one(db, organization, tenant)
    if found is None:
        raise ServiceError(ErrorCode.NOT_FOUND, "There is no such tenant.")
    return admin.TenantAnswer(message="Tenant updated successfully", data=admin.TenantData(admin.Tenant.of(found)))


HANDLERS = (get_organization, update_organization, update_tenant)


async def _organization(call: Call[admin.UpdateOrganization, None] | Call[None, None], said: str) -> OrganizationAnswer:
    found = await call.services.in_thread(organizations.get, call.services.db, call.caller.organization)
    if found is None:
        raise RuntimeError("the organization of a key is gone")
    return OrganizationAnswer(message=said, data=OrganizationData(OrganizationDetails.of(found)))
