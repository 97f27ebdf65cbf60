"""SQL of packed posting lists. `base` is subtracted from chunk ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from retrieval.database.rows import Executor, Params

# Two blocks of 450 postings fit into a page.
BLOCK_POSTINGS: LiteralString = "450"
# A posting is two 4-byte numbers: relative chunk id, and tf with length. A tsvector counts to 256 (8 bits and sign), so
# 22 bits are left for the length.
LENGTH_BITS: LiteralString = "22"


@dataclass(frozen=True, slots=True)
class PackingState:
    """Base of the blocks, recorded removals, and the need for a full packing."""

    base: int
    removals: list[int]
    outdated: bool


@dataclass(frozen=True, slots=True)
class TermFrequency:
    term: str
    chunks: int


@dataclass(frozen=True, slots=True)
class Additions:
    """Oldest added chunks with terms that have blocks (`packed`) or need blocks (`unpacked`)."""

    changes: list[int]
    packed: list[str]
    unpacked: list[str]


# Chunks removed and added again may already be in a block.
_READDED_CHANGES: LiteralString = """
    select a.change from posting_changes a cross join lateral unnest(a.chunks) c
    where a.partition_id = %(partition)s and not a.removed and c in (
        select r from posting_changes d cross join lateral unnest(d.chunks) r
        where d.partition_id = %(partition)s and d.removed
    ) and exists (select from postings p where p.chunk_id = c)
"""
_INSERT_BLOCKS: LiteralString = f"""
    insert into posting_blocks (partition_id, term, body)
    select %(partition)s, term, string_agg(int4send((chunk_id - %(base)s)::int)
           || int4send((tf::int << {LENGTH_BITS}) | length), ''::bytea order by chunk_id)
    from (
        select *, (row_number() over (partition by term order by chunk_id) - 1) / {BLOCK_POSTINGS} as block from packed
    ) f
    group by term, block
"""


def limit_session(db: Executor) -> None:
    db.execute(
        """
        select set_config('lock_timeout', '5s', false), set_config('statement_timeout', '600s', false),
               set_config('plan_cache_mode', 'force_custom_plan', false)
        """
    )


def try_lock(db: Executor, partition_id: int) -> bool:
    """Lock the packing of a partition for the session; False if locked."""
    statement: LiteralString = "select pg_try_advisory_lock(1886413163, %(partition)s)"
    return bool(db.fetch_one(bool, statement, {"partition": partition_id}))


def wait_for_lock(db: Executor, partition_id: int) -> None:
    """Wait for the packing lock."""
    db.execute("select pg_advisory_xact_lock(1886413163, %(partition)s)", {"partition": partition_id})


def begin_packing(db: Executor, partition_id: int) -> None:
    """Mark the partition as packed; changes are recorded from now on."""
    db.execute("select pg_advisory_xact_lock(1886413164)")
    db.execute(
        """
        insert into posting_packs (partition_id, base)
        select partition_id, chunk_id from postings where partition_id = %(partition)s limit 1 on conflict do nothing
        """,
        {"partition": partition_id},
    )


def delete_unused_changes(db: Executor) -> None:
    """Delete changes of unpacked partitions, unless a packing begins."""
    if not db.fetch_one(bool, "select pg_try_advisory_xact_lock(1886413164)"):
        return
    statement: LiteralString = """
    with recursive changed(id) as (
        (select partition_id from posting_changes order by partition_id limit 1)
        union all
        select (select partition_id from posting_changes where partition_id > c.id order by partition_id limit 1)
        from changed c where c.id is not null
    )
    select c.id from changed c where c.id is not null
      and not exists (select from posting_packs k where k.partition_id = c.id)
"""
    for partition_id in db.fetch(int, statement):
        db.execute("delete from posting_changes where partition_id = %(partition)s", {"partition": partition_id})


def read_state(db: Executor, params: Params) -> PackingState | None:
    """Read the state of the blocks; None without postings."""
    statement: LiteralString = f"""
    with removals as materialized (
        select coalesce(sum(cardinality(chunks)), 0) as chunks, array_agg(change) as changes
        from posting_changes where partition_id = %(partition)s and removed
    )
    select k.base, coalesce(r.changes, '{{}}') as removals, k.packed_at is null or r.chunks > p.chunks / %(stale)s
           or r.chunks > 0 and k.packed_at < now() - interval '1 day' or exists ({_READDED_CHANGES}) as outdated
    from posting_packs k join partitions p on p.id = k.partition_id, removals r where k.partition_id = %(partition)s
"""
    return db.fetch_one(PackingState, statement, params)


def list_frequent_terms(db: Executor, params: Params, last_term: str, limit: int) -> list[TermFrequency]:
    """List frequent terms in order after a term."""
    statement: LiteralString = """
    select term, sum(chunks)::bigint as chunks from term_counts where partition_id = %(partition)s and term > %(after)s
    group by term having sum(chunks) >= %(frequent)s order by term limit %(limit)s
