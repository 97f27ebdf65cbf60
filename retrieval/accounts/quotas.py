"""Quotas of organizations and tenants: limits, checks and usage counts.

A trigger records usage in `quota_changes`. Writers under a quota lock the organization until the commit, so concurrent
sums are exact; organizations without quotas have no overhead.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import LiteralString

from retrieval.database.database import Database
from retrieval.database.rows import AsyncExecutor, Executor
from retrieval.errors import ErrorCode, ServiceError

DOCUMENT_QUOTA = "documents"
STORAGE_QUOTA = "storedBytes"
TOKENS_QUOTA = "tokensPerMonth"
RUN_QUOTA = "concurrentRuns"
QUOTA_NAMES = (DOCUMENT_QUOTA, STORAGE_QUOTA, TOKENS_QUOTA, RUN_QUOTA)
QUOTA_UNITS: Mapping[str, str] = {
    DOCUMENT_QUOTA: "documents",
    STORAGE_QUOTA: "stored bytes",
    TOKENS_QUOTA: "tokens embedded this month",
    RUN_QUOTA: "job runs at the same time",
}
# Largest integer of every JSON reader.
MAX_QUOTA = 2**53
# Age of a count before a full recount.
RECOUNT_MINUTES = 10

_ORGANIZATION_OWNER = "organization"
_TENANT_OWNER = "tenant"

# By quota name; an absent quota is unlimited.
Limits = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class QuotaUsage:
    """Usage and limits of an organization or tenant."""

    owner: str
    used: Mapping[str, int]
    limits: Limits

    def left(self, name: str) -> int | None:
        """Return the remaining amount; None if unlimited."""
        return max(0, self.limits[name] - self.used[name]) if name in self.limits else None


_LOCK_ORGANIZATION: LiteralString = "select pg_advisory_xact_lock(%(lock)s)"
_READ_USAGE: LiteralString = """
    select w.* from organizations o,
    lateral (
        select coalesce(sum(documents), 0)::bigint as documents,
               coalesce(sum(stored_bytes), 0)::bigint as stored_bytes,
               coalesce(sum(documents) filter (where tenant = %(tenant)s), 0)::bigint as tenant_documents,
               coalesce(sum(stored_bytes) filter (where tenant = %(tenant)s), 0)::bigint as tenant_stored_bytes
        from quota_changes where organization_id = o.id
    ) counted,
    lateral (
        select coalesce(sum(tokens), 0)::bigint as tokens,
               coalesce(sum(tokens) filter (where tenant = %(tenant)s), 0)::bigint as tenant_tokens
        from token_usage
        where organization_id = o.id and day >= date_trunc('month', now() at time zone 'utc')::date
    ) month,
    lateral (
        select count(*) as runs, count(*) filter (where p.tenant = %(tenant)s) as tenant_runs
        from job_runs r join partitions p on p.id = r.partition_id join namespaces n on n.id = p.namespace_id
        where n.organization_id = o.id and r.finished_at is null
    ) open,
    lateral (
        values (null, counted.documents, counted.stored_bytes, month.tokens, open.runs, o.quotas),
               (%(tenant)s::text, tenant_documents, tenant_stored_bytes, tenant_tokens, tenant_runs, coalesce((
                   select t.quotas from tenants t where t.organization_id = o.id and t.id = %(tenant)s), '{}'))
    ) w (tenant, documents, stored_bytes, tokens, runs, quotas)
    where o.id = %(organization)s
"""
_MERGED_QUOTAS: LiteralString = "jsonb_strip_nulls(quotas || %(quotas)s::jsonb)"
_SET_ORGANIZATION: LiteralString = (
    "update organizations set quotas = "
    + _MERGED_QUOTAS
    + ", counted = true where id = %(organization)s returning quotas, counted_at is null as is_new"
)
_SET_TENANT: LiteralString = (
    "with counted as (update organizations set counted = true where id = %(organization)s and exists"
    " (select from tenants where organization_id = %(organization)s and id = %(tenant)s) returning counted_at)"
    " update tenants set quotas = "
    + _MERGED_QUOTAS
    + " from counted where organization_id = %(organization)s and id = %(tenant)s"
    " returning quotas, counted.counted_at is null as is_new"
)
# A single statement has one snapshot, so concurrent commits are neither counted twice nor lost.
_RECOUNT_DOCUMENTS: LiteralString = """
    with gone as (delete from quota_changes where organization_id = %(organization)s),
    noted as (update organizations set counted_at = now() where id = %(organization)s)
    insert into quota_changes (organization_id, tenant, documents, stored_bytes)
    select n.organization_id, p.tenant, count(*), sum(document_size(d.properties, d.accepted_bytes))
    from namespaces n join partitions p on p.namespace_id = n.id join documents d on d.partition_id = p.id
    where n.organization_id = %(organization)s and d.deleted_at is null group by 1, 2
