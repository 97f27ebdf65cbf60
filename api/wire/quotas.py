"""Quotas and what is used of them on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from api.wire.common import DataAnswer, Timestamp
from retrieval.accounts import quotas, usage
from retrieval.accounts.organizations import Organization as Owner
from retrieval.accounts.quotas import Use

_Limit = Annotated[int, Meta(ge=0, le=quotas.MOST)]


class SetQuotas(Struct, rename="camel"):
    """Limits to set; null removes one, and what is absent stays."""

    documents: Annotated[_Limit | UnsetType | None, Meta(description="Documents; null removes the limit.")] = UNSET
    stored_bytes: Annotated[_Limit | UnsetType | None, Meta(description="Bytes of documents as they were sent.")] = (
        UNSET
    )
    tokens_per_month: Annotated[
        _Limit | UnsetType | None, Meta(description="Tokens of documents that are embedded in a calendar month (UTC).")
    ] = UNSET
    concurrent_runs: Annotated[_Limit | UnsetType | None, Meta(description="Job runs that are not finished.")] = UNSET

    def values(self) -> dict[str, int | None]:
        given: dict[str, int | None] = msgspec.to_builtins(self)
        return given


class UpdateOrganization(Struct):
    """What to change of the organization."""

    quotas: Annotated[
        SetQuotas | UnsetType, Meta(description="The limits of what may be stored, embedded and run; null is no limit.")
    ] = UNSET


class UpdateTenant(Struct):
    """What to change of a tenant."""

    quotas: Annotated[
        SetQuotas | UnsetType, Meta(description="The limits of what may be stored, embedded and run; null is no limit.")
    ] = UNSET


class Quotas(Struct, rename="camel", kw_only=True):
    """A number for each quota; null where there is no limit."""

    documents: Annotated[int | None, Meta(description="Documents.")]
    stored_bytes: Annotated[int | None, Meta(description="Bytes of documents as they were sent.")]
    tokens_per_month: Annotated[
        int | None, Meta(description="Tokens of documents that are embedded in a calendar month (UTC).")
    ]
    concurrent_runs: Annotated[int | None, Meta(description="Job runs that are not finished.")]

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

    id: Annotated[str, Meta(description="The id.")]
    name: Annotated[str, Meta(description="The name, for people.")]
    plan: Annotated[str, Meta(description="What the organization has booked.")]
    created_at: Annotated[Timestamp, Meta(description="When it was made.")]
    quotas: Annotated[Quotas, Meta(description="The limits of what may be stored, embedded and run; null is no limit.")]

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


class OrganizationAnswer(DataAnswer[OrganizationData]):
    """The organization as it is now."""


class UsageQuery(Struct, rename="camel"):
    """Which days, both included, and what to add up by; without any of them the usage of now alone."""

    start: Annotated[date, Meta(description="The first day (UTC); the first of this month without it.")] | None = (
        msgspec.field(name="from", default=None)
    )
    end: Annotated[date, Meta(description="The last day (UTC); today without it.")] | None = msgspec.field(
        name="to", default=None
    )
    by: Annotated[Literal["day", "namespace", "tenant"] | None, Meta(description="What is added up by.")] = None


class ModelUsage(Struct, rename="camel"):
    """Tokens of one model. `cost` is null for a model without a price."""

    provider: Annotated[str, Meta(description="Whose service it is.")]
    model: Annotated[str, Meta(description="The model's name.")]
    tokens: Annotated[int, Meta(description="Tokens embedded in the days that were asked for.")]
    cost: Annotated[float | None, Meta(description="What they cost by the price table; null without a price.")]


class UsageGroup(Struct, rename="camel", kw_only=True):
    """What belongs to a day, a namespace or a tenant. `used` and `limit` stand with tenants that have quotas."""

    day: Annotated[str | UnsetType, Meta(description="The day (UTC).")] = UNSET
    namespace_id: Annotated[str | UnsetType, Meta(description="The namespace.")] = UNSET
    tenant_id: Annotated[str | UnsetType | None, Meta(description="The tenant; null for the scope without one.")] = (
        UNSET
    )
    documents: Annotated[int, Meta(description="Documents that are there; by day, those that came then.")]
    stored_bytes: Annotated[int, Meta(description="Bytes of documents as they were sent.")]
    tokens: Annotated[int, Meta(description="Tokens embedded in the days that were asked for.")]
    cost: Annotated[float | None, Meta(description="What they cost by the price table; null without a price.")]
    models: Annotated[list[ModelUsage], Meta(description="The same by model.")]
    used: Annotated[Quotas | UnsetType, Meta(description="What the tenant uses of its quotas.")] = UNSET
    limit: Annotated[Quotas | UnsetType, Meta(description="The tenant's quotas.")] = UNSET


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
