"""Operations on ingestion job runs."""

from __future__ import annotations

from functools import partial

from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from msgspec import UNSET, UnsetType

from api import auth, flow_runs
from api.flow_runs import build_prefect_url
from api.operation import idempotent, operation
from api.request import ApiRequest
from api.wire import runs as wire
from retrieval.errors import ErrorCode, ServiceError
from retrieval.ingestion import reembedding
from retrieval.jobs import control, queueing, runs
from retrieval.jobs.queries import passwords
from retrieval.jobs.run_outcome import Notice
from retrieval.namespaces import namespaces
from retrieval.ports import Scope
from retrieval.settings import Settings
from retrieval.statuses import RunStatus

_RUN_PATH = "/v1/ingest-job-runs/{ingest_job_run_id:str}"
_NAMESPACE_EXAMPLE = {"namespaceId": "ns_06gzpnn6z30k9qdmrw54faz30gfpw60mq5r0"}
_operation = partial(operation, tag="Job runs", invalid=ErrorCode.INVALID_REQUEST)
_NOT_FOUND_CODES = (ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.INGEST_JOB_RUN_NOT_FOUND)


@_operation("GET", "/v1/ingest-job-runs", raises=(ErrorCode.NAMESPACE_NOT_FOUND,))
async def list_job_runs(request: ApiRequest, params: NamedDependency[wire.ListQuery]) -> wire.JobRunsAnswer:
    """List ingestion job runs. In the order of `sort`, newest first by default; 50 per page by default."""
    services = request.services
    scope = request.scope_of(params.namespace_id)
    await namespaces.require_namespace(services.db, scope.organization, scope.namespace)
    listing = params.namespace_id + (f"/{params.sort}" if params.sort else "")
    cursor = await request.read_cursor(params.cursor, listing)
    page, total = await control.list_page(
        services.db,
        scope,
        status=params.status,
        outcome=params.outcome,
        source=params.source,
        name_part=params.q,
        ids=_parse_ids(params.ids),
        cursor=cursor,
        size=params.page_size or control.RUN_PAGE_SIZE,
        sort=params.sort or "newest",
    )
    summaries = [
        wire.JobRunSummary.from_summary(run, prefect_url(services.settings, run.flow_run_id)) for run in page.items
    ]
    next_cursor = await request.write_cursor(page.cursor, listing)
    total_count = UNSET if total is None else total
    data = wire.JobRunsData(summaries, len(summaries), page.cursor is not None, next_cursor, total_count)
    return wire.JobRunsAnswer(message="Ingestion job runs fetched successfully", data=data)


def _parse_ids(text: str | None) -> list[str] | None:
    """Return the job run ids of the query, None if empty; raise INVALID_REQUEST for too many."""
    if not text:
        return None
    ids = [part for part in text.split(",") if part]
    if len(ids) > control.MAX_RUN_IDS:
        message = (
            f"ids names {len(ids)} job runs, and may name {control.MAX_RUN_IDS} at most: ask for the others apart."
        )
        raise ServiceError(ErrorCode.INVALID_REQUEST, message, field="ids", reason="out_of_bounds")
    return ids


@_operation("GET", _RUN_PATH, raises=_NOT_FOUND_CODES)
async def get_job_run(
    request: ApiRequest, ingest_job_run_id: FromPath[str], params: NamedDependency[wire.RunQuery]
) -> wire.JobRunAnswer:
    """Get an ingestion job run.

    QUEUED, then PRE_PROCESSING, PROCESSING and COMPLETED, never backwards. With `waitSeconds` the response is sent when
    the status differs from the current one, or from `since`, or when that time is up; for a COMPLETED run at once.
    With `withFlowRun` it holds the states of the flow run in Prefect.
    """
    message = "Ingestion job run fetched successfully"
    scope = request.scope_of(params.namespace_id)
    if params.wait_seconds:
        run = await _read_run(request, scope, ingest_job_run_id, limit=0)
        if run.status != RunStatus.COMPLETED and params.since in {None, run.status}:
            await request.services.waits.wait_past(run.id, RunStatus(run.status), seconds=params.wait_seconds)
    limit, flow = params.document_limit, params.with_flow_run
    return await _answer_run(request, scope, ingest_job_run_id, message, document_limit=limit, with_flow_run=flow)


