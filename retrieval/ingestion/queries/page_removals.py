"""Removal of web pages missing in websites, sitemaps and lists of URLs.

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
from retrieval.ingestion.queries import page_aliases
from retrieval.jobs import web_pages

# Consecutive runs that miss a page before removal.
MAX_MISSES: Final = 2
# Per reason.
MAX_NAMED_PAGES: Final = 20


def _selection_sql(job: LiteralString) -> LiteralString:
    """Return SQL for the address and paths of the job with this alias."""
    return f"(({job}.config -> 'request') - '{{scrapeOptions,maxDepth,maxLinks,useSitemap}}'::text[])"


def _limits_sql(job: LiteralString) -> LiteralString:
    """Return SQL for the address, paths and limits of the job with this alias."""
    return f"(({job}.config -> 'request') - 'scrapeOptions'::text)"


_RUN_DOCUMENTS_JOIN: LiteralString = """
    job_runs r join jobs mine on mine.id = r.job_id
    join documents d on d.partition_id = r.partition_id and d.source = r.source and d.connection_id is null
        and d.deleted_at is null and d.archive_id is null
    join jobs j on j.id = d.job_id
"""
# Documents `d` listed by runs with the address and paths of run `r`; lists of URLs are one selection.
_SELECTION_CONDITION: LiteralString = "r.id = %(run)s and " + _selection_sql("j") + " = " + _selection_sql("mine")


@dataclass(frozen=True, slots=True)
class KnownPage:
    """Page ingested by earlier runs. `same_limits`: the last of these runs had the limits of this run."""

    address: str
    title: str
    same_limits: bool


def list_known(db: Database, job_run_id: str) -> list[KnownPage]:
    """Return the pages that earlier runs with the same address and paths ingested."""
    return db.fetch(
        KnownPage,
        "select d.external_id as address, coalesce(d.properties ->> 'title', '') as title, "
        + _limits_sql("j")
        + " = "
        + _limits_sql("mine")
        + " as same_limits from "
        + _RUN_DOCUMENTS_JOIN
        + "where "
        + _SELECTION_CONDITION
        + " and d.job_run_id <> r.id order by d.external_id",
        {"run": job_run_id},
    )


def record_misses(connection: Executor, job_run_id: str, reasons: dict[str, str]) -> None:
    """Record missed addresses with their reasons."""
    if reasons:
        connection.execute(
            _INSERT_MISS
            + "select d.id, r.id, w.reason, w.reason = any(%(final)s) from "
            + _RUN_DOCUMENTS_JOIN
            + _NAMED_PAGES_JOIN
            + _ON_REPEATED_MISS,
            {**_miss_params(job_run_id, list(reasons), list(reasons.values())), "final": [GONE_PAGE]},
        )


def miss_unlisted(connection: Executor, job_run_id: str, refused: Sequence[str]) -> None:
    """Record a miss for pages that the run did not list, without refused addresses."""
    connection.execute(_RECORD_UNLISTED_STATEMENT, {"run": job_run_id, "refused": list(refused)})


def settle_removals(connection: Executor, job_run_id: str) -> None:
    """Remove or hold missing pages, as the last step of a run."""
    values = {
        "run": job_run_id,
        "runs": [job_run_id],
        "missing": [GONE_PAGE, MISSING_PAGE, *web_pages.GATE_REASONS],
        "gone": GONE_PAGE,
    }
    page_aliases.drop_outdated_aliases(connection, job_run_id)
    for statement in (
        _CLEAR_REACHED_STATEMENT,
        _RECORD_COPIES_STATEMENT,
        _RECORD_FAILED_STATEMENT,
        _RECORD_MOVED_STATEMENT,
    ):
        connection.execute(statement, values)
    documents = (
        connection.fetch_one(
            int, "select count(*) from " + _RUN_DOCUMENTS_JOIN + "where " + _SELECTION_CONDITION, values
        )
        or 0
    )
    leaving = connection.fetch(_LeavingPage, _LEAVING_PAGES_QUERY, {**values, "misses": MAX_MISSES})
    ids = [page.id for page in leaving]
    if deletion.needs_confirmation(len(leaving), documents):
        connection.execute("update page_misses set held = true where document_id = any(%(ids)s)", {"ids": ids})
        leaving = []
    elif leaving:
        page_aliases.keep_addresses(connection, job_run_id, ids)
        deletion.delete_documents(connection, ids)
    connection.execute(
        """
        update job_runs set progress = progress || jsonb_build_object(
            'removed', %(removed)s::int, 'removals', %(removals)s::jsonb, 'awaitingConfirmation', (
                select count(*) from page_misses m join documents d on d.id = m.document_id and d.deleted_at is null
                where m.held and m.job_run_id = %(run)s))
        where id = %(run)s
        """,
        {**values, "removed": len(leaving), "removals": json.dumps(_group_by_reason(leaving))},
    )


class _LeavingPage(NamedTuple):
    id: str
    address: str
    reason: str


def _group_by_reason(pages: Sequence[_LeavingPage]) -> dict[str, dict[str, Any]]:
    reasons: dict[str, dict[str, Any]] = {}
    for page in pages:
        entry = reasons.setdefault(page.reason, {"count": 0, "pages": []})
        entry["count"] += 1
        if len(entry["pages"]) < MAX_NAMED_PAGES:
            entry["pages"].append(page.address)
    return reasons


def _miss_params(job_run_id: str, addresses: list[str], reasons: list[str]) -> dict[str, Any]:
    return {"run": job_run_id, "addresses": addresses, "reasons": reasons}


_NAMED_PAGES_JOIN: LiteralString = (
    "join unnest(%(addresses)s::text[], %(reasons)s::text[]) as w (address, reason) on w.address = d.external_id where "
    + _SELECTION_CONDITION
)
_INSERT_MISS: LiteralString = "insert into page_misses (document_id, job_run_id, reason, final) "
_ON_REPEATED_MISS: LiteralString = """
    order by d.id on conflict (document_id) do update
    set misses = page_misses.misses + (page_misses.job_run_id <> excluded.job_run_id)::int,
        job_run_id = excluded.job_run_id, reason = excluded.reason, final = page_misses.final or excluded.final
