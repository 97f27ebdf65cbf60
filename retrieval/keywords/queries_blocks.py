"""SQL of packed posting lists.

Params: `partition`, `base` (the chunk id that the ids of the blocks are relative to), `frequent` and `stale` as in
`posting_blocks`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from retrieval.database.rows import Executor, Params

BLOCK: LiteralString = "450"
"""Postings of a block; two blocks fit into a page."""
LENGTH_BITS: LiteralString = "22"
"""A posting is two numbers of 4 bytes: the chunk's id from the partition's base on, and tf and length in one. A
tsvector counts up to 256 places of a term, which leaves so many bits for the length."""


@dataclass(frozen=True, slots=True)
class State:
    """Base of a partition's blocks, its recorded removals, and whether everything must be packed again."""

    base: int
    removals: list[int]
    outdated: bool


@dataclass(frozen=True, slots=True)
class Frequency:
    """Number of chunks with a term."""

    term: str
    chunks: int


@dataclass(frozen=True, slots=True)
class Additions:
    """The oldest recorded additions, and their terms that have blocks (`packed`) or need them now (`unpacked`)."""

    changes: list[int]
    packed: list[str]
    unpacked: list[str]


_READDED: LiteralString = """
    select a.change from posting_changes a cross join lateral unnest(a.chunks) c
    where a.partition_id = %(partition)s and not a.removed and c in (
        select r from posting_changes d cross join lateral unnest(d.chunks) r
        where d.partition_id = %(partition)s and d.removed
    ) and exists (select from postings p where p.chunk_id = c)
"""
"""Additions of chunks that had been removed: they may be in a block already, and must not be in it twice."""
_INSERT_BLOCKS: LiteralString = f"""
    insert into posting_blocks (partition_id, term, body)
    select %(partition)s, term, string_agg(int4send((chunk_id - %(base)s)::int)
           || int4send((tf::int << {LENGTH_BITS}) | length), ''::bytea order by chunk_id)
    from (select *, (row_number() over (partition by term order by chunk_id) - 1) / {BLOCK} as block from packed) f
    group by term, block
"""


def limit_session(db: Executor) -> None:
    """Set the time limits of a session that packs."""
    db.execute(
        """
        select set_config('lock_timeout', '5s', false), set_config('statement_timeout', '600s', false),
               set_config('plan_cache_mode', 'force_custom_plan', false)
        """
    )


def try_lock(db: Executor, partition_id: int) -> bool:
    """Lock the packing of a partition for this session; False if another one packs it."""
    statement: LiteralString = "select pg_try_advisory_lock(1886413163, %(partition)s)"
    return bool(db.fetch_one(bool, statement, {"partition": partition_id}))


def wait_for_lock(db: Executor, partition_id: int) -> None:
    """Wait until no other process packs the partition."""
    db.execute("select pg_advisory_xact_lock(1886413163, %(partition)s)", {"partition": partition_id})


def begin_packing(db: Executor, partition_id: int) -> None:
    """Record that the partition has blocks, in the caller's transaction, so that its changes are kept."""
    db.execute("select pg_advisory_xact_lock(1886413164)")
    db.execute(
        """
        insert into posting_packs (partition_id, base)
        select partition_id, chunk_id from postings where partition_id = %(partition)s limit 1 on conflict do nothing
        """,
        {"partition": partition_id},
    )


def delete_unused_changes(db: Executor) -> None:
    """Delete the changes of partitions without blocks, in the caller's transaction, unless a packing begins."""
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


def read_state(db: Executor, params: Params) -> State | None:
    """Read the state of a partition's blocks; None without postings."""
    statement: LiteralString = f"""
    with removals as materialized (
        select coalesce(sum(cardinality(chunks)), 0) as chunks, array_agg(change) as changes
        from posting_changes where partition_id = %(partition)s and removed
    )
    select k.base, coalesce(r.changes, '{{}}') as removals, k.packed_at is null or r.chunks > p.chunks / %(stale)s
           or r.chunks > 0 and k.packed_at < now() - interval '1 day' or exists ({_READDED}) as outdated
    from posting_packs k join partitions p on p.id = k.partition_id, removals r where k.partition_id = %(partition)s
"""
    return db.fetch_one(State, statement, params)


def list_frequent_terms(db: Executor, params: Params, after: str, limit: int) -> list[Frequency]:
    """List terms in `frequent` chunks or more, in order, behind a term."""
    statement: LiteralString = """
    select term, sum(chunks)::bigint as chunks from term_counts where partition_id = %(partition)s and term > %(after)s
    group by term having sum(chunks) >= %(frequent)s order by term limit %(limit)s
"""
    return db.fetch(Frequency, statement, {**params, "after": after, "limit": limit})


def pack_terms(db: Executor, params: Params, terms: Sequence[str]) -> None:
    """Replace the blocks of the terms by their postings, without those of chunks recorded as added."""
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


def delete_other_blocks(db: Executor, params: Params, after: str, until: str, terms: Sequence[str]) -> None:
    """Delete the blocks of all other terms behind `after` up to `until`, "" for no end."""
    statement: LiteralString = """
    delete from posting_blocks where partition_id = %(partition)s and term > %(after)s
      and (term <= %(until)s or %(until)s = '') and term <> all(%(terms)s)
"""
    db.execute(statement, {**params, "after": after, "until": until, "terms": list(terms)})


def finish_packing(db: Executor, params: Params, removals: Sequence[int]) -> None:
    """Record the time of a complete packing and delete the removals that it made obsolete."""
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
        where partition_id = %(partition)s and not removed and change <> all(array({_READDED}))
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
    """Append the postings of recorded additions to the blocks of the terms, and delete the record."""
    statement: LiteralString = f"""
    with taken as (
        delete from posting_changes where partition_id = %(partition)s and change = any(%(changes)s)
          and change <> all(array({_READDED})) returning chunks
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
    """Merge recorded removals into one."""
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
    """List the terms whose blocks are far from full."""
    statement: LiteralString = f"""
    select term from posting_blocks where partition_id = %(partition)s and term = any(%(terms)s)
    group by term having count(*) > 16 + 2 * sum(length(body)) / (8 * {BLOCK})
"""
    return db.fetch(str, statement, {**params, "terms": list(terms)})
