"""SQL of deletion receipts and of counts per sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from retrieval.database.rows import AsyncExecutor, Executor, Params
from retrieval.ports import Scope

# Attempts of a sweep with exponential backoff (about four hours) before the receipt is FAILED; retries continue.
FAILED_AFTER_TRIES = 8
_FIND_RECEIPT: LiteralString = """
    select d.id, d.requested_at, d.confirmed_at, d.documents, d.chunks, d.vectors, d.files,
           case when d.confirmed_at is not null then 'CONFIRMED'
                when d.unread or exists (
                    select from sweeps s where s.deletion_id = d.id and s.tries >= %(tries)s
                ) then 'FAILED' else 'PENDING' end as status
    from deletions d
    where d.id = %(id)s and d.organization_id = %(organization)s
      and (%(namespace)s::text is null or d.namespace_id = %(namespace)s)
      and case when d.tenant is null then %(all_tenants)s else d.tenant = %(tenant)s end
"""


@dataclass(frozen=True, slots=True)
class StoreReceipt:
    """Data removed from one store; `read_back_at`: time of the verification, None before."""

    store: str
    removed: int
    read_back_at: datetime | None


@dataclass(frozen=True, slots=True)
class Receipt:
    """Receipt of a deletion. `status`: PENDING, CONFIRMED or FAILED."""

    id: str
    status: str
    requested_at: datetime
    confirmed_at: datetime | None
    documents: int
    chunks: int
    vectors: int
    files: int
    stores: Sequence[StoreReceipt] = ()


@dataclass(frozen=True, slots=True)
class FinishedSweep:
    """Finished sweep with its deletion and its counts by kind, store and part."""

    deletion_id: str | None
    removed: Mapping[str, int]


async def open_receipt(connection: AsyncExecutor, deletion_id: str, scope: Scope, deleted: Sequence[str]) -> None:
    """Open a receipt in the transaction of the deletion."""
    values = {
        "id": deletion_id,
        "organization": scope.organization,
        "namespace": scope.namespace,
        "tenant": scope.tenant,
        "documents": len(deleted),
    }
    await connection.async_execute(
        """
    insert into deletions (id, organization_id, namespace_id, tenant, documents)
    values (%(id)s, %(organization)s, %(namespace)s, %(tenant)s, %(documents)s)
""",
        values,
    )


async def find_receipt(db: AsyncExecutor, values: Params) -> Receipt | None:
    return await db.async_fetch_one(Receipt, _FIND_RECEIPT, {**values, "tries": FAILED_AFTER_TRIES})


async def list_stores(db: AsyncExecutor, deletion_id: str) -> list[StoreReceipt]:
    statement: LiteralString = (
        "select store, removed, read_back_at from deletion_stores where deletion_id = %(id)s order by store"
    )
    return await db.async_fetch(StoreReceipt, statement, {"id": deletion_id})


def record_removed(db: Executor, sweep_id: int, key: str, number: int) -> None:
    """Record a count of a sweep; a repeated part keeps the highest."""
    db.execute(
        """
    update sweeps set removed = jsonb_set(
        removed, array[%(key)s], to_jsonb(greatest(coalesce((removed ->> %(key)s)::bigint, 0), %(number)s::bigint))
    ) where id = %(sweep)s
""",
        {"sweep": sweep_id, "key": key, "number": number},
    )


def delete_sweep(connection: Executor, sweep_id: int) -> FinishedSweep | None:
    statement: LiteralString = "delete from sweeps where id = %(id)s returning deletion_id, removed"
    return connection.fetch_one(FinishedSweep, statement, {"id": sweep_id})


def add_totals(connection: Executor, deletion_id: str, totals: Mapping[str, int], *, unread: bool) -> None:
    """Add totals to a deletion and lock its row, so the last of concurrent sweeps sees the others."""
    connection.execute(
        """
    update deletions set chunks = chunks + %(chunks)s, vectors = vectors + %(vectors)s, files = files + %(files)s,
        unread = unread or %(unread)s
    where id = %(id)s
""",
        {"id": deletion_id, **totals, "unread": unread},
    )


def add_store(connection: Executor, deletion_id: str, store: str, removed: int, *, is_read: bool) -> None:
    connection.execute(
        """
    insert into deletion_stores (deletion_id, store, removed, read_back_at)
    values (%(id)s, %(store)s, %(removed)s, case when %(read)s then clock_timestamp() end)
    on conflict (deletion_id, store) do update set removed = deletion_stores.removed + excluded.removed,
        read_back_at = coalesce(excluded.read_back_at, deletion_stores.read_back_at)
""",
        {"id": deletion_id, "store": store, "removed": removed, "read": is_read},
    )


def confirm_deletion(connection: Executor, deletion_id: str) -> None:
    """Confirm a deletion without open sweeps."""
    connection.execute(
        """
    update deletions set confirmed_at = clock_timestamp()
    where id = %(id)s and confirmed_at is null and not unread
      and not exists (select from sweeps where deletion_id = %(id)s)
""",
        {"id": deletion_id},
    )