@_operation(
    "POST",
    _RUN_PATH + "/cancel",
    failed=ErrorCode.INGESTION_FAILED,
    raises=_NOT_FOUND_CODES,
    example=_NAMESPACE_EXAMPLE,
)
async def cancel_job_run(
    request: ApiRequest, ingest_job_run_id: FromPath[str], data: JSONBody[wire.RunRequest]
) -> wire.JobRunAnswer:
    """Cancel an ingestion job run.

    A waiting run ends at once, a running one between two steps. Finished documents are kept. A run of
    source REEMBED belongs to the namespace: a bound key cannot cancel it.
    """
    services, scope = request.services, request.scope_of(data.namespace_id)
    try:
        if request.bound_access is not None:
            run = await runs.read_run(services.db, scope, ingest_job_run_id, max_documents=0)
            if run.source == reembedding.REEMBED_SOURCE:
                raise auth.bound_key_error()
        await services.run_in_thread(control.cancel_run, services.db, scope, ingest_job_run_id)
    except ServiceError:
        await namespaces.require_namespace(services.db, scope.organization, scope.namespace)
        raise
    return await _answer_run(request, scope, ingest_job_run_id, "Cancellation of the ingestion job run accepted")


@_operation(
    "POST",
    _RUN_PATH + "/retry",
    failed=ErrorCode.INGESTION_FAILED,
    raises=(*_NOT_FOUND_CODES, ErrorCode.INVALID_CHUNK_CONFIG),
    example=_NAMESPACE_EXAMPLE,
    notifies=True,
)
@idempotent
async def retry_job_run(
    request: ApiRequest, ingest_job_run_id: FromPath[str], data: JSONBody[wire.RetryRequest]
) -> wire.JobRunAnswer:
    """Retry the failed documents of a job run.

    Returns a new run of the same job. Content is read from the stored file, or from its source. With `ocrConfig` or
    `chunkConfig` the failed documents are read or chunked with these, for texts, files and URL lists. `password` opens
    protected PDF, Office and ZIP files, and is deleted when the new run has ended.
    """
    db, scope = request.services.db, request.scope_of(data.namespace_id)
    changes = data.to_changes()
    try:
        seal = passwords.make_sealer(request.services.ring, data.password)
        new = await control.retry_run(db, scope, ingest_job_run_id, changes, causes=data.failure_causes, seal=seal)
    except ServiceError:
        await namespaces.require_namespace(db, scope.organization, scope.namespace)
        raise
    return await _answer_run(request, scope, new, "Failed documents added to the queue again")


ROUTE_HANDLERS = (list_job_runs, get_job_run, cancel_job_run, retry_job_run)


async def _read_run(request: ApiRequest, scope: Scope, run_id: str, *, limit: int | None) -> runs.JobRun:
    try:
        return await runs.read_run(request.services.db, scope, run_id, max_documents=limit)
    except ServiceError:
        await namespaces.require_namespace(request.services.db, scope.organization, scope.namespace)
        raise


async def _answer_run(
    request: ApiRequest,
    scope: Scope,
    run_id: str,
    message: str,
    *,
    document_limit: int | None = None,
    with_flow_run: bool = False,
) -> wire.JobRunAnswer:
    services = request.services
    run = await _read_run(request, scope, run_id, limit=document_limit)
    waiting = await queueing.find_position(services.db, run.id) if run.waits else None
    if run.outcome is None:
        run.notices.extend(Notice(reason, 0) for reason in await services.storage.list_problems())
    url = prefect_url(services.settings, run.flow_run_id)
    flow_run: wire.FlowRun | UnsetType | None = UNSET
    if with_flow_run:
        flow_run = None
        if run.flow_run_id and services.settings.prefect_api_url:
            flow_run = await flow_runs.read_flow_run(services.settings, run.flow_run_id)
    return wire.JobRunAnswer(message=message, data=wire.JobRunData.from_job_run(run, url, waiting, flow_run))


def prefect_url(settings: Settings, flow_run_id: str | None) -> str | None:
    """Return the flow run's page in Prefect, without credentials of the API's address."""
    return None if flow_run_id is None else build_prefect_url(settings, f"runs/flow-run/{flow_run_id}")
