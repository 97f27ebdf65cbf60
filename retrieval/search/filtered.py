"""The keyword side of a filtered search.

A filter that lets many chunks through is applied to the best of all chunks, a part at a time, which reads a few hundred
documents; one that lets few through would need to look far down, and is asked of the database together with the scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString

from psycopg import Connection

from retrieval import principals
from retrieval.database.database import Row
from retrieval.filters import DocumentFilter
from retrieval.search import bm25
from retrieval.search.bm25 import Scored, Terms
from retrieval.search.hints import Hint
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
_SEEN: LiteralString = """
    select c.id from unnest(%(chunks)s::bigint[]) n(id)
    cross join lateral (select id, document_id from chunks where id = n.id limit 1) c
    where """ + principals.seen("c.document_id")
"""The same where only the viewer narrows. Postings are those of visible chunks; what is deleted is not shown later."""


def best(
    connection: Connection[Row],
    terms: Terms,
    n: int,
    where: DocumentFilter,
    near: Sequence[Place],
    hint: Hint | None = None,
) -> list[Scored]:
    """The n chunks with the highest scores of those that match, best first, and the scores of those in `near`.

    hint: of the share that matched before, and what matches now is noted there.
    """
    if where.by_viewer_alone:
        connection.execute("select " + principals.PLAN_SEEN)
    ranking = rank(connection, terms, near)
    found: list[Scored] = []
    seen, size = 0, _first(n, hint)
    while len(found) < n:
        part = ranking.best(seen + size)[seen:]
        matching = _matching(connection, terms.partition, part, where)
        found += [one for one in part if one.chunk_id in matching]
        seen += len(part)
        if hint is not None and part:
            hint.note_share(len(found) / seen)
        if len(part) < size:
            break
        size = seen * n // len(found) if found else LOOK
        if len(found) < n and seen + size > LOOK:
            connection.execute(principals.PLAN_ANEW)
            return bm25.best(connection, terms, n, where)
    kept = [Scored(one.chunk_id, one.score, place) for place, one in enumerate(found[:n], 1)]
    others = set(ranking.near) - {one.chunk_id for one in kept}
    return [*kept, *ranking.of(sorted(others))]


def _matching(connection: Connection[Row], partition: int, part: Sequence[Scored], where: DocumentFilter) -> set[int]:
    chunks = literal(one.chunk_id for one in part)
    if where.viewer is not None and where.by_viewer_alone:
        values = {**where.viewer.params(), "chunks": chunks}
        return {row["id"] for row in connection.execute(_SEEN, values, prepare=True).fetchall()}
    condition, params = where.sql("d")
    statement = _MATCHING.replace("FILTER", condition)
    return {
        row["id"]
        for row in connection.execute(statement, {**params, "partition": partition, "chunks": chunks}).fetchall()
    }


def _first(n: int, hint: Hint | None) -> int:
    """How many are looked at first: what gives n by the share that matched before, and a quarter more."""
    share = hint.share if hint is not None else 0.0
    return min(LOOK, round(1.25 * n / share)) if share else 2 * n
