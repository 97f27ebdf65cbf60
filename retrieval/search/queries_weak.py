"""Statements over weak searches."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime

from retrieval.database import partitions
from retrieval.database.database import Database
from retrieval.database.rows import Executor
from retrieval.ports import Scope

LISTED = 200
"""Weak searches of a list: the most frequent ones."""


@dataclass(frozen=True, slots=True)
class WeakSearch:
    """A query and the number of its searches. `best_score` and `probability`: of the last one."""

    query: str
    searches: int
    best_score: float | None
    probability: float
    last_at: datetime


async def add_search(db: Database, scope: Scope, search: WeakSearch) -> None:
    """Add to the searches of a query. Nothing is recorded of a scope without content."""
    await db.async_execute(
        "insert into weak_searches as w (partition_id, query, searches, best_score, probability, last_at)"
        " select p.id, %(query)s, %(searches)s, %(best_score)s, %(probability)s, %(last_at)s from partitions p"
        " where p.namespace_id = %(namespace)s and p.tenant = %(tenant)s on conflict (partition_id, query)"
        " do update set searches = w.searches + excluded.searches, best_score = excluded.best_score,"
        " probability = excluded.probability, last_at = excluded.last_at",
        {**partitions.scope_params(scope), **asdict(search)},
    )


async def list_searches(db: Database, scope: Scope, days: int) -> list[WeakSearch]:
    """Return the weak searches of a scope in the last days, the most frequent first."""
    return await db.async_fetch(
        WeakSearch,
        "select w.query, w.searches, w.best_score, w.probability, w.last_at from weak_searches w"
        " join partitions p on p.id = w.partition_id join namespaces n on n.id = p.namespace_id"
        " where n.id = %(namespace)s and n.organization_id = %(organization)s and p.tenant = %(tenant)s"
        " and w.last_at > now() - %(days)s * interval '1 day' order by w.searches desc, w.last_at desc limit %(most)s",
        {**partitions.scope_params(scope), "days": days, "most": LISTED},
    )


def delete_old(db: Executor, days: int) -> None:
    """Delete weak searches whose last search is older than so many days; all for 0."""
    db.execute("delete from weak_searches where last_at < now() - %(days)s * interval '1 day'", {"days": days})
