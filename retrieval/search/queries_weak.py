"""SQL of weak searches."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime

from retrieval.database import partitions
from retrieval.database.database import Database
from retrieval.database.rows import Executor
from retrieval.ports import Scope

MAX_LISTED_SEARCHES = 200


@dataclass(frozen=True, slots=True)
class WeakSearch:
    """Query with its number of searches, and the scores of the latest search."""

    query: str
    searches: int
    best_score: float | None
    probability: float
    last_at: datetime


async def add_search(db: Database, scope: Scope, search: WeakSearch) -> None:
    """Add searches of a query. Ignores a scope without content."""
    await db.async_execute(
        "insert into weak_searches as w (partition_id, query, searches, best_score, probability, last_at)"
        " select p.id, %(query)s, %(searches)s, %(best_score)s, %(probability)s, %(last_at)s from partitions p"
        " where p.namespace_id = %(namespace)s and p.tenant = %(tenant)s on conflict (partition_id, query)"
        " do update set searches = w.searches + excluded.searches, best_score = excluded.best_score,"
        " probability = excluded.probability, last_at = excluded.last_at",
        {**partitions.scope_params(scope), **asdict(search)},
    )


async def list_searches(db: Database, scope: Scope, days: int) -> list[WeakSearch]:
    """List the most frequent weak searches of the last days."""
    return await db.async_fetch(
        WeakSearch,
        "select w.query, w.searches, w.best_score, w.probability, w.last_at from weak_searches w"
        " join partitions p on p.id = w.partition_id join namespaces n on n.id = p.namespace_id"
        " where n.id = %(namespace)s and n.organization_id = %(organization)s and p.tenant = %(tenant)s"
        " and w.last_at > now() - %(days)s * interval '1 day'"
        " order by w.searches desc, w.last_at desc limit %(max_searches)s",
        {**partitions.scope_params(scope), "days": days, "max_searches": MAX_LISTED_SEARCHES},
    )


def delete_old_searches(db: Executor, days: int) -> None:
    """Delete weak searches older than so many days; 0 deletes all."""
    db.execute("delete from weak_searches where last_at < now() - %(days)s * interval '1 day'", {"days": days})
