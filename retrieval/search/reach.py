"""Limits of candidate lookup in a search: its filter, and the viewer's documents if these are few."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from retrieval.access import viewers
from retrieval.access.reading import reading
from retrieval.database.database import Database
from retrieval.filters import DocumentFilter
from retrieval.principals import Viewer
from retrieval.search import hints
from retrieval.search.hints import Hint
from retrieval.search.matching import Matching


@dataclass(frozen=True, slots=True)
class Reach:
    """Limits of candidate lookup; results are always checked against the query's own filter.

    where: that filter, with ids if few documents match. hint: of earlier searches with it. part: the chunks that the
    viewer may see, if they are few. among: the matches.
    """

    where: DocumentFilter | None
    hint: Hint | None = None
    part: Sequence[int] | None = None
    among: Matching | None = None


def reach_of(
    db: Database,
    partition: int,
    where: DocumentFilter | None,
    viewer: Viewer | None,
    candidates: int,
    *,
    by_words: bool,
) -> Reach:
    """The filter by the documents that its viewer may see, if they are few."""
    narrows = where is not None and where.narrows()
    if viewer is None and not narrows:
        return Reach(where)
    hint = hints.of(db, partition, where, viewer, candidates)
    if viewer is None or hint.many:
        return Reach(where, hint)
    if where is not None and where.document_ids and not by_words:
        return Reach(where, hint)
    few = viewers.few_seen(db, viewer)
    if few is None:
        if not narrows:
            hint.note_many()
        return Reach(where, hint)
    part = _part(reading(db, viewer), few) if by_words else None
    return Reach(viewers.narrowed(where, few), hint, part)


PART = 2_000
"""Chunks that a viewer may see at most for the frequencies of words to be counted among them alone."""
LEAST_COUNTED = 10
"""Chunks that a word has at least, as far as a user can tell by scores, where more are seen."""
_PART: LiteralString = """
    select c.id from unnest(%(documents)s::text[]) n (id)
    cross join lateral (select id, active_generation from documents where id = n.id and deleted_at is null limit 1) d
    cross join lateral (select id from chunks where document_id = d.id and generation = d.active_generation offset 0) c
    limit %(most)s + 1
"""


def _part(visible: Database, documents: Sequence[str]) -> Sequence[int] | None:
    """The chunks of the documents, if they are few."""
    rows = visible.rows(_PART, {"documents": list(documents), "most": PART})
    return None if len(rows) > PART else [row["id"] for row in rows]
