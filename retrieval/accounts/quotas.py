"""Quotas of organizations and tenants: settings, checks of requests and of job runs, and usage counts.

Usage is stored in `quota_changes`, written by a trigger within the transaction that makes or deletes documents. A
writer under a quota holds the organization's lock until that transaction ends, so that concurrent sums are exact.
Organizations that never had a quota have no overhead.
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

DOCUMENTS = "documents"
STORED_BYTES = "storedBytes"
TOKENS = "tokensPerMonth"
RUNS = "concurrentRuns"
NAMES = (DOCUMENTS, STORED_BYTES, TOKENS, RUNS)
WORDS: Mapping[str, str] = {
    DOCUMENTS: "documents",
    STORED_BYTES: "stored bytes",
    TOKENS: "tokens embedded this month",
    RUNS: "job runs at the same time",
}
MOST = 2**53
"""The highest limit: what every reader of JSON has as a whole number."""
RECOUNT_MINUTES = 10
"""How old a count may be before everything is counted anew."""

_ORGANIZATION = "organization"
_TENANT = "tenant"

Limits = Mapping[str, int]
"""By name of the quota; one that is absent has no limit."""


@dataclass(frozen=True, slots=True)
class Use:
    """Usage and limits of an organization, or of one of its tenants."""

    owner: str
    used: Mapping[str, int]
    limits: Limits

    def left(self, name: str) -> int | None:
        """Remaining amount; None without a limit."""
        return max(0, self.limits[name] - self.used[name]) if name in self.limits else None


_LOCK: LiteralString = "select pg_advisory_xact_lock(%(lock)s)"
_READ: LiteralString = """
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
_SET: LiteralString = "jsonb_strip_nulls(quotas || %(quotas)s::jsonb)"
_SET_ORGANIZATION: LiteralString = (
    "update organizations set quotas = "
    + _SET
    + ", counted = true where id = %(organization)s returning quotas, counted_at is null as is_new"
)
_SET_TENANT: LiteralString = (
    "with counted as (update organizations set counted = true where id = %(organization)s and exists"
    " (select from tenants where organization_id = %(organization)s and id = %(tenant)s) returning counted_at)"
    " update tenants set quotas = "
    + _SET
    + " from counted where organization_id = %(organization)s and id = %(tenant)s"
    " returning quotas, counted.counted_at is null as is_new"
)
_RECOUNT: LiteralString = """
    with gone as (delete from quota_changes where organization_id = %(organization)s),
    noted as (update organizations set counted_at = now() where id = %(organization)s)
    insert into quota_changes (organization_id, tenant, documents, stored_bytes)
    select n.organization_id, p.tenant, count(*), sum(document_size(d.properties, d.accepted_bytes))
    from namespaces n join partitions p on p.namespace_id = n.id join documents d on d.partition_id = p.id
    where n.organization_id = %(organization)s and d.deleted_at is null group by 1, 2
"""
"""One statement sees one state, so what others commit meanwhile is neither counted twice nor dropped."""
_USES: LiteralString = """
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
"""Whoever has limits, and the organization (null); one statement, however many tenants are asked for."""
_DUE: LiteralString = """
    select o.id from organizations o where o.counted and (
        o.counted_at is null or extract(epoch from now() - o.counted_at) > 60 * %(minutes)s
        or (select count(*) from (select from quota_changes c where c.organization_id = o.id limit 1000) parts) = 1000)
    order by o.counted_at nulls first limit 20
"""


@dataclass(frozen=True, slots=True)
class UseRow:
    """Usage and limits of a tenant; `tenant` None: of the organization."""

    tenant: str | None
    documents: int
    stored_bytes: int
    tokens: int
    runs: int
    quotas: Limits

    def load(self) -> Use:
        used = dict(zip(NAMES, (self.documents, self.stored_bytes, self.tokens, self.runs), strict=True))
        return Use(_ORGANIZATION if self.tenant is None else _TENANT, used, self.quotas)


async def try_lock(db: AsyncExecutor, organization: str) -> bool:
    """Try to take the organization's lock until the transaction ends; False, at once, if it is taken."""
    statement: LiteralString = "select pg_try_advisory_xact_lock(%(lock)s)"
    return bool(await db.async_fetch_one(bool, statement, {"lock": lock_of(organization)}))


def lock_usage(db: Executor, organization: str, tenant: str) -> tuple[Use, ...]:
    """Block writers of the organization until the transaction ends; return what `read_usage` returns."""
    db.execute(_LOCK, {"lock": lock_of(organization)})
    return read_usage(db, organization, tenant)


