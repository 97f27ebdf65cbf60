"""Organizations: owners of namespaces, keys and tenants, with a plan and a tenant rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import asc, bindparam, func, insert, select, update

from retrieval import ids
from retrieval.database.compiling import columns_of, compile_statement, equals
from retrieval.database.database import Database
from retrieval.database.schema import identity


class Plan(StrEnum):
    """Plan of an organization; `custom` has an individual request rate."""

    PILOT = "pilot"
    PRO = "pro"
    TEAM = "team"
    CUSTOM = "custom"


class TenantRule(StrEnum):
    """`open`: registered by the first ingestion; `registered`: by an administrator."""

    OPEN = "open"
    REGISTERED = "registered"


REQUESTS_PER_MINUTE = {Plan.PILOT: 50, Plan.PRO: 200, Plan.TEAM: 500, Plan.CUSTOM: 10_000}
# Share of the workers relative to other organizations with waiting work.
WORKER_SHARES = {Plan.PILOT: 1, Plan.PRO: 2, Plan.TEAM: 4, Plan.CUSTOM: 4}


@dataclass(frozen=True, slots=True)
class Organization:
    """Organization with its limits. `namespace_limit` None: the setting; `quotas`: by name, absent is unlimited."""

    id: str
    name: str
    plan: Plan
    requests_per_minute: int
    namespace_limit: int | None
    tenants: TenantRule
    tenant_required: bool
    created_at: datetime
    quotas: Mapping[str, int]

    def __post_init__(self) -> None:
        object.__setattr__(self, "plan", Plan(self.plan))
        object.__setattr__(self, "tenants", TenantRule(self.tenants))


_table = identity.Organization
_columns = columns_of(_table, Organization)
_CHANGEABLE_COLUMNS = ("plan", "requests_per_minute", "namespace_limit", "tenants", "tenant_required")
_is_organization = equals(_table.id)
_settings: dict[str, Any] = {name: bindparam(name) for name in _CHANGEABLE_COLUMNS}
_changes: dict[str, Any] = {name: func.coalesce(bindparam(name), getattr(_table, name)) for name in _CHANGEABLE_COLUMNS}
INSERT_ORGANIZATION = compile_statement(
    insert(_table).values(id=bindparam("id"), name=bindparam("name"), **_settings).returning(*_columns)
)
_LIST_ORGANIZATIONS = compile_statement(select(*_columns).order_by(asc(_table.id)))
_GET_ORGANIZATION = compile_statement(select(*_columns).where(_is_organization))
# Serializes the checks of limits by organization.
LOCK_ORGANIZATION = compile_statement(
    select(*columns_of(_table, Organization)).where(equals(_table.id, "organization")).with_for_update(key_share=True)
)
_UPDATE_ORGANIZATION = compile_statement(update(_table).where(_is_organization).values(**_changes).returning(*_columns))


def create_organization(
    db: Database,
    name: str,
    *,
    plan: Plan = Plan.CUSTOM,
    requests_per_minute: int | None = None,
    namespace_limit: int | None = None,
    tenants: TenantRule = TenantRule.OPEN,
    tenant_required: bool = False,
) -> Organization:
    """Create an organization. `requests_per_minute` defaults to the plan's."""
    values = {
        "id": ids.organization_id(),
        "name": name,
        "plan": plan,
        "requests_per_minute": requests_per_minute or REQUESTS_PER_MINUTE[plan],
        "namespace_limit": namespace_limit,
        "tenants": tenants,
        "tenant_required": tenant_required,
    }
    return db.fetch(Organization, INSERT_ORGANIZATION, values)[0]


def list_organizations(db: Database) -> list[Organization]:
    """Return all organizations, oldest first."""
    return db.fetch(Organization, _LIST_ORGANIZATIONS)


def get_organization(db: Database, organization: str) -> Organization | None:
    return db.fetch_one(Organization, _GET_ORGANIZATION, {"id": organization})


def update_organization(
    db: Database,
    organization: str,
    *,
    plan: Plan | None = None,
    requests_per_minute: int | None = None,
    namespace_limit: int | None = None,
    tenants: TenantRule | None = None,
    tenant_required: bool | None = None,
) -> Organization | None:
    """Change the given fields; a new plan sets its request rate. Return None if the organization does not exist."""
    if plan is not None and requests_per_minute is None:
        requests_per_minute = REQUESTS_PER_MINUTE[plan]
    values = {
        "id": organization,
        "plan": plan,
        "requests_per_minute": requests_per_minute,
        "namespace_limit": namespace_limit,
        "tenants": tenants,
        "tenant_required": tenant_required,
    }
    return db.fetch_one(Organization, _UPDATE_ORGANIZATION, values)
