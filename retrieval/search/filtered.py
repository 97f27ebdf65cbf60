"""The keyword side of a filtered search.

A filter that lets many chunks through is applied to the best of all chunks, a part at a time, which reads a few hundred
documents. One that lets few through would need to look far down: the scores of all that match are compared, from a list
of their ids, or by the database where that would be long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, LiteralString

from retrieval.access import reading
from retrieval.database.database import Database
from retrieval.database.sessions import BY_INDEX
from retrieval.filters import DocumentFilter
from retrieval.principals import Viewer
from retrieval.search import bm25
from retrieval.search.bm25 import Scored, Terms
from retrieval.search.hints import Hint
from retrieval.search.hydration import literal
from retrieval.search.matching import Matching
from retrieval.search.ranking import Ranking

if TYPE_CHECKING:
    from retrieval.search.ranking import Numbers

LOOK = 2_000
"""Chunks that are looked at, at most, before all that match are compared."""
LISTED = 50_000
"""Chunks of matching documents, about, up to which they are compared here; more are left to the database."""


def _select_matching(condition: LiteralString) -> LiteralString:
    """Return the statement for those chunks whose documents match."""
    return f"""
    select c.id from unnest(%(chunks)s::bigint[]) n(id)
    cross join lateral (select id, document_id, generation from chunks where id = n.id limit 1) c
    cross join lateral (select * from documents where id = c.document_id limit 1) d
    where d.partition_id = %(partition)s and d.deleted_at is null and c.generation = d.active_generation and {condition}
"""


_SEEN: LiteralString = """
    select c.id from unnest(%(chunks)s::bigint[]) n(id)
    cross join lateral (select id from chunks where id = n.id limit 1) c
"""
"""Those of them that the viewer may see. Postings are those of visible chunks; what is deleted is not shown later."""
_OF_DOCUMENTS: LiteralString = """
    select c.id from unnest(%(chunks)s::bigint[]) n(id)
    cross join lateral (select id, document_id from chunks where id = n.id limit 1) c
    where c.document_id = any(%(documents)s)
"""
_CHUNKS: LiteralString = """
    select string_agg(int8send(c.id), ''::bytea) as ids from unnest(%(documents)s::text[]) n(id)
    cross join lateral (select id, active_generation from documents where id = n.id limit 1) d
    cross join lateral (
        select id from chunks where document_id = d.id and generation = d.active_generation offset 0
    ) c
"""


def best(
    db: Database,
    ranking: Ranking,
    terms: Terms,
    n: int,
    where: DocumentFilter | None,
    *,
    viewer: Viewer | None,
    hint: Hint | None = None,
    among: Matching | None = None,
) -> list[Scored]:
    """The n chunks with the highest scores of those that match, best first.

    ranking: of these terms. hint: of the share that matched before, and what matches now is noted there. among: what
    matches, if it is listed.
    """
    if among is not None and among.chunks is not None:
        return ranking.among(among.chunks).best(n)
    documents = among.documents if among is not None else None
    matches: list[Scored] = []
    looked_at, size = 0, _first(n, among, hint)
    while len(matches) < n:
        if looked_at + size > max(LOOK, 4 * n) and looked_at + size < len(ranking.ids):
            if among is None or documents is None or among.about > LISTED:
                with db.transaction() as connection:
                    return bm25.best(connection, terms, n, where, viewer=viewer)
            return ranking.among(_chunks(db, documents)).best(n)
        part = ranking.best(looked_at + size)[looked_at:]
        matching = _matching(db, terms.partition, part, where, documents, viewer)
        matches += [scored for scored in part if scored.chunk_id in matching]
        looked_at += len(part)
        if hint is not None and part:
            hint.note_share(len(matches) / looked_at)
        if len(part) < size:
            break
        size = looked_at * n // len(matches) if matches else LOOK
    return [Scored(scored.chunk_id, scored.score, rank) for rank, scored in enumerate(matches[:n], 1)]


def _chunks(db: Database, documents: Sequence[str]) -> Numbers:
    import numpy as np

    with db.transaction() as connection:
        rows = connection.execute(_CHUNKS, {"documents": list(documents)}, prepare=True, binary=True).fetchall()
    return np.frombuffer(rows[0]["ids"] or b"", ">i8").astype(np.int64)


def _matching(
    db: Database,
    partition: int,
    part: Sequence[Scored],
    where: DocumentFilter | None,
    documents: Sequence[str] | None,
    viewer: Viewer | None,
) -> set[int]:
    """Return the ids of those that match. documents: the matching documents, if they are listed."""
    chunks = literal(scored.chunk_id for scored in part)
    if documents is None and (where is None or not where.narrows()):
        with reading.reading(db, viewer).tuned(BY_INDEX) as connection:
            rows = connection.execute(_SEEN, {"chunks": chunks}, prepare=True).fetchall()
    elif documents is not None:
        document_params = {"documents": list(documents), "chunks": chunks}
        with db.transaction() as connection:
            rows = connection.execute(_OF_DOCUMENTS, document_params, prepare=True).fetchall()
    else:
        condition, params = (where or DocumentFilter()).sql("d")
        statement = _select_matching(condition)
        values = {**params, "partition": partition, "chunks": chunks}
        rows = reading.rows(db, reading.visible(statement, values, viewer))
    return {row["id"] for row in rows}


def _first(n: int, among: Matching | None, hint: Hint | None) -> int:
    """Return the number of chunks to check first: enough for n by the share that matches or matched before, plus a
    quarter."""
    shares = [source.share for source in (among, hint) if source is not None and source.share]
    return round(1.25 * n / shares[0]) if shares else 2 * n
