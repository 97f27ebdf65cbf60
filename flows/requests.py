"""Ingestion requests of flow runs started by a person, schedule or automation in Prefect."""

from __future__ import annotations

import asyncio
from typing import Final

from prefect.artifacts import acreate_markdown_artifact
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun, State
from prefect.context import FlowRunContext
from prefect.logging import get_run_logger
from prefect.states import Failed

from flows import context, report
from flows.deployments import FLOW_NAMES
from flows.parameters import Dispatched, Ingestion
from flows.pipeline import run_ingestion
from flows.prefect_errors import NO_ANSWER_ERRORS
from retrieval import settings
from retrieval.accounts.audit import Source
from retrieval.database.database import UNAVAILABLE_ERRORS, Database
from retrieval.errors import ErrorCode, ServiceError
from retrieval.jobs.queries import requested_batches
from retrieval.jobs.queries.requested_batches import RequestedBatch
from retrieval.namespaces import namespaces, queries
from retrieval.sources import CREDENTIAL_SOURCES, STORED_SOURCES

# Pauses while the database does not answer.
ACCEPT_RETRY_SECONDS: Final = (1, 2, 4, 8, 16)

# A flow run claims the batch of its request within this time.
CLAIM_TIMEOUT_SECONDS: Final = 60.0


async def run_source(source: str, parameters: Ingestion) -> State[None]:
    """Ingest the dispatched batch, else request an ingestion with the parameters."""
    if parameters.batch_id is not None:
        return await run_ingestion(parameters.batch_id, parameters.attempt)
    flow_run = FlowRunContext.get()
    if flow_run is None or flow_run.flow_run is None:
        return Failed(message="Only a flow run can request an ingestion.")
    try:
        batch = await _accept_once(source, parameters, str(flow_run.flow_run.id))
    except ServiceError as error:
        return Failed(message=f"{error.code}: {error.message}")
    # In the background: Prefect may answer slowly, and the batch must be claimed within CLAIM_TIMEOUT_SECONDS.
    link_task = asyncio.create_task(_link_job_run(flow_run.flow_run, batch))
    try:
        state = await run_ingestion(batch.id, batch.attempt)
    finally:
        await link_task
    return state.model_copy(update={"message": f"Job run {batch.job_run_id}: {state.message}"})


async def run_dispatched(parameters: Dispatched) -> State[None]:
    """Ingest the dispatched batch; Failed without one."""
    if parameters.batch_id is not None:
        return await run_ingestion(parameters.batch_id, parameters.attempt)
    return Failed(
        message="Prefect's parameters cannot contain files. Upload files through the API, the app or the command line."
        " To ingest a file from a URL, run ingest-urls."
    )


async def _accept_once(source: str, parameters: Ingestion, key: str) -> RequestedBatch:
    """Return the batch of this flow run; `key` is the flow run's id."""
    # Prefect may execute the same flow run again; it finds its batch by the key.
    db = context.open_database()
    for delay in ACCEPT_RETRY_SECONDS:
        try:
            return await requested_batches.find_by_flow_run(db, key) or await _accept(db, source, parameters, key)
        except UNAVAILABLE_ERRORS as error:
            reason = type(error).__name__
        except ServiceError as error:
            if error.code is not ErrorCode.SERVICE_UNAVAILABLE:
                raise
            reason = error.message
        get_run_logger().warning("The request is not accepted yet: %s", reason)
        await asyncio.sleep(delay)
    message = "The database did not answer. Nothing was accepted; run the deployment again."
    raise ServiceError(ErrorCode.SERVICE_UNAVAILABLE, message)


async def _accept(db: Database, source: str, parameters: Ingestion, key: str) -> RequestedBatch:
    """Accept the request like the API, and create the batch in the same transaction."""
    from api import acceptance  # imported here: dispatched flow runs do not need the API's modules

    options = settings.load_settings()
    namespace = await _find_namespace(db, parameters.namespace)
    # No other job run joins the flow run of a person, who may suspend or cancel it.
    size = options.batch_limit if source in STORED_SOURCES else 1

    async def make_batch(job_run_id: str) -> None:
        await requested_batches.make_batch(db, job_run_id, key, size=size, seconds=CLAIM_TIMEOUT_SECONDS)

    job_run_id = await acceptance.accept_submission(
        options,
        db,
        context.load_keys(),
        acceptance.Submission(
            sender=Source.PREFECT,
            path="source" if source in CREDENTIAL_SOURCES else FLOW_NAMES[source].removeprefix("ingest-"),
            body=parameters.make_body(namespace.id, source),
            organization=namespace.organization_id,
            tenant=parameters.tenant or None,
            key=key,
            on_accepted=make_batch,
        ),
    )
    batch = await requested_batches.find_by_job_run(db, job_run_id, key)
    if batch is None:
        raise ServiceError(ErrorCode.INGEST_JOB_RUN_NOT_FOUND, f"The job run {job_run_id} was deleted.")
    return batch


async def _find_namespace(db: Database, id_or_name: str) -> queries.NamespaceOwner:
    if not id_or_name:
        message = "namespace is required: enter the id or the name of a namespace."
        raise ServiceError(ErrorCode.INVALID_INGEST_CONFIG, message, field="namespace", reason="missing")
    owners = await queries.find_owners(db, id_or_name)
    if not owners:
        raise namespaces.not_found()
    if len(owners) > 1:
        message = f"{len(owners)} namespaces are named {id_or_name!r}. Enter an id instead."
        raise ServiceError(ErrorCode.INVALID_INGEST_CONFIG, message, field="namespace", reason="ambiguous")
    return owners[0]


async def _link_job_run(flow_run: FlowRun, batch: RequestedBatch) -> None:
    """Tag the flow run with namespace and job run, and link the job run in an artifact."""
    tags = {*flow_run.tags, batch.namespace, batch.job_run_id}
    if tags == {*flow_run.tags}:
        return
    link = report.link_to_run(batch.namespace, batch.job_run_id)
    try:
        async with get_client() as client:
            await client.update_flow_run(flow_run.id, tags=tags)
        key = report.artifact_key("job-run", batch.namespace)
        await acreate_markdown_artifact(markdown=f"Job run `{batch.job_run_id}`.{link}", key=key)
    except NO_ANSWER_ERRORS as error:  # the documents do not depend on it
        get_run_logger().warning("The flow run could not be linked to its job run: %s", type(error).__name__)