"""
# Owners with limits, and the organization (tenant null).
_USAGE_BY_TENANT: LiteralString = """
    with held as (
        select p.tenant, count(*) as documents,
               sum(document_size(d.properties, d.accepted_bytes))::bigint as stored_bytes
        from namespaces n join partitions p on p.namespace_id = n.id join documents d on d.partition_id = p.id
        where n.organization_id = %(organization)s and d.deleted_at is null group by 1
    ),
    month as (
        select tenant, sum(tokens)::bigint as tokens from token_usage
        where organization_id = %(organization)s and day >= date_trunc('month', now() at time zone 'utc')::date
        group by 1
    ),
    open as (
        select p.tenant, count(*) as runs
        from job_runs r join partitions p on p.id = r.partition_id join namespaces n on n.id = p.namespace_id
        where n.organization_id = %(organization)s and r.finished_at is null group by 1
    ),
    parts as (
        select tenant, coalesce(documents, 0) as documents, coalesce(stored_bytes, 0) as stored_bytes,
               coalesce(tokens, 0) as tokens, coalesce(runs, 0) as runs
        from held full join month using (tenant) full join open using (tenant)
    ),
    owners as (
        select null as tenant, quotas from organizations where id = %(organization)s
        union all
        select id, quotas from tenants
        where organization_id = %(organization)s and id = any(%(tenants)s) and quotas <> '{}'
    )
    select o.tenant, o.quotas, coalesce(sum(p.documents), 0)::bigint as documents,
           coalesce(sum(p.stored_bytes), 0)::bigint as stored_bytes,
           coalesce(sum(p.tokens), 0)::bigint as tokens, coalesce(sum(p.runs), 0)::bigint as runs
    from owners o left join parts p on o.tenant is null or p.tenant = o.tenant group by o.tenant, o.quotas
"""
_FIND_DUE: LiteralString = """
    select o.id from organizations o where o.counted and (
        o.counted_at is null or extract(epoch from now() - o.counted_at) > 60 * %(minutes)s
        or (select count(*) from (select from quota_changes c where c.organization_id = o.id limit 1000) parts) = 1000)
    order by o.counted_at nulls first limit 20
"""


@dataclass(frozen=True, slots=True)
class QuotaUsageRow:
    """Usage and limits of a tenant; `tenant` None: the organization."""

    tenant: str | None
    documents: int
    stored_bytes: int
    tokens: int
    runs: int
    quotas: Limits

    def load(self) -> QuotaUsage:
        used = dict(zip(QUOTA_NAMES, (self.documents, self.stored_bytes, self.tokens, self.runs), strict=True))
        return QuotaUsage(_ORGANIZATION_OWNER if self.tenant is None else _TENANT_OWNER, used, self.quotas)


async def try_lock_organization(db: AsyncExecutor, organization: str) -> bool:
    """Try to lock the organization until the transaction ends; return False if it is locked."""
    statement: LiteralString = "select pg_try_advisory_xact_lock(%(lock)s)"
    return bool(await db.async_fetch_one(bool, statement, {"lock": organization_lock(organization)}))


def lock_usage(db: Executor, organization: str, tenant: str) -> tuple[QuotaUsage, ...]:
    """Lock the organization until the transaction ends; return the result of `read_usage`."""
    db.execute(_LOCK_ORGANIZATION, {"lock": organization_lock(organization)})
    return read_usage(db, organization, tenant)


def read_usage(db: Executor, organization: str, tenant: str) -> tuple[QuotaUsage, ...]:
    """Return usage and limits of the organization and the tenant."""
    return tuple(
        row.load() for row in db.fetch(QuotaUsageRow, _READ_USAGE, {"organization": organization, "tenant": tenant})
    )


async def async_read_usage(db: AsyncExecutor, organization: str, tenant: str) -> tuple[QuotaUsage, ...]:
    rows = await db.async_fetch(QuotaUsageRow, _READ_USAGE, {"organization": organization, "tenant": tenant})
    return tuple(row.load() for row in rows)


async def list_usage_by_tenant(db: Database, organization: str, tenants: Sequence[str]) -> dict[str | None, QuotaUsage]:
    """Return freshly counted usage by tenant with limits; None: the organization."""
    rows = await db.async_fetch(
        QuotaUsageRow, _USAGE_BY_TENANT, {"organization": organization, "tenants": list(tenants)}
    )
    return {row.tenant: row.load() for row in rows}


def check_usage(previous_uses: Sequence[QuotaUsage], current_uses: Sequence[QuotaUsage]) -> None:
    """Raise QUOTA_EXCEEDED for growth beyond a limit, or for new work after the month's tokens are used up."""
    for previous, current in zip(previous_uses, current_uses, strict=True):
        increased = {name for name in QUOTA_NAMES if current.used[name] > previous.used[name]}
        if increased & {DOCUMENT_QUOTA, RUN_QUOTA}:
            increased.add(TOKENS_QUOTA)
        for name, limit in current.limits.items():
            has_grown = name in increased
            if has_grown and current.used[name] > limit - (name == TOKENS_QUOTA):
                raise quota_error(previous.owner, name, previous.used[name], limit)


