"""Removal of web pages: the rule of connections for websites, sitemaps and lists of URLs.

410, or moved to another page ─────────────────────────────▶ final ─┐
404, an error page, or no link to it ─▶ a miss ─▶ a second run ─────┴▶ removed, or held if more than a fifth leave
                                         ▲                  │
                                         └── reached again ◀┘
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString, NamedTuple

from retrieval.database.database import Database
from retrieval.database.rows import Executor
from retrieval.documents.queries import deletion
from retrieval.failure_causes import GONE_PAGE, MISSING_PAGE
from retrieval.jobs import web_pages

MAX_MISSES: Final = 2
"""Runs in a row that miss a page, from which it is removed."""
MAX_NAMED: Final = 20
"""Removed pages of one reason that a run names."""


def _selection(job: LiteralString) -> LiteralString:
    """SQL: the address and the paths that the job under this alias was to ingest."""
    return f"(({job}.config -> 'request') - '{{scrapeOptions,maxDepth,maxLinks,useSitemap}}'::text[])"


def _limits(job: LiteralString) -> LiteralString:
    """SQL: the same with the limits of the job."""
    return f"(({job}.config -> 'request') - 'scrapeOptions'::text)"


_MINE: LiteralString = """
    job_runs r join jobs mine on mine.id = r.job_id
    join documents d on d.partition_id = r.partition_id and d.source = r.source and d.connection_id is null
        and d.deleted_at is null and d.archive_id is null
    join jobs j on j.id = d.job_id
"""
_OF_SELECTION: LiteralString = "r.id = %(run)s and " + _selection("j") + " = " + _selection("mine")
"""Documents `d` that runs with the address and paths of run `r` have listed; lists of URLs are one selection."""


@dataclass(frozen=True, slots=True)
class KnownPage:
    """A page that earlier runs have ingested. `same_limits`: the last of them had the limits of this run."""

    address: str
    title: str
    same_limits: bool


def list_known(db: Database, job_run_id: str) -> list[KnownPage]:
    """Return the pages that earlier runs with the same address and paths have ingested."""
    return db.fetch(
        KnownPage,
        "select d.external_id as address, coalesce(d.properties ->> 'title', '') as title, "
        + _limits("j")
        + " = "
        + _limits("mine")
        + " as same_limits from "
        + _MINE
        + "where "
        + _OF_SELECTION
        + " and d.job_run_id <> r.id order by d.external_id",
        {"run": job_run_id},
    )


def record_misses(connection: Executor, job_run_id: str, reasons: dict[str, str]) -> None:
    """Record that the run missed these addresses, with the reasons, within the caller's transaction."""
    if reasons:
        connection.execute(
            _MISS + "select d.id, r.id, w.reason, w.reason = any(%(final)s) from " + _MINE + _NAMED + _COUNT_MISS,
            {**_named(job_run_id, list(reasons), list(reasons.values())), "final": [GONE_PAGE]},
        )


def record_aliases(connection: Executor, job_run_id: str, aliases: Sequence[tuple[str, str, str]]) -> None:
    """Record further addresses of documents: the document's address, the alias, and the site's mark of the answer."""
    if not aliases:
        return
    rows = list({address: (document, address, version) for document, address, version in aliases}.values())
    connection.execute(
        """
        insert into document_aliases (partition_id, source, address, document_id, version, job_run_id)
        select d.partition_id, d.source, w.address, d.id, w.version, r.id
        from unnest(%(kept)s::text[], %(addresses)s::text[], %(versions)s::text[]) as w (kept, address, version)
        join job_runs r on r.id = %(run)s
        join documents d on d.partition_id = r.partition_id and d.source = r.source and d.external_id = w.kept
            and d.deleted_at is null
        order by w.address on conflict (partition_id, source, address) do update
            set document_id = excluded.document_id, version = excluded.version, job_run_id = excluded.job_run_id
        """,
        {
            "run": job_run_id,
            "kept": [document for document, _, _ in rows],
            "addresses": [address for _, address, _ in rows],
            "versions": [version for _, _, version in rows],
        },
    )


def miss_unlisted(connection: Executor, job_run_id: str, refused: Sequence[str]) -> None:
    """Record that the run missed the pages that it did not list, the refused addresses left out."""
    connection.execute(_UNLISTED, {"run": job_run_id, "refused": list(refused)})


