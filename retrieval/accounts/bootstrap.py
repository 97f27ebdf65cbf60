"""Bootstrap of a new installation: organization, namespace and API key."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select

from retrieval import ids
from retrieval.accounts import api_keys, audit
from retrieval.accounts.audit import AuditEntry, Source
from retrieval.accounts.queries import organizations
from retrieval.database import schema
from retrieval.database.compiling import compile_statement, equals
from retrieval.database.database import Database
from retrieval.database.rows import Executor
from retrieval.namespaces import destinations, namespaces
from retrieval.security import secrets
from retrieval.security.secrets import KeyRing
from retrieval.settings import Settings

_BOOTSTRAP_LOCK = 0x626F6F74
_DEFAULT_NAME = "default"


_organization: Any = schema.Organization
_namespace: Any = schema.Namespace
_key: Any = schema.ApiKey
_FIRST_ORGANIZATION = compile_statement(select(_organization.id).order_by(_organization.id).limit(1))
_FIRST_NAMESPACE = compile_statement(
    select(_namespace.id)
    .where(equals(_namespace.organization_id), _namespace.deleted_at.is_(None))
    .order_by(_namespace.id)
    .limit(1)
)
_LIST_KEYS = compile_statement(select(_key.id).where(equals(_key.organization_id)))


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """Default organization and namespace. `api_key`: None for an existing installation."""

    organization_id: str
    namespace_id: str
    api_key: str | None = field(repr=False)


def ensure_installation(db: Database, ring: KeyRing, settings: Settings) -> Bootstrap:
    """Create the missing parts in one transaction, once for all concurrently starting processes."""
    pepper = secrets.server_secret(db, ring, secrets.PEPPER_NAME)
    with db.transaction() as connection:
        connection.execute("select pg_advisory_xact_lock(%(lock)s)", {"lock": _BOOTSTRAP_LOCK})
        organization = _ensure_organization(connection)
        return Bootstrap(
            organization,
            _ensure_namespace(connection, ring, organization, settings),
            _create_first_key(connection, pepper, organization),
        )


def _ensure_organization(connection: Executor) -> str:
    if existing := connection.fetch_one(str, _FIRST_ORGANIZATION, {}):
        return existing
    organization = ids.organization_id()
    connection.execute(
        organizations.INSERT_ORGANIZATION,
        {
            "id": organization,
            "name": _DEFAULT_NAME,
            "plan": organizations.Plan.CUSTOM,
            "requests_per_minute": organizations.REQUESTS_PER_MINUTE[organizations.Plan.CUSTOM],
            "namespace_limit": None,
            "tenants": organizations.TenantRule.OPEN,
            "tenant_required": False,
        },
    )
    _write_audit(connection, organization, "organization", organization)
    return organization


def _ensure_namespace(connection: Executor, ring: KeyRing, organization: str, settings: Settings) -> str:
    existing = connection.fetch_one(str, _FIRST_NAMESPACE, {"organization_id": organization})
    if existing:
        return existing
    created_at = datetime.now(UTC)
    configs = namespaces.default_configs(settings) or namespaces.EMBEDDED_CONFIGS
    namespace = namespaces.NamespaceConfig(
        id=ids.namespace_id(),
        organization_id=organization,
        name=_DEFAULT_NAME,
        dimensions=None,
        created_at=created_at,
        updated_at=created_at,
        sent_to=destinations.list_destinations(settings, configs),
        **namespaces.split_configs(configs),
    )
    connection.execute(namespaces.INSERT_NAMESPACE, namespaces.row_values(ring, namespace))
    _write_audit(connection, organization, "namespace", namespace.id)
    return namespace.id


def _create_first_key(connection: Executor, pepper: bytes, organization: str) -> str | None:
    if connection.fetch(str, _LIST_KEYS, {"organization_id": organization}):
        return None
    new, values = api_keys.draft_key(pepper, organization, _DEFAULT_NAME)
    connection.execute(api_keys.INSERT_KEY, values)
    _write_audit(connection, organization, "key", new.id)
    return new.api_key


def _write_audit(connection: Executor, organization: str, object_type: str, object_id: str) -> None:
    """Write the audit entry in the transaction of its write."""
    entry = AuditEntry(
        organization_id=organization,
        method="CLI",
        route="retrieval up",
        object_type=object_type,
        object_id=object_id,
        status=200,
        source=Source.CLI,
    )
    audit.write_entries(connection, [entry])
