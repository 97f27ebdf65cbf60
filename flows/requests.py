"""Requests for ingestion that a flow run makes: a person, a schedule or an automation in Prefect started it."""

from __future__ import annotations

from uuid import UUID

from prefect.artifacts import acreate_markdown_artifact
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.states import Failed

from flows import context, report
from flows.parameters import Ingestion
from flows.pipeline import run_ingestion
from retrieval import settings
from retrieval.accounts.audit import Source
from retrieval.database.database import Database
from retrieval.errors import ErrorCode, ServiceError
from retrieval.jobs.queries import requested_batches
from retrieval.jobs.queries.requested_batches import RequestedBatch
from retrieval.namespaces import namespaces, queries
from retrieval.sources import STORED


async def run_source(parameters: Ingestion) -> State[None]:
    """Ingest the batch that the dispatcher names, else the request that the parameters describe."""
    if parameters.batch_id is not None:
        return await run_ingestion(parameters.batch_id, parameters.attempt)
    flow_run = FlowRunContext.get()
    if flow_run is None or flow_run.flow_run is None:
        return Failed(message="A request for ingestion needs a flow run.")
    try:
        batch = await _accept_once(parameters, flow_run.flow_run.id)
    except ServiceError as error:
        return Failed(message=f"{error.code}: {error.message}")
    state = await run_ingestion(batch.id, batch.attempt)
    return state.model_copy(update={"message": f"Job run {batch.job_run_id}: {state.message}"})


async def _accept_once(parameters: Ingestion, flow_run_id: UUID) -> RequestedBatch:
    """Return the batch of this flow run, which keeps it when Prefect executes the flow run again."""
    db, key = context.open_database(), str(flow_run_id)
    if batch := await requested_batches.find_by_flow_run(db, key):
        return batch
    job_run_id = await _accept(db, parameters, key)
    batch = await requested_batches.find_by_job_run(db, job_run_id)
    if batch is None:
        raise ServiceError(ErrorCode.INGEST_JOB_RUN_NOT_FOUND, f"The job run {job_run_id} was deleted.")
    await _show(flow_run_id, batch)
    return batch


async def _accept(db: Database, parameters: Ingestion, key: str) -> str:
    """Accept the request as the API does, and make its batch in the same transaction."""
    from api import acceptance  # a dispatched flow run does without the API's modules

    options = settings.load_settings()
    namespace = await _find_namespace(db, parameters.namespace)
    # No other job run joins the flow run of a person, who may suspend or cancel it.
    size = options.batch_limit if parameters.source in STORED else 1

    async def make_batch(job_run_id: str) -> None:
        await requested_batches.make_batch(db, job_run_id, key, size=size)

    return await acceptance.accept(
        options,
        db,
        context.load_keys(),
        acceptance.Submission(
            sender=Source.PREFECT,
            path=parameters.path,
            body=parameters.make_body(namespace.id),
            organization=namespace.organization_id,
            tenant=parameters.tenant,
            key=key,
            on_accepted=make_batch,
        ),
    )


async def _find_namespace(db: Database, id_or_name: str | None) -> queries.NamespaceOwner:
    if not id_or_name:
        message = "namespace is required: the id of a namespace, or its name."
        raise ServiceError(ErrorCode.INVALID_INGEST_CONFIG, message, field="namespace", reason="missing")
    found = await queries.find_owners(db, id_or_name)
    if not found:
        raise namespaces.not_found()
    if len(found) > 1:
        message = f"{len(found)} namespaces are named {id_or_name!r}. Give the id of one as namespace."
        raise ServiceError(ErrorCode.INVALID_INGEST_CONFIG, message, field="namespace", reason="ambiguous")
    return found[0]


async def _show(flow_run_id: UUID, batch: RequestedBatch) -> None:
    """Tag the flow run with its namespace and job run, and link the job run in an artifact."""
    async with get_client() as client:
        tags = {*(await client.read_flow_run(flow_run_id)).tags, batch.namespace, batch.job_run_id}
        await client.update_flow_run(flow_run_id, tags=tags)
    link = report.link_to_run(batch.namespace, batch.job_run_id)
    key = report.artifact_key("job-run", batch.namespace)
    await acreate_markdown_artifact(markdown=f"Job run `{batch.job_run_id}`.{link}", key=key)
