"""Calls of the dispatcher and the reconciler to Prefect's API, each within a deadline that follows its speed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.client.schemas.objects import State, WorkerStatus
from prefect.client.schemas.responses import SetStateStatus
from prefect.events import Event, Resource
from prefect.events.clients import get_events_client
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.states import Crashed, Scheduled

from flows import deployments
from flows.deployments import FLOWS, SHORT_WORKER
from flows.dispatch.call_deadline import deadline
from flows.prefect_errors import INTERRUPTED, PAUSE_KEY
from retrieval import settings
from retrieval.jobs import fair_queue
from retrieval.jobs.queries.batches import Batch
from retrieval.webhooks.queries_feed import PrefectEvent

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun

_LABELS = ("organizationId", "namespaceId", "tenantId", "status", "outcome", "source", "connectionId", "connector")
"""Of an event's data, what its resource carries as labels."""

TAGGED = 3
"""Job runs of a flow run that are named among its tags; more are in its table of results."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A flow run's state in Prefect: its type, such as RUNNING, since when, and its name."""

    type: str
    since: datetime
    name: str = ""
    message: str = ""
    is_ours: bool = False
    """Whether this service paused the run and resumes it."""
    is_elsewhere: bool = False
    """Whether its work pool is another than RETRIEVAL_WORK_POOL: a container for it may take minutes to start."""

    @classmethod
    def of(cls, state: State[Any], *, is_elsewhere: bool = False) -> Seen:
        """Return what the dispatcher needs of a state."""
        is_ours = (state.state_details.pause_key or "").startswith(PAUSE_KEY)
        return cls(state.type.value, state.timestamp, state.name or "", state.message or "", is_ours, is_elsewhere)


_deployments: dict[tuple[str, str], UUID] = {}
"""By server and name: asked for once, and again where the server knows it no more."""


async def start_flow_run(client: PrefectClient, batch: Batch) -> str:
    """Create the flow run of this attempt, or find it if it was created before; its id."""
    flow = FLOWS[batch.source]
    cache_key = str(client.api_url), f"{flow}/{flow}"
    if deployment_id := _deployments.get(cache_key):
        try:
            return await _create(client, deployment_id, batch)
        except ObjectNotFound:
            _deployments.pop(cache_key, None)
    deployment = await deadline.wait_for(client.read_deployment_by_name(cache_key[1]))
    _deployments[cache_key] = deployment.id
    return await _create(client, deployment.id, batch)


async def _create(client: PrefectClient, deployment: UUID, batch: Batch) -> str:
    """ObjectNotFound where the server does not know the deployment, which Prefect's client does not tell by itself."""
    try:
        run = await deadline.wait_for(
            client.create_flow_run_from_deployment(
                deployment,
                parameters={"batch_id": batch.id, "attempt": batch.attempt},
                name=_name(batch),
                tags=batch_tags(batch),
                idempotency_key=batch.idempotency_key,
                work_queue_name=batch.queue,
            )
        )
    except PrefectHTTPStatusError as error:
        if error.response.status_code == HTTPStatus.NOT_FOUND:
            raise ObjectNotFound(error) from error
        raise
    return str(run.id)


async def resume_flow_run(client: PrefectClient, flow_run_id: str) -> bool:
    """Resume a suspended flow run; False if it is not suspended any more or does not exist."""
    try:
        result = await deadline.wait_for(client.resume_flow_run(UUID(flow_run_id)))
        if result.status == SetStateStatus.ACCEPT:
            return True
        # Another dispatcher, or this one before it was interrupted, has resumed it already.
        state = (await deadline.wait_for(client.read_flow_run(UUID(flow_run_id)))).state
    except ObjectNotFound:
        return False
    except PrefectHTTPStatusError as error:
        if error.response.status_code == HTTPStatus.NOT_FOUND:
            return False
        raise
    return state is not None and (state.is_scheduled() or state.is_pending() or state.is_running())


async def continue_flow_run(client: PrefectClient, flow_run_id: str) -> None:
    """Schedule an interrupted flow run again, as the same flow run."""
    state: State[None] = Scheduled(name=INTERRUPTED, message="Its worker was stopped; the run continues.")
    await deadline.wait_for(client.set_flow_run_state(UUID(flow_run_id), state, force=True))


