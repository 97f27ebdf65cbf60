"""The keyword side of a filtered search.

A filter that lets many chunks through is applied to the best of all chunks, a part at a time, which reads a few hundred
documents; one that lets few through would need to look far down, and is asked of the database together with the scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString

from psycopg import Connection

from retrieval.database.database import Row
from retrieval.filters import DocumentFilter
from retrieval.search import bm25
from retrieval.search.bm25 import Scored, Terms
from retrieval.search.hydration import Place, literal
from retrieval.search.ranking import rank

LOOK = 2_000
"""Chunks that are looked at, at most, before the database is asked for all that match."""

_MATCHING: LiteralString = """
    select c.id from unnest(%(chunks)s::bigint[]) n(id)
    cross join lateral (select id, document_id, generation from chunks where id = n.id limit 1) c
    cross join lateral (select * from documents where id = c.document_id limit 1) d
    where d.partition_id = %(partition)s and d.deleted_at is null and c.generation = d.active_generation and FILTER
"""


def best(
    connection: Connection[Row], terms: Terms, n: int, where: DocumentFilter, near: Sequence[Place]
) -> list[Scored]:
    """The n chunks with the highest scores of those that match, best first, and the scores of those in `near`."""
    ranking = rank(connection, terms, near)
    found: list[Scored] = []
    seen, size = 0, 2 * n
    while len(found) < n:
        part = ranking.best(seen + size)[seen:]
        matching = _matching(connection, terms.partition, part, where)
        found += [one for one in part if one.chunk_id in matching]
        seen += len(part)
        if len(part) < size:
            break
        size = seen * n // len(found) if found else LOOK
        if len(found) < n and seen + size > LOOK:
            return bm25.best(connection, terms, n, where)
    kept = [Scored(one.chunk_id, one.score, place) for place, one in enumerate(found[:n], 1)]
    others = set(ranking.near) - {one.chunk_id for one in kept}
    return [*kept, *ranking.of(sorted(others))]


def _matching(connection: Connection[Row], partition: int, part: Sequence[Scored], where: DocumentFilter) -> set[int]:
    condition, params = where.sql("d")
    statement = _MATCHING.replace("FILTER", condition)
    values = {**params, "partition": partition, "chunks": literal(one.chunk_id for one in part)}
    return {row["id"] for row in connection.execute(statement, values).fetchall()}
