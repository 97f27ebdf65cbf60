"""Organizations: who owns namespaces, keys and tenants, on which plan, with which rules for tenants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import LiteralString

from retrieval import ids
from retrieval.database.database import Database


class Plan(StrEnum):
    """Plan that an organization has booked; `custom` carries its own number of requests a minute."""

    PILOT = "pilot"
    PRO = "pro"
    TEAM = "team"
    CUSTOM = "custom"


class TenantRule(StrEnum):
    """`open`: the first ingestion of a tenant makes it known. `registered`: an administrator does."""

    OPEN = "open"
    REGISTERED = "registered"


REQUESTS_PER_MINUTE = {Plan.PILOT: 50, Plan.PRO: 200, Plan.TEAM: 500, Plan.CUSTOM: 10_000}
SHARES = {Plan.PILOT: 1, Plan.PRO: 2, Plan.TEAM: 4, Plan.CUSTOM: 4}
"""How much of the workers an organization gets beside others that have work waiting, relative to them."""


@dataclass(frozen=True, slots=True)
class Organization:
    """An organization with its limits. `namespace_limit` None: the setting's. `quotas`: by name, absent is no limit."""

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


COLUMNS: LiteralString = (
    "id, name, plan, requests_per_minute, namespace_limit, tenants, tenant_required, created_at, quotas"
)
INSERT: LiteralString = (
    "insert into organizations (id, name, plan, requests_per_minute, namespace_limit, tenants, tenant_required)"
    " values (%(id)s, %(name)s, %(plan)s, %(requests)s, %(namespace_limit)s, %(tenants)s, %(tenant_required)s)"
    " returning " + COLUMNS
)


def create(
    db: Database,
    name: str,
    *,
    plan: Plan = Plan.CUSTOM,
    requests_per_minute: int | None = None,
    namespace_limit: int | None = None,
    tenants: TenantRule = TenantRule.OPEN,
    tenant_required: bool = False,
) -> Organization:
    """A new organization; without `requests_per_minute` the plan's number holds."""
    return db.fetch(
        Organization,
        INSERT,
        {
            "id": ids.organization_id(),
            "name": name,
            "plan": plan,
            "requests": requests_per_minute or REQUESTS_PER_MINUTE[plan],
            "namespace_limit": namespace_limit,
            "tenants": tenants,
            "tenant_required": tenant_required,
        },
    )[0]


def list_all(db: Database) -> list[Organization]:
    """Oldest first: the default one leads."""
    return db.fetch(Organization, "select " + COLUMNS + " from organizations order by id")


def get(db: Database, organization: str) -> Organization | None:
    statement: LiteralString = "select " + COLUMNS + " from organizations where id = %(id)s"
    return db.fetch_one(Organization, statement, {"id": organization})


def update(
    db: Database,
    organization: str,
    *,
    plan: Plan | None = None,
    requests_per_minute: int | None = None,
    namespace_limit: int | None = None,
    tenants: TenantRule | None = None,
    tenant_required: bool | None = None,
) -> Organization | None:
    """Change what is given; a new plan brings its own requests per minute. None if there is no such organization."""
    if plan is not None and requests_per_minute is None:
        requests_per_minute = REQUESTS_PER_MINUTE[plan]
    return db.fetch_one(
        Organization,
        "update organizations set plan = coalesce(%(plan)s, plan),"
        " requests_per_minute = coalesce(%(requests)s, requests_per_minute),"
        " namespace_limit = coalesce(%(namespace_limit)s, namespace_limit),"
        " tenants = coalesce(%(tenants)s, tenants),"
        " tenant_required = coalesce(%(tenant_required)s, tenant_required)"
        " where id = %(id)s returning " + COLUMNS,
        {
            "id": organization,
            "plan": plan,
            "requests": requests_per_minute,
            "namespace_limit": namespace_limit,
            "tenants": tenants,
            "tenant_required": tenant_required,
        },
    )
