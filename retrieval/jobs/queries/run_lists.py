"""Lists of job runs: filtered, and sorted on the server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, LiteralString

from retrieval import job_config
from retrieval.database.database import Database
from retrieval.jobs import names, run_outcome
from retrieval.jobs.queries import progress as run_progress

Sort = Literal["newest", "oldest", "longest", "status"]


@dataclass(frozen=True, slots=True)
class ListedRun(names.About):
    """A row of a list of job runs."""

    id: str
    number: int
    job_id: str
    status: str
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    timings: dict[str, float]
    flow_run_id: str | None
    progress: dict[str, Any]
    outcome: str | None


_MATCHES: LiteralString = (
    """
    (%(outcome)s::text is null or %(outcome)s = (select """
    + run_outcome.OUTCOME
    + " from (select) one "
    + run_progress.COUNTED
    + r"""))
    and (%(about)s::text is null or strpos(lower((
        select concat_ws(' ', r.id, given, split_part(split_part(url, '?', 1), '#', 1),
                         regexp_replace(
                             case when strpos(first, '://') > 0 then split_part(split_part(first, '?', 1), '#', 1)
                                  else first end, '[?#&][^\s?#&=]+=\S*', '', 'g'), account)
        from """
    + names.ABOUT
    + """
    )), lower(%(about)s)) > 0)
"""
)
"""Condition on run `r` of job `j`: its outcome, and a piece of its id, given name, address, account or first name."""

_OFFSET: LiteralString = " offset coalesce(%(after)s, 0)"
_OF_SCOPE: LiteralString = (
    """
        from job_runs r
        join jobs j on j.id = r.job_id
        where r.partition_id = (
            select p.id from partitions p
            join namespaces n on n.id = p.namespace_id and n.organization_id = %(organization)s and n.deleted_at is null
            where p.tenant = %(tenant)s and p.namespace_id = %(namespace)s
        ) and (%(status)s::text is null or %(status)s = r.status)
          and (%(source)s::text is null or coalesce("""
    + job_config.TRIED
    + """, r.source) = %(source)s) and (%(ids)s::text[] is null or r.id = any(%(ids)s))"""
)
_SORTS: Mapping[Sort, tuple[LiteralString, LiteralString, LiteralString]] = {
    "newest": ("r.number < %(after)s", "r.number desc", ""),
    "oldest": ("r.number > %(after)s", "r.number", ""),
    "longest": ("true", "coalesce(r.finished_at, now()) - r.started_at desc nulls last, r.number desc", _OFFSET),
    "status": (
        "true",
        "array_position(array['PROCESSING', 'PRE_PROCESSING', 'QUEUED'], r.status) nulls last, r.number desc",
        _OFFSET,
    ),
}
"""For each order: what follows a cursor, the order, and the offset where the cursor is a number of runs."""
_COUNT: LiteralString = "select count(*)" + _OF_SCOPE
_COLUMNS: LiteralString = (
    "select r.id, r.number, r.job_id, r.status, r.created_at, r.updated_at, r.started_at,"
    " r.finished_at, r.timings,"
    " b.flow_run_id,"
    " counted.progress, " + names.COLUMNS + "," + run_outcome.OUTCOME + " as outcome from ("
)


def _list_statement(sort: Sort) -> LiteralString:
    """Return the statement of a page: it reads details of the runs of that page alone."""
    follows, order, offset = _SORTS[sort]
    listed = "select r.id" + _OF_SCOPE + " and (%(after)s::bigint is null or " + follows + ") and " + _MATCHES
    joined: LiteralString = (
        ") found join job_runs r on r.id = found.id join jobs j on j.id = r.job_id"
        " left join batches b on b.id = coalesce(r.batch_id, r.resumes_batch) "
    )
    page = listed + " order by " + order + offset + " limit %(limit)s" + joined
    return _COLUMNS + page + run_progress.COUNTED + " order by " + order


async def list_runs(db: Database, sort: Sort, values: dict[str, Any]) -> list[ListedRun]:
    """List the runs of a page, and one more if another page follows."""
    return await db.async_fetch(ListedRun, _list_statement(sort), values)


async def count_runs(db: Database, values: dict[str, Any]) -> int:
    """Count the runs of all pages, whatever their outcome and name."""
    return await db.async_fetch_one(int, _COUNT, values) or 0
