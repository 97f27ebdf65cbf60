"""Statements for the look-up of callers and the count of their requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import aliased

from api import rates
from retrieval.database.compiling import compile_statement, equals
from retrieval.database.schema import identity


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


_key: Any = identity.ApiKey
_organization: Any = identity.Organization
_tenant: Any = identity.Tenant
_window: Any = identity.RateWindow
_settings = (
    *(_organization.requests_per_minute, _organization.tenants, _organization.tenant_required, _organization.counted),
    sa.cast(sa.func.floor(sa.extract("epoch", sa.func.clock_timestamp()) / 60), sa.BigInteger).label("minute"),
    sa.exists().where(_tenant.organization_id == _organization.id, equals(_tenant.id, "tenant")).label("tenant_known"),
)
_key_columns = (_key.id, _key.name, _key.organization_id, _key.scopes, _key.namespace_id, _key.tenant, _key.principal)
_of_key = sa.select(*_key_columns, _key.principal_required, *_settings).where(
    _organization.id == _key.organization_id, equals(_key.hash), _key.revoked_at.is_(None)
)
_oldest: Any = aliased(identity.Organization)
_oldest_id = sa.select(_oldest.id).order_by(_oldest.created_at, _oldest.id).limit(1).scalar_subquery()
_id = sa.func.coalesce(sa.bindparam("organization", type_=sa.Text), _oldest_id)
_of_organization = sa.select(_organization.id.label("organization_id"), *_settings).where(_organization.id == _id)


def _with_count(look_up: Any) -> Any:
    """Return the look-up that also counts requests; an unknown caller writes nothing."""
    caller = look_up.cte("caller")
    row = sa.select(caller.c.organization_id, caller.c.minute, sa.bindparam("count", type_=sa.Integer))
    new = insert(_window).from_select(["caller", "minute", "requests"], row)
    is_same_window, counted_minute = sa.text(rates.IS_SAME_WINDOW_SQL), sa.text(rates.COUNTED_MINUTE_SQL)
    requests = sa.case((is_same_window, sa.func.least(_window.requests, 1_000_000_000)), else_=0)
    changes = {"requests": requests + new.excluded.requests, "minute": counted_minute}
    counting = new.on_conflict_do_update(index_elements=["caller"], set_=changes)
    counted = counting.returning(_window.minute, _window.requests).cte("counted")
    return sa.select(counted.c.requests, counted.c.minute.label("counted_minute"), caller)


BY_KEY = compile_statement(_of_key), compile_statement(_with_count(_of_key))
BY_ORGANIZATION = compile_statement(_of_organization), compile_statement(_with_count(_of_organization))
