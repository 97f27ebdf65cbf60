"""API keys, tenants and usage on the wire."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from api.wire.common import Answer, Listing, Timestamp
from api.wire.quotas import Quotas, UsageGroup
from retrieval.accounts import api_keys as keys
from retrieval.accounts import tenants
from retrieval.accounts.api_keys import SCOPES

KeyName = Annotated[str, Meta(min_length=1, max_length=200, examples=["Website"])]
TenantId = Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{1,64}$", examples=["alice"])]
Scopes = Annotated[
    list[str],
    Meta(min_length=1, max_length=len(SCOPES), extra_json_schema={"items": {"type": "string", "enum": list(SCOPES)}}),
]


class CreateKey(Struct, rename="camel"):
    """A key to make. Without `scopes` it may do all but administer; it may be bound to a namespace or a tenant."""

    name: KeyName
    scopes: Scopes | None = None
    namespace_id: str | None = None
    tenant_id: TenantId | None = None
    principal: Annotated[str, Meta(description="The user as whom it acts.", examples=["ada@example.com"])] | None = None
    principal_required: (
        Annotated[bool, Meta(description="Whether it answers on behalf of a user (X-On-Behalf-Of) alone.")] | None
    ) = False


class Key(Struct, rename="camel", kw_only=True):
    """An API key without the key itself: `hint` is its last four characters."""

    id: str
    name: str
    hint: str
    scopes: list[str]
    namespace_id: str | None
    tenant_id: str | None
    created_at: Timestamp
    revoked_at: Timestamp | None
    principal: str | UnsetType = UNSET
    principal_required: bool | UnsetType = UNSET
    role: str | UnsetType = UNSET
    expires_at: Timestamp | UnsetType = UNSET

    @classmethod
    def of(cls, key: keys.ApiKey) -> Key:
        return cls(
            id=key.id,
            name=key.name,
            hint=key.hint,
            scopes=key.scopes,
            namespace_id=key.namespace_id,
            tenant_id=key.tenant,
            created_at=Timestamp.of(key.created_at),
            revoked_at=Timestamp.of(key.revoked_at) if key.revoked_at else None,
            principal=UNSET if key.principal is None else key.principal,
            principal_required=key.principal_required or UNSET,
        )


class KeysData(Listing, kw_only=True):
    """Newest first, revoked ones too."""

    keys: list[Key]


class KeysAnswer(Answer, kw_only=True):
    """The API keys of the organization, newest first."""

    data: KeysData


class MadeKeyData(Struct, rename="camel"):
    """The key is shown here and never again."""

    key: Key
    api_key: str


class KeyMadeAnswer(Answer, kw_only=True):
    """The new API key, shown this once."""

    data: MadeKeyData


class KeyData(Struct):
    """One API key."""

    key: Key


class KeyAnswer(Answer, kw_only=True):
    """The API key as it is now."""

    data: KeyData


class CreateTenant(Struct):
    """A tenant to make known, by the name that clients send in X-Tenant-ID."""

    id: TenantId


class Tenant(Struct, rename="camel"):
    """A tenant that the organization knows, with its quotas."""

    id: str
    created_at: Timestamp
    quotas: Quotas

    @classmethod
    def of(cls, tenant: tenants.Tenant) -> Tenant:
        return cls(tenant.id, Timestamp.of(tenant.created_at), Quotas.of(tenant.quotas))


class TenantsData(Listing, kw_only=True):
    """Oldest first."""

    tenants: list[Tenant]


class TenantsAnswer(Answer, kw_only=True):
    """The tenants that the organization knows, oldest first."""

    data: TenantsData


class TenantData(Struct):
    """One tenant."""

    tenant: Tenant


class TenantAnswer(Answer, kw_only=True):
    """The tenant is known."""

    data: TenantData


class ForgottenTenant(Struct):
    """The tenant's name."""

    id: str


class TenantDeletedAnswer(Answer, kw_only=True):
    """The tenant is not known any more; its data stays."""

    data: ForgottenTenant


class Allowance(Struct):
    """How much of a limit is used."""

    used: int
    limit: int


class UsageData(Struct, rename="camel"):
    """`storageBytes` sums the documents' sizes as they were sent; `requests` are those of this calendar minute.

    What follows `namespaces` is there where days or groups were asked for.
    """

    documents: int
    chunks: int
    storage_bytes: int
    requests: Allowance
    namespaces: Allowance
    start: str | UnsetType = msgspec.field(name="from", default=UNSET)
    end: str | UnsetType = msgspec.field(name="to", default=UNSET)
    by: str | UnsetType = UNSET
    used: Quotas | UnsetType = UNSET
    limit: Quotas | UnsetType = UNSET
    currency: str | UnsetType = UNSET
    usage: list[UsageGroup] | UnsetType = UNSET


class UsageAnswer(Answer, kw_only=True):
    """What the organization uses of what it may use."""

    data: UsageData
