"""Calls to Prefect's API, each within an adaptive deadline."""

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

from flows.deployments import FLOW_NAMES, SHORT_WORKER_SUFFIX
from flows.dispatch.call_deadline import deadline
from flows.prefect_errors import INTERRUPTED_STATE, PAUSE_KEY_PREFIX
from retrieval import settings
from retrieval.jobs import fair_queue
from retrieval.jobs.queries.batches import Batch
from retrieval.webhooks.queries_feed import PrefectEvent

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun

# Fields of an event's data that become labels of its resource.
EVENT_LABELS = ("organizationId", "namespaceId", "tenantId", "status", "outcome", "source", "connectionId", "connector")

# Further job runs of a flow run appear only in its table of results.
MAX_TAGGED_JOB_RUNS = 3


@dataclass(frozen=True, slots=True)
class FlowRunState:
    """State of a flow run in Prefect: type such as RUNNING, time, name and message."""

    type: str
    since: datetime
    name: str = ""
    message: str = ""
    # Paused, and later resumed, by this service.
    is_service_pause: bool = False
    # Not in RETRIEVAL_WORK_POOL: its container may take minutes to start.
    is_in_other_pool: bool = False

    @classmethod
    def from_state(cls, state: State[Any], *, is_in_other_pool: bool = False) -> FlowRunState:
        """Convert a state of Prefect."""
        is_service_pause = (state.state_details.pause_key or "").startswith(PAUSE_KEY_PREFIX)
        return cls(
            state.type.value, state.timestamp, state.name or "", state.message or "", is_service_pause, is_in_other_pool
        )


# By server and name.
_deployment_ids: dict[tuple[str, str], UUID] = {}


async def start_flow_run(client: PrefectClient, batch: Batch) -> str:
    """Create the flow run of this attempt, or find the existing one; return the id."""
    flow = FLOW_NAMES[batch.source]
    cache_key = str(client.api_url), f"{flow}/{flow}"
    if deployment_id := _deployment_ids.get(cache_key):
        try:
            return await _create_flow_run(client, deployment_id, batch)
        except ObjectNotFound:
            _deployment_ids.pop(cache_key, None)
    deployment = await deadline.wait_for(client.read_deployment_by_name(cache_key[1]))
    _deployment_ids[cache_key] = deployment.id
    return await _create_flow_run(client, deployment.id, batch)


