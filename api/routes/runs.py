"""Ingestion job runs: read, list, cancel, and retry their failed documents."""

from __future__ import annotations

from functools import partial
from typing import Any
from urllib.parse import urlsplit

from api import auth
from api.operation import Call, operation
from api.wire.runs import (
    JobRunAnswer,
    JobRunData,
    JobRunsAnswer,
    JobRunsData,
    JobRunSummary,
    ListQuery,
    RetryRequest,
    RunQuery,
    RunRequest,
)
from retrieval.errors import ErrorCode, ServiceError
from retrieval.ingestion import reembedding
from retrieval.jobs import control, queueing, runs
from retrieval.jobs.run_outcome import Notice
from retrieval.namespaces import namespaces
from retrieval.ports import Scope
from retrieval.settings import Settings
from retrieval.statuses import RunStatus

_RUN = "/v1/ingest-job-runs/{ingest_job_run_id:str}"
_EXAMPLE = {"namespaceId": "ns_06gzpnn6z30k9qdmrw54faz30gfpw60mq5r0"}
_operation = partial(operation, tag="Ingestion", invalid=ErrorCode.INVALID_REQUEST)
_NOT_FOUND = (ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.INGEST_JOB_RUN_NOT_FOUND)


@_operation("GET", "/v1/ingest-job-runs", raises=(ErrorCode.NAMESPACE_NOT_FOUND,))
async def list_job_runs(call: Call[None, ListQuery]) -> JobRunsAnswer:
    """List ingestion job runs. Newest first, 50 a page by default."""
    services, query = call.services, call.query
    scope = call.scope(query.namespace_id)
    await namespaces.require(services.db, scope.organization, scope.namespace)
    cursor = await call.place(query.cursor, query.namespace_id)
    page = await control.list_page(
        services.db,
        scope,
        status=query.status,
        outcome=query.outcome,
        source=query.source,
        about=query.q,
        ids=_named(query.ids),
        cursor=cursor,
        size=query.page_size or control.PAGE,
    )
    summaries = [JobRunSummary.of(run, prefect_url(services.settings, run.flow_run_id)) for run in page.items]
    data = JobRunsData(
        summaries, len(summaries), page.cursor is not None, await call.cursor(page.cursor, query.namespace_id)
    )
    return JobRunsAnswer(message="Ingestion job runs fetched successfully", data=data)


def _named(text: str | None) -> list[str] | None:
    """Return the job run ids of the query, None without any. Raises INVALID_REQUEST for too many."""
    if not text:
        return None
    ids = [part for part in text.split(",") if part]
    if len(ids) > control.NAMED:
        message = f"ids names {len(ids)} job runs, and may name {control.NAMED} at most: ask for the others apart."
        raise ServiceError(ErrorCode.INVALID_REQUEST, message, field="ids", reason="out_of_bounds")
    return ids


@_operation("GET", _RUN, raises=_NOT_FOUND)
async def get_job_run(call: Call[None, RunQuery]) -> JobRunAnswer:
    """Get an ingestion job run.

    QUEUED, then PRE_PROCESSING, PROCESSING and COMPLETED, never backwards. With `waitSeconds` the response is sent when
    the status differs from the current one, or from `since`, or when that time is up; for a COMPLETED run at once.
    """
    query, message = call.query, "Ingestion job run fetched successfully"
    scope = call.scope(query.namespace_id)
    if query.wait_seconds:
        run = await _found(call, scope, call.path["ingest_job_run_id"], most=0)
        if run.status != RunStatus.COMPLETED and query.since in {None, run.status}:
            await call.services.waits.past(run.id, RunStatus(run.status), seconds=query.wait_seconds)
    return await _read(call, scope, message, most=query.document_limit)


@_operation("POST", _RUN + "/cancel", failed=ErrorCode.INGESTION_FAILED, raises=_NOT_FOUND, example=_EXAMPLE)
async def cancel_job_run(call: Call[RunRequest, None]) -> JobRunAnswer:
    """Cancel an ingestion job run.

    At once if it waits, else between two steps. What is done stays; a finished run stays as it is. One of
    source REEMBED is a change of the namespace: a bound key may not cancel it.
    """
    services, scope = call.services, call.scope(call.body.namespace_id)
    try:
        if call.reach is not None:
            run = await runs.read(services.db, scope, call.path["ingest_job_run_id"], most=0)
            if run.source == reembedding.SOURCE:
                raise auth.bound_key()
        await services.in_thread(control.cancel, services.db, scope, call.path["ingest_job_run_id"])
    except ServiceError:
        await namespaces.require(services.db, scope.organization, scope.namespace)
        raise
    return await _read(call, scope, "Cancellation of the ingestion job run accepted")


@_operation(
    "POST",
    _RUN + "/retry",
    failed=ErrorCode.INGESTION_FAILED,
    raises=(*_NOT_FOUND, ErrorCode.INVALID_CHUNK_CONFIG),
    example=_EXAMPLE,
    creates=True,
)
async def retry_job_run(call: Call[RetryRequest, None]) -> JobRunAnswer | bytes:
    """Run the failed documents of a job run again.

    Returns a new run of the same job. Content is read from the stored file, or from its source. With `ocrConfig` or
    `chunkConfig` the failed documents are read or chunked with these, for texts, files and URL lists.
    """
    db, scope = call.services.db, call.scope(call.body.namespace_id)
    changes = call.body.changes()

    async def queue_again() -> JobRunAnswer:
        try:
            new = await control.retry(db, scope, call.path["ingest_job_run_id"], changes)
        except ServiceError:
            await namespaces.require(db, scope.organization, scope.namespace)
            raise
        return await _read(call, scope, "Failed documents added to the queue again", new)

    answer = await call.once(queue_again)
    call.services.notices.send()
    return answer


HANDLERS = (list_job_runs, get_job_run, cancel_job_run, retry_job_run)


async def _found(call: Call[Any, Any], scope: Scope, run_id: str, *, most: int | None) -> runs.JobRun:
    try:
        return await runs.read(call.services.db, scope, run_id, most=most)
    except ServiceError:
        await namespaces.require(call.services.db, scope.organization, scope.namespace)
        raise


async def _read(
    call: Call[Any, Any], scope: Scope, message: str, run_id: str | None = None, *, most: int | None = None
) -> JobRunAnswer:
    services = call.services
    run = await _found(call, scope, run_id or call.path["ingest_job_run_id"], most=most)
    waiting = await queueing.place(services.db, run.id) if run.waits else None
    if run.outcome is None:
        run.notices.extend(Notice(reason, 0) for reason in await services.storage.reasons())
    url = prefect_url(services.settings, run.flow_run_id)
    return JobRunAnswer(message=message, data=JobRunData.of(run, url, waiting))


def prefect_url(settings: Settings, flow_run_id: str | None) -> str | None:
    """The flow run's page in Prefect, without any credentials that the address of its API may hold."""
    if not settings.prefect_api_url or flow_run_id is None:
        return None
    api = urlsplit(settings.prefect_api_url)
    base = f"{api.scheme}://{api.netloc.rpartition('@')[2]}{api.path.rstrip('/').removesuffix('/api')}"
    return f"{base}/runs/flow-run/{flow_run_id}"
