"""Progress artifacts and result tables in Prefect, without any content of documents."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from prefect.artifacts import acreate_progress_artifact, acreate_table_artifact, aupdate_progress_artifact
from prefect.logging import get_run_logger

from retrieval import settings
from retrieval.ingestion.queries import results as outcomes
from retrieval.jobs import names
from retrieval.logs import without_query
from retrieval.statuses import DocumentStatus

if TYPE_CHECKING:
    from uuid import UUID

    from retrieval.ingestion.queries.results import DocumentOutcome

ROWS = 500
LOOK_SECONDS = 2.0
TELL_SECONDS = 1.0


class ProgressBar:
    """A progress bar that counts documents, of what is not over in a moment."""

    def __init__(self, namespace: str, total: int) -> None:
        self._key = artifact_key("progress", namespace)
        self._artifact: UUID | None = None
        self._total = total
        self._done = 0
        self._told = time.monotonic()
        self._telling = asyncio.Lock()  # windows end together, and Prefect keeps what arrives last

    async def add(self, documents: int) -> None:
        """Add finished documents; shown once a second, and at the end."""
        self._done += documents
        async with self._telling:
            is_all = self._done >= self._total
            if (is_all and self._artifact is None) or (not is_all and time.monotonic() - self._told < TELL_SECONDS):
                return
            self._told = time.monotonic()
            if self._artifact is None:
                self._artifact = await _bar(self._key, f"Documents through the pipeline: {self._total}")
            await aupdate_progress_artifact(self._artifact, progress=100.0 * self._done / max(self._total, 1))


async def _bar(key: str, description: str) -> UUID:
    return await acreate_progress_artifact(progress=0.0, key=key, description=description)


def artifact_key(kind: str, namespace: str) -> str:
    """The key under which Prefect's Artifacts page shows the newest of this kind and namespace, with its history."""
    return f"{kind}-{namespace.lower().replace('_', '-')}"


@contextlib.asynccontextmanager
async def report_listing(namespace: str, look: Callable[[], Mapping[str, Any]]) -> AsyncIterator[None]:
    """Show the progress of a listing. `look`: reads the job run's progress, called in a thread."""
    artifact = await _bar(artifact_key("listing", namespace), "Finding out what to ingest.")
    ended, bar = asyncio.Event(), 0.0
    watching = asyncio.create_task(_watch(artifact, look, ended))
    try:
        yield
        bar = 100.0
    finally:
        ended.set()  # not cancelled: what is under way could arrive after the end
        await asyncio.gather(watching, return_exceptions=True)
        await aupdate_progress_artifact(artifact, bar, _found(await asyncio.to_thread(look)))


async def _watch(artifact: UUID, look: Callable[[], Mapping[str, Any]], ended: asyncio.Event) -> None:
    last_text = ""
    while not await _is_set_within(ended, LOOK_SECONDS):
        if (text := _found(await asyncio.to_thread(look))) != last_text:
            await aupdate_progress_artifact(artifact, 0.0, text)
            last_text = text


async def _is_set_within(event: asyncio.Event, seconds: float) -> bool:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()


def _found(counts: Mapping[str, Any]) -> str:
    labels = {"found": "found", "fetched": "fetched", "failed": "failed", "skipped": "left out"}
    return (
        "Finding out what to ingest: " + ", ".join(f"{counts.get(key, 0)} {word}" for key, word in labels.items()) + "."
    )


def in_the_app(namespace: str, rows: Sequence[DocumentOutcome]) -> str:
    """Link to these documents' job run in the admin app, or to the namespace's runs if there are several; Markdown.

    Empty where the app's address is not known.
    """
    runs = {row.job_run_id for row in rows}
    return link_to_run(namespace, runs.pop() if len(runs) == 1 else None)


def link_to_run(namespace: str, job_run_id: str | None) -> str:
    """Link to a job run in the admin app, or to all of the namespace; "" where the app's address is unknown."""
    options = settings.load_settings()
    if not (options.ui_public_url or options.ui_port):
        return ""
    address = (options.ui_public_url or f"http://{options.ui_host}:{options.ui_port}").rstrip("/")
    query = {"namespace": namespace} | ({"run": job_run_id} if job_run_id else {})
    return f" [Open in the admin app]({address}/runs?{urlencode(query)})"


async def report_results(
    namespace: str,
    rows: Sequence[DocumentOutcome],
    skipped: Mapping[str, int] | None = None,
    left: outcomes.RemovalCounts = outcomes.NO_REMOVALS,
) -> None:
    """Result table, one row a document; failures first. At most ROWS rows, then a note; and the documents left out.

    `left`: documents that are gone at their content service.
    """
    ordered = sorted(rows, key=lambda outcome: outcome.status == "SUCCESS")
    table = [
        {
            "document": without_query(outcome.name),
            "status": outcome.status,
            "error": without_query(outcome.error or ""),
            "last step": outcome.stage,
            "chunks": outcome.chunks,
            "document id": outcome.document_id,
            "job run": outcome.job_run_id,
        }
        for outcome in ordered[:ROWS]
    ]
    failed = sum(row.status == DocumentStatus.FAILED for row in rows)
    total = f"{len(rows)}, {failed} of them failed." if failed else f"{len(rows)}."
    omission = f" The first {ROWS} of {len(rows)} are shown." if len(rows) > ROWS else ""
    out = "".join(f" Left out: {count} ({reason})" for reason, count in (skipped or {}).items())
    removal = f" Removed: {left.removed}." if left.removed else ""
    if left.held:
        removal += f" Gone at the source and kept until a person confirms it: {left.held}."
        get_run_logger().warning("%s documents are gone at the source: confirm with a resync.", left.held)
    link = in_the_app(namespace, rows)
    description = f"Documents of this run: {total}{omission}{out}{removal}{link}"
    await acreate_table_artifact(table=table, key=artifact_key("results", namespace), description=description)


def describe_failures(rows: Sequence[DocumentOutcome]) -> str:
    """The first failed documents, each with its reason, and how many more there are; "" without one."""
    failed = [row for row in rows if row.status == DocumentStatus.FAILED]
    parts = [
        f" {names.plain_name(row.name)}: {without_query(row.error or 'no reason was recorded')}" for row in failed[:3]
    ]
    if len(failed) > 3:
        parts.append(f" {len(failed) - 3:,} more are in the artifact of results.")
    return "".join(parts)


def summarize_batch(
    counts: outcomes.BatchProgress, rows: Sequence[DocumentOutcome], handed_back: int, *, is_blocked: bool
) -> str:
    """Summarize counts and up to three failed documents as the message of a flow run's final state."""
    total = names.counted_noun(counts.documents, "document")
    if handed_back:
        job_runs = names.counted_noun(handed_back, "job run")
        if is_blocked:
            return f"{total} so far. {job_runs} wait for a service that does not answer; see the logs."
        return f"{total} so far. Others were waiting: {job_runs} continue when it is their turn."
    if counts.failed or counts.cancelled:
        parts = {"failed": counts.failed, "cancelled": counts.cancelled}
        return f"{total}: {', '.join(f'{n:,} {word}' for word, n in parts.items() if n)}.{describe_failures(rows)}"
    return f"{total} ingested."
