"""Statements of garbage collection: scopes with due sweeps, their sweeps, and when a failed sweep is tried again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import LiteralString

from retrieval.database.rows import Executor, Params
from retrieval.maintenance import copies
from retrieval.ports import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Unreachable data to delete from the stores. `vector_store`, `file_store`: store names; `vectors`, `files`,
    `others`: external hosts."""

    id: int = 0
    partition_id: int
    kind: str
    document_id: str | None = None
    generation: int | None = None
    file_key: str | None = None
    deletion_id: str | None = None
    tries: int = 0
    namespace_id: str
    tenant: str
    organization_id: str
    vector_store: str | None = None
    file_store: str | None = None
    vectors: str | None = None
    files: str | None = None
    others: str | None = None

    @property
    def scope(self) -> Scope:
        return Scope(self.organization_id, self.namespace_id, self.tenant)

    @property
    def document(self) -> str:
        """Return the document id; RuntimeError for another kind of sweep."""
        if self.document_id is None:
            raise RuntimeError(f"The sweep {self.id} of kind {self.kind} names no document.")
        return self.document_id

    @property
    def params(self) -> Params:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class DueScope:
    """Scope with a due sweep. `failed`: tried before; `hosts`: external hosts of its stores."""

    partition_id: int
    failed: bool
    hosts: list[str]


# Hosts of namespace `n`, null for stores of this installation. Configurations of former and future vector stores are
# sealed, so the namespace id stands for their hosts.
_VECTOR_HOST: LiteralString = """
    case when n.config #>> '{vectorStorageConfig,provider}' <> 'PGVECTOR' then coalesce(
        n.config #>> '{vectorStorageConfig,indexHost}', n.config #>> '{vectorStorageConfig,provider}') end
"""
_FILE_HOST: LiteralString = """
    case when n.config #>> '{fileStorageConfig,type}' <> 'LOCAL' then coalesce(
        n.config #>> '{fileStorageConfig,endpoint}', n.config #>> '{fileStorageConfig,type}') end
"""
_OTHER_HOST: LiteralString = """
    case when n.pending is not null or n.retired is not null or n.deleted_at is not null then n.id end
"""

# Oldest first, up to the limit of each kind, so that blocked scopes hide no others.
# One index row is read for each scope, due or not: a plan by `due_at` depends on statistics that are a day old.
DUE_SCOPES_QUERY: LiteralString = (
    """
    with recursive scopes as (
        (select partition_id from sweeps order by partition_id limit 1)
        union all
        select (select s.partition_id from sweeps s where s.partition_id > scopes.partition_id
                order by s.partition_id limit 1)
        from scopes where scopes.partition_id is not null
    ),
    due as (
        select first.partition_id, first.tries > 0 as failed, first.due_at, array_remove(array["""
    + _VECTOR_HOST
    + ", "
    + _FILE_HOST
    + ", "
    + _OTHER_HOST
    + """], null) as hosts
        from scopes cross join lateral (
            select s.partition_id, s.due_at, s.tries from sweeps s
            where s.partition_id = scopes.partition_id and s.partition_id <> all(%(busy)s)
            order by s.due_at limit 1
        ) first
        join partitions p on p.id = first.partition_id join namespaces n on n.id = p.namespace_id
        where first.due_at <= now()
    )
    select partition_id, failed, hosts from (
        select *, row_number() over (
            partition by failed, hosts = '{}', hosts <@ %(healthy)s::text[] order by due_at
        ) as turn
        from due where not hosts && %(blocked)s::text[]
    ) ranked
    where turn <= %(limit)s order by due_at
"""
)

TAKE_SWEEP_STATEMENT: LiteralString = (
    """
    update sweeps s
    set tries = tries + 1, due_at = now() + interval '1 minute' * least(power(2, s.tries), 720)
    from partitions p join namespaces n on n.id = p.namespace_id
    where s.id = (select id from sweeps where partition_id = %(partition)s and due_at <= now()
                  and (kind not in ('file', 'document', 'partition') or not """
    + copies.IS_COPIED.format(namespace="(select namespace_id from partitions where id = %(partition)s)")
    + """)
                  order by due_at limit 1 for update skip locked) and p.id = s.partition_id
    returning s.id, s.partition_id, s.kind, s.document_id, s.generation, s.file_key, s.deletion_id, s.tries,
        p.namespace_id, p.tenant, n.organization_id,
        n.config #>> '{vectorStorageConfig,provider}' as vector_store,
        n.config #>> '{fileStorageConfig,type}' as file_store, """
    + _VECTOR_HOST
    + " as vectors, "
    + _FILE_HOST
    + " as files, "
    + _OTHER_HOST
    + " as others"
)


def list_due(
    db: Executor, *, busy: Sequence[int], healthy: Sequence[str], blocked: Sequence[str], limit: int
) -> list[DueScope]:
    """Return scopes with due sweeps, without `busy` partitions and `blocked` hosts."""
    values = {"busy": list(busy), "healthy": list(healthy), "blocked": list(blocked), "limit": limit}
    return db.fetch(DueScope, DUE_SCOPES_QUERY, values)


def take_sweep(db: Executor, partition: int) -> Sweep | None:
    """Return a due sweep of the scope and postpone its next try."""
    return db.fetch_one(Sweep, TAKE_SWEEP_STATEMENT, {"partition": partition})