"""
    return db.fetch(TermFrequency, statement, {**params, "after": last_term, "limit": limit})


def pack_terms(db: Executor, params: Params, terms: Sequence[str]) -> None:
    """Replace the blocks of terms with their postings, except those of recently added chunks."""
    statement: LiteralString = f"""
    with gone as (delete from posting_blocks where partition_id = %(partition)s and term = any(%(terms)s)),
    added as materialized (
        select distinct id from posting_changes c cross join lateral unnest(c.chunks) id
        where c.partition_id = %(partition)s and not c.removed
    ),
    packed as (
        select p.term, p.chunk_id, p.tf, p.length from postings p
        where p.partition_id = %(partition)s and p.term = any(%(terms)s)
          and not exists (select from added a where a.id = p.chunk_id)
    )
    {_INSERT_BLOCKS}
"""
    db.execute(statement, {**params, "terms": list(terms)})


def delete_other_blocks(db: Executor, params: Params, last_term: str, until: str, terms: Sequence[str]) -> None:
    """Delete blocks of other terms after `last_term` up to `until`; "" is unbounded."""
    statement: LiteralString = """
    delete from posting_blocks where partition_id = %(partition)s and term > %(after)s
      and (term <= %(until)s or %(until)s = '') and term <> all(%(terms)s)
"""
    db.execute(statement, {**params, "after": last_term, "until": until, "terms": list(terms)})


def finish_packing(db: Executor, params: Params, removals: Sequence[int]) -> None:
    """Record a complete packing and delete its obsolete removals."""
    statement: LiteralString = """
    with packed as (update posting_packs set packed_at = now() where partition_id = %(partition)s)
    delete from posting_changes where partition_id = %(partition)s and change = any(%(removals)s)
"""
    db.execute(statement, {**params, "removals": list(removals)})


def read_oldest_additions(db: Executor, params: Params, limit: int) -> Additions | None:
    """Read the oldest additions; None without any."""
    statement: LiteralString = f"""
    with oldest as (
        select change, chunks from posting_changes
        where partition_id = %(partition)s and not removed and change <> all(array({_READDED_CHANGES}))
        order by change limit %(changes)s
    ),
    words as materialized (
        select distinct p.term from oldest cross join lateral unnest(oldest.chunks) id
        join postings p on p.chunk_id = id and p.partition_id = %(partition)s
    ),
    counts as (
        select w.term, exists (
            select from posting_blocks b where b.partition_id = %(partition)s and b.term = w.term) as packed, (
            select sum(c.chunks) from term_counts c where c.partition_id = %(partition)s and c.term = w.term) as chunks
        from words w
    )
    select array(select change from oldest) as changes, array(select term from counts where packed) as packed,
           array(select term from counts where not packed and chunks >= %(frequent)s) as unpacked
"""
    additions = db.fetch_one(Additions, statement, {**params, "changes": limit})
    return additions if additions is not None and additions.changes else None


def append_additions(db: Executor, params: Params, changes: Sequence[int], terms: Sequence[str]) -> None:
    """Append added postings to blocks and delete the record."""
    statement: LiteralString = f"""
    with taken as (
        delete from posting_changes where partition_id = %(partition)s and change = any(%(changes)s)
          and change <> all(array({_READDED_CHANGES})) returning chunks
    ),
    packed as (
        select p.term, p.chunk_id, p.tf, p.length
        from (select distinct id from taken cross join lateral unnest(chunks) id) n
        join postings p on p.chunk_id = n.id and p.partition_id = %(partition)s
        where p.term = any(%(terms)s)
    )
    {_INSERT_BLOCKS}
"""
    db.execute(statement, {**params, "changes": list(changes), "terms": list(terms)})


def merge_removals(db: Executor, params: Params, removals: Sequence[int]) -> None:
    """Merge recorded removals."""
    statement: LiteralString = """
    with gone as (
        delete from posting_changes where partition_id = %(partition)s and removed and change = any(%(removals)s)
        returning chunks
    )
    insert into posting_changes (partition_id, removed, chunks)
    select %(partition)s, true, array_agg(distinct id) from gone cross join lateral unnest(chunks) id
    having count(*) > 0
"""
    db.execute(statement, {**params, "removals": list(removals)})


def list_scattered_terms(db: Executor, params: Params, terms: Sequence[str]) -> list[str]:
    """List terms with many small blocks."""
    statement: LiteralString = f"""
    select term from posting_blocks where partition_id = %(partition)s and term = any(%(terms)s)
    group by term having count(*) > 16 + 2 * sum(length(body)) / (8 * {BLOCK_POSTINGS})
"""
    return db.fetch(str, statement, {**params, "terms": list(terms)})
