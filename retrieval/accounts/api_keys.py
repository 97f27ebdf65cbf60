"""API keys: shown once, stored as a peppered hash, limited by scopes and, if wanted, to a namespace and a tenant."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, LiteralString

from retrieval import ids
from retrieval.database import pagination
from retrieval.database.database import Database
from retrieval.database.pagination import Page, Part
from retrieval.security.secrets import PEPPER, KeyRing, hash_api_key, server_secret

SCOPES = (
    "namespaces:read",
    "namespaces:write",
    "documents:read",
    "documents:write",
    "ingest:read",
    "ingest:write",
    "search",
    "connections:read",
    "connections:write",
    "webhooks:read",
    "webhooks:write",
    "admin",
)
"""What a key may be allowed to do. `admin`: keys, tenants, usage and the organization."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """An API key in listings: `hint` is its last four characters; the key itself is not stored.

    `principal`: the user that it acts for; `principal_required`: it serves requests on behalf of a user only.
    """

    id: str
    organization_id: str
    name: str
    hint: str
    scopes: list[str]
    namespace_id: str | None
    tenant: str | None
    created_at: datetime
    revoked_at: datetime | None
    principal: str | None = None
    principal_required: bool = False


@dataclass(frozen=True, slots=True)
class NewKey:
    """The only moment at which a key is seen."""

    id: str
    api_key: str = field(repr=False)


COLUMNS: LiteralString = (
    "id, organization_id, name, hint, scopes, namespace_id, tenant, created_at, revoked_at, principal,"
    " principal_required"
)
INSERT: LiteralString = (
    "insert into api_keys (id, organization_id, name, hash, hint, scopes, namespace_id, tenant, principal,"
    " principal_required)"
    " values (%(id)s, %(organization)s, %(name)s, %(hash)s, %(hint)s, %(scopes)s, %(namespace)s, %(tenant)s,"
    " %(principal)s, %(principal_required)s)"
)

_LIST: LiteralString = (
    "select " + COLUMNS + " from api_keys where organization_id = %(organization)s" + pagination.order_desc()
)
_REVOKE: LiteralString = (
    "update api_keys set revoked_at = coalesce(revoked_at, now())"
    " where organization_id = %(organization)s and id = %(id)s"
)


def create(
    db: Database,
    keys: KeyRing,
    organization: str,
    name: str,
    *,
    scopes: Sequence[str] = SCOPES,
    namespace: str | None = None,
    tenant: str | None = None,
    principal: str | None = None,
    principal_required: bool = False,
) -> NewKey:
    """A new key of the organization; `principal` by its name. ValueError for an unknown scope."""
    unknown = sorted(set(scopes) - set(SCOPES))
    if unknown:
        raise ValueError(f"Unknown scope {unknown[0]!r}; there are: {', '.join(SCOPES)}.")
    new, values = draft_key(server_secret(db, keys, PEPPER), organization, name)
    limits = {"scopes": list(scopes), "namespace": namespace, "tenant": tenant}
    db.execute(INSERT, {**values, **limits, "principal": principal, "principal_required": principal_required})
    return new


async def add_key(
    db: Database,
    pepper: bytes,
    organization: str,
    name: str,
    *,
    scopes: Sequence[str],
    namespace: str | None = None,
    tenant: str | None = None,
    principal: str | None = None,
    principal_required: bool = False,
) -> tuple[NewKey, ApiKey]:
    """Async form of `create`, for existing scopes; `pepper` is one of the server secrets."""
    new, values = draft_key(pepper, organization, name)
    limits = {"scopes": list(scopes), "namespace": namespace, "tenant": tenant}
    values |= {"principal": principal, "principal_required": principal_required}
    rows = await db.async_fetch(ApiKey, INSERT + " returning " + COLUMNS, {**values, **limits})
    return new, rows[0]


async def list_part(db: Database, organization: str, part: Part | None = None) -> Page[ApiKey]:
    """`list_all` on the event loop, or a part of it with the cursor of the next."""
    keys = await db.async_fetch(ApiKey, _LIST, {"organization": organization, **pagination.part_by_age(part)})
    return pagination.part_cut(keys, part)


async def find_key(db: Database, organization: str, key_id: str) -> ApiKey | None:
    """A key of the organization, revoked or not."""
    return await db.async_fetch_one(
        ApiKey,
        "select " + COLUMNS + " from api_keys where organization_id = %(organization)s and id = %(id)s",
        {"organization": organization, "id": key_id},
    )


async def end_key(db: Database, organization: str, key_id: str) -> ApiKey | None:
    """`revoke` on the event loop; the key as it is now, None if the organization has no such key."""
    statement: LiteralString = _REVOKE + " returning " + COLUMNS
    return await db.async_fetch_one(ApiKey, statement, {"organization": organization, "id": key_id})


def draft_key(pepper: bytes, organization: str, name: str) -> tuple[NewKey, dict[str, Any]]:
    """A fresh key and the values of its row, with every scope."""
    api_key = "rtr_" + secrets.token_urlsafe(32)
    new = NewKey(ids.key_id(), api_key)
    return new, {
        "id": new.id,
        "organization": organization,
        "name": name,
        "hash": hash_api_key(api_key, pepper=pepper),
        "hint": api_key[-4:],
        "scopes": list(SCOPES),
        "namespace": None,
        "tenant": None,
        "principal": None,
        "principal_required": False,
    }


def list_all(db: Database, organization: str) -> list[ApiKey]:
    """Newest first, revoked ones too."""
    whole = pagination.part_by_age(None)
    return db.fetch(ApiKey, _LIST, {"organization": organization, **whole})


def revoke(db: Database, organization: str, key_id: str) -> bool:
    """Refuse the key from now on; False if the organization has no such key."""
    return bool(db.execute(_REVOKE, {"organization": organization, "id": key_id}))
