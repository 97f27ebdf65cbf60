"""Packed posting lists against the postings they were made of."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import LiteralString, NamedTuple

from retrieval.database.rows import Executor, Params
from retrieval.keywords.queries_blocks import LENGTH_BITS
from retrieval.maintenance.fsck.findings import Finding, Instance


class Pack(NamedTuple):
    """Packed posting lists of a partition."""

    partition_id: int
    namespace_id: str


class Posting(NamedTuple):
    """A term in a chunk."""

    chunk_id: int
    tf: int
    length: int


_PACKS: LiteralString = """
    select k.partition_id, n.id as namespace_id from posting_packs k join partitions p on p.id = k.partition_id
    join namespaces n on n.id = p.namespace_id and n.deleted_at is null order by k.partition_id
"""
_SNAPSHOT: LiteralString = "set transaction isolation level repeatable read"
_CHANGED: LiteralString = """
    select distinct c as chunk from posting_changes a cross join lateral unnest(a.chunks) c
    where a.partition_id = %(partition)s
"""
_TERMS: LiteralString = "select distinct term from posting_blocks where partition_id = %(partition)s order by term"
_BODIES: LiteralString = "select body from posting_blocks where partition_id = %(partition)s and term = %(term)s"
_POSTINGS: LiteralString = """
    select chunk_id, tf, length from postings where partition_id = %(partition)s and term = %(term)s
"""
_LENGTH_BITS = int(LENGTH_BITS)


def find_stale_blocks(instance: Instance) -> Iterator[Finding]:
    """Terms whose blocks say something else than the postings of chunks that have not changed since."""
    for pack in instance.db.fetch(Pack, _PACKS):
        with instance.db.transaction() as connection:
            connection.execute(_SNAPSHOT)
            of = {"partition": pack.partition_id}
            statement: LiteralString = "select base from posting_packs where partition_id = %(partition)s"
            base = connection.fetch_one(int, statement, of)
            if base is None:
                continue
            changed = set(connection.fetch(int, _CHANGED, of))
            for term in connection.fetch(str, _TERMS, of):
                params = {**of, "term": term}
                if _packed(connection, params, base, changed) != _real(connection, params, changed):
                    yield Finding(
                        "WRONG_BLOCKS",
                        pack.namespace_id,
                        None,
                        f"the packed postings of a term of partition {pack.partition_id} are not its postings",
                        {"partition_id": pack.partition_id},
                    )


def drop_blocks(instance: Instance, found: Sequence[Finding]) -> None:
    """Forget what is packed: searches read the postings themselves until the next round of upkeep packs them."""
    for partition in sorted({finding.data["partition_id"] for finding in found}):
        with instance.db.transaction() as connection:
            of = {"partition": partition}
            connection.execute("select pg_advisory_xact_lock(1886413163, %(partition)s)", of)
            for statement in _FORGET:
                connection.execute(statement, of)


_FORGET: tuple[LiteralString, ...] = (
    "delete from posting_packs where partition_id = %(partition)s",
    "delete from posting_blocks where partition_id = %(partition)s",
)


def _packed(connection: Executor, params: Params, base: int, changed: set[int]) -> list[tuple[int, int, int]]:
    postings = []
    for body in connection.fetch(bytes, _BODIES, params):
        for chunk, packed in struct.iter_unpack(">iI", body):
            if base + chunk not in changed:
                postings.append((base + chunk, packed >> _LENGTH_BITS, packed & ((1 << _LENGTH_BITS) - 1)))
    return sorted(postings)


def _real(connection: Executor, params: Params, changed: set[int]) -> list[tuple[int, int, int]]:
    postings = connection.fetch(Posting, _POSTINGS, params)
    return sorted(posting for posting in postings if posting.chunk_id not in changed)
