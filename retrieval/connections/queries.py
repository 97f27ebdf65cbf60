"""Statements over connections, their OAuth states and their schedules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, LiteralString

from retrieval import job_config
from retrieval.database import pagination, partitions
from retrieval.database.pagination import PageRequest
from retrieval.database.rows import AsyncExecutor, Executor, Params
from retrieval.documents.queries.connection_documents import RELEASE_SWEEP_KINDS
from retrieval.jobs import run_health
from retrieval.jobs.run_health import Health
from retrieval.ports import Scope

STATE_LIFETIME_MINUTES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionRow:
    """Connection with sealed tokens, account of the service and first schedule."""

    id: str
    organization_id: str
    namespace_id: str
    tenant: str
    name: str
    connector: str
    status: str
    status_reason: str | None
    client_redirect_url: str | None
    schedule: dict[str, Any] | None
    permissions: str
    credentials: bytes | None = field(repr=False)
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
    """Sealed tokens of a connection."""

    id: str
    connector: str
    status: str
    credentials: bytes | None = field(repr=False)
    account: str | None


@dataclass(frozen=True, slots=True)
class StateRow:
    """Connection of a consumed OAuth state, with the sealed PKCE verifier."""

    id: str
    client_redirect_url: str | None
    verifier: bytes | None = field(repr=False)
    organization_id: str
    namespace_id: str
    tenant: str

    @property
    def scope(self) -> Scope:
        return Scope(self.organization_id, self.namespace_id, self.tenant)


_CONNECTION_COLUMNS: LiteralString = (
    " c.id, c.name, c.connector, c.status, c.status_reason, c.client_redirect_url, c.permissions, c.credentials,"
    " c.account, c.created_at, c.updated_at, p.namespace_id, p.tenant, n.organization_id, (select jsonb_build_object("
    "'id', s.id, 'minutes', s.minutes, 'cron', s.cron, 'timeZone', s.time_zone, 'paused', s.paused) from schedules s"
    " where s.partition_id = c.partition_id and "
    + job_config.connection_id_sql("s")
    + " = c.id order by s.minutes is null, s.created_at, s.id limit 1) as schedule "
)
_PARTITION_JOIN: LiteralString = (
    " partitions p join namespaces n on n.id = p.namespace_id and n.deleted_at is null"
    " and n.organization_id = %(organization)s "
)
_SCOPE_CONDITION: LiteralString = " c.partition_id = p.id and p.tenant = %(tenant)s and p.namespace_id = %(namespace)s "


async def insert_connection(db: AsyncExecutor, values: Params) -> None:
    await db.async_execute(
        "insert into connections (id, partition_id, name, connector, client_redirect_url, permissions)"
        " values (%(id)s, %(partition)s, %(name)s, %(connector)s, %(url)s, %(permissions)s)",
        values,
    )


async def list_connections(
    db: AsyncExecutor, scope: Scope, connector: str | None, part: PageRequest | None
) -> list[ConnectionRow]:
    return await db.async_fetch(
        ConnectionRow,
        "select"
        + _CONNECTION_COLUMNS
        + "from connections c,"
        + _PARTITION_JOIN
        + "where"
        + _SCOPE_CONDITION
        + "and (%(connector)s::text"
        " is null or c.connector = %(connector)s)" + pagination.order_desc("c"),
        {**partitions.scope_params(scope), "connector": connector, **pagination.page_params(part)},
    )


async def get_connection(
    db: AsyncExecutor, organization: str, tenant: str, connection_id: str, namespace: str | None
) -> ConnectionRow | None:
    return await db.async_fetch_one(
        ConnectionRow,
        "select"
        + _CONNECTION_COLUMNS
        + "from connections c,"
        + _PARTITION_JOIN
        + "where c.id = %(id)s and c.partition_id = p.id"
        " and p.tenant = %(tenant)s and (%(namespace)s::text is null or p.namespace_id = %(namespace)s)",
        {"organization": organization, "tenant": tenant, "namespace": namespace, "id": connection_id},
    )


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
    return await db.async_fetch_one(
        str,
        "update connections c set name = coalesce(%(name)s, c.name), client_redirect_url ="
        " case when %(url_sent)s then %(url)s else c.client_redirect_url end,"
        " permissions = coalesce(%(permissions)s, c.permissions), updated_at = now()"
        " from"
        + _PARTITION_JOIN
        + "where c.id = %(id)s and c.status <> 'REVOKED' and"
        + _SCOPE_CONDITION
        + "returning c.id",
        {**partitions.scope_params(scope), **values},
    )


async def revoke_connection(db: AsyncExecutor, scope: Scope, connection_id: str, reason: str) -> RevokedRow | None:
    """Revoke a connection and wipe tokens and open states; None if already revoked."""
    return await db.async_fetch_one(
        RevokedRow,
        "with before as (select c.id, c.credentials, c.account from connections c,"
        + _PARTITION_JOIN
        + "where c.id = %(id)s and c.status <> 'REVOKED' and"
        + _SCOPE_CONDITION
        + "for update of c), states as (delete from oauth_states s using before where s.connection_id = before.id)"
        " update connections c set status = 'REVOKED', status_reason = %(reason)s, credentials = null,"
        " client_redirect_url = null, updated_at = now() from before,"
        + _PARTITION_JOIN
        + "where c.id = before.id and c.partition_id = p.id returning"
        + _CONNECTION_COLUMNS
        + ", c.partition_id, before.credentials as former_credentials, before.account as former_account",
        {**partitions.scope_params(scope), "id": connection_id, "reason": reason},
    )


async def enqueue_release(db: AsyncExecutor, partition: int, connection_id: str, *, keep: bool) -> None:
    """Schedule the release of a revoked connection's documents."""
    await db.async_execute(
        "insert into sweeps (partition_id, kind, document_id, due_at)"
        " values (%(partition)s, %(kind)s, %(id)s, now() + interval '30 seconds')",
        {"partition": partition, "kind": RELEASE_SWEEP_KINDS[keep], "id": connection_id},
    )


