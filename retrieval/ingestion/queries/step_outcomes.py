"""Outcomes of steps: number of documents and failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from retrieval.database.database import Database
from retrieval.ingestion.items import STAGES_BEFORE_STEP
from retrieval.jobs.queries.batches import DocumentKey
from retrieval.statuses import Stage, stages_since

MAX_FAILURES: Final = 50


@dataclass(frozen=True, slots=True)
class FailedDocument:
    """Document that failed in a step, with the reason and the remedy."""

    document_id: str
    name: str
    error: str


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """Number of documents that passed or failed the step, and the first failures."""

    documents: int
    failed: int = 0
    failures: tuple[FailedDocument, ...] = ()


@dataclass(frozen=True, slots=True)
class _OutcomeRow:
    documents: int
    failed: int
    failures: list[list[Any]]


def read_window_outcome(
    db: Database, window: Sequence[DocumentKey], step: str, *, fails_later_stages: bool = False
) -> StepOutcome:
    """Read the outcome of a step on a window. `fails_later_stages`: the error also failed documents past the step."""
    previous_stages = STAGES_BEFORE_STEP[step]
    # Other steps may work on the same window: a document failed in the step that follows its stage.
    failed_at = stages_since(previous_stages[-1]) if fails_later_stages else previous_stages[-1:]
    untouched = [*previous_stages, *([] if step == "fetch" else [Stage.UNCHANGED])]
    rows = db.fetch(
        _OutcomeRow,
        """
        select (count(*) filter (where d.failed or d.stage <> all(%(untouched)s)))::int as documents,
               (count(*) filter (where d.failed))::int as failed,
               coalesce(to_jsonb((array_agg(jsonb_build_array(d.document_id, d.name, coalesce(d.error, ''))
                   order by d.place) filter (where d.failed))[:%(limit)s]), '[]') as failures
        from (
            select d.document_id, d.name, d.error, d.stage, w.place,
                   d.status = 'FAILED' and d.stage = any(%(failed_at)s) as failed
            from unnest(%(runs)s::text[], %(documents)s::text[]) with ordinality as w (run, document, place)
            join run_documents d on d.job_run_id = w.run and d.document_id = w.document
        ) d
        """,
        {
            "runs": [key.job_run_id for key in window],
            "documents": [key.document_id for key in window],
            "untouched": untouched,
            "failed_at": list(failed_at),
            "limit": MAX_FAILURES,
        },
    )
    return _make_outcome(rows[0])


def read_listing_outcome(db: Database, job_run_id: str) -> StepOutcome:
    """Read the number of listed entries of a job run, and its failures."""
    rows = db.fetch(
        _OutcomeRow,
        """
        select count(*)::int as documents,
               (count(*) filter (where d.failed))::int as failed,
               coalesce(to_jsonb((array_agg(jsonb_build_array(d.document_id, d.name, coalesce(d.error, ''))
                   order by d.position) filter (where d.failed))[:%(limit)s]), '[]') as failures
        from (
            select *, status = 'FAILED' and stage = %(discover)s as failed from run_documents where job_run_id = %(run)s
        ) d
        """,
        {"run": job_run_id, "discover": Stage.DISCOVER, "limit": MAX_FAILURES},
    )
    return _make_outcome(rows[0])


def _make_outcome(row: _OutcomeRow) -> StepOutcome:
    return StepOutcome(row.documents, row.failed, tuple(FailedDocument(*fields) for fields in row.failures))
