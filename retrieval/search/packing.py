"""Packed posting lists: blocks that a search reads whole and scores at once (`retrieval.search.ranking`).

`postings` is the source of truth. Postings of a term in `FREQUENT` chunks or more are also packed into blocks; chunks
added to a partition or removed from it later are in `posting_changes`, written with the postings:

    postings of a packed term = its blocks without the chunks that changed + its rows of the chunks that were added

Packing changes neither side of that, so it may run, stop and restart at any time, beside writers and readers. Added
chunks join the blocks in the next round of upkeep; removed ones leave them when they are many or a day old.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, LiteralString

import psycopg
from psycopg.rows import dict_row

from retrieval.database.database import Database, Row

FREQUENT = 1_000
"""Chunks with a term from which on its list is packed; a shorter one is read by its rows."""
BLOCK: LiteralString = "450"
"""Postings of a block; two blocks fit into a page."""
LENGTH_BITS: LiteralString = "22"
"""A posting is two numbers of 4 bytes: the chunk's id from the partition's base on, and tf and length in one. A
tsvector counts up to 256 places of a term, which leaves so many bits for the length."""
STALE = 50
"""One removed chunk in so many: everything is packed anew."""
_AT_ONCE = 500_000
"""Postings that one statement packs."""
_CHANGES = 100
"""Additions that one statement takes up; with more removals than that they are written as one."""
_ROUNDS = 1_000

_LIMITS: LiteralString = """
    select set_config('lock_timeout', '5s', false), set_config('statement_timeout', '600s', false),
           set_config('plan_cache_mode', 'force_custom_plan', false)
"""
_TRY: LiteralString = "select pg_try_advisory_lock(1886413163, %(partition)s) as ours"
_BEGIN: LiteralString = "select pg_advisory_xact_lock(1886413164)"
_BEGUN: LiteralString = """
    insert into posting_packs (partition_id, base)
    select partition_id, chunk_id from postings where partition_id = %(partition)s limit 1 on conflict do nothing
"""
_TRY_PRUNE: LiteralString = "select pg_try_advisory_xact_lock(1886413164) as ours"
_CHANGED: LiteralString = """
    with recursive changed(id) as (
        (select partition_id from posting_changes order by partition_id limit 1)
        union all
        select (select partition_id from posting_changes where partition_id > c.id order by partition_id limit 1)
        from changed c where c.id is not null
    )
    select c.id from changed c where c.id is not null
      and not exists (select from posting_packs k where k.partition_id = c.id)
"""
_PRUNE: LiteralString = "delete from posting_changes where partition_id = %(partition)s"
_AGAIN: LiteralString = """
    select a.change from posting_changes a cross join lateral unnest(a.chunks) c
    where a.partition_id = %(partition)s and not a.removed and c in (
        select r from posting_changes d cross join lateral unnest(d.chunks) r
        where d.partition_id = %(partition)s and d.removed
    ) and exists (select from postings p where p.chunk_id = c)
"""
"""Additions of chunks that had been removed: they may stand in a block already, and must not stand there twice."""
_STATE: LiteralString = f"""
    with removals as materialized (
        select coalesce(sum(cardinality(chunks)), 0) as chunks, array_agg(change) as changes
        from posting_changes where partition_id = %(partition)s and removed
    )
    select k.base, coalesce(r.changes, '{{}}') as removals, k.packed_at is null or r.chunks > p.chunks / %(stale)s
           or r.chunks > 0 and k.packed_at < now() - interval '1 day' or exists ({_AGAIN}) as anew
    from posting_packs k join partitions p on p.id = k.partition_id, removals r where k.partition_id = %(partition)s
"""
_FREQUENT: LiteralString = """
    select term, sum(chunks)::bigint as chunks from term_counts where partition_id = %(partition)s and term > %(after)s
    group by term having sum(chunks) >= %(frequent)s order by term limit %(limit)s
"""
_BLOCKS: LiteralString = f"""
    insert into posting_blocks (partition_id, term, body)
    select %(partition)s, term, string_agg(int4send((chunk_id - %(base)s)::int)
           || int4send((tf::int << {LENGTH_BITS}) | length), ''::bytea order by chunk_id)
    from (select *, (row_number() over (partition by term order by chunk_id) - 1) / {BLOCK} as block from found) f
    group by term, block
"""
_PACK: LiteralString = f"""
    with gone as (delete from posting_blocks where partition_id = %(partition)s and term = any(%(terms)s)),
    added as materialized (
        select distinct id from posting_changes c cross join lateral unnest(c.chunks) id
        where c.partition_id = %(partition)s and not c.removed
    ),
    found as (
        select p.term, p.chunk_id, p.tf, p.length from postings p
        where p.partition_id = %(partition)s and p.term = any(%(terms)s)
          and not exists (select from added a where a.id = p.chunk_id)
    )
    {_BLOCKS}
"""
_RARE: LiteralString = """
    delete from posting_blocks where partition_id = %(partition)s and term > %(after)s
      and (term <= %(until)s or %(until)s = '') and term <> all(%(terms)s)
"""
_DONE: LiteralString = """
    with packed as (update posting_packs set packed_at = now() where partition_id = %(partition)s)
    delete from posting_changes where partition_id = %(partition)s and change = any(%(removals)s)
