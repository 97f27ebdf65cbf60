"""Tenants that an organization knows (D40). The empty name is the scope without a tenant and is never listed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from retrieval.database import Database

_FORMAT = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAKE: LiteralString = (
    "insert into tenants (organization_id, id) values (%(organization)s, %(tenant)s) on conflict do nothing"
)


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant by the name that clients send."""

    id: str
    created_at: datetime


def is_name(text: str) -> bool:
    """Letters, digits, hyphens and underscores, at most 64 (contract, Authentication 3)."""
    return _FORMAT.fullmatch(text) is not None


def create(db: Database, organization: str, tenant: str) -> None:
    """Make a tenant known; nothing happens if it is already. ValueError for a malformed name."""
    if not is_name(tenant):
        raise ValueError("A tenant id has up to 64 letters, digits, hyphens and underscores.")
    db.rows(_MAKE, {"organization": organization, "tenant": tenant})


async def make_known(db: Database, organization: str, tenant: str) -> None:
    """What the first ingestion or connection of a tenant does in an organization with open tenants."""
    await db.async_rows(_MAKE, {"organization": organization, "tenant": tenant})


def list_all(db: Database, organization: str) -> list[Tenant]:
    rows = db.rows(
        "select id, created_at from tenants where organization_id = %(organization)s order by created_at, id",
        {"organization": organization},
    )
    return [Tenant(**row) for row in rows]


def remove(db: Database, organization: str, tenant: str) -> bool:
    """Forget a tenant, so that requests with it are refused; its data stays. False if it was not known."""
    removed = db.rows(
        "delete from tenants where organization_id = %(organization)s and id = %(tenant)s returning id",
        {"organization": organization, "tenant": tenant},
    )
    return bool(removed)
