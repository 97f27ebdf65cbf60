"""Health of schedules and connections by the outcomes of their newest job runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, LiteralString, Self

from retrieval.jobs.queries import progress as run_progress

MAX_EXAMINED_RUNS = 100

# Join of a job run `r` with the counts that `run_progress.OUTCOME_EXPRESSION` reads.
_COUNTED_STATUSES: LiteralString = (
    " cross join lateral (select count(*) filter (where status = 'SUCCESS') as succeeded,"
    " count(*) filter (where status = 'FAILED') as failed, count(*) filter (where status = 'CANCELLED') as cancelled"
    " from run_documents where job_run_id = r.id) counted "
)


@dataclass(frozen=True, slots=True)
class Health:
    """Health of a webhook, schedule or connection by the newest outcomes."""

    last_outcome: str | None = None
    last_success_at: datetime | None = None
    failures_since: datetime | None = None
    consecutive_failures: int = 0
    reason: str | None = None
    next_attempt_at: datetime | None = None

    @property
    def state(self) -> Literal["HEALTHY", "FAILING", "UNKNOWN"]:
        """Return FAILING after a failure, HEALTHY after a success, UNKNOWN without an outcome."""
        if self.reason is not None or self.consecutive_failures:
            return "FAILING"
        return "UNKNOWN" if self.last_success_at is None else "HEALTHY"

    @classmethod
    def load(cls, outcomes: Mapping[str, Any]) -> Self:
        """Load the JSON object of a `select_health` column."""
        return cls(
            last_outcome=outcomes["lastOutcome"],
            last_success_at=_parse_time(outcomes["lastSuccessAt"]),
            failures_since=_parse_time(outcomes["failuresSince"]),
            consecutive_failures=outcomes["failures"],
            reason=outcomes["reason"],
        )

    def with_refusals(self, count: int, since: datetime | None, reason: str | None) -> Self:
        """Add the number of due times that failed to start a job run after the newest run."""
        if count == 0:
            return self
        return replace(
            self,
            last_outcome="NOT_STARTED",
            failures_since=self.failures_since or since,
            consecutive_failures=self.consecutive_failures + count,
            reason=reason or self.reason,
        )


def _parse_time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def select_health(run_condition: LiteralString) -> LiteralString:
    """Return a subquery with the health of the job runs `r` that fulfil a condition."""
    # `recent` has the newest ended runs, `streak` those of them down to the newest success. Its recursion stops after
    # one run if that succeeded, which is the usual case. Cancelled runs are neither failures nor successes.
    return (
        "(with recursive recent as ("
        "select r.*, row_number() over (order by r.number desc) as place from job_runs r"
        " where r.finished_at is not null and " + run_condition + f" order by r.number desc limit {MAX_EXAMINED_RUNS}"
        "), streak as (select r.id, r.place, r.finished_at, "
        + run_progress.OUTCOME_EXPRESSION
        + " as outcome from recent r"
        + _COUNTED_STATUSES
        + "where r.place = 1"
        " union all select r.id, r.place, r.finished_at, "
        + run_progress.OUTCOME_EXPRESSION
        + " from streak newer join recent r on r.place = newer.place + 1"
        + _COUNTED_STATUSES
        + "where newer.outcome in ('FAILED', 'CANCELLED')"
        ") select jsonb_build_object("
        "'lastOutcome', (array_agg(outcome order by place))[1],"
        " 'lastSuccessAt', max(finished_at) filter (where outcome not in ('FAILED', 'CANCELLED')),"
        " 'failuresSince', min(finished_at) filter (where outcome = 'FAILED'),"
        " 'failures', count(*) filter (where outcome = 'FAILED'),"
        " 'reason', (select coalesce(d.error, 'The job run failed.') from streak failed"
        " left join run_documents d on d.job_run_id = failed.id and d.status = 'FAILED'"
        " where failed.outcome = 'FAILED' order by failed.place, d.position limit 1)"
        ") from streak)"
    )