async def grant_connection(
    db: AsyncExecutor, connection_id: str, credentials: bytes, account: str | None
) -> str | None:
    """Store new tokens and return the status; another account is recorded in the cursor."""
    return await db.async_fetch_one(
        str,
        """
        update connections set status = 'ACTIVE', status_reason = null, credentials = %(credentials)s,
            cursor = case when account <> %(account)s then '{"accountChanged": true}'::jsonb else cursor end,
            account = coalesce(%(account)s, account), updated_at = now()
        where id = %(id)s and status <> 'REVOKED' returning status
        """,
        {"id": connection_id, "credentials": credentials, "account": account},
    )


async def refuse_connection(db: AsyncExecutor, connection_id: str, reason: str) -> str | None:
    return await db.async_fetch_one(
        str,
        """
        update connections set status = case status when 'ACTIVE' then 'ACTIVE' else 'FAILED' end,
            status_reason = %(reason)s, updated_at = now()
        where id = %(id)s and status <> 'REVOKED' returning status
        """,
        {"id": connection_id, "reason": reason},
    )


def wipe_connections(db: Executor, partition: int) -> list[Credentials]:
    """Revoke all connections of a deleted scope; return their former tokens."""
    return db.fetch(
        Credentials,
        """
        with had as (
            select id, connector, status, credentials, account from connections
            where partition_id = %(partition)s and credentials is not null for update
        ),
        wiped as (
            update connections c set status = 'REVOKED', status_reason = 'The namespace was deleted.',
                credentials = null, updated_at = now()
            from had where c.id = had.id
        )
        select * from had
        """,
        {"partition": partition},
    )


_CREDENTIALS_QUERY: LiteralString = (
    "select id, connector, status, credentials, account from connections where id = %(id)s"
)


def get_credentials(db: Executor, connection_id: str) -> Credentials | None:
    return db.fetch_one(Credentials, _CREDENTIALS_QUERY, {"id": connection_id})


def lock_credentials(db: Executor, connection_id: str) -> Credentials | None:
    return db.fetch_one(Credentials, _CREDENTIALS_QUERY + " for update", {"id": connection_id})


def store_credentials(db: Executor, connection_id: str, credentials: bytes, previous: bytes) -> None:
    """Store refreshed tokens unless the connection was authorized anew; withdraw a refusal of the old tokens."""
    db.execute(
        "update connections set credentials = %(sealed)s, status = 'ACTIVE', status_reason = null"
        " where id = %(id)s and credentials = %(before)s and status in ('ACTIVE', 'FAILED')",
        {"id": connection_id, "before": previous, "sealed": credentials},
    )


