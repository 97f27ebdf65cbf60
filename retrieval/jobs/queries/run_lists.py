"""Lists of job runs: filtered, and sorted on the server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, LiteralString

from retrieval import job_config
from retrieval.database.database import Database
from retrieval.jobs import names
from retrieval.jobs.queries import progress as run_progress

Sort = Literal["newest", "oldest", "longest", "status"]


@dataclass(frozen=True, slots=True)
class ListedRun(names.RunDescription):
    """Row of a list of job runs."""

    id: str
    number: int
    job_id: str
    status: str
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    timings: dict[str, float]
    trigger: str | None
    flow_run_id: str | None
    progress: dict[str, Any]
    outcome: str | None


# Filter on outcome and a part of the id, given name, address, account or first document name.
_MATCH_CONDITION: LiteralString = (
    """
    (%(outcome)s::text is null or %(outcome)s = (select """
    + run_progress.OUTCOME_EXPRESSION
    + " from (select) one "
    + run_progress.COUNTED_DOCUMENTS
    + r"""))
    and (%(about)s::text is null or strpos(lower((
        select concat_ws(' ', r.id, given, split_part(split_part(url, '?', 1), '#', 1),
                         regexp_replace(
                             case when strpos(first, '://') > 0 then split_part(split_part(first, '?', 1), '#', 1)
                                  else first end, '[?#&][^\s?#&=]+=\S*', '', 'g'), account)
        from """
    + names.SEARCH_WORDS_QUERY
    + """
    )), lower(%(about)s)) > 0)
"""
)

_OFFSET_CLAUSE: LiteralString = " offset coalesce(%(after)s, 0)"
_SCOPE_CLAUSE: LiteralString = (
    """
        from job_runs r
        join jobs j on j.id = r.job_id
        where r.partition_id = (
            select p.id from partitions p
            join namespaces n on n.id = p.namespace_id and n.organization_id = %(organization)s and n.deleted_at is null
            where p.tenant = %(tenant)s and p.namespace_id = %(namespace)s
        ) and (%(status)s::text is null or %(status)s = r.status)
          and (%(source)s::text is null or coalesce("""
    + job_config.DRY_RUN_SOURCE
    + """, r.source) = %(source)s) and (%(ids)s::text[] is null or r.id = any(%(ids)s))"""
)
# Condition after the cursor, order, and offset for cursors that count runs.
_SORT_CLAUSES: Mapping[Sort, tuple[LiteralString, LiteralString, LiteralString]] = {
    "newest": ("r.number < %(after)s", "r.number desc", ""),
    "oldest": ("r.number > %(after)s", "r.number", ""),
    "longest": ("true", "coalesce(r.finished_at, now()) - r.started_at desc nulls last, r.number desc", _OFFSET_CLAUSE),
    "status": (
        "true",
        "array_position(array['PROCESSING', 'PRE_PROCESSING', 'QUEUED'], r.status) nulls last, r.number desc",
        _OFFSET_CLAUSE,
    ),
}
_COUNT_QUERY: LiteralString = "select count(*)" + _SCOPE_CLAUSE
_SELECT_COLUMNS: LiteralString = (
    "select r.id, r.number, r.job_id, r.status, r.created_at, r.updated_at, r.started_at,"
    " r.finished_at, r.timings, r.trigger,"
    " b.flow_run_id,"
    " counted.progress, " + names.DESCRIPTION_COLUMNS + "," + run_progress.OUTCOME_EXPRESSION + " as outcome from ("
)


def _list_statement(sort: Sort) -> LiteralString:
    """Return the statement of a page; details are read only for the runs of the page."""
    follows, order, offset = _SORT_CLAUSES[sort]
    listed = (
        "select r.id" + _SCOPE_CLAUSE + " and (%(after)s::bigint is null or " + follows + ") and " + _MATCH_CONDITION
    )
    joined: LiteralString = (
        ") found join job_runs r on r.id = found.id join jobs j on j.id = r.job_id"
        " left join batches b on b.id = coalesce(r.batch_id, r.resumes_batch) "
    )
    page = listed + " order by " + order + offset + " limit %(limit)s" + joined
    return _SELECT_COLUMNS + page + run_progress.COUNTED_DOCUMENTS + " order by " + order


async def list_runs(db: Database, sort: Sort, values: dict[str, Any]) -> list[ListedRun]:
    """List the runs of a page, plus one if another page follows."""
    return await db.async_fetch(ListedRun, _list_statement(sort), values)


async def count_runs(db: Database, values: dict[str, Any]) -> int:
    """Count the runs of all pages, regardless of outcome and name."""
    return await db.async_fetch_one(int, _COUNT_QUERY, values) or 0
