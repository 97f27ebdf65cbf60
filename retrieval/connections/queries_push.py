"""Statements on push addresses of connections."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import LiteralString

from retrieval.database import partitions
from retrieval.database.rows import AsyncExecutor, Executor
from retrieval.ports import Scope


@dataclass(frozen=True, slots=True)
class PushRow:
    """Push address with its sealed secret and counts."""

    connection_id: str
    connector: str
    account: str | None
    address: str
    secret: bytes | None = field(repr=False)
    confirmed_at: datetime | None
    hints: int
    hinted_at: datetime | None
    refusals: int
    refused_at: datetime | None
    namespace_id: str
    subscription: str | None
    expires_at: datetime | None
    renew_at: datetime | None
    failures: int
    problem: str | None


@dataclass(frozen=True, slots=True)
class DuePush:
    """Connection to synchronize. `counted`: the organization has, or had, quotas."""

    connection_id: str
    organization_id: str
    tenant: str
    counted: bool


_COLUMNS: LiteralString = (
    "select u.connection_id, c.connector, c.account, u.address, u.secret, u.confirmed_at, u.hints, u.hinted_at,"
    " u.refusals, u.refused_at, p.namespace_id, u.subscription, u.expires_at, u.renew_at, u.failures, u.problem"
    " from pushes u join connections c on c.id = u.connection_id"
    " join partitions p on p.id = c.partition_id"
    " join namespaces n on n.id = p.namespace_id and n.deleted_at is null "
)


async def save_push(
    db: AsyncExecutor, scope: Scope, connection_id: str, address: str, secret: bytes | None, *, subscribes: bool
) -> None:
    """Store the address of a connection, or another secret; the address stays. Null keeps the secret.

    `subscribes`: create or renew a subscription with the first secret soon.
    """
    await db.async_execute(
        """
        insert into pushes (connection_id, address, secret, renew_at)
        select c.id, %(address)s, %(secret)s, case when %(subscribes)s then now() end from connections c
        join partitions p on p.id = c.partition_id and p.tenant = %(tenant)s and p.namespace_id = %(namespace)s
        join namespaces n on n.id = p.namespace_id and n.organization_id = %(organization)s and n.deleted_at is null
        where c.id = %(id)s and c.status <> 'REVOKED'
        on conflict (connection_id) do update set renew_at = excluded.renew_at,
            secret = case when %(subscribes)s then pushes.secret else coalesce(excluded.secret, pushes.secret) end,
            confirmed_at = case when %(subscribes)s or excluded.secret is null then pushes.confirmed_at end
        """,
        {
            **partitions.scope_params(scope),
            "id": connection_id,
            "address": address,
            "secret": secret,
            "subscribes": subscribes,
        },
    )


async def delete_push(db: AsyncExecutor, connection_id: str) -> None:
    await db.async_execute("delete from pushes where connection_id = %(id)s", {"id": connection_id})


async def get_push(db: AsyncExecutor, connection_id: str) -> PushRow | None:
    return await db.async_fetch_one(PushRow, _COLUMNS + "where u.connection_id = %(id)s", {"id": connection_id})


async def find_push(db: AsyncExecutor, address: str) -> PushRow | None:
    """Return the push of an ACTIVE connection by its address."""
    return await db.async_fetch_one(
        PushRow, _COLUMNS + "where u.address = %(address)s and c.status = 'ACTIVE'", {"address": address}
    )


async def keep_secret(db: AsyncExecutor, connection_id: str, secret: bytes) -> bool:
    """Store the first secret of a service; false if there is one."""
    return bool(
        await db.async_fetch_one(
            bool,
            "update pushes set secret = %(secret)s where connection_id = %(id)s and secret is null returning true",
            {"id": connection_id, "secret": secret},
        )
    )


async def record_hint(db: AsyncExecutor, connection_id: str, *, due: bool, pause: float) -> None:
    """Count a hint, and make the synchronization due at once, or `pause` seconds after the previous one."""
    await db.async_execute(
        """
        update pushes set confirmed_at = coalesce(confirmed_at, now()), hints = hints + %(due)s::int,
            hinted_at = case when %(due)s then now() else hinted_at end,
            due_at = case when %(due)s
                then coalesce(due_at, greatest(now(), run_at + %(pause)s * interval '1 second')) else due_at end
        where connection_id = %(id)s
        """,
        {"id": connection_id, "due": due, "pause": pause},
    )


async def renew_soon(db: AsyncExecutor, connection_id: str) -> None:
    """Make the renewal of a subscription due."""
    await db.async_execute(
        "update pushes set renew_at = now() where connection_id = %(id)s and renew_at is not null",
        {"id": connection_id},
    )


def claim_renewals(db: Executor, hold_seconds: float) -> list[PushRow]:
    """Return the pushes of ACTIVE connections with due subscriptions; other dispatchers wait `hold_seconds`."""
    claimed = db.fetch(
        str,
        """
        update pushes set renew_at = now() + %(hold)s * interval '1 second' where connection_id in (
            select u.connection_id from pushes u join connections c on c.id = u.connection_id
            where u.renew_at <= now() and c.status = 'ACTIVE' order by u.renew_at limit 20
            for update of u skip locked
        ) returning connection_id
        """,
        {"hold": hold_seconds},
    )
    return db.fetch(PushRow, _COLUMNS + "where u.connection_id = any(%(ids)s)", {"ids": claimed})


def save_subscription(
    db: Executor, connection_id: str, subscription: str, expires_at: datetime, renew_at: datetime
) -> bool:
    """Store a subscription; false if push was turned off in the meantime."""
    return bool(
        db.fetch_one(
            bool,
            "update pushes set subscription = %(subscription)s, expires_at = %(expires)s, renew_at = %(renew)s,"
            " failures = 0, problem = null where connection_id = %(id)s returning true",
            {"id": connection_id, "subscription": subscription, "expires": expires_at, "renew": renew_at},
        )
    )


def record_failed_renewal(db: Executor, connection_id: str, problem: str, pause: float) -> None:
    """Record why a subscription could not be created or renewed, and try again after `pause` seconds."""
    db.execute(
        "update pushes set failures = failures + 1, problem = %(problem)s,"
        " renew_at = now() + %(pause)s * interval '1 second' where connection_id = %(id)s",
        {"id": connection_id, "problem": problem, "pause": pause},
    )


async def record_refusal(db: AsyncExecutor, connection_id: str) -> None:
    await db.async_execute(
        "update pushes set refusals = refusals + 1, refused_at = now() where connection_id = %(id)s",
        {"id": connection_id},
    )


def has_due(db: Executor) -> bool:
    """Check for a synchronization that is or becomes due."""
    return bool(db.fetch_one(bool, "select exists (select from pushes where due_at is not null)", {}))


def list_due(db: Executor) -> list[str]:
    return db.fetch(str, "select connection_id from pushes where due_at <= now() order by due_at limit 100", {})


def lock_due(db: Executor, connection_id: str) -> DuePush | None:
    """Lock a due push until the transaction ends; None if another dispatcher has it or nothing is due."""
    return db.fetch_one(
        DuePush,
        """
        select u.connection_id, n.organization_id, p.tenant, o.counted from pushes u
        join connections c on c.id = u.connection_id
        join partitions p on p.id = c.partition_id
        join namespaces n on n.id = p.namespace_id
        join organizations o on o.id = n.organization_id
        where u.connection_id = %(id)s and u.due_at <= now() for update of u skip locked
        """,
        {"id": connection_id},
    )


def settle_due(db: Executor, connection_id: str) -> None:
    """Record the start of the synchronization; later hints make another one due."""
    db.execute("update pushes set due_at = null, run_at = now() where connection_id = %(id)s", {"id": connection_id})


def is_startable(db: Executor, connection_id: str) -> bool:
    """Check for an ACTIVE connection in a namespace that is not deleted."""
    return bool(
        db.fetch_one(
            bool,
            "select true from connections c join partitions p on p.id = c.partition_id join namespaces n"
            " on n.id = p.namespace_id and n.deleted_at is null where c.id = %(id)s and c.status = 'ACTIVE'",
            {"id": connection_id},
        )
    )