async def start_evaluation(client: PrefectClient, run_id: str, attempt: int, asked: int) -> None:
    """Create the flow run of an evaluation run. `asked`: distinguishes this attempt from earlier ones."""
    deployment = await deadline.wait_for(client.read_deployment_by_name("evaluate/evaluate"))
    await deadline.wait_for(
        client.create_flow_run_from_deployment(
            deployment.id,
            parameters={"run_id": run_id, "attempt": attempt},
            name=f"evaluation {run_id}",
            idempotency_key=f"{run_id}-{attempt}-{asked}",
            work_queue_name=fair_queue.DEFAULT,
        )
    )


def batch_tags(batch: Batch) -> list[str]:
    """Tags that a flow run is found by. Every event of a run repeats its tags, so they are few."""
    return [batch.namespace, *(batch.job_runs if len(batch.job_runs) <= TAGGED else ())]


async def read_states(client: PrefectClient, flow_run_ids: Sequence[str]) -> dict[str, Seen]:
    """Flow run id to its state; ids that the server does not know are left out."""
    seen_runs: dict[str, Seen] = {}
    own_pool = settings.load_settings().work_pool
    for start_at in range(0, len(flow_run_ids), 200):
        part_ids = [UUID(flow_run) for flow_run in flow_run_ids[start_at : start_at + 200]]
        filter_ids = FlowRunFilter(id=FlowRunFilterId(any_=part_ids))
        runs: list[FlowRun] = await deadline.wait_for(client.read_flow_runs(flow_run_filter=filter_ids, limit=200))
        seen_runs |= {
            str(run.id): Seen.of(run.state, is_elsewhere=run.work_pool_name not in (None, own_pool))
            for run in runs
            if run.state is not None
        }
    return seen_runs


async def find_registered_pool(client: PrefectClient) -> str:
    """Return the name of the work pool that the deployments are registered to."""
    return await deadline.wait_for(deployments.find_registered_pool(client))


async def count_workers(client: PrefectClient, pool: str) -> int:
    """Number of online workers of the pool; 1 if none is, so that waiting work is dispatched all the same."""
    workers = await deadline.wait_for(client.read_workers_for_work_pool(pool))
    online = [worker for worker in workers if worker.status == WorkerStatus.ONLINE]
    return max(1, sum(not worker.name.endswith(SHORT_WORKER) for worker in online))


async def declare_ended(client: PrefectClient, flow_run_id: str, state: State[None] | None = None) -> None:
    """Set an abandoned flow run to a final state, by default Crashed."""
    lost: State[None] = Crashed(message="Its worker has not renewed its lease; the reconciler took the batch back.")
    try:
        await deadline.wait_for(client.set_flow_run_state(UUID(flow_run_id), state or lost, force=True))
    except ObjectNotFound:
        return


def _name(batch: Batch) -> str:
    return batch.name + (f" (attempt {batch.attempt})" if batch.attempt > 1 else "")


async def emit_events(rows: Sequence[PrefectEvent]) -> None:
    """Emit events of job runs and connections, for automations of data teams; repeated under the same id.

    `retrieval.run.queued | pre-processing | processing | completed` about `retrieval.run.<id>`, and
    `retrieval.connection.active | failed | removals-waiting` about `retrieval.connection.<id>`.
    """
    await deadline.wait_for(_emit_events(rows))


async def _emit_events(rows: Sequence[PrefectEvent]) -> None:
    async with get_events_client() as client:
        for row in rows:
            await client.emit(_event(row))


def _event(row: PrefectEvent) -> Event:
    noun, _, verb = row.type.removeprefix("INGEST_JOB_").partition("_")
    about = row.data
    identity = about["ingestJobRunId" if noun == "RUN" else "connectionId"]
    labels = {f"retrieval.{name}": str(about[name]) for name in _LABELS if about.get(name) is not None}
    kind = f"retrieval.{noun.lower()}"
    return Event(
        id=row.event_id,
        occurred=row.at,
        event=f"{kind}.{verb.lower().replace('_', '-')}",
        resource=Resource({"prefect.resource.id": f"{kind}.{identity}", "prefect.resource.name": identity, **labels}),
        payload=about,
    )
