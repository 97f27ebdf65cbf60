"""Job runs."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

from retrieval_client import models
from retrieval_client._async.operations import AsyncOperations
from retrieval_client.errors import WaitTimeout
from retrieval_client.options import Progress

_LONGEST_WAIT = 25
_WAIT_WITH_PROGRESS = 2


class Runs:
    """Ingestion job runs: what became of a request."""

    def __init__(self, api: AsyncOperations) -> None:
        self._api = api

    async def get(self, namespace_id: str, run_id: str, *, document_limit: int | None = None) -> models.JobRunData:
        """A job run as it stands."""
        return await self._api.get_job_run(run_id, namespace_id=namespace_id, document_limit=document_limit)

    async def list(
        self, namespace_id: str, *, status: str | None = None, outcome: str | None = None
    ) -> AsyncIterator[models.JobRunSummary]:
        """Job runs of a namespace, newest first."""
        cursor: str | None = None
        while True:
            page = await self._api.list_job_runs(
                namespace_id=namespace_id,
                status=status,  # type: ignore[arg-type]
                outcome=outcome,  # type: ignore[arg-type]
                cursor=cursor,
                page_size=100,
            )
            for run in page.ingest_job_runs:
                yield run
            cursor = page.next_cursor
            if cursor is None:
                return

    async def wait(
        self, namespace_id: str, run_id: str, *, timeout: float | None = None, progress: Progress | None = None
    ) -> models.JobRunData:
        """The job run once it is COMPLETED; read `outcome`, and `documents.failed` for what failed and why.

        timeout: seconds to wait at most, else WaitTimeout; without it as long as it takes. The service holds each
        request until the status changes: nothing is polled.
        """
        until = None if timeout is None else time.monotonic() + timeout
        step = _WAIT_WITH_PROGRESS if progress else _LONGEST_WAIT
        status = None
        while True:
            left = step if until is None else min(step, max(0, until - time.monotonic()))
            run = await self._api.get_job_run(
                run_id,
                namespace_id=namespace_id,
                wait_seconds=int(left),
                since=status,
            )
            status = run.status
            if progress is not None:
                progress(run)
            if status == "COMPLETED":
                return run
            if until is not None and time.monotonic() + 1 > until:
                raise WaitTimeout(run_id, timeout or 0)

    async def cancel(self, namespace_id: str, run_id: str) -> models.JobRunData:
        """Cancel a job run; documents that are done stay."""
        return await self._api.cancel_job_run(run_id, {"namespaceId": namespace_id})

    async def retry(self, namespace_id: str, run_id: str) -> models.JobRunData:
        """Retry the failed documents of a job run."""
        return await self._api.retry_job_run(run_id, {"namespaceId": namespace_id})
