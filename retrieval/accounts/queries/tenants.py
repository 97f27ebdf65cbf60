"""Tenants of an organization. The empty name is the scope without a tenant and never listed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import bindparam, delete, select
from sqlalchemy.dialects.postgresql import insert

from retrieval.database import pagination
from retrieval.database.compiling import columns_of, compile_statement, equals, select_page
from retrieval.database.database import Database
from retrieval.database.pagination import Page, PageRequest
from retrieval.database.schema import identity

_TENANT_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Tenant:
    """Tenant by its client name. `quotas`: by name; an absent quota is unlimited."""

    id: str
    created_at: datetime
    quotas: Mapping[str, int]


_table = identity.Tenant
_columns = columns_of(_table, Tenant)
_of_organization = equals(_table.organization_id, "organization")
_is_tenant = equals(_table.id, "tenant")
_new = insert(_table).values(organization_id=bindparam("organization"), id=bindparam("tenant"))
_REGISTER_TENANT = compile_statement(_new.on_conflict_do_nothing())
_UPSERT_TENANT = compile_statement(
    _new.on_conflict_do_update(index_elements=["organization_id", "id"], set_={"id": _new.excluded.id}).returning(
        *_columns
    )
)
_GET_TENANT = compile_statement(select(*_columns).where(_of_organization, _is_tenant))
_LIST_TENANTS = select_page(_table, Tenant, _of_organization)
_DELETE_TENANT = compile_statement(delete(_table).where(_of_organization, _is_tenant).returning(*_columns))


def is_tenant_id(text: str) -> bool:
    """Return True for 1 to 64 letters, digits, hyphens and underscores (contract, Authentication 3)."""
    return _TENANT_ID.fullmatch(text) is not None


def create_tenant(db: Database, organization: str, tenant: str) -> None:
    """Register a tenant unless it exists. Raises ValueError for a malformed name."""
    if not is_tenant_id(tenant):
        raise ValueError("A tenant id has up to 64 letters, digits, hyphens and underscores.")
    db.execute(_REGISTER_TENANT, {"organization": organization, "tenant": tenant})


async def register_tenant(db: Database, organization: str, tenant: str) -> None:
    """Register a tenant at its first ingestion or connection, for organizations with open tenants."""
    await db.async_execute(_REGISTER_TENANT, {"organization": organization, "tenant": tenant}, plan_once=True)


async def add_tenant(db: Database, organization: str, tenant: str) -> Tenant:
    """Register a tenant with a valid name and return it."""
    return (await db.async_fetch(Tenant, _UPSERT_TENANT, {"organization": organization, "tenant": tenant}))[0]


async def find_tenant(db: Database, organization: str, tenant: str) -> Tenant | None:
    return await db.async_fetch_one(Tenant, _GET_TENANT, {"organization": organization, "tenant": tenant})


def list_tenants(db: Database, organization: str) -> list[Tenant]:
    """Return all tenants, oldest first."""
    return db.fetch(Tenant, _LIST_TENANTS, {"organization": organization, **pagination.page_params(None)})


async def list_tenant_page(db: Database, organization: str, part: PageRequest | None = None) -> Page[Tenant]:
    """Return a page of tenants, oldest first; None: all pages."""
    tenants = await db.async_fetch(
        Tenant, _LIST_TENANTS, {"organization": organization, **pagination.page_params(part)}
    )
    return pagination.cut_page(tenants, part)


def delete_tenant(db: Database, organization: str, tenant: str) -> bool:
    """Deregister a tenant; return False if unregistered. The data stays, requests are refused."""
    return bool(db.execute(_DELETE_TENANT, {"organization": organization, "tenant": tenant}))


async def async_delete_tenant(db: Database, organization: str, tenant: str) -> bool:
    """Deregister a tenant on the event loop; return False if unregistered."""
    return bool(await db.async_fetch(Tenant, _DELETE_TENANT, {"organization": organization, "tenant": tenant}))
