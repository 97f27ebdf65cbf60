"""Ingestion job runs: how far an ingestion has come."""

from __future__ import annotations

from api.operation import Call, operation
from api.wire.ingest import JobRunAnswer, JobRunData, NamespaceQuery
from retrieval import namespaces, runs
from retrieval.errors import ErrorCode, ServiceError


@operation(
    "GET",
    "/v1/ingest-job-runs/{ingest_job_run_id:str}",
    tag="Ingestion",
    summary="Get an ingestion job run",
    scope="ingest:read",
    query=NamespaceQuery,
    answer=JobRunAnswer,
    invalid=ErrorCode.INVALID_REQUEST,
    raises=(ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.INGEST_JOB_RUN_NOT_FOUND),
)
async def get_job_run(call: Call[None, NamespaceQuery]) -> JobRunAnswer:
    """QUEUED, then PRE_PROCESSING, PROCESSING and COMPLETED, never backwards."""
    db, scope = call.services.db, call.scope(call.query.namespace_id)
    try:
        run = await runs.read(db, scope, call.path["ingest_job_run_id"])
    except ServiceError:
        await namespaces.require(db, scope.organization, scope.namespace)
        raise
    return JobRunAnswer(message="Ingestion job run fetched successfully", data=JobRunData.of(run))


HANDLERS = (get_job_run,)
