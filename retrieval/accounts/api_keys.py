"""API keys: shown once, stored as a peppered hash, limited by scopes and optionally to a namespace and tenant."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, func, insert, select, update

from retrieval import ids
from retrieval.database import pagination
from retrieval.database.compiling import columns_of, compile_statement, equals, select_page
from retrieval.database.database import Database
from retrieval.database.pagination import Page, PageRequest
from retrieval.database.schema import identity
from retrieval.security.secrets import PEPPER_NAME, KeyRing, hash_api_key, server_secret

# `admin`: keys, tenants, usage and the organization.
KEY_SCOPES = (
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


@dataclass(frozen=True, slots=True)
class ApiKey:
    """Stored API key. `hint`: last four characters; `principal`: acts for this user; `principal_required`: requires a
    user."""

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
    """New API key with its secret, shown once."""

    id: str
    api_key: str = field(repr=False)


_table = identity.ApiKey
_columns = columns_of(_table, ApiKey)
_of_organization = equals(_table.organization_id, "organization")
_is_key = equals(_table.id)
_values: dict[str, Any] = {
    "id": bindparam("id"),
    "organization_id": bindparam("organization"),
    "name": bindparam("name"),
    "hash": bindparam("hash"),
    "hint": bindparam("hint"),
    "scopes": bindparam("scopes"),
    "namespace_id": bindparam("namespace"),
    "tenant": bindparam("tenant"),
    "principal": bindparam("principal"),
    "principal_required": bindparam("principal_required"),
}
INSERT_KEY = compile_statement(insert(_table).values(**_values).returning(*_columns))
_LIST_KEYS = select_page(_table, ApiKey, _of_organization, newest_first=True)
_GET_KEY = compile_statement(select(*_columns).where(_of_organization, _is_key))
_REVOKE_KEY = compile_statement(
    update(_table)
    .where(_of_organization, _is_key)
    .values(revoked_at=func.coalesce(_table.revoked_at, func.now()))
    .returning(*_columns)
)


def create_key(
    db: Database,
    keys: KeyRing,
    organization: str,
    name: str,
    *,
    scopes: Sequence[str] = KEY_SCOPES,
    namespace: str | None = None,
    tenant: str | None = None,
    principal: str | None = None,
    principal_required: bool = False,
) -> NewKey:
    """Create a key of the organization. Raises ValueError for an unknown scope."""
    unknown = sorted(set(scopes) - set(KEY_SCOPES))
    if unknown:
        raise ValueError(f"Unknown scope {unknown[0]!r}; there are: {', '.join(KEY_SCOPES)}.")
    new_key, values = draft_key(server_secret(db, keys, PEPPER_NAME), organization, name)
    limits = {"scopes": list(scopes), "namespace": namespace, "tenant": tenant}
    db.execute(INSERT_KEY, {**values, **limits, "principal": principal, "principal_required": principal_required})
    return new_key


async def async_create_key(
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
    """Create a key with valid scopes on the event loop. `pepper`: server secret for hashes."""
    new_key, values = draft_key(pepper, organization, name)
    limits = {"scopes": list(scopes), "namespace": namespace, "tenant": tenant}
    values |= {"principal": principal, "principal_required": principal_required}
    rows = await db.async_fetch(ApiKey, INSERT_KEY, {**values, **limits})
    return new_key, rows[0]


def list_keys(db: Database, organization: str) -> list[ApiKey]:
    """Return all keys, newest first, including revoked ones."""
    return db.fetch(ApiKey, _LIST_KEYS, {"organization": organization, **pagination.page_params(None)})


async def list_key_page(db: Database, organization: str, part: PageRequest | None = None) -> Page[ApiKey]:
    """Return a page of keys, newest first, including revoked ones; None: all pages."""
    keys = await db.async_fetch(ApiKey, _LIST_KEYS, {"organization": organization, **pagination.page_params(part)})
    return pagination.cut_page(keys, part)


async def find_key(db: Database, organization: str, key_id: str) -> ApiKey | None:
    """Return a key of the organization, revoked or not."""
    return await db.async_fetch_one(ApiKey, _GET_KEY, {"organization": organization, "id": key_id})


def revoke_key(db: Database, organization: str, key_id: str) -> bool:
    """Revoke a key; return False if the organization has no such key."""
    return bool(db.execute(_REVOKE_KEY, {"organization": organization, "id": key_id}))


async def async_revoke_key(db: Database, organization: str, key_id: str) -> ApiKey | None:
    """Revoke a key on the event loop; return None if the organization has no such key."""
    return await db.async_fetch_one(ApiKey, _REVOKE_KEY, {"organization": organization, "id": key_id})


def draft_key(pepper: bytes, organization: str, name: str) -> tuple[NewKey, dict[str, Any]]:
    """Return a new key with every scope, and the values of its row."""
    api_key = "rtr_" + secrets.token_urlsafe(32)
    new_key = NewKey(ids.key_id(), api_key)
    return new_key, {
        "id": new_key.id,
        "organization": organization,
        "name": name,
        "hash": hash_api_key(api_key, pepper=pepper),
        "hint": api_key[-4:],
        "scopes": list(KEY_SCOPES),
        "namespace": None,
        "tenant": None,
        "principal": None,
        "principal_required": False,
    }
