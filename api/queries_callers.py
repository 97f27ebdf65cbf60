"""Statements for the look-up of callers and the count of their requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from api import rates


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerRow:
    """Key with organization, or a person's organization."""

    id: str = ""
    name: str = ""
    organization_id: str
    scopes: Sequence[str] = ()
    namespace_id: str | None = None
    tenant: str | None = None
    principal: str | None = None
    principal_required: bool = False
    requests_per_minute: int
    tenants: str
    tenant_required: bool
    counted: bool
    minute: int
    tenant_known: bool
    counted_minute: int = 0  # rate window after this request was counted
    requests: int = 0


_FIND_KEY: LiteralString = """
    select k.id, k.name, k.organization_id, k.scopes, k.namespace_id, k.tenant, k.principal,
           k.principal_required, o.requests_per_minute, o.tenants, o.tenant_required, o.counted,
           floor(extract(epoch from clock_timestamp()) / 60)::bigint as minute,
           exists (select from tenants t where t.organization_id = k.organization_id and t.id = %(tenant)s)
               as tenant_known
    from api_keys k join organizations o on o.id = k.organization_id
    where k.hash = %(hash)s and k.revoked_at is null
"""
_FIND_ORGANIZATION: LiteralString = """
    select o.id as organization_id, o.requests_per_minute, o.tenants, o.tenant_required, o.counted,
           floor(extract(epoch from clock_timestamp()) / 60)::bigint as minute,
           exists (select from tenants t where t.organization_id = o.id and t.id = %(tenant)s) as tenant_known
    from organizations o
    where o.id = coalesce(%(organization)s, (select id from organizations order by created_at, id limit 1))
"""


def _with_count(look_up: LiteralString) -> LiteralString:
    """Return the look-up that also counts requests; an unknown caller writes nothing."""
    return (
        "with caller as ("
        + look_up
        + f"""),
    counted as (
        insert into rate_windows as w (caller, minute, requests)
        select organization_id, minute, %(count)s::int from caller
        on conflict (caller) do update set
            requests = case when {rates.IS_SAME_WINDOW_SQL} then least(w.requests, 1000000000) else 0 end
                + excluded.requests,
            minute = {rates.COUNTED_MINUTE_SQL}
        returning minute, requests
    )
    select counted.requests, counted.minute as counted_minute, caller.* from counted, caller
"""
    )


BY_KEY = _FIND_KEY, _with_count(_FIND_KEY)
BY_ORGANIZATION = _FIND_ORGANIZATION, _with_count(_FIND_ORGANIZATION)
