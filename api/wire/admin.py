"""Keys, tenants, organization, quotas and usage in requests and responses."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from api.wire.common import DataAnswer, Listing, Timestamp
from retrieval.accounts import api_keys as keys
from retrieval.accounts import quotas
from retrieval.accounts.api_keys import KEY_SCOPES
from retrieval.accounts.queries import tenants, usage
from retrieval.accounts.queries.organizations import Organization as Owner
from retrieval.accounts.quotas import QuotaUsage

KeyName = Annotated[str, Meta(min_length=1, max_length=200, examples=["Website"])]
TenantId = Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{1,64}$", examples=["alice"])]
_SCOPE_SCHEMA = {"type": "string", "enum": list(KEY_SCOPES)}
Scopes = Annotated[
    list[str],
    Meta(min_length=1, max_length=len(KEY_SCOPES), extra_json_schema={"items": _SCOPE_SCHEMA}),
]


class CreateKey(Struct, rename="camel"):
    """A key to create. Without `scopes` it may do everything except administration; it may be bound to a namespace or
    tenant."""

    name: Annotated[KeyName, Meta(description="The display name.")]
    scopes: Annotated[Scopes | None, Meta(description="The scopes of the key.")] = None
    namespace_id: Annotated[
        str | None, Meta(description="Restricts the key to one namespace. Absent: all namespaces.")
    ] = None
    tenant_id: Annotated[TenantId | None, Meta(description="Restricts the key to one tenant. Absent: all tenants.")] = (
        None
    )
    principal: (
        Annotated[str, Meta(description="The user that the key acts as.", examples=["ada@example.com"])] | None
    ) = None
    principal_required: Annotated[
        bool | None, Meta(description="Whether the key requires a user in X-On-Behalf-Of.")
    ] = False


class Key(Struct, rename="camel", kw_only=True):
    """An API key without the key itself: `hint` is its last four characters."""

    id: Annotated[str, Meta(description="The object's id.")]
    name: Annotated[str, Meta(description="The display name.")]
    hint: Annotated[str, Meta(description="The last four characters of the API key.")]
    scopes: Annotated[list[str], Meta(description="The scopes of the key.")]
    namespace_id: Annotated[str | None, Meta(description="The namespace that the key is restricted to; null for all.")]
    tenant_id: Annotated[str | None, Meta(description="The tenant that the key is restricted to; null for all.")]
    created_at: Annotated[Timestamp, Meta(description="Time of creation.")]
    revoked_at: Annotated[Timestamp | None, Meta(description="When the key was revoked; null while it is valid.")]
    principal: Annotated[str | UnsetType, Meta(description="The user that the key acts as; absent without one.")] = (
        UNSET
    )
    principal_required: Annotated[
        bool | UnsetType, Meta(description="Whether the key requires a user in X-On-Behalf-Of; absent if it does not.")
    ] = UNSET
    role: Annotated[
        str | UnsetType,
        Meta(description="The role of a signed-in person: `viewer`, `editor` or `admin`. Absent for a key."),
    ] = UNSET
    expires_at: Annotated[
        Timestamp | UnsetType, Meta(description="Expiry of the person's token. Absent for a key.")
    ] = UNSET

    @classmethod
    def from_key(cls, key: keys.ApiKey) -> Key:
        return cls(
            id=key.id,
            name=key.name,
            hint=key.hint,
            scopes=key.scopes,
            namespace_id=key.namespace_id,
            tenant_id=key.tenant,
            created_at=Timestamp.from_datetime(key.created_at),
            revoked_at=Timestamp.from_optional(key.revoked_at),
            principal=UNSET if key.principal is None else key.principal,
            principal_required=key.principal_required or UNSET,
        )


class KeysData(Listing, kw_only=True):
    """Newest first, revoked keys included."""

    keys: Annotated[list[Key], Meta(description="The API keys, without their secrets.")]


class KeysAnswer(DataAnswer[KeysData]):
    """The API keys of the organization, newest first."""


class MadeKeyData(Struct, rename="camel"):
    """The key is shown here and never again."""

    key: Annotated[Key, Meta(description="The API key, without its secret.")]
    api_key: Annotated[str, Meta(description="The API key. It is shown only in this response.")]


class KeyMadeAnswer(DataAnswer[MadeKeyData]):
    """The new API key, shown this once."""


class KeyData(Struct):
    """An API key."""

    key: Annotated[Key, Meta(description="The API key, without its secret.")]


class KeyAnswer(DataAnswer[KeyData]):
    """The current API key."""


class CreateTenant(Struct):
    """A tenant to register, by the name in X-Tenant-ID."""

    id: Annotated[TenantId, Meta(description="The object's id.")]


class Tenant(Struct, rename="camel"):
    """A registered tenant with quotas."""

    id: Annotated[str, Meta(description="The tenant's name as sent in X-Tenant-ID.")]
    created_at: Annotated[Timestamp, Meta(description="Time of creation.")]
    quotas: Annotated[Quotas, Meta(description="Limits by quota; null means no limit.")]

    @classmethod
    def from_tenant(cls, tenant: tenants.Tenant) -> Tenant:
        return cls(tenant.id, Timestamp.from_datetime(tenant.created_at), Quotas.from_numbers(tenant.quotas))


class TenantsData(Listing, kw_only=True):
    """Oldest first."""

    tenants: list[Tenant]


class TenantsAnswer(DataAnswer[TenantsData]):
    """The registered tenants, oldest first."""


class TenantData(Struct):
    """A tenant."""

    tenant: Tenant


class TenantAnswer(DataAnswer[TenantData]):
    """The tenant is registered."""


class ForgottenTenant(Struct):
    """The tenant's name."""

    id: Annotated[str, Meta(description="The tenant's name.")]


