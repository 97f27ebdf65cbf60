"""SQL of deletion receipts and of counts per sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString

from sqlalchemy import Boolean, bindparam, case, delete, exists, func, not_, or_, select, update
from sqlalchemy.dialects.postgresql import insert

from retrieval.database import schema
from retrieval.database.compiling import columns_of, compile_statement, equals, parameters
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
    """Finished sweep with its deletion, and counts by kind, store and part."""

    deletion_id: str | None
    removed: Mapping[str, int]


_deletion: Any = schema.Deletion
_store: Any = schema.DeletionStore
_sweep: Any = schema.Sweep
_is_deletion = equals(_deletion.id)
_OPEN_RECEIPT = compile_statement(
    insert(_deletion).values(
        organization_id=bindparam("organization"),
        namespace_id=bindparam("namespace"),
        **parameters("id", "tenant", "documents"),
    )
)
_LIST_STORES = compile_statement(
    select(*columns_of(_store, StoreReceipt)).where(equals(_store.deletion_id, "id")).order_by(_store.store)
)
_DELETE_SWEEP = compile_statement(delete(_sweep).where(equals(_sweep.id)).returning(*columns_of(_sweep, FinishedSweep)))
_ADD_TOTALS = compile_statement(
    update(_deletion)
    .where(_is_deletion)
    .values(
        unread=or_(_deletion.unread, bindparam("unread")),
        **{name: getattr(_deletion, name) + bindparam(name) for name in ("chunks", "vectors", "files")},
    )
)
_new_store = insert(_store).values(
    deletion_id=bindparam("id"),
    read_back_at=case((bindparam("read", type_=Boolean), func.clock_timestamp())),
    **parameters("store", "removed"),
)
_ADD_STORE = compile_statement(
    _new_store.on_conflict_do_update(
        index_elements=["deletion_id", "store"],
        set_={
            "removed": _store.removed + _new_store.excluded.removed,
            "read_back_at": func.coalesce(_new_store.excluded.read_back_at, _store.read_back_at),
        },
    )
)
_CONFIRM_DELETION = compile_statement(
    update(_deletion)
    .where(
        *(_is_deletion, _deletion.confirmed_at.is_(None), not_(_deletion.unread)),
        not_(exists(select(_sweep.id).where(equals(_sweep.deletion_id, "id")))),
    )
    .values(confirmed_at=func.clock_timestamp())
)


async def open_receipt(connection: AsyncExecutor, deletion_id: str, scope: Scope, deleted: Sequence[str]) -> None:
    """Open a receipt in the transaction of the deletion."""
    values = {
        "id": deletion_id,
        "organization": scope.organization,
        "namespace": scope.namespace,
        "tenant": scope.tenant,
        "documents": len(deleted),
    }
    await connection.async_execute(_OPEN_RECEIPT, values)


async def find_receipt(db: AsyncExecutor, values: Params) -> Receipt | None:
    return await db.async_fetch_one(Receipt, _FIND_RECEIPT, {**values, "tries": FAILED_AFTER_TRIES})


async def list_stores(db: AsyncExecutor, deletion_id: str) -> list[StoreReceipt]:
    return await db.async_fetch(StoreReceipt, _LIST_STORES, {"id": deletion_id})


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
    return connection.fetch_one(FinishedSweep, _DELETE_SWEEP, {"id": sweep_id})


def add_totals(connection: Executor, deletion_id: str, totals: Mapping[str, int], *, unread: bool) -> None:
    """Add totals to a deletion and lock its row, so the last of concurrent sweeps sees the others."""
    connection.execute(_ADD_TOTALS, {"id": deletion_id, **totals, "unread": unread})


def add_store(connection: Executor, deletion_id: str, store: str, removed: int, *, is_read: bool) -> None:
    connection.execute(_ADD_STORE, {"id": deletion_id, "store": store, "removed": removed, "read": is_read})


def confirm_deletion(connection: Executor, deletion_id: str) -> None:
    """Confirm a deletion without open sweeps."""
    connection.execute(_CONFIRM_DELETION, {"id": deletion_id})