async def _create_flow_run(client: PrefectClient, deployment: UUID, batch: Batch) -> str:
    """Create a flow run; ObjectNotFound for an unknown deployment."""
    try:
        run = await deadline.wait_for(
            client.create_flow_run_from_deployment(
                deployment,
                parameters={"batch_id": batch.id, "attempt": batch.attempt},
                name=_flow_run_name(batch),
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
    """Resume a suspended flow run; False if missing or not suspended."""
    flow_run = UUID(flow_run_id)
    try:
        # Prefect answers 500 to the resumption of a flow run that it does not know.
        await deadline.wait_for(client.read_flow_run(flow_run))
        result = await deadline.wait_for(client.resume_flow_run(flow_run))
        if result.status == SetStateStatus.ACCEPT:
            return True
        # Another dispatcher, or this one before it was interrupted, has resumed it already.
        state = (await deadline.wait_for(client.read_flow_run(flow_run))).state
    except ObjectNotFound:
        return False
    except PrefectHTTPStatusError as error:
        if error.response.status_code == HTTPStatus.NOT_FOUND:
            return False
        raise
    return state is not None and (state.is_scheduled() or state.is_pending() or state.is_running())


async def continue_flow_run(client: PrefectClient, flow_run_id: str) -> None:
    """Schedule an interrupted flow run again."""
    state: State[None] = Scheduled(name=INTERRUPTED_STATE, message="Its worker was stopped; the run continues.")
    await deadline.wait_for(client.set_flow_run_state(UUID(flow_run_id), state, force=True))


async def start_evaluation(client: PrefectClient, run_id: str, attempt: int, requested_at: int) -> None:
    """Create the flow run of an evaluation run."""
    deployment = await deadline.wait_for(client.read_deployment_by_name("evaluate/evaluate"))
    await deadline.wait_for(
        client.create_flow_run_from_deployment(
            deployment.id,
            parameters={"run_id": run_id, "attempt": attempt},
            name=f"evaluation {run_id}",
            idempotency_key=f"{run_id}-{attempt}-{requested_at}",
            work_queue_name=fair_queue.DEFAULT_QUEUE,
        )
    )


def batch_tags(batch: Batch) -> list[str]:
    """Return a flow run's tags for Prefect's filters."""
    # Every event of a run repeats its tags: keep them few.
    return [batch.namespace, *(batch.job_runs if len(batch.job_runs) <= MAX_TAGGED_JOB_RUNS else ())]


async def read_states(client: PrefectClient, flow_run_ids: Sequence[str]) -> dict[str, FlowRunState]:
    """Read the states of flow runs by id, without unknown ids."""
    states: dict[str, FlowRunState] = {}
    service_pool = settings.load_settings().work_pool
    for start_at in range(0, len(flow_run_ids), 200):
        part_ids = [UUID(flow_run) for flow_run in flow_run_ids[start_at : start_at + 200]]
        filter_ids = FlowRunFilter(id=FlowRunFilterId(any_=part_ids))
        runs: list[FlowRun] = await deadline.wait_for(client.read_flow_runs(flow_run_filter=filter_ids, limit=200))
        states |= {
            str(run.id): FlowRunState.from_state(
                run.state, is_in_other_pool=run.work_pool_name not in (None, service_pool)
            )
            for run in runs
            if run.state is not None
        }
    return states


async def count_workers(client: PrefectClient, pool: str) -> int:
    """Count the pool's online workers without those for short flow runs, at least 1."""
    # Work is dispatched without any worker, too.
    workers = await deadline.wait_for(client.read_workers_for_work_pool(pool))
    online = [worker for worker in workers if worker.status == WorkerStatus.ONLINE]
    return max(1, sum(not worker.name.endswith(SHORT_WORKER_SUFFIX) for worker in online))


async def set_final_state(client: PrefectClient, flow_run_id: str, state: State[None] | None = None) -> None:
    """Set an abandoned flow run to a final state, by default Crashed."""
    lost: State[None] = Crashed(message="Its worker has not renewed its lease; the reconciler took the batch back.")
    try:
        await deadline.wait_for(client.set_flow_run_state(UUID(flow_run_id), state or lost, force=True))
    except ObjectNotFound:
        return


def _flow_run_name(batch: Batch) -> str:
    return batch.name + (f" (attempt {batch.attempt})" if batch.attempt > 1 else "")


async def emit_events(rows: Sequence[PrefectEvent]) -> None:
    """Emit events of job runs and connections for automations; a repeated event keeps its id.

    retrieval.run.queued | pre-processing | processing | completed    resource retrieval.run.<id>
    retrieval.connection.active | failed | removals-waiting           resource retrieval.connection.<id>
    """
    await deadline.wait_for(_emit_events(rows))


async def _emit_events(rows: Sequence[PrefectEvent]) -> None:
    async with get_events_client() as client:
        for row in rows:
            await client.emit(_make_event(row))


def _make_event(row: PrefectEvent) -> Event:
    noun, _, verb = row.type.removeprefix("INGEST_JOB_").partition("_")
    data = row.data
    identity = data["ingestJobRunId" if noun == "RUN" else "connectionId"]
    labels = {f"retrieval.{name}": str(data[name]) for name in EVENT_LABELS if data.get(name) is not None}
    kind = f"retrieval.{noun.lower()}"
    return Event(
        id=row.event_id,
        occurred=row.at,
        event=f"{kind}.{verb.lower().replace('_', '-')}",
        resource=Resource({"prefect.resource.id": f"{kind}.{identity}", "prefect.resource.name": identity, **labels}),
        payload=data,
    )
