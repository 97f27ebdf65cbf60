"""From a scope to its partition: the one place that turns (organization, namespace, tenant) into a number."""

from __future__ import annotations

from typing import LiteralString

from retrieval.database.database import Database
from retrieval.database.rows import Executor
from retrieval.ports import Scope

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
"""Common table expressions that end in `partition`: one row, or none if the namespace is not there or, once in the
life of a scope, because another transaction has just made the row. Needs the parameters of `params`."""


def scope_params(scope: Scope) -> dict[str, str]:
    return {"organization": scope.organization, "namespace": scope.namespace, "tenant": scope.tenant}


async def ensure_partition(db: Database, scope: Scope) -> int | None:
    """The scope's partition, made if need be; None if the namespace is not there."""
    for _ in range(2):
        statement: LiteralString = f"with {FIND_OR_MAKE} select id from partition"
        partition_id = await db.async_fetch_one(int, statement, scope_params(scope), plan_once=True)
        if partition_id is not None:
            return partition_id
    return None


def add_counts(connection: Executor, partition: int, *, chunks: int, terms: int) -> None:
    """Add to the visible chunks of a partition and to their terms."""
    connection.execute(
        "update partitions set chunks = chunks + %(chunks)s, terms = terms + %(terms)s where id = %(partition)s",
        {"partition": partition, "chunks": chunks, "terms": terms},
    )
