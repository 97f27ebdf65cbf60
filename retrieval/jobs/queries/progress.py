"""Progress of a job run: counts of its documents by stage and status."""

from __future__ import annotations

from typing import Any, LiteralString

from retrieval.database.database import Database
from retrieval.jobs import web_pages
from retrieval.statuses import Stage, stage_names, stages_since

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
    + stage_names(Stage.DISCOVER)
    + """),
                   'fetched', count(*) filter (
                       where stage not in ("""
    + stage_names(Stage.DISCOVER, Stage.ACCEPTED)
    + """)
                          or (raw_key is not null and r.source not in ('TEXT', 'LOCAL_FILE'))),
                   'parsed', count(*) filter (where stage in ("""
    + stage_names(*stages_since(Stage.PARSED))
    + """)),
                   'chunked', count(*) filter (where stage in ("""
    + stage_names(*stages_since(Stage.CHUNKED))
    + """)),
                   'embedded', count(*) filter (where stage in ("""
    + stage_names(*stages_since(Stage.EMBEDDED))
    + """)),
                   'upserted', count(*) filter (where stage = """
    + stage_names(Stage.UPSERTED)
    + """),
                   'failed', count(*) filter (where status = 'FAILED'),
                   'webPages', ("""
    + web_pages.COUNTED
    + """),
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


def read_progress(db: Database, job_run_id: str) -> dict[str, Any]:
    """Read the progress of one job run, for the worker that executes it."""
    statement: LiteralString = "select counted.progress from job_runs r" + COUNTED + "where r.id = %(run)s"
    return db.fetch_one(dict, statement, {"run": job_run_id}) or {}
