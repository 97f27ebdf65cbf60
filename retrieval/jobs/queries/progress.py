"""Progress of a job run: counts of its documents by stage and status."""

from __future__ import annotations

from typing import Any, LiteralString

from retrieval import failure_causes
from retrieval.database.database import Database
from retrieval.jobs import web_pages
from retrieval.statuses import Stage, stage_names, stages_since

# Causes and numbers of failed documents of job run `r`, most frequent first, and of those without a later job run.
FAILURE_CAUSES_QUERY: LiteralString = f"""
    (select coalesce(jsonb_agg(jsonb_build_array(f.cause, f.documents, f.open) order by f.documents desc, f.cause),
                     '[]')
     from (select {failure_causes.cause_sql("m.error")} as cause, count(*) as documents,
                  count(*) filter (where (d.job_run_id <> m.job_run_id) is not true) as open
           from run_documents m left join documents d on d.id = m.document_id
           where m.job_run_id = r.id and m.status = 'FAILED' and m.error is not null group by 1) f)
"""
# Documents with a language, and non-English ones, of job run `r` in a namespace with a chosen model.
_LANGUAGES_QUERY: LiteralString = """
    case when exists (
        select from partitions p join namespaces n on n.id = p.namespace_id
        where p.id = r.partition_id and n.config #>> '{embeddingModelConfig,model}' = 'all-MiniLM-L6-v2'
          and n.config #> '{embeddingModelConfig,learned}' ? 'choice'
    ) then (
        select jsonb_build_object('other', count(*) filter (where properties ->> 'language' <> 'en'),
                                  'all', count(properties ->> 'language'))
        from run_documents where job_run_id = r.id
    ) end
"""

# Join of job run `r` with its documents by status and stage. Unchanged documents and content delivered with the listing
# count as fetched. `whole` excludes packed documents; `hosts` counts hosts of URL lists.
COUNTED_DOCUMENTS: LiteralString = (
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
                   'indexed', count(*) filter (where status = 'SUCCESS' and stage <> """
    + stage_names(Stage.UNCHANGED)
    + """),
                   'unchanged', count(*) filter (where status = 'SUCCESS' and stage = """
    + stage_names(Stage.UNCHANGED)
    + """),
                   'cancelled', count(*) filter (where status = 'CANCELLED'),
                   'open', count(*) filter (where status not in ('SUCCESS', 'FAILED', 'CANCELLED')),
                   'webPages', ("""
    + web_pages.PAGE_COUNTS_QUERY
    + """),
                   'languages', """
    + _LANGUAGES_QUERY
    + """,
                   'skipped', (select coalesce(sum(value::int), 0)
                               from jsonb_each_text(coalesce(r.progress -> 'skipped', '{}'))),
                   'skippedReasons', coalesce(r.progress -> 'skipped', '{}'),
                   'removed', coalesce((r.progress ->> 'removed')::int, 0),
                   'awaitingConfirmation', coalesce((r.progress ->> 'awaitingConfirmation')::int, 0),
                   'removals', coalesce(r.progress -> 'removals', '{}'),
                   'verdict', r.progress -> 'verdict',
                   'report', r.progress -> 'report'
               ) as progress
        from run_documents where job_run_id = r.id
    ) counted
"""
)


def read_progress(db: Database, job_run_id: str) -> dict[str, Any]:
    """Read the progress of one job run."""
    statement: LiteralString = "select counted.progress from job_runs r" + COUNTED_DOCUMENTS + "where r.id = %(run)s"
    return db.fetch_one(dict, statement, {"run": job_run_id}) or {}


# Documents of a scope by the hour in which their run ended.
ENDED_BY_HOUR_QUERY: LiteralString = """
    select date_trunc('hour', r.finished_at) as at, count(*) filter (where d.status = 'SUCCESS') as indexed,
           count(*) filter (where d.status = 'FAILED') as failed
    from job_runs r
    join partitions p on p.id = r.partition_id and p.tenant = %(tenant)s and p.namespace_id = %(namespace)s
    join namespaces n on n.id = p.namespace_id and n.organization_id = %(organization)s and n.deleted_at is null
    join run_documents d on d.job_run_id = r.id
    where r.finished_at > now() - make_interval(days => %(days)s) and r.source <> 'REEMBED'
    group by 1
"""
# Of job run `r` with `COUNTED_DOCUMENTS`. A cancelled run without cancelled documents ends as usual, a dry
# run as the ingestion would. `to_discover` stays true after an interrupted listing or a missing swap.
OUTCOME_EXPRESSION: LiteralString = """
    case when r.status <> 'COMPLETED' then null
         when r.progress -> 'verdict' @> '{"passed": false}' then 'FAILED'
         when (r.progress -> 'report' ->> 'failed')::bigint > 0 then
              case when r.progress -> 'report' @> '{"create": 0, "update": 0, "unchanged": 0}' then 'FAILED'
                   else 'COMPLETED_WITH_FAILURES' end
         when r.cancel_requested and (r.to_discover or counted.cancelled > 0) then 'CANCELLED'
         when counted.failed > 0 and (counted.succeeded = 0 or r.to_discover) then 'FAILED'
         when counted.failed > 0 then 'COMPLETED_WITH_FAILURES'
         when r.to_discover or (counted.cancelled > 0 and counted.succeeded = 0) then 'CANCELLED'
         else 'SUCCEEDED' end
"""
