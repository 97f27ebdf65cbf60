"""Frontier of a crawl: its pages, stored while the job run is active."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, LiteralString

from retrieval.database.database import Database
from retrieval.database.rows import Executor
from retrieval.ingestion.queries import page_aliases, page_removals


@dataclass(frozen=True, slots=True)
class FrontierPage:
    """Page of the frontier. `key`: URL or content mark; `tries`: failures; `linked_from`: first linking page."""

    key: str
    depth: int
    done: bool
    kept: bool = False
    tries: int = 0
    linked_from: str = ""


@dataclass(slots=True)
class FrontierChange:
    """Changes of a crawl's frontier by one page of the listing."""

    ended: list[str] = field(default_factory=list)
    stored: list[str] = field(default_factory=list)
    # Keys of pages to try again.
    failed: list[str] = field(default_factory=list)
    new_pages: list[FrontierPage] = field(default_factory=list)
    # Document address, other address of the page, version mark of the response.
    aliases: list[tuple[str, str, str]] = field(default_factory=list)
    # Reason by address of a missing page.
    missed: dict[str, str] = field(default_factory=dict)


def load_frontier(db: Database, job_run_id: str) -> list[FrontierPage]:
    """Return the pages of the frontier in order of discovery."""
    statement: LiteralString = (
        "select key, depth, done, kept, tries, linked_from from crawl_pages where job_run_id = %(run)s"
        " order by position"
    )
    return db.fetch(FrontierPage, statement, {"run": job_run_id})


def save_change(connection: Executor, job_run_id: str, change: FrontierChange) -> None:
    """Save changes of the frontier within the caller's transaction."""
    connection.execute(
        """
        insert into crawl_pages (job_run_id, key, depth, done, linked_from)
        select %(run)s, w.key, w.depth, w.done, w.linked_from
        from unnest(%(keys)s::text[], %(depths)s::int[], %(done)s::bool[], %(linked_from)s::text[]) with ordinality
                 as w (key, depth, done, linked_from, number)
        order by w.number on conflict do nothing
        """,
        {"run": job_run_id, **_page_columns(change.new_pages)},
    )
    page_aliases.record_aliases(connection, job_run_id, change.aliases)
    page_removals.record_misses(connection, job_run_id, change.missed)
    connection.execute(
        """
        update crawl_pages set done = done or key = any(%(ended)s), kept = kept or key = any(%(kept)s),
                               tries = tries + (key = any(%(failed)s))::int
        where job_run_id = %(run)s and key = any(%(ended)s::text[] || %(failed)s::text[])
        """,
        {"run": job_run_id, "ended": change.ended, "kept": change.stored, "failed": change.failed},
    )


def _page_columns(pages: Sequence[FrontierPage]) -> dict[str, list[Any]]:
    return {
        "keys": [page.key for page in pages],
        "depths": [page.depth for page in pages],
        "done": [page.done for page in pages],
        "linked_from": [page.linked_from for page in pages],
    }


def delete_frontiers(db: Database) -> None:
    """Delete the frontiers of finished job runs."""
    db.execute("delete from crawl_pages c using job_runs r where r.id = c.job_run_id and r.finished_at is not null")
