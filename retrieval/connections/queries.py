"""Statements over connections, their OAuth states and their schedules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

from sqlalchemy import Boolean, Text, bindparam, case, delete, func, insert, null, select, true, update

from retrieval import job_config
from retrieval.database import pagination, partitions, schema
from retrieval.database.compiling import (
    columns_of,
    compile_page,
    compile_statement,
    equals,
    equals_if_given,
    in_live_namespace,
    in_scope,
    is_any_of,
    parameters,
)
from retrieval.database.pagination import PageRequest
from retrieval.database.rows import AsyncExecutor, Executor, Params
from retrieval.documents.queries.connection_documents import RELEASE_SWEEP_KINDS
from retrieval.jobs import run_health
from retrieval.jobs.run_health import Health
from retrieval.ports import Scope

STATE_LIFETIME_MINUTES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionRow:
    """Connection with sealed tokens and one schedule."""

    id: str
    organization_id: str
    namespace_id: str
    tenant: str
    name: str
    connector: str
    status: str
    status_reason: str | None
    client_redirect_url: str | None
    # Keys id, minutes, cron, timeZone and paused; None without a schedule.
    schedule: dict[str, Any] | None
    permissions: str
    credentials: bytes | None = field(repr=False)
    # Account at the service, or the address of a config.
    account: str | None
    created_at: datetime
    updated_at: datetime

    @property
    def scope(self) -> Scope:
        return Scope(self.organization_id, self.namespace_id, self.tenant)


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokedRow(ConnectionRow):
    """Revoked connection with its former tokens."""

    partition_id: int
    former_credentials: bytes | None = field(repr=False)
    former_account: str | None


@dataclass(frozen=True, slots=True)
class Credentials:
    """Connection with sealed tokens."""

    id: str
    connector: str
    status: str
    credentials: bytes | None = field(repr=False)
    account: str | None


@dataclass(frozen=True, slots=True)
class StateRow:
    """Consumed OAuth state with the connection and the sealed PKCE verifier."""

    connection_id: str
    client_redirect_url: str | None
    verifier: bytes | None = field(repr=False)
    organization_id: str
    namespace_id: str
    tenant: str

    @property
    def scope(self) -> Scope:
        return Scope(self.organization_id, self.namespace_id, self.tenant)


_connection: Any = schema.Connection
_state: Any = schema.OAuthState
_push: Any = schema.Push
_partition: Any = schema.Partition
_namespace: Any = schema.Namespace
_schedule: Any = schema.Schedule
_schedule_keys = {
    "id": _schedule.id,
    "minutes": _schedule.minutes,
    "cron": _schedule.cron,
    "timeZone": _schedule.time_zone,
    "paused": _schedule.paused,
}
# The oldest schedule with an interval, else the oldest with a cron expression.
_first_schedule = (
    select(func.jsonb_build_object(*chain.from_iterable(_schedule_keys.items())))
    .where(
        _schedule.partition_id == _connection.partition_id, _schedule.config["connectionId"].astext == _connection.id
    )
    .order_by(_schedule.minutes.is_(None), _schedule.created_at, _schedule.id)
    .limit(1)
    .correlate(_connection)
    .scalar_subquery()
)
_columns = columns_of(
    _connection,
    ConnectionRow,
    organization_id=_namespace.organization_id,
    namespace_id=_partition.namespace_id,
    tenant=_partition.tenant,
    schedule=_first_schedule,
)
_is_connection = equals(_connection.id)
_is_active = _connection.status == "ACTIVE"
_is_not_revoked = _connection.status != "REVOKED"
_reason = bindparam("reason", type_=Text)
_INSERT_CONNECTION = compile_statement(
    insert(_connection).values(
        **parameters("id", "partition_id", "name", "connector", "client_redirect_url", "permissions"),
        **parameters("credentials", "account"),
    )
)
_LIST_CONNECTIONS = compile_page(
    select(*_columns).where(in_scope(_connection.partition_id), equals_if_given(_connection.connector)), _connection
)
_GET_CONNECTION = compile_statement(
    select(*_columns).where(_is_connection, in_scope(_connection.partition_id, any_namespace=True))
)
_UPDATE_CONNECTION = compile_statement(
    update(_connection)
    .where(_is_connection, _is_not_revoked, in_scope(_connection.partition_id))
    .values(
        name=func.coalesce(bindparam("name"), _connection.name),
        client_redirect_url=case(
            (bindparam("url_sent", type_=Boolean), bindparam("client_redirect_url")),
            else_=_connection.client_redirect_url,
        ),
        permissions=func.coalesce(bindparam("permissions"), _connection.permissions),
        updated_at=func.now(),
    )
    .returning(_connection.id)
)
_before_revocation = (
    select(_connection.id, _connection.credentials, _connection.account)
    .where(_is_connection, _is_not_revoked, in_scope(_connection.partition_id))
    .with_for_update(of=_connection)
    .cte("before_revocation")
)
_REVOKE_CONNECTION = compile_statement(
    update(_connection)
    .where(_connection.id == _before_revocation.c.id, in_live_namespace(_connection.partition_id))
    .values(
        status="REVOKED", status_reason=_reason, credentials=null(), client_redirect_url=null(), updated_at=func.now()
    )
    .returning(
        *_columns,
        _connection.partition_id,
        _before_revocation.c.credentials.label("former_credentials"),
        _before_revocation.c.account.label("former_account"),
    )
    .add_cte(delete(_state).where(_state.connection_id == _before_revocation.c.id).cte("states"))
    .add_cte(delete(_push).where(_push.connection_id == _before_revocation.c.id).cte("pushes"))
)
_ENQUEUE_RELEASE = compile_statement(
    insert(schema.Sweep).values(
        due_at=func.now() + timedelta(seconds=30), **parameters("partition_id", "kind", "document_id")
    )
)
_account = bindparam("account", type_=Text)
# The cursor of another account is useless; this one makes the next listing hold removals for confirmation.
_account_changed = func.jsonb_build_object("accountChanged", true())
_GRANT_CONNECTION = compile_statement(
    update(_connection)
    .where(_is_connection, _is_not_revoked)
    .values(
        status="ACTIVE",
        status_reason=null(),
        credentials=bindparam("credentials"),
        cursor=case((_connection.account != _account, _account_changed), else_=_connection.cursor),
        account=func.coalesce(_account, _connection.account),
        updated_at=func.now(),
    )
    .returning(_connection.status)
)
# After a refused authorization, an ACTIVE connection keeps its former tokens.
_REFUSE_CONNECTION = compile_statement(
    update(_connection)
    .where(_is_connection, _is_not_revoked)
    .values(status=case((_is_active, "ACTIVE"), else_="FAILED"), status_reason=_reason, updated_at=func.now())
    .returning(_connection.status)
)
_credentials = select(*columns_of(_connection, Credentials))
_GET_CREDENTIALS = compile_statement(_credentials.where(_is_connection))
_LOCK_CREDENTIALS = compile_statement(_credentials.where(_is_connection).with_for_update())
_wiped = (
    _credentials.where(equals(_connection.partition_id), _connection.credentials.is_not(None))
    .with_for_update()
    .cte("wiped")
)
_WIPE_CONNECTIONS = compile_statement(
    select(_wiped).add_cte(
        update(_connection)
        .where(_connection.id == _wiped.c.id)
        .values(status="REVOKED", status_reason="The namespace was deleted.", credentials=null(), updated_at=func.now())
        .cte("revoked")
    )
)
_STORE_CREDENTIALS = compile_statement(
    update(_connection)
    .where(
        _is_connection, equals(_connection.credentials, "previous"), is_any_of(_connection.status, "ACTIVE", "FAILED")
    )
    .values(status="ACTIVE", status_reason=null(), **parameters("credentials"))
)
_update_active = update(_connection).where(_is_connection, _is_active)
_EXPLAIN_CONNECTION = compile_statement(
    _update_active.where(_connection.status_reason.is_distinct_from(_reason)).values(
        status_reason=_reason, updated_at=func.now()
    )
)
_FAIL_CONNECTION = compile_statement(
    _update_active.values(status="FAILED", status_reason=_reason, updated_at=func.now())
)
_WITHDRAW_REASON = compile_statement(
    _update_active.where(func.starts_with(_connection.status_reason, bindparam("prefix"))).values(
        status_reason=null(), updated_at=func.now()
    )
)
_INSERT_STATE = compile_statement(
    insert(_state)
    .values(
        expires_at=func.now() + timedelta(minutes=STATE_LIFETIME_MINUTES),
        **parameters("hash", "connection_id", "connector", "verifier"),
    )
    .add_cte(delete(_state).where(_state.expires_at < func.now() - timedelta(hours=1)).cte("expired"))
)
_TAKE_STATE = compile_statement(
    update(_state)
    .where(equals(_state.hash), equals(_state.connector), _state.used_at.is_(None), _state.expires_at > func.now())
    .where(_connection.id == _state.connection_id, _is_not_revoked, in_live_namespace(_connection.partition_id))
    .values(used_at=func.now())
    .returning(
        _connection.id.label("connection_id"),
        _connection.client_redirect_url,
        _state.verifier,
        _partition.namespace_id,
        _namespace.organization_id,
        _partition.tenant,
    )
)


async def insert_connection(db: AsyncExecutor, values: Params) -> None:
    await db.async_execute(_INSERT_CONNECTION, values)


async def list_connections(
    db: AsyncExecutor, scope: Scope, connector: str | None, page: PageRequest | None
) -> list[ConnectionRow]:
    values = {**partitions.scope_params(scope), "connector": connector, **pagination.page_params(page)}
    return await db.async_fetch(ConnectionRow, _LIST_CONNECTIONS, values)


async def get_connection(
    db: AsyncExecutor, organization: str, tenant: str, connection_id: str, namespace: str | None
) -> ConnectionRow | None:
    values = {"organization": organization, "tenant": tenant, "namespace": namespace, "id": connection_id}
    return await db.async_fetch_one(ConnectionRow, _GET_CONNECTION, values)


async def read_health(db: AsyncExecutor, connection_ids: Sequence[str]) -> dict[str, Health]:
    """Return the health of connections by id, from the job runs of their jobs."""
    rows = await db.async_fetch(
        _HealthRow,
        "select c.id, "
        + run_health.select_health(
            "r.job_id in (select j.id from jobs j where " + job_config.connection_id_sql() + " = c.id)"
        )
        + " as health from unnest(%(ids)s::text[]) as c (id)",
        {"ids": list(connection_ids)},
    )
    return {row.id: Health.load(row.health) for row in rows}


@dataclass(frozen=True, slots=True)
class _HealthRow:
    id: str
    health: dict[str, Any]


async def update_connection(db: AsyncExecutor, scope: Scope, values: Params) -> str | None:
    """Change a connection and return the id; None if missing or REVOKED."""
    return await db.async_fetch_one(str, _UPDATE_CONNECTION, {**partitions.scope_params(scope), **values})


async def revoke_connection(db: AsyncExecutor, scope: Scope, connection_id: str, reason: str) -> RevokedRow | None:
    """Revoke a connection and wipe tokens and open states; None if already revoked."""
    values = {**partitions.scope_params(scope), "id": connection_id, "reason": reason}
    return await db.async_fetch_one(RevokedRow, _REVOKE_CONNECTION, values)


async def enqueue_release(db: AsyncExecutor, partition: int, connection_id: str, *, keep_documents: bool) -> None:
    """Let garbage collection detach or delete the documents of a revoked connection."""
    values = {"partition_id": partition, "kind": RELEASE_SWEEP_KINDS[keep_documents], "document_id": connection_id}
    await db.async_execute(_ENQUEUE_RELEASE, values)


async def grant_connection(
    db: AsyncExecutor, connection_id: str, credentials: bytes, account: str | None
) -> str | None:
    """Store new tokens, set the connection to ACTIVE and return the status; None if REVOKED."""
    values = {"id": connection_id, "credentials": credentials, "account": account}
    return await db.async_fetch_one(str, _GRANT_CONNECTION, values)


async def refuse_connection(db: AsyncExecutor, connection_id: str, reason: str) -> str | None:
    """Store the reason of a refused authorization and return the status; None if the connection is REVOKED."""
    return await db.async_fetch_one(str, _REFUSE_CONNECTION, {"id": connection_id, "reason": reason})


def wipe_connections(db: Executor, partition: int) -> list[Credentials]:
    """Revoke all connections of a deleted partition; return the connections with tokens."""
    return db.fetch(Credentials, _WIPE_CONNECTIONS, {"partition_id": partition})


def get_credentials(db: Executor, connection_id: str) -> Credentials | None:
    return db.fetch_one(Credentials, _GET_CREDENTIALS, {"id": connection_id})


def lock_credentials(db: Executor, connection_id: str) -> Credentials | None:
    return db.fetch_one(Credentials, _LOCK_CREDENTIALS, {"id": connection_id})


def store_credentials(db: Executor, connection_id: str, credentials: bytes, previous: bytes) -> None:
    """Replace the `previous` tokens by refreshed ones and set the connection to ACTIVE; no effect on other tokens."""
    db.execute(_STORE_CREDENTIALS, {"id": connection_id, "previous": previous, "credentials": credentials})


def explain_connection(db: Executor, connection_id: str, reason: str) -> None:
    """Set the status reason of an ACTIVE connection, without a change of its status."""
    db.execute(_EXPLAIN_CONNECTION, {"id": connection_id, "reason": reason})


def fail_connection(db: Executor, connection_id: str, reason: str) -> None:
    """Set an ACTIVE connection to FAILED."""
    db.execute(_FAIL_CONNECTION, {"id": connection_id, "reason": reason})


async def insert_state(db: AsyncExecutor, values: Params) -> None:
    """Store an OAuth state and delete expired ones."""
    await db.async_execute(_INSERT_STATE, values)


async def take_state(db: AsyncExecutor, digest: bytes, connector: str) -> StateRow | None:
    """Consume the state with this hash; None if unknown, used, expired or of another connector."""
    return await db.async_fetch_one(StateRow, _TAKE_STATE, {"hash": digest, "connector": connector})


async def get_newest_config(db: AsyncExecutor, connection_id: str) -> Mapping[str, Any] | None:
    """Return the configuration of the newest job of a connection."""
    return await db.async_fetch_one(
        dict,
        f"select {job_config.STORED_CONFIG} from jobs j"
        " join connections c on c.partition_id = j.partition_id and c.id = %(id)s"
        f" where j.source = c.connector and {job_config.connection_id_sql()} = c.id order by j.created_at desc limit 1",
        {"id": connection_id},
    )


def withdraw_reason(db: Executor, connection_id: str, prefix: str) -> None:
    """Delete a status reason with this prefix from an ACTIVE connection."""
    db.execute(_WITHDRAW_REASON, {"id": connection_id, "prefix": prefix})
