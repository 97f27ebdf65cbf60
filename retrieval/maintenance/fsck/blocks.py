"""Packed posting lists against the postings they were made of."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import LiteralString

from psycopg import Connection

from retrieval.database.database import Row
from retrieval.keywords.queries_blocks import LENGTH_BITS
from retrieval.maintenance.fsck.findings import Finding, Instance

_PACKS: LiteralString = """
    select k.partition_id, k.base, n.id as namespace_id from posting_packs k join partitions p on p.id = k.partition_id
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


def find(instance: Instance) -> Iterator[Finding]:
    """Terms whose blocks say something else than the postings of chunks that have not changed since."""
    for pack in instance.db.rows(_PACKS, {}):
        with instance.db.transaction() as connection:
            connection.execute(_SNAPSHOT)
            of = {"partition": pack["partition_id"]}
            base = connection.execute(
                "select base from posting_packs where partition_id = %(partition)s", of
            ).fetchone()
            if base is None:
                continue
            changed = {row["chunk"] for row in connection.execute(_CHANGED, of).fetchall()}
            for row in connection.execute(_TERMS, of).fetchall():
                params = {**of, "term": row["term"]}
                if _packed(connection, params, base["base"], changed) != _real(connection, params, changed):
                    yield Finding(
                        "WRONG_BLOCKS",
                        pack["namespace_id"],
                        None,
                        f"the packed postings of a term of partition {pack['partition_id']} are not its postings",
                        {"partition_id": pack["partition_id"]},
                    )


def mend(instance: Instance, found: Sequence[Finding]) -> None:
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


def _packed(
    connection: Connection[Row], asked: dict[str, object], base: int, changed: set[int]
) -> list[tuple[int, int, int]]:
    postings = []
    for row in connection.execute(_BODIES, asked).fetchall():
        for chunk, packed in struct.iter_unpack(">iI", row["body"]):
            if base + chunk not in changed:
                postings.append((base + chunk, packed >> _LENGTH_BITS, packed & ((1 << _LENGTH_BITS) - 1)))
    return sorted(postings)


def _real(connection: Connection[Row], asked: dict[str, object], changed: set[int]) -> list[tuple[int, int, int]]:
    rows = connection.execute(_POSTINGS, asked).fetchall()
    return sorted((row["chunk_id"], row["tf"], row["length"]) for row in rows if row["chunk_id"] not in changed)
