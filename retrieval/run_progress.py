"""How far the documents of a job run have come, in counts."""

from __future__ import annotations

from typing import Any, LiteralString

from retrieval.database import Database

SHOWN: LiteralString = """
    (select jsonb_build_object(
        'found', count(*) filter (where stage <> 'discover'),
        'fetched', count(*) filter (
            where stage not in ('discover', 'accepted')
               or (raw_key is not null and r.source not in ('TEXT', 'LOCAL_FILE'))),
        'parsed', count(*) filter (where stage in ('parsed', 'chunked', 'embedded', 'upserted')),
        'chunked', count(*) filter (where stage in ('chunked', 'embedded', 'upserted')),
        'embedded', count(*) filter (where stage in ('embedded', 'upserted')),
        'upserted', count(*) filter (where stage = 'upserted'),
        'failed', count(*) filter (where status = 'FAILED'),
        'skipped', (select coalesce(sum(value::int), 0) from jsonb_each_text(coalesce(r.progress -> 'skipped', '{}'))),
        'skippedReasons', coalesce(r.progress -> 'skipped', '{}'),
        'removed', coalesce((r.progress ->> 'removed')::int, 0),
        'awaitingConfirmation', coalesce((r.progress ->> 'awaitingConfirmation')::int, 0)
     ) from run_documents where job_run_id = r.id)
"""
"""How far the documents of job run `r` have come (D61). An unchanged one was fetched and needed no more; what a source
handed over while it was listed was fetched before its turn."""


def read(db: Database, job_run_id: str) -> dict[str, Any]:
    """The counts of one job run, for who works on it."""
    statement: LiteralString = "select " + SHOWN + " as progress from job_runs r where r.id = %(run)s"
    rows = db.rows(statement, {"run": job_run_id})
    return dict(rows[0]["progress"]) if rows else {}
