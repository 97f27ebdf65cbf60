"""Progress of a job run: counts of its documents by stage and status."""

from __future__ import annotations

from typing import Any, LiteralString

from retrieval import job_config
from retrieval.database.database import Database
from retrieval.principals import Viewer, visible
from retrieval.statuses import Stage, since, sql

COUNTED: LiteralString = (
    """
    cross join lateral (
        select count(*) as documents, count(*) filter (where status = 'SUCCESS') as succeeded,
               count(*) filter (where status = 'FAILED') as failed,
               count(*) filter (where status = 'CANCELLED') as cancelled,
               count(*) filter (where not properties ? 'archivePath') as whole,
               count(distinct split_part(name, '/', 3)) as hosts,
               jsonb_build_object(
                   'found', count(*) filter (where stage <> """
    + sql(Stage.DISCOVER)
    + """),
                   'fetched', count(*) filter (
                       where stage not in ("""
    + sql(Stage.DISCOVER, Stage.ACCEPTED)
    + """)
                          or (raw_key is not null and r.source not in ('TEXT', 'LOCAL_FILE'))),
                   'parsed', count(*) filter (where stage in ("""
    + sql(*since(Stage.PARSED))
    + """)),
                   'chunked', count(*) filter (where stage in ("""
    + sql(*since(Stage.CHUNKED))
    + """)),
                   'embedded', count(*) filter (where stage in ("""
    + sql(*since(Stage.EMBEDDED))
    + """)),
                   'upserted', count(*) filter (where stage = """
    + sql(Stage.UPSERTED)
    + """),
                   'failed', count(*) filter (where status = 'FAILED'),
                   'sameContent', count(raw_hash) filter (where r.source in ('URLS_LIST', 'SITEMAP'))
                                  - count(distinct raw_hash) filter (where r.source in ('URLS_LIST', 'SITEMAP')),
                   'skipped', (select coalesce(sum(value::int), 0)
                               from jsonb_each_text(coalesce(r.progress -> 'skipped', '{}'))),
                   'skippedReasons', coalesce(r.progress -> 'skipped', '{}'),
                   'removed', coalesce((r.progress ->> 'removed')::int, 0),
                   'awaitingConfirmation', coalesce((r.progress ->> 'awaitingConfirmation')::int, 0),
                   'verdict', r.progress -> 'verdict',
                   'report', r.progress -> 'report'
               ) as progress
        from run_documents where job_run_id = r.id
    ) counted
"""
)
"""Joined to job run `r`: its documents counted by how they ended, and how far they have come.

An unchanged one was fetched and needed no more; what a source handed over while it was listed was fetched before its
turn. `whole` leaves out what was packed into others; `hosts` counts those of URL lists.
"""


OF_STATUS: LiteralString = "%(status)s = r.status"
"""Whether run `r` has this status."""
_STATUS: LiteralString = """
    (case when r.to_discover or counted.documents > counted.succeeded + counted.failed + counted.cancelled then r.status
          else 'COMPLETED' end)
"""
"""For a user it is over once nothing that the user may see is open: what it does besides is of hidden documents."""


def shown(entry: LiteralString) -> LiteralString:
    """The rule on an entry of run `r` of job `j`: its document may be seen, or it never had one and the viewer asked.

    Of a document that is deleted and swept nobody knows any more whom it was for.
    """
    return (
        f"(exists (select from documents d where d.id = {entry}.document_id and "
        + visible("d")
        + ") or jsonb_exists(%(viewer)s::jsonb, 'u:' || "
        + job_config.PRINCIPAL
        + f") and {entry}.stage in ({sql(Stage.DISCOVER)}, 'unpack')"
        + f" and not exists (select from documents d where d.id = {entry}.document_id))"
    )


_SEEN: LiteralString = "from run_documents where job_run_id = r.id and " + shown("run_documents")
"""In place of all documents of a run: those that the viewer may see."""


def seen(statement: LiteralString, viewer: Viewer | None) -> tuple[LiteralString, dict[str, Any]]:
    """A statement with COUNTED for one viewer, and its parameters: what is hidden counts nowhere, and what was found,
    left out or removed beside it is not told, nor how long a run took, with hidden documents or without, nor when it
    ended."""
    if viewer is None:
        return statement, {}
    counted = COUNTED.replace("from run_documents where job_run_id = r.id", _SEEN).replace("r.progress", "'{}'::jsonb")
    of_status: LiteralString = "%(status)s = (select r.status from (select) one " + COUNTED + ")"
    statement = statement.replace(OF_STATUS, of_status).replace("r.status", _STATUS)
    statement = statement.replace("r.updated_at", "coalesce(r.started_at, r.created_at)")
    return statement.replace(COUNTED, counted).replace("r.timings", "'{}'::jsonb as timings"), viewer.params()


def read(db: Database, job_run_id: str) -> dict[str, Any]:
    """How far one job run has come, for who works on it."""
    statement: LiteralString = "select counted.progress from job_runs r" + COUNTED + "where r.id = %(run)s"
    rows = db.rows(statement, {"run": job_run_id})
    return dict(rows[0]["progress"]) if rows else {}
