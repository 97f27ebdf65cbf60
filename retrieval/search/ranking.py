"""BM25 scores of every chunk that contains a term of a query, from posting lists read in one statement.

Frequent terms are read as packed blocks, others and recent changes as rows (`retrieval.search.packing`). Scores are
added up term by term in a fixed order, so that equal chunks have bit-equal scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, LiteralString

from psycopg import Connection

from retrieval.database.database import Row
from retrieval.search.bm25 import K1, B, Scored, Terms
from retrieval.search.hydration import Place, of_places
from retrieval.search.packing import LENGTH_BITS

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Numbers = npt.NDArray[np.int64]
    Points = npt.NDArray[np.float64]

CHANGES, ADDED = 1_000, 5_000
"""Changes, and chunks added by them, up to which blocks are read; with more of them, as they pile up while the upkeep
does not run, all lists are read by their rows."""
SPAN = 4_000_000
"""Numbers between the least and the greatest chunk id up to which scores are added up in place (32 MB), or four a
posting; ids that lie farther apart are sorted."""

_LISTS: LiteralString = f"""
    with changes as materialized (
        select removed, chunks from posting_changes where partition_id = %(partition)s
        order by partition_id, change limit %(changes)s + 1
    ),
    changed as materialized (select removed, id from changes cross join lateral unnest(chunks) id),
    added as materialized (select distinct id from changed where not removed),
    lists as materialized (
        select t.term, t.place, case when (select count(*) from changes) <= %(changes)s
                                      and (select count(*) from added) <= %(added)s then (
            select string_agg(b.body, ''::bytea) from posting_blocks b
            where b.partition_id = %(partition)s and b.term = t.term
        ) end as blocks
        from unnest(%(terms)s::text[]) with ordinality t(term, place)
    )
    select 0 as place, null::bytea as blocks, (
               select string_agg(int8send(id), ''::bytea) from (select distinct id from changed) every
           ) as rows, (select base from posting_packs where partition_id = %(partition)s) as base,
           array(
               select c.id from unnest(%(documents)s::text[], %(generations)s::bigint[], %(indexes)s::int[])
                    n(document_id, generation, index)
               cross join lateral (
                   select k.id, k.partition_id from chunks k where k.document_id = n.document_id
                     and k.generation = n.generation and k.index = n.index limit 1
               ) c where c.partition_id = %(partition)s and exists (select from postings p where p.chunk_id = c.id)
           ) as near
    union all
    select l.place, l.blocks, case when l.blocks is null then (
               select string_agg(int8send(p.chunk_id) || int4send((p.tf::int << {LENGTH_BITS}) | p.length), ''::bytea)
               from postings p where p.partition_id = %(partition)s and p.term = l.term
           ) else (
               select string_agg(int8send(p.chunk_id) || int4send((p.tf::int << {LENGTH_BITS}) | p.length), ''::bytea)
               from postings p where p.partition_id = %(partition)s and p.term = l.term
                 and p.chunk_id = any(array(select id from added))
           ) end, null, null
    from lists l
"""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Chunk ids in order, and the score of each; `near`: those of the given vectors that have postings."""

    ids: Numbers
    scores: Points
    near: Sequence[int] = ()

    def best(self, n: int) -> list[Scored]:
        """The n with the highest scores, best first, equals by id."""
        import numpy as np

        ids, scores = self.ids, self.scores
        if len(scores) > n > 0:
            is_best = scores >= np.partition(scores, len(scores) - n)[len(scores) - n]
            ids, scores = ids[is_best], scores[is_best]
        order = np.lexsort((ids, -scores))[:n]
        return [Scored(int(ids[at]), float(scores[at]), rank) for rank, at in enumerate(order, 1)]

    def among(self, chunk_ids: Sequence[int] | Numbers) -> Ranking:
        """Only these chunks."""
        import numpy as np

        is_listed = np.isin(self.ids, np.asarray(chunk_ids, np.int64))
        return Ranking(self.ids[is_listed], self.scores[is_listed], self.near)

    def with_near(self, best: list[Scored]) -> list[Scored]:
        """Those, and the scores of what is near."""
        return [*best, *self.of(sorted(set(self.near) - {scored.chunk_id for scored in best}))]

    def of(self, chunk_ids: Sequence[int]) -> list[Scored]:
        """Those chunks with their scores, 0 for one that holds none of the terms."""
        import numpy as np

        chunk_numbers = np.asarray(chunk_ids, np.int64)
        at = np.minimum(np.searchsorted(self.ids, chunk_numbers), max(len(self.ids) - 1, 0))
        is_scored = self.ids[at] == chunk_numbers if len(self.ids) else np.zeros(len(chunk_numbers), bool)
        scores = np.where(is_scored, self.scores[at], 0.0) if len(self.ids) else np.zeros(len(chunk_numbers))
        return [Scored(int(chunk_id), float(score)) for chunk_id, score in zip(chunk_numbers, scores, strict=True)]