"""
_ADDITIONS: LiteralString = f"""
    with oldest as (
        select change, chunks from posting_changes
        where partition_id = %(partition)s and not removed and change <> all(array({_AGAIN}))
        order by change limit %(changes)s
    ),
    words as materialized (
        select distinct p.term from oldest cross join lateral unnest(oldest.chunks) id
        join postings p on p.chunk_id = id and p.partition_id = %(partition)s
    ),
    counts as (
        select w.term, exists (
            select from posting_blocks b where b.partition_id = %(partition)s and b.term = w.term) as held, (
            select sum(c.chunks) from term_counts c where c.partition_id = %(partition)s and c.term = w.term) as chunks
        from words w
    )
    select array(select change from oldest) as changes, array(select term from counts where held) as held,
           array(select term from counts where not held and chunks >= %(frequent)s) as new
"""
_APPEND: LiteralString = f"""
    with taken as (
        delete from posting_changes where partition_id = %(partition)s and change = any(%(changes)s)
          and change <> all(array({_AGAIN})) returning chunks
    ),
    found as (
        select p.term, p.chunk_id, p.tf, p.length
        from (select distinct id from taken cross join lateral unnest(chunks) id) n
        join postings p on p.chunk_id = n.id and p.partition_id = %(partition)s
        where p.term = any(%(terms)s)
    )
    {_BLOCKS}
"""
_MERGE: LiteralString = """
    with gone as (
        delete from posting_changes where partition_id = %(partition)s and removed and change = any(%(removals)s)
        returning chunks
    )
    insert into posting_changes (partition_id, removed, chunks)
    select %(partition)s, true, array_agg(distinct id) from gone cross join lateral unnest(chunks) id
    having count(*) > 0
"""
_SCATTERED: LiteralString = f"""
    select term from posting_blocks where partition_id = %(partition)s and term = any(%(terms)s)
    group by term having count(*) > 16 + 2 * sum(length(body)) / (8 * {BLOCK})
"""


def keep(db: Database, partition_id: int) -> None:
    """Pack what is not packed yet; nothing if another process is at it."""
    with psycopg.connect(db.url, autocommit=True, row_factory=dict_row) as connection:
        connection.execute(_LIMITS)
        lock = connection.execute(_TRY, {"partition": partition_id}).fetchone()
        if lock is None or not lock["ours"]:
            return
        with connection.transaction():
            connection.execute(_BEGIN)
            connection.execute(_BEGUN, {"partition": partition_id})
        params = {"partition": partition_id, "stale": STALE, "frequent": FREQUENT}
        state = connection.execute(_STATE, params).fetchone()
        if state is None:
            return
        params["base"] = state["base"]
        if state["anew"]:
            _everything(connection, {**params, "removals": state["removals"]})
        elif len(state["removals"]) > _CHANGES:
            connection.execute(_MERGE, {**params, "removals": state["removals"]})
        for _ in range(_ROUNDS):
            if not _take_up(connection, params):
                return


def wait(db: Database, partition_id: int) -> None:
    """Until a packing that is under way is over, as far as the connection's limits allow.

    Of a partition without postings none makes blocks after that.
    """
    db.rows("select pg_advisory_xact_lock(1886413163, %(partition)s)", {"partition": partition_id})


def prune(db: Database) -> None:
    """Forget the changes of partitions that have nothing packed."""
    with db.transaction() as connection:
        lock = connection.execute(_TRY_PRUNE).fetchone()
        if lock is None or not lock["ours"]:
            return
        for row in connection.execute(_CHANGED).fetchall():
            connection.execute(_PRUNE, {"partition": row["id"]})


def _everything(connection: psycopg.Connection[Row], params: dict[str, Any]) -> None:
    """Pack all frequent terms again, in pages; removals recorded before are then obsolete."""
    last_term, limit = "", 1_000
    while True:
        page = connection.execute(_FREQUENT, {**params, "after": last_term, "limit": limit}).fetchall()
        terms = [row["term"] for row in page]
        until = terms[-1] if len(page) == limit else ""
        connection.execute(_RARE, {**params, "after": last_term, "until": until, "terms": terms})
        for group in _groups(page):
            connection.execute(_PACK, {**params, "terms": group})
        if not until:
            break
        last_term = until
    connection.execute(_DONE, params)


def _take_up(connection: psycopg.Connection[Row], params: dict[str, Any]) -> bool:
    """Move the oldest additions into blocks; whether there were any."""
    with connection.transaction():
        row = connection.execute(_ADDITIONS, {**params, "changes": _CHANGES}).fetchone()
        if row is None or not row["changes"]:
            return False
        for term in row["new"]:
            connection.execute(_PACK, {**params, "terms": [term]})
        terms = [*row["held"], *row["new"]]
        connection.execute(_APPEND, {**params, "changes": row["changes"], "terms": terms})
        scattered = connection.execute(_SCATTERED, {**params, "terms": terms}).fetchall()
    for unpacked in scattered:
        connection.execute(_PACK, {**params, "terms": [unpacked["term"]]})
    return True


def _groups(page: Sequence[Row]) -> Iterator[list[str]]:
    """Terms whose postings one statement may pack."""
    group: list[str] = []
    size = 0
    for row in page:
        if group and size + row["chunks"] > _AT_ONCE:
            yield group
            group, size = [], 0
        group.append(row["term"])
        size += row["chunks"]
    if group:
        yield group
