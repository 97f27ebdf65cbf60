"""Prefilter: nearest chunks of a selective filter by exact comparison, or its documents where these are few.

A filter with at most `FEW` visible chunks is compared chunk by chunk, so that no match is missed, and so is one on
table rows and records, which no vector store has. With at most `DOCUMENTS` documents, both sides of the search are
limited to these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from retrieval.access import reading
from retrieval.database.database import Database
from retrieval.filters import DocumentFilter
from retrieval.principals import Viewer
from retrieval.search.hydration import DISTANCE, vector_params

FEW = 2_000
"""Visible chunks up to which a filter's documents are compared one by one, without the vector store."""
DOCUMENTS = 2_000
"""Documents that match, up to which they are listed."""
_STEPS = 13
"""Vectors that are compared one by one in the time in which an index is walked by one vector."""
_ALL = 2**31


def _select_matching(condition: LiteralString, rows: LiteralString, nearest: LiteralString) -> LiteralString:
    """Return the statement; how many chunks the documents hold is guessed by some of them."""
    return f"""
    with listed as materialized (
        select d.id, d.active_generation from documents d
        where d.partition_id = %(partition)s and d.deleted_at is null and {condition}
        limit %(documents)s + 1
    ),
    counted as materialized (
        select count(*) as chunks from (
            select from listed l cross join lateral (
                select from chunks where document_id = l.id and generation = l.active_generation offset 0
            ) c limit %(few)s + 1
        ) every
    ),
    meant as materialized (
        select c.id, c.embedding_key from listed l
        join chunks c on c.document_id = l.id and c.generation = l.active_generation
        join documents d on d.id = l.id
        where (select chunks from counted) <= %(few)s and {rows}
    ),
    a_few as (select id, active_generation from listed limit 50)
    select (select count(*) from listed) > %(documents)s as cut,
           (select chunks from counted) <= %(few)s as compared,
           case when not %(every)s then array(select id from meant) end as chunks, array({nearest}) as nearest,
           case when (select chunks from counted) > %(few)s and (select count(*) from listed) <= %(documents)s
               then array(select id from listed) end as documents,
           (
               select count(*)::float8 / greatest((select count(*) from a_few), 1) * (select count(*) from listed)
               from a_few s cross join lateral (
                   select from chunks where document_id = s.id and generation = s.active_generation limit 1000
               ) c
           ) as about, (select chunks from partitions where id = %(partition)s) as every
"""


_NEAREST: LiteralString = f"""
    select m.id from meant m join embeddings e on e.partition_id = %(partition)s and e.key = m.embedding_key
    order by {DISTANCE}, m.id limit %(limit)s
"""


@dataclass(frozen=True, slots=True)
class Matching:
    """Matches of a filter.

    chunks: their ids, if they are few, and `nearest` the nearest of them, nearest first. documents: their ids, if they
    are few but their chunks are not; about: estimated number of their chunks, and share: of all chunks.
    """

    chunks: list[int] | None = None
    nearest: list[int] | None = None
    documents: tuple[str, ...] | None = None
    about: int = 0
    share: float = 0.0


def matching(
    db: Database,
    partition: int,
    where: DocumentFilter,
    values: Sequence[float] | None,
    limit: int,
    *,
    viewer: Viewer | None,
    any_number: bool = False,
) -> Matching:
    """Return the matches; with their nearest `limit` by exact comparison if they are few, or with any_number.

    values: the query's vector; None to skip the comparison.
    """
    condition, params = where.sql("d")
    nearest = _NEAREST if values is not None else "select id from meant limit 0"
    statement = _select_matching(condition, where.rows_sql("c", "d"), nearest)
    params |= vector_params(values) if values is not None else {}
    compares_all = any_number or where.reads_rows
    params |= {"partition": partition, "few": _ALL if compares_all else FEW, "every": any_number, "limit": limit}
    document_limit = _ALL if compares_all else DOCUMENTS
    (row,) = reading.rows(db, reading.visible(statement, {**params, "documents": document_limit}, viewer))
    if row["cut"] and row["compared"]:  # many documents with nearly no chunks
        (row,) = reading.rows(db, reading.visible(statement, {**params, "documents": _ALL}, viewer))
    if row["compared"]:
        return Matching(row["chunks"], row["nearest"])
    if row["documents"] is None:
        return Matching()
    about = float(row["about"])
    return Matching(None, None, tuple(row["documents"]), round(about), min(1.0, about / max(int(row["every"]), 1)))


def compared_sooner(found: Matching, wanted: int) -> bool:
    """Tell if comparing the vectors of these documents is faster than an index search that filters the others."""
    return found.share > 0 and found.about < _STEPS * wanted / found.share
