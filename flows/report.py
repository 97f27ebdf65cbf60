"""Progress artifacts and result tables in Prefect, without content of documents."""

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
from retrieval.logs import redact_urls
from retrieval.statuses import DocumentStatus

if TYPE_CHECKING:
    from uuid import UUID

    from retrieval.ingestion.queries.results import DocumentOutcome

MAX_TABLE_ROWS = 500
LISTING_CHECK_SECONDS = 2.0
PROGRESS_UPDATE_SECONDS = 1.0


class ProgressBar:
    """Progress artifact with a count of documents; created for longer work only."""

    def __init__(self, namespace: str, total: int) -> None:
        self._key = artifact_key("progress", namespace)
        self._artifact: UUID | None = None
        self._total = total
        self._done = 0
        self._updated_at = time.monotonic()
        self._update_lock = asyncio.Lock()  # windows end together, and Prefect keeps the last update

    async def add(self, documents: int) -> None:
        """Add finished documents; update the artifact once a second and at the end."""
        self._done += documents
        async with self._update_lock:
            is_all = self._done >= self._total
            if (is_all and self._artifact is None) or (
                not is_all and time.monotonic() - self._updated_at < PROGRESS_UPDATE_SECONDS
            ):
                return
            self._updated_at = time.monotonic()
            if self._artifact is None:
                self._artifact = await _create_bar(self._key, f"Documents through the pipeline: {self._total}")
            await aupdate_progress_artifact(self._artifact, progress=100.0 * self._done / max(self._total, 1))


async def _create_bar(key: str, description: str) -> UUID:
    return await acreate_progress_artifact(progress=0.0, key=key, description=description)


def artifact_key(kind: str, namespace: str) -> str:
    """Build the key of an artifact; Prefect keeps a history per key."""
    return f"{kind}-{namespace.lower().replace('_', '-')}"


@contextlib.asynccontextmanager
async def report_listing(namespace: str, read_progress: Callable[[], Mapping[str, Any]]) -> AsyncIterator[None]:
    """Show the progress of a listing; `read_progress` runs in a thread."""
    artifact = await _create_bar(artifact_key("listing", namespace), "Finding out what to ingest.")
    ended, bar = asyncio.Event(), 0.0
    watching = asyncio.create_task(_show_progress(artifact, read_progress, ended))
    try:
        yield
        bar = 100.0
    finally:
        ended.set()  # a cancelled update could still arrive after the last one
        await asyncio.gather(watching, return_exceptions=True)
        await aupdate_progress_artifact(artifact, bar, _describe_listing(await asyncio.to_thread(read_progress)))


async def _show_progress(artifact: UUID, read_progress: Callable[[], Mapping[str, Any]], ended: asyncio.Event) -> None:
    last_text = ""
    while not await _is_set_within(ended, LISTING_CHECK_SECONDS):
        if (text := _describe_listing(await asyncio.to_thread(read_progress))) != last_text:
            await aupdate_progress_artifact(artifact, 0.0, text)
            last_text = text


async def _is_set_within(event: asyncio.Event, seconds: float) -> bool:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()


def _describe_listing(counts: Mapping[str, Any]) -> str:
    labels = {"found": "found", "fetched": "fetched", "failed": "failed", "skipped": "left out"}
    return (
        "Finding out what to ingest: " + ", ".join(f"{counts.get(key, 0)} {word}" for key, word in labels.items()) + "."
    )


def link_to_documents(namespace: str, rows: Sequence[DocumentOutcome]) -> str:
    """Link to the documents' job run in the admin app, or to the namespace's runs; "" without an address."""
    runs = {row.job_run_id for row in rows}
    return link_to_run(namespace, runs.pop() if len(runs) == 1 else None)


def link_to_run(namespace: str, job_run_id: str | None) -> str:
    """Link to a job run in the admin app, or to the namespace's runs; "" without an address."""
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
    removals: outcomes.RemovalCounts = outcomes.NO_REMOVALS,
) -> None:
    """Create the result table, failures first, at most `MAX_TABLE_ROWS` rows."""
    ordered = sorted(rows, key=lambda outcome: outcome.status == "SUCCESS")
    table = [
        {
            "document": redact_urls(outcome.name),
            "status": outcome.status,
            "error": redact_urls(outcome.error or ""),
            "last step": outcome.stage,
            "chunks": outcome.chunks,
            "document id": outcome.document_id,
            "job run": outcome.job_run_id,
        }
        for outcome in ordered[:MAX_TABLE_ROWS]
    ]
    failed = sum(row.status == DocumentStatus.FAILED for row in rows)
    total = f"{len(rows)}, {failed} of them failed." if failed else f"{len(rows)}."
    omission = f" The first {MAX_TABLE_ROWS} of {len(rows)} are shown." if len(rows) > MAX_TABLE_ROWS else ""
    left_out = "".join(f" Left out: {count} ({reason})" for reason, count in (skipped or {}).items())
    removal = f" Removed: {removals.removed}." if removals.removed else ""
    if removals.held:
        removal += f" Gone at the source and kept until a person confirms it: {removals.held}."
        get_run_logger().warning("%s documents are gone at the source: confirm with a resync.", removals.held)
    link = link_to_documents(namespace, rows)
    description = f"Documents of this run: {total}{omission}{left_out}{removal}{link}"
    await acreate_table_artifact(table=table, key=artifact_key("results", namespace), description=description)


def describe_failures(rows: Sequence[DocumentOutcome]) -> str:
    """Name the first three failed documents with reasons; "" without failures."""
    failed = [row for row in rows if row.status == DocumentStatus.FAILED]
    parts = [
        f" {names.plain_name(row.name)}: {redact_urls(row.error or 'no reason was recorded')}" for row in failed[:3]
    ]
    if len(failed) > 3:
        parts.append(f" {len(failed) - 3:,} more are in the artifact of results.")
    return "".join(parts)


def summarize_batch(
    counts: outcomes.BatchProgress, rows: Sequence[DocumentOutcome], handed_back: int, *, is_blocked: bool
) -> str:
    """Summarize counts and up to three failures as the message of a final state."""
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