def explain_connection(db: Executor, connection_id: str, reason: str) -> None:
    """Set the reason of a connection that stays ACTIVE."""
    db.execute(
        "update connections set status_reason = %(reason)s, updated_at = now()"
        " where id = %(id)s and status = 'ACTIVE' and status_reason is distinct from %(reason)s",
        {"id": connection_id, "reason": reason},
    )


def fail_connection(db: Executor, connection_id: str, reason: str) -> None:
    db.execute(
        "update connections set status = 'FAILED', status_reason = %(reason)s, updated_at = now()"
        " where id = %(id)s and status = 'ACTIVE'",
        {"id": connection_id, "reason": reason},
    )


async def insert_state(db: AsyncExecutor, values: Params) -> None:
    """Store an OAuth state and delete expired ones."""
    await db.async_execute(
        f"""
        with expired as (delete from oauth_states where expires_at < now() - interval '1 hour')
        insert into oauth_states (hash, connection_id, connector, verifier, expires_at)
        values (%(hash)s, %(connection)s, %(connector)s, %(verifier)s,
                now() + interval '{STATE_LIFETIME_MINUTES} minutes')
        """,
        values,
    )


async def take_state(db: AsyncExecutor, digest: bytes, connector: str) -> StateRow | None:
    return await db.async_fetch_one(
        StateRow,
        """
        update oauth_states s set used_at = now()
        from connections c
        join partitions p on p.id = c.partition_id
        join namespaces n on n.id = p.namespace_id and n.deleted_at is null
        where s.hash = %(hash)s and s.connector = %(connector)s and s.used_at is null and s.expires_at > now()
          and c.id = s.connection_id and c.status <> 'REVOKED'
        returning c.id, c.client_redirect_url, s.verifier, p.namespace_id, n.organization_id, p.tenant
        """,
        {"hash": digest, "connector": connector},
    )


async def get_newest_config(db: AsyncExecutor, connection_id: str) -> Mapping[str, Any] | None:
    """Return the configuration of the newest job of a connection."""
    return await db.async_fetch_one(
        dict,
        f"select {job_config.STORED_CONFIG} from jobs j"
        " join connections c on c.partition_id = j.partition_id and c.id = %(id)s"
        f" where j.source = c.connector and {job_config.connection_id_sql()} = c.id order by j.created_at desc limit 1",
        {"id": connection_id},
    )


def insert_scheduled_run(db: Executor, values: Params) -> str | None:
    """Insert the next job run of a schedule and return its id; None while another run is unfinished."""
    # One job per schedule, with the options of the newest request of the application, else of a user.
    return db.fetch_one(
        str,
        f"""
        with connection as (
            select c.id, c.partition_id, c.connector, n.organization_id from connections c
            join partitions p on p.id = c.partition_id
            join namespaces n on n.id = p.namespace_id and n.deleted_at is null
            where c.id = %(connection)s and c.status = 'ACTIVE' for update of c
        ),
        newest as (
            select j.* from jobs j, connection c
            where j.partition_id = c.partition_id and j.source = c.connector and {job_config.connection_id_sql()} = c.id
              and not {job_config.IS_PICKER_LISTING}
            order by j.created_at desc limit 1
        ),
        free as (
            select c.* from connection c where not exists (
                select from job_runs r join jobs j on j.id = r.job_id
                where r.partition_id = c.partition_id and r.source = c.connector and r.finished_at is null
                  and {job_config.connection_id_sql()} = c.id
            )
        ),
        made as (
            insert into jobs (id, organization_id, partition_id, source, config)
            select %(job)s, f.organization_id, f.partition_id, f.connector,
                   coalesce((select {job_config.REPEATED_CONFIG} from newest j), %(config)s::jsonb)
            from free f where not exists (select from newest j where {job_config.IS_SCHEDULED})
            returning id
        )
        insert into job_runs (id, job_id, partition_id, source, to_discover)
        select %(run)s, coalesce((select id from made), (select id from newest)), f.partition_id, f.connector, true
        from free f returning id
        """,
        values,
    )


def withdraw_reason(db: Executor, connection_id: str, prefix: str) -> None:
    """Delete the reason with this prefix from an ACTIVE connection."""
    db.execute(
        "update connections set status_reason = null, updated_at = now()"
        " where id = %(id)s and status = 'ACTIVE' and starts_with(status_reason, %(prefix)s)",
        {"id": connection_id, "prefix": prefix},
    )