def quota_error(owner: str, name: str, used: int, limit: int) -> ServiceError:
    return ServiceError(
        ErrorCode.QUOTA_EXCEEDED,
        f"This would exceed the {owner}'s quota of {limit:,} {QUOTA_UNITS[name]}; {used:,} are used.",
        quota={"quota": name, "used": used, "limit": limit},
    )


def excess_reason(uses: Sequence[QuotaUsage], amounts: Mapping[str, int]) -> str | None:
    """Return the reason against a document with these amounts, or None."""
    for use in uses:
        for name, amount in amounts.items():
            remaining = use.left(name)
            if remaining is not None and amount > remaining:
                return (
                    f"The {use.owner}'s quota of {use.limits[name]:,} {QUOTA_UNITS[name]} is used up"
                    f" ({use.used[name]:,} are used). Delete documents or raise the quota, then run this again."
                    if name != TOKENS_QUOTA
                    else f"The {use.owner}'s quota of {use.limits[name]:,} {QUOTA_UNITS[name]} does not suffice"
                    f" ({use.used[name]:,} are used). Raise it or wait for the next month, then run this again."
                )
    return None


def add_amounts(uses: Sequence[QuotaUsage], amounts: Mapping[str, int]) -> tuple[QuotaUsage, ...]:
    """Return the usage after adding the amounts."""
    return tuple(
        QuotaUsage(use.owner, {name: used + amounts.get(name, 0) for name, used in use.used.items()}, use.limits)
        for use in uses
    )


def has_limits(uses: Sequence[QuotaUsage]) -> bool:
    return any(use.limits for use in uses)


@dataclass(frozen=True, slots=True)
class NewLimits:
    """Changed limits. `is_new`: the organization was never counted."""

    quotas: Limits
    is_new: bool


def set_organization_quotas(db: Database, organization: str, quotas: Mapping[str, int | None]) -> Limits | None:
    """Set the quotas of an organization; None removes one. Return None if the organization does not exist."""
    values = {"organization": organization, "quotas": json.dumps(dict(quotas))}
    return _count_if_new(db, organization, db.fetch_one(NewLimits, _SET_ORGANIZATION, values))


def set_tenant_quotas(db: Database, organization: str, tenant: str, quotas: Mapping[str, int | None]) -> Limits | None:
    """Set the quotas of a tenant; None removes one. Return None if the tenant does not exist."""
    values = {"organization": organization, "tenant": tenant, "quotas": json.dumps(dict(quotas))}
    return _count_if_new(db, organization, db.fetch_one(NewLimits, _SET_TENANT, values))


def recount_organization(db: Database, organization: str) -> None:
    """Recount an organization's documents and merge recorded changes."""
    with db.transaction() as connection:
        connection.execute(_LOCK_ORGANIZATION, {"lock": organization_lock(organization)})
        connection.execute(_RECOUNT_DOCUMENTS, {"organization": organization})


def recount_due(db: Database) -> int:
    """Recount a bounded number of organizations with old or fragmented counts; return the number."""
    due = db.fetch(str, _FIND_DUE, {"minutes": RECOUNT_MINUTES})
    for organization in due:
        recount_organization(db, organization)
    return len(due)


def _count_if_new(db: Database, organization: str, limits: NewLimits | None) -> Limits | None:
    if limits is None:
        return None
    if limits.is_new:
        recount_organization(db, organization)
    return limits.quotas


def organization_lock(organization: str) -> int:
    return int.from_bytes(hashlib.sha256(f"quotas/{organization}".encode()).digest()[:8], signed=True)
