"""Outcomes and notices of job runs, for the API, the app and Prefect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, LiteralString

from retrieval import sources
from retrieval.database.database import Database
from retrieval.jobs import web_pages
from retrieval.jobs.levers import Lever
from retrieval.jobs.queries import progress as run_progress
from retrieval.namespaces import validation
from retrieval.statuses import Outcome


@dataclass(frozen=True, slots=True)
class Notice:
    """Message about a run. `count`: number of its subjects."""

    reason: str
    count: int


AWAITING_CONFIRMATION_NOTICE = (
    "Documents are gone at the site or content service, more than a fifth of what it has here: they stay searchable"
    " until POST /v1/documents/resync with confirmDeletions: true names them, or until they are back."
)
_FOREIGN_LANGUAGES_NOTICE = (
    "Most documents of the run are in other languages than English, which the namespace's model all-MiniLM-L6-v2 reads."
)
_CHOOSE_AGAIN_ADVICE = (
    "PATCH the namespace with the model auto and reembed: true to have it chosen again, by all documents; with a gate"
    " if there is an evaluation."
)
_CHOOSE_PROVIDER_ADVICE = (
    "The multilingual model, which is for Linux on x86-64, is not installed here: PATCH the namespace with the model of"
    " a provider or of a model server, and reembed: true."
)
_EMPTY_RUN_NOTICES: Mapping[str, str] = {
    "SITEMAP": "The sitemap names no page.",
    "WEBSITE": "The website led to no page.",
    "REEMBED": "The namespace holds no document.",
    **dict.fromkeys(sources.CONNECTED_SOURCES, "Nothing is new or changed at the content service since the last run."),
}


def run_notices(
    source: str,
    outcome: str | None,
    progress: Mapping[str, Any],
    breaker: Mapping[str, Any] | None = None,
    levers: Sequence[Lever] = (),
) -> list[Notice]:
    """Return the notices of a run: gate result, open breaker, levers, removals to confirm, skipped documents."""
    messages = []
    if verdict := progress.get("verdict"):
        messages.append(Notice(verdict["told"], verdict["questions"]))
    if breaker:
        messages.append(Notice(_describe_breaker(breaker), 0))
    messages += [Notice(lever.effect, 0) for lever in levers]
    if awaiting := progress.get("awaitingConfirmation", 0):
        messages.append(Notice(AWAITING_CONFIRMATION_NOTICE, awaiting))
    languages = progress.get("languages") or {}
    if 2 * languages.get("other", 0) > languages.get("all", 0):
        advice = _CHOOSE_AGAIN_ADVICE if validation.has_multilingual_model() else _CHOOSE_PROVIDER_ADVICE
        messages.append(Notice(f"{_FOREIGN_LANGUAGES_NOTICE} {advice}", languages["other"]))
    messages += [Notice(reason, pages) for reason, pages in web_pages.web_notices(progress)]
    if progress.get("report"):
        return messages
    if outcome != Outcome.SUCCEEDED or progress.get("found", 0) or progress.get("removed", 0):
        return messages
    skipped = progress.get("skippedReasons") or {}
    if skipped:
        return messages + [Notice(reason, int(count)) for reason, count in skipped.items()]
    return messages or [Notice(_EMPTY_RUN_NOTICES.get(source, "There was nothing to do."), 0)]


def _describe_breaker(breaker: Mapping[str, Any]) -> str:
    since, until, end = (
        datetime.fromisoformat(breaker[name]).astimezone(UTC).strftime("%H:%M:%S") for name in ("since", "until", "end")
    )
    return (
        f"{breaker['name']} has not answered since {since} UTC: {breaker['reason']} It is asked again at {until};"
        f" what waits for it goes on by itself once it answers, and fails if it does not until {end}."
    )


def list_batch_outcomes(db: Database, batch_id: str) -> list[str]:
    """Return the outcomes of the batch's completed job runs, including suspended ones."""
    statement: LiteralString = (
        "select outcome from (select "
        + run_progress.OUTCOME_EXPRESSION
        + " as outcome from job_runs r "
        + run_progress.COUNTED_DOCUMENTS
        + " where r.batch_id = %(batch)s or r.resumes_batch = %(batch)s) ended where outcome is not null"
    )
    return db.fetch(str, statement, {"batch": batch_id})