class TenantDeletedAnswer(DataAnswer[ForgottenTenant]):
    """The tenant is no longer registered; its data stays."""


class Allowance(Struct):
    """A limit and the current usage."""

    used: Annotated[int, Meta(description="Current usage.")]
    limit: Annotated[int, Meta(description="The limit.")]


class UsageData(Struct, rename="camel"):
    """Usage of the organization. `storageBytes` sums the documents' sizes as sent; `requests` are those of this
    calendar minute.

    The fields after `namespaces` are present if days or groups were requested.
    """

    documents: Annotated[int, Meta(description="Number of documents.")]
    chunks: Annotated[int, Meta(description="Number of chunks.")]
    storage_bytes: Annotated[int, Meta(description="Total size of the documents as sent, in bytes.")]
    requests: Annotated[Allowance, Meta(description="Requests of this calendar minute.")]
    namespaces: Annotated[Allowance, Meta(description="Number of namespaces and its limit.")]
    start: Annotated[str | UnsetType, Meta(description="The first day (UTC).")] = msgspec.field(
        name="from", default=UNSET
    )
    end: Annotated[str | UnsetType, Meta(description="The last day (UTC).")] = msgspec.field(name="to", default=UNSET)
    by: Annotated[str | UnsetType, Meta(description="The grouping: by day, namespace or tenant.")] = UNSET
    used: Annotated[Quotas | UnsetType, Meta(description="The organization's usage of its quotas.")] = UNSET
    limit: Annotated[Quotas | UnsetType, Meta(description="The organization's quotas.")] = UNSET
    currency: Annotated[str | UnsetType, Meta(description="The currency of the costs.")] = UNSET
    usage: Annotated[list[UsageGroup] | UnsetType, Meta(description="Usage by day, namespace or tenant.")] = UNSET
    daily: Annotated[
        list[DailyUsage] | UnsetType, Meta(description="Tokens by day, namespace and model, if requested.")
    ] = UNSET


