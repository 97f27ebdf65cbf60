"""Quotas and what is used of them on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from api.wire.common import Answer, Timestamp
from retrieval.accounts import quotas, usage
from retrieval.accounts.organizations import Organization as Owner
from retrieval.accounts.quotas import Use

_Limit = Annotated[int, Meta(ge=0, le=quotas.MOST)]


class SetQuotas(Struct, rename="camel"):
    """Limits to set; null removes one, and what is absent stays."""

    documents: _Limit | UnsetType | None = UNSET
    stored_bytes: _Limit | UnsetType | None = UNSET
    tokens_per_month: _Limit | UnsetType | None = UNSET
    concurrent_runs: _Limit | UnsetType | None = UNSET

    def values(self) -> dict[str, int | None]:
        given: dict[str, int | None] = msgspec.to_builtins(self)
        return given


class UpdateOrganization(Struct):
    """What to change of the organization."""

    quotas: SetQuotas | UnsetType = UNSET


class UpdateTenant(Struct):
    """What to change of a tenant."""

    quotas: SetQuotas | UnsetType = UNSET


class Quotas(Struct, rename="camel", kw_only=True):
    """A number for each quota; null where there is no limit."""

    documents: int | None
    stored_bytes: int | None
    tokens_per_month: int | None
    concurrent_runs: int | None

    @classmethod
    def of(cls, numbers: Mapping[str, int]) -> Quotas:
        return cls(
            documents=numbers.get(quotas.DOCUMENTS),
            stored_bytes=numbers.get(quotas.STORED_BYTES),
            tokens_per_month=numbers.get(quotas.TOKENS),
            concurrent_runs=numbers.get(quotas.RUNS),
        )


class OrganizationDetails(Struct, rename="camel", kw_only=True):
    """The organization of the key."""

    id: str
    name: str
    plan: str
    created_at: Timestamp
    quotas: Quotas

    @classmethod
    def of(cls, owner: Owner) -> OrganizationDetails:
        return cls(
            id=owner.id,
            name=owner.name,
            plan=str(owner.plan),
            created_at=Timestamp.of(owner.created_at),
            quotas=Quotas.of(owner.quotas),
        )


class OrganizationData(Struct):
    """The organization."""

    organization: OrganizationDetails


class OrganizationAnswer(Answer, kw_only=True):
    """The organization as it is now."""

    data: OrganizationData


class UsageQuery(Struct, rename="camel"):
    """Which days, both included, and what to add up by; without any of them the usage of now alone."""

    start: Annotated[date, Meta(description="The first day (UTC); the first of this month without it.")] | None = (
        msgspec.field(name="from", default=None)
    )
    end: Annotated[date, Meta(description="The last day (UTC); today without it.")] | None = msgspec.field(
        name="to", default=None
    )
    by: Literal["day", "namespace", "tenant"] | None = None


class ModelUsage(Struct, rename="camel"):
    """Tokens of one model. `cost` is null for a model without a price."""

    provider: str
    model: str
    tokens: int
    cost: float | None


class UsageGroup(Struct, rename="camel", kw_only=True):
    """What belongs to a day, a namespace or a tenant. `used` and `limit` stand with tenants that have quotas."""

    day: str | UnsetType = UNSET
    namespace_id: str | UnsetType = UNSET
    tenant_id: str | UnsetType | None = UNSET
    documents: int
    stored_bytes: int
    tokens: int
    cost: float | None
    models: list[ModelUsage]
    used: Quotas | UnsetType = UNSET
    limit: Quotas | UnsetType = UNSET


def group(found: usage.Group, by: usage.By, prices: Mapping[str, float], use: Use | None) -> UsageGroup:
    """A group as it is shown. Its cost is null if one of its models has no price."""
    models = [
        ModelUsage(one.provider, one.model, one.tokens, _cost(one, prices.get(f"{one.provider}/{one.model}")))
        for one in found.models
    ]
    costs = [one.cost for one in models]
    return UsageGroup(
        day=found.key if by is usage.By.DAY else UNSET,
        namespace_id=found.key if by is usage.By.NAMESPACE else UNSET,
        tenant_id=(found.key or None) if by is usage.By.TENANT else UNSET,
        documents=found.documents,
        stored_bytes=found.stored_bytes,
        tokens=found.tokens,
        cost=None if None in costs else round(sum(cost for cost in costs if cost is not None), 6),
        models=models,
        used=UNSET if use is None else Quotas.of(use.used),
        limit=UNSET if use is None else Quotas.of(use.limits),
    )


def _cost(one: usage.Tokens, price: float | None) -> float | None:
    if price is None:
        return 0.0 if one.provider == "LOCAL" else None
    return round(one.tokens * price / 1_000_000, 6)