def read_usage(db: Executor, organization: str, tenant: str) -> tuple[Use, ...]:
    """Return usage and limits of the organization and of its tenant."""
    return tuple(row.load() for row in db.fetch(UseRow, _READ, {"organization": organization, "tenant": tenant}))


async def async_read_usage(db: AsyncExecutor, organization: str, tenant: str) -> tuple[Use, ...]:
    rows = await db.async_fetch(UseRow, _READ, {"organization": organization, "tenant": tenant})
    return tuple(row.load() for row in rows)


async def uses_by_tenant(db: Database, organization: str, tenants: Sequence[str]) -> dict[str | None, Use]:
    """By tenant, where it has a limit, what is used; under None the organization's. Counted anew: for people."""
    rows = await db.async_fetch(UseRow, _USES, {"organization": organization, "tenants": list(tenants)})
    return {row.tenant: row.load() for row in rows}


def check_uses(before: Sequence[Use], after: Sequence[Use]) -> None:
    """QUOTA_EXCEEDED if what was added in between goes beyond a limit, or is to be embedded though the month's tokens
    were used up before."""
    for previous, current in zip(before, after, strict=True):
        increased = {name for name in NAMES if current.used[name] > previous.used[name]}
        if increased & {DOCUMENTS, RUNS}:
            increased.add(TOKENS)
        for name, limit in current.limits.items():
            grown = name in increased
            if grown and current.used[name] > limit - (name == TOKENS):
                raise quota_error(previous.owner, name, previous.used[name], limit)


def quota_error(owner: str, name: str, used: int, limit: int) -> ServiceError:
    return ServiceError(
        ErrorCode.QUOTA_EXCEEDED,
        f"This would exceed the {owner}'s quota of {limit:,} {WORDS[name]}; {used:,} are used.",
        quota={"quota": name, "used": used, "limit": limit},
    )


def excess_reason(uses: Sequence[Use], wanted: Mapping[str, int]) -> str | None:
    """Why a document that adds so much of each quota cannot be taken; None if it can."""
    for use in uses:
        for name, amount in wanted.items():
            remaining = use.left(name)
            if remaining is not None and amount > remaining:
                return (
                    f"The {use.owner}'s quota of {use.limits[name]:,} {WORDS[name]} is used up ({use.used[name]:,} are"
                    " used). Delete documents or raise the quota, then run this again."
                    if name != TOKENS
                    else f"The {use.owner}'s quota of {use.limits[name]:,} {WORDS[name]} does not suffice"
                    f" ({use.used[name]:,} are used). Raise it or wait for the next month, then run this again."
                )
    return None


def add_use(uses: Sequence[Use], wanted: Mapping[str, int]) -> tuple[Use, ...]:
    """Usage after a document that adds this much."""
    return tuple(
        Use(use.owner, {name: used + wanted.get(name, 0) for name, used in use.used.items()}, use.limits)
        for use in uses
    )


def has_limits(uses: Sequence[Use]) -> bool:
    return any(use.limits for use in uses)


@dataclass(frozen=True, slots=True)
class NewLimits:
    """Changed limits. `is_new`: the organization was never counted."""

    quotas: Limits
    is_new: bool


def set_organization(db: Database, organization: str, quotas: Mapping[str, int | None]) -> Limits | None:
    """Set what is given, None removes a limit; all that hold now. None if there is no such organization."""
    values = {"organization": organization, "quotas": json.dumps(dict(quotas))}
    return _counted(db, organization, db.fetch_one(NewLimits, _SET_ORGANIZATION, values))


def set_tenant(db: Database, organization: str, tenant: str, quotas: Mapping[str, int | None]) -> Limits | None:
    """Set the quotas of a known tenant."""
    values = {"organization": organization, "tenant": tenant, "quotas": json.dumps(dict(quotas))}
    return _counted(db, organization, db.fetch_one(NewLimits, _SET_TENANT, values))


def recount(db: Database, organization: str) -> None:
    """Count an organization's documents anew, and fold what was counted since."""
    with db.transaction() as connection:
        connection.execute(_LOCK, {"lock": lock_of(organization)})
        connection.execute(_RECOUNT, {"organization": organization})


def recount_due(db: Database) -> int:
    """Recount those whose count is old or in many parts, a bounded number; how many."""
    due = db.fetch(str, _DUE, {"minutes": RECOUNT_MINUTES})
    for organization in due:
        recount(db, organization)
    return len(due)


def _counted(db: Database, organization: str, limits: NewLimits | None) -> Limits | None:
    if limits is None:
        return None
    if limits.is_new:
        recount(db, organization)
    return limits.quotas


def lock_of(organization: str) -> int:
    return int.from_bytes(hashlib.sha256(f"quotas/{organization}".encode()).digest()[:8], signed=True)