class UsageAnswer(DataAnswer[UsageData]):
    """Usage and limits of the organization."""


_Limit = Annotated[int, Meta(ge=0, le=quotas.MAX_QUOTA)]


class SetQuotas(Struct, rename="camel"):
    """Limits to set; null removes a limit, absent limits stay."""

    documents: Annotated[_Limit | UnsetType | None, Meta(description="Documents; null removes the limit.")] = UNSET
    stored_bytes: Annotated[
        _Limit | UnsetType | None, Meta(description="Total size of the documents as sent, in bytes.")
    ] = UNSET
    tokens_per_month: Annotated[
        _Limit | UnsetType | None, Meta(description="Embedded tokens per calendar month (UTC).")
    ] = UNSET
    concurrent_runs: Annotated[_Limit | UnsetType | None, Meta(description="Unfinished job runs.")] = UNSET

    def to_values(self) -> dict[str, int | None]:
        quotas_sent: dict[str, int | None] = msgspec.to_builtins(self)
        return quotas_sent


class UpdateOrganization(Struct):
    """Changes to the organization."""

    quotas: Annotated[SetQuotas | UnsetType, Meta(description="Limits by quota; null means no limit.")] = UNSET


class UpdateTenant(Struct):
    """Changes to a tenant."""

    quotas: Annotated[SetQuotas | UnsetType, Meta(description="Limits by quota; null means no limit.")] = UNSET


class Quotas(Struct, rename="camel", kw_only=True):
    """A number for each quota; null without a limit."""

    documents: Annotated[int | None, Meta(description="Documents.")]
    stored_bytes: Annotated[int | None, Meta(description="Total size of the documents as sent, in bytes.")]
    tokens_per_month: Annotated[int | None, Meta(description="Embedded tokens per calendar month (UTC).")]
    concurrent_runs: Annotated[int | None, Meta(description="Unfinished job runs.")]

    @classmethod
    def from_numbers(cls, numbers: Mapping[str, int]) -> Quotas:
        return cls(
            documents=numbers.get(quotas.DOCUMENT_QUOTA),
            stored_bytes=numbers.get(quotas.STORAGE_QUOTA),
            tokens_per_month=numbers.get(quotas.TOKENS_QUOTA),
            concurrent_runs=numbers.get(quotas.RUN_QUOTA),
        )


class OrganizationDetails(Struct, rename="camel", kw_only=True):
    """The organization of the key."""

    id: Annotated[str, Meta(description="The object's id.")]
    name: Annotated[str, Meta(description="The display name.")]
    plan: Annotated[str, Meta(description="The organization's plan.")]
    created_at: Annotated[Timestamp, Meta(description="Time of creation.")]
    quotas: Annotated[Quotas, Meta(description="Limits by quota; null means no limit.")]

    @classmethod
    def from_organization(cls, owner: Owner) -> OrganizationDetails:
        return cls(
            id=owner.id,
            name=owner.name,
            plan=str(owner.plan),
            created_at=Timestamp.from_datetime(owner.created_at),
            quotas=Quotas.from_numbers(owner.quotas),
        )


class OrganizationData(Struct):
    """The organization."""

    organization: OrganizationDetails


class OrganizationAnswer(DataAnswer[OrganizationData]):
    """The current organization."""


class UsageQuery(Struct, rename="camel"):
    """Days, both included, and the grouping. Without any of them only the current usage is returned."""

    start: Annotated[date | None, Meta(description="The first day (UTC). Default: the first day of this month.")] = (
        msgspec.field(name="from", default=None)
    )
    end: Annotated[date | None, Meta(description="The last day (UTC). Default: today.")] = msgspec.field(
        name="to", default=None
    )
    by: Annotated[
        Literal["day", "namespace", "tenant"] | None, Meta(description="The grouping: by day, namespace or tenant.")
    ] = None
    daily: Annotated[bool, Meta(description="Whether to return `daily`, the tokens by day and namespace.")] = False