"""
_CLEAR_REACHED_STATEMENT: LiteralString = f"""
    delete from page_misses g using run_documents m
    where m.job_run_id = %(run)s and m.document_id = g.document_id and m.status = 'SUCCESS'
      and g.document_id not in (select id from ({page_aliases.COPIES_QUERY}) copies)
"""
_RECORD_COPIES_STATEMENT: LiteralString = (
    _INSERT_MISS
    + f"select d.id, d.job_run_id, '{web_pages.COPY_REASON}', false from ({page_aliases.COPIES_QUERY}) d where true"
    + _ON_REPEATED_MISS
)
# Pages for which the site reports a missing page.
_RECORD_FAILED_STATEMENT: LiteralString = (
    _INSERT_MISS
    + "select distinct on (d.id) d.id, r.id, m.error, m.error = %(gone)s from "
    + _RUN_DOCUMENTS_JOIN
    + " join run_documents m on m.job_run_id = r.id and m.status = 'FAILED' and m.error = any(%(missing)s)"
    " and (m.document_id = d.id or m.properties ->> 'externalId' = d.external_id)"
    " where r.id = %(run)s and d.active_generation > 0" + _ON_REPEATED_MISS
)
_RECORD_UNLISTED_STATEMENT: LiteralString = (
    _INSERT_MISS
    + f"select d.id, r.id, '{web_pages.UNLISTED_REASON}', false from "
    + _RUN_DOCUMENTS_JOIN
    + "where "
    + _SELECTION_CONDITION
    + " and d.external_id <> all(%(refused)s)"
    " and not exists (select from run_documents m where m.job_run_id = r.id and m.document_id = d.id)"
    + _ON_REPEATED_MISS
)
# Pages whose address now leads to another searchable document.
_RECORD_MOVED_STATEMENT: LiteralString = (
    _INSERT_MISS
    + f"select d.id, r.id, '{web_pages.MOVED_REASON}', true from "
    + _RUN_DOCUMENTS_JOIN
    + " join document_aliases a on a.partition_id = d.partition_id and a.source = d.source"
    " and a.address = d.external_id and a.job_run_id = r.id and a.document_id <> d.id"
    " join documents target on target.id = a.document_id and target.active_generation > 0"
    " and target.deleted_at is null"
    " where "
    + _SELECTION_CONDITION
    + " and not exists (select from run_documents m where m.job_run_id = r.id and m.document_id = d.id)"
    + _ON_REPEATED_MISS
)
_LEAVING_PAGES_QUERY: LiteralString = """
    select d.id, d.external_id as address, g.reason from page_misses g
    join documents d on d.id = g.document_id and d.deleted_at is null
    where g.job_run_id = %(run)s and not g.held and (g.final or g.misses >= %(misses)s)
    order by d.id for no key update of d
"""