def rank(connection: Connection[Row], query: Terms, near: Sequence[Place] = ()) -> Ranking:
    """Every chunk that holds one of the query's terms. near: chunks by document, generation and index."""
    import numpy as np

    params: Mapping[str, Any] = {
        "partition": query.partition,
        "terms": list(query.names),
        "changes": CHANGES,
        "added": ADDED,
        **of_places(near),
    }
    rows = sorted(
        connection.execute(_LISTS, params, prepare=True, binary=True).fetchall(), key=lambda row: int(row["place"])
    )
    head, lists = rows[0], rows[1:]
    changed = np.frombuffer(head["rows"] or b"", ">i8").astype(np.int64)
    parts = []
    for row, weight in zip(lists, query.weights, strict=True):
        if row["blocks"]:
            parts.append(_points(*_packed(row["blocks"], int(head["base"]), changed), weight, query.slope))
        if row["rows"]:
            parts.append(_points(*_by_rows(row["rows"]), weight, query.slope))
    ids, scores = _sum(parts)
    return Ranking(ids, scores, head["near"])


def _packed(body: bytes, base: int, changed: Numbers) -> tuple[Numbers, Numbers]:
    import numpy as np

    numbers = np.frombuffer(body, ">i4").reshape(-1, 2)
    ids, values = numbers[:, 0].astype(np.int64) + base, numbers[:, 1].astype(np.int64)
    if len(changed):
        believed = ~np.isin(ids, changed)
        ids, values = ids[believed], values[believed]
    return ids, values


def _by_rows(body: bytes) -> tuple[Numbers, Numbers]:
    import numpy as np

    rows = np.frombuffer(body, [("id", ">i8"), ("value", ">i4")])
    return rows["id"].astype(np.int64), rows["value"].astype(np.int64)


def _points(ids: Numbers, values: Numbers, weight: float, slope: float) -> tuple[Numbers, Points]:
    """`bm25.POINTS`, with its operations in its order."""
    bits = int(LENGTH_BITS)
    tf = (values >> bits).astype(float)
    length = values & ((1 << bits) - 1)
    return ids, weight * tf * (K1 + 1) / (tf + K1 * (1 - B) + slope * length)


def _sum(parts: Sequence[tuple[Numbers, Points]]) -> tuple[Numbers, Points]:
    """Sum scores by chunk. No chunk occurs twice within one part."""
    import numpy as np

    parts = [part for part in parts if len(part[0])]
    if not parts:
        return np.zeros(0, np.int64), np.zeros(0)
    low = min(int(ids.min()) for ids, _ in parts)
    span = max(int(ids.max()) for ids, _ in parts) - low + 1
    postings = sum(len(ids) for ids, _ in parts)
    if span <= max(SPAN, 4 * postings):
        sums = np.zeros(span)
        for ids, points in parts:
            sums[ids - low] += points
        offsets = np.flatnonzero(sums > 0)  # of numbers it takes ten times as long
        return offsets + low, sums[offsets]
    unique_ids, places = np.unique(np.concatenate([ids for ids, _ in parts]), return_inverse=True)
    sums, start = np.zeros(len(unique_ids)), 0
    for ids, points in parts:
        sums[places[start : start + len(ids)]] += points
        start += len(ids)
    return unique_ids, sums
