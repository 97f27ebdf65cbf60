"""Partition ids of scopes (organization, namespace, tenant)."""

from __future__ import annotations

from typing import LiteralString

from retrieval.database.database import Database
from retrieval.database.rows import Executor
from retrieval.ports import Scope

# CTEs up to `partition`: one row; none for a missing namespace, or once in a race of inserts. Parameters:
# `scope_params`.
FIND_OR_MAKE: LiteralString = """
    space as (
        select id from namespaces
        where id = %(namespace)s and organization_id = %(organization)s and deleted_at is null
    ),
    found as (
        select p.id from partitions p join space on p.namespace_id = space.id where p.tenant = %(tenant)s
    ),
    made as (
        insert into partitions (namespace_id, tenant)
        select space.id, %(tenant)s from space where not exists (select from found)
        on conflict do nothing returning id
    ),
    partition as (select id from found union all select id from made)
"""


def scope_params(scope: Scope) -> dict[str, str]:
    return {"organization": scope.organization, "namespace": scope.namespace, "tenant": scope.tenant}


async def ensure_partition(db: Database, scope: Scope) -> int | None:
    """Return the scope's partition, created if missing; None for a missing namespace."""
    for _ in range(2):
        statement: LiteralString = f"with {FIND_OR_MAKE} select id from partition"
        partition_id = await db.async_fetch_one(int, statement, scope_params(scope), plan_once=True)
        if partition_id is not None:
            return partition_id
    return None


def add_counts(connection: Executor, partition: int, *, chunks: int, terms: int) -> None:
    """Add to the visible chunks and terms of a partition."""
    connection.execute(
        "update partitions set chunks = chunks + %(chunks)s, terms = terms + %(terms)s where id = %(partition)s",
        {"partition": partition, "chunks": chunks, "terms": terms},
    )
