"""The frontier of a crawl: the pages that were found, kept while its job run is under way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, LiteralString

from retrieval.database.database import Database
from retrieval.database.rows import Executor
from retrieval.ingestion.queries import page_removals


@dataclass(frozen=True, slots=True)
class Seen:
    """A page of the frontier. `key`: a URL, or the mark of a content that was kept; `tries`: how often it failed;
    `linked_from`: the page that led to it first."""

    key: str
    depth: int
    done: bool
    kept: bool = False
    tries: int = 0
    linked_from: str = ""


@dataclass(slots=True)
class Change:
    """Changes of a crawl's frontier in one part of its listing."""

    ended: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    """Keys of pages to try again."""
    found: list[Seen] = field(default_factory=list)
    aliases: list[tuple[str, str, str]] = field(default_factory=list)
    """Addresses of documents, each with another address of its page and the site's mark of the answer there."""
    missed: dict[str, str] = field(default_factory=dict)
    """Addresses of pages that are gone, with the reason."""


def load_frontier(db: Database, job_run_id: str) -> list[Seen]:
    """Return the pages of the frontier in the order in which they were found."""
    statement: LiteralString = (
        "select key, depth, done, kept, tries, linked_from from crawl_pages where job_run_id = %(run)s"
        " order by position"
    )
    return db.fetch(Seen, statement, {"run": job_run_id})


def save_change(connection: Executor, job_run_id: str, change: Change) -> None:
    """Save changes of the frontier within the caller's transaction."""
    connection.execute(
        """
        insert into crawl_pages (job_run_id, key, depth, done, linked_from)
        select %(run)s, w.key, w.depth, w.done, w.linked_from
        from unnest(%(keys)s::text[], %(depths)s::int[], %(done)s::bool[], %(linked_from)s::text[]) with ordinality
                 as w (key, depth, done, linked_from, number)
        order by w.number on conflict do nothing
        """,
        {"run": job_run_id, **_columns(change.found)},
    )
    page_removals.record_aliases(connection, job_run_id, change.aliases)
    page_removals.record_misses(connection, job_run_id, change.missed)
    connection.execute(
        """
        update crawl_pages set done = done or key = any(%(ended)s), kept = kept or key = any(%(kept)s),
                               tries = tries + (key = any(%(failed)s))::int
        where job_run_id = %(run)s and key = any(%(ended)s::text[] || %(failed)s::text[])
        """,
        {"run": job_run_id, "ended": change.ended, "kept": change.kept, "failed": change.failed},
    )


def _columns(found: Sequence[Seen]) -> dict[str, list[Any]]:
    return {
        "keys": [page.key for page in found],
        "depths": [page.depth for page in found],
        "done": [page.done for page in found],
        "linked_from": [page.linked_from for page in found],
    }


def delete_frontiers(db: Database) -> None:
    """Drop the frontiers of job runs that are over."""
    db.execute("delete from crawl_pages c using job_runs r where r.id = c.job_run_id and r.finished_at is not null")