def settle(connection: Executor, job_run_id: str) -> None:
    """Remove or hold the pages that left, as the last step of a run."""
    values = {"run": job_run_id, "missing": MISSING_PAGE, "gone": GONE_PAGE}
    connection.execute(_REACHED, values)
    for statement in (_FAILED, _MOVED):
        connection.execute(statement, values)
    documents = connection.fetch_one(int, "select count(*) from " + _MINE + "where " + _OF_SELECTION, values) or 0
    leaving = connection.fetch(_Leaving, _LEAVING, {**values, "misses": MAX_MISSES})
    ids = [page.id for page in leaving]
    if deletion.needs_confirmation(len(leaving), documents):
        connection.execute("update page_misses set held = true where document_id = any(%(ids)s)", {"ids": ids})
        leaving = []
    elif leaving:
        deletion.delete_documents(connection, ids)
    connection.execute(
        """
        update job_runs set progress = progress || jsonb_build_object(
            'removed', %(removed)s::int, 'removals', %(removals)s::jsonb, 'awaitingConfirmation', (
                select count(*) from page_misses m join documents d on d.id = m.document_id and d.deleted_at is null
                where m.held and m.job_run_id = %(run)s))
        where id = %(run)s
        """,
        {**values, "removed": len(leaving), "removals": json.dumps(_by_reason(leaving))},
    )


class _Leaving(NamedTuple):
    id: str
    address: str
    reason: str


def _by_reason(pages: Sequence[_Leaving]) -> dict[str, dict[str, Any]]:
    reasons: dict[str, dict[str, Any]] = {}
    for page in pages:
        entry = reasons.setdefault(page.reason, {"count": 0, "pages": []})
        entry["count"] += 1
        if len(entry["pages"]) < MAX_NAMED:
            entry["pages"].append(page.address)
    return reasons


def _named(job_run_id: str, addresses: list[str], reasons: list[str]) -> dict[str, Any]:
    return {"run": job_run_id, "addresses": addresses, "reasons": reasons}


_NAMED: LiteralString = (
    "join unnest(%(addresses)s::text[], %(reasons)s::text[]) as w (address, reason) on w.address = d.external_id where "
    + _OF_SELECTION
)
_MISS: LiteralString = "insert into page_misses (document_id, job_run_id, reason, final) "
_COUNT_MISS: LiteralString = """
    order by d.id on conflict (document_id) do update
    set misses = page_misses.misses + (page_misses.job_run_id <> excluded.job_run_id)::int,
        job_run_id = excluded.job_run_id, reason = excluded.reason, final = page_misses.final or excluded.final
"""
_REACHED: LiteralString = """
    delete from page_misses g using run_documents m
    where m.job_run_id = %(run)s and m.document_id = g.document_id and m.status = 'SUCCESS'
"""
_FAILED: LiteralString = (
    _MISS
    + "select distinct on (d.id) d.id, r.id, m.error, m.error = %(gone)s from "
    + _MINE
    + " join run_documents m on m.job_run_id = r.id and m.status = 'FAILED' and m.error in (%(gone)s, %(missing)s)"
    " and (m.document_id = d.id or m.properties ->> 'externalId' = d.external_id)"
    " where r.id = %(run)s and d.active_generation > 0" + _COUNT_MISS
)
"""Pages of the run for which the site answers that there is none."""
_UNLISTED: LiteralString = (
    _MISS
    + f"select d.id, r.id, '{web_pages.UNLISTED}', false from "
    + _MINE
    + "where "
    + _OF_SELECTION
    + " and d.external_id <> all(%(refused)s)"
    " and not exists (select from run_documents m where m.job_run_id = r.id and m.document_id = d.id)" + _COUNT_MISS
)
_MOVED: LiteralString = (
    _MISS
    + f"select d.id, r.id, '{web_pages.MOVED}', true from "
    + _MINE
    + " join document_aliases a on a.partition_id = d.partition_id and a.source = d.source"
    " and a.address = d.external_id and a.job_run_id = r.id and a.document_id <> d.id"
    " join documents target on target.id = a.document_id and target.active_generation > 0"
    " and target.deleted_at is null"
    " where "
    + _OF_SELECTION
    + " and not exists (select from run_documents m where m.job_run_id = r.id and m.document_id = d.id)"
    + _COUNT_MISS
)
"""Pages whose address leads to another document now, which searches find."""
_LEAVING: LiteralString = """
    select d.id, d.external_id as address, g.reason from page_misses g
    join documents d on d.id = g.document_id and d.deleted_at is null
    where g.job_run_id = %(run)s and not g.held and (g.final or g.misses >= %(misses)s)
    order by d.id for no key update of d
"""
