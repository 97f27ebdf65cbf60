"""Tenants that an organization knows. The empty name is the scope without a tenant and is never listed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from retrieval.database import pagination
from retrieval.database.database import Database
from retrieval.database.pagination import Page, Part

_FORMAT = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAKE: LiteralString = (
    "insert into tenants (organization_id, id) values (%(organization)s, %(tenant)s) on conflict do nothing"
)
_KEEP_OR_MAKE: LiteralString = (
    "insert into tenants (organization_id, id) values (%(organization)s, %(tenant)s)"
    " on conflict (organization_id, id) do update set id = excluded.id"
)
_LIST: LiteralString = (
    "select id, created_at, quotas from tenants where organization_id = %(organization)s" + pagination.order_asc()
)
_REMOVE: LiteralString = "delete from tenants where organization_id = %(organization)s and id = %(tenant)s returning id"


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant by the name that clients send. `quotas`: by name, absent is no limit."""

    id: str
    created_at: datetime
    quotas: Mapping[str, int]


def is_name(text: str) -> bool:
    """Letters, digits, hyphens and underscores, at most 64 (contract, Authentication 3)."""
    return _FORMAT.fullmatch(text) is not None


def create(db: Database, organization: str, tenant: str) -> None:
    """Make a tenant known; nothing happens if it is already. ValueError for a malformed name."""
    if not is_name(tenant):
        raise ValueError("A tenant id has up to 64 letters, digits, hyphens and underscores.")
    db.execute(_MAKE, {"organization": organization, "tenant": tenant})


async def make_known(db: Database, organization: str, tenant: str) -> None:
    """Register a tenant at its first ingestion or connection, in an organization with open tenants."""
    await db.async_execute(_MAKE, {"organization": organization, "tenant": tenant}, plan_once=True)


async def add_tenant(db: Database, organization: str, tenant: str) -> Tenant:
    """Make a tenant known, whose name is well-formed, and answer it."""
    statement: LiteralString = _KEEP_OR_MAKE + " returning id, created_at, quotas"
    return (await db.async_fetch(Tenant, statement, {"organization": organization, "tenant": tenant}))[0]


async def find_tenant(db: Database, organization: str, tenant: str) -> Tenant | None:
    return await db.async_fetch_one(
        Tenant,
        "select id, created_at, quotas from tenants where organization_id = %(organization)s and id = %(tenant)s",
        {"organization": organization, "tenant": tenant},
    )


def list_all(db: Database, organization: str) -> list[Tenant]:
    """Oldest first."""
    whole = pagination.part_by_age(None)
    return db.fetch(Tenant, _LIST, {"organization": organization, **whole})


async def list_part(db: Database, organization: str, part: Part | None = None) -> Page[Tenant]:
    """Async listing, or a page of it with the cursor of the next."""
    tenants = await db.async_fetch(Tenant, _LIST, {"organization": organization, **pagination.part_by_age(part)})
    return pagination.part_cut(tenants, part)


def remove(db: Database, organization: str, tenant: str) -> bool:
    """Forget a tenant, so that requests with it are refused; its data stays. False if it was not known."""
    return bool(db.execute(_REMOVE, {"organization": organization, "tenant": tenant}))


async def forget_tenant(db: Database, organization: str, tenant: str) -> bool:
    """Async form of the removal of a tenant."""
    return bool(await db.async_fetch(str, _REMOVE, {"organization": organization, "tenant": tenant}))