class DailyUsage(Struct, rename="camel"):
    """Tokens of a namespace and model on a day. `cost` is null for a model without a price."""

    day: Annotated[str, Meta(description="The day (UTC).")]
    namespace_id: Annotated[str, Meta(description="The namespace.")]
    provider: Annotated[str, Meta(description="The provider.")]
    model: Annotated[str, Meta(description="The model's name.")]
    tokens: Annotated[int, Meta(description="Tokens embedded on the day.")]
    cost: Annotated[float | None, Meta(description="Cost by the price table; null without a price.")]


class ModelUsage(Struct, rename="camel"):
    """Tokens of a model. `cost` is null for a model without a price."""

    provider: Annotated[str, Meta(description="The provider.")]
    model: Annotated[str, Meta(description="The model's name.")]
    tokens: Annotated[int, Meta(description="Tokens embedded in the requested period.")]
    cost: Annotated[float | None, Meta(description="Cost by the price table; null without a price.")]


class UsageGroup(Struct, rename="camel", kw_only=True):
    """Usage of a day, a namespace or a tenant. `used` and `limit` are present for tenants with quotas."""

    day: Annotated[str | UnsetType, Meta(description="The day (UTC).")] = UNSET
    namespace_id: Annotated[str | UnsetType, Meta(description="The namespace.")] = UNSET
    tenant_id: Annotated[str | UnsetType | None, Meta(description="The tenant; null without one.")] = UNSET
    documents: Annotated[int, Meta(description="Number of documents; by day, the number added on that day.")]
    stored_bytes: Annotated[int, Meta(description="Total size of the documents as sent, in bytes.")]
    tokens: Annotated[int, Meta(description="Tokens embedded in the requested period.")]
    cost: Annotated[float | None, Meta(description="Cost by the price table; null without a price.")]
    models: Annotated[list[ModelUsage], Meta(description="Usage by model.")]
    used: Annotated[Quotas | UnsetType, Meta(description="The tenant's usage of its quotas.")] = UNSET
    limit: Annotated[Quotas | UnsetType, Meta(description="The tenant's quotas.")] = UNSET


def build_usage_group(
    entry: usage.UsageGroup, by: usage.UsageDimension, prices: Mapping[str, float], use: QuotaUsage | None
) -> UsageGroup:
    """Return the usage of a group; the cost is null if a model has no price."""
    models = [
        ModelUsage(
            model.provider, model.model, model.tokens, _token_cost(model, prices.get(f"{model.provider}/{model.model}"))
        )
        for model in entry.models
    ]
    costs = [model.cost for model in models]
    return UsageGroup(
        day=entry.key if by is usage.UsageDimension.DAY else UNSET,
        namespace_id=entry.key if by is usage.UsageDimension.NAMESPACE else UNSET,
        tenant_id=(entry.key or None) if by is usage.UsageDimension.TENANT else UNSET,
        documents=entry.documents,
        stored_bytes=entry.stored_bytes,
        tokens=entry.tokens,
        cost=None if None in costs else round(sum(cost for cost in costs if cost is not None), 6),
        models=models,
        used=UNSET if use is None else Quotas.from_numbers(use.used),
        limit=UNSET if use is None else Quotas.from_numbers(use.limits),
    )


def build_daily_usage(entry: usage.DailyTokens, prices: Mapping[str, float]) -> DailyUsage:
    """Return the tokens of a day with their cost."""
    cost = _token_cost(entry, prices.get(f"{entry.provider}/{entry.model}"))
    return DailyUsage(entry.day, entry.namespace, entry.provider, entry.model, entry.tokens, cost)


def _token_cost(used_tokens: usage.ModelTokens | usage.DailyTokens, price: float | None) -> float | None:
    if price is None:
        return 0.0 if used_tokens.provider == "LOCAL" else None
    return round(used_tokens.tokens * price / 1_000_000, 6)
