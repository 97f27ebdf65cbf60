"""The `warm` worker type: flow runs in warm, pre-imported child processes on an ordinary Prefect work pool.

Start it with `prefect worker start --pool retrieval --type warm --limit 4`. It takes work when the dispatcher notifies
it through the database and when a place becomes free; Prefect's poll is there for lost notices. Beside its limit it
keeps a place for flow runs of the work queue `short`. More workers on the same pool, here or elsewhere, share the load.
The pool's job variables, also per deployment, set the grace period and when a child is replaced.
On SIGTERM running flow runs may end within the grace period, then they are ended and hand back what they work on; runs
that have not begun go back to Scheduled. A second SIGTERM, or the death of the worker, ends the children at once. Only
this service's own flows are executed (`flows/warm_worker/allowed_flows.py`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import structlog
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId, FlowRunFilterState, FlowRunFilterStateType
from prefect.client.schemas.objects import State, StateType
from prefect.exceptions import InfrastructureNotAvailable, ObjectNotFound, PrefectHTTPStatusError
from prefect.states import Cancelled, Crashed, Failed, Scheduled
from prefect.workers.base import BaseVariables, BaseWorkerResult
from pydantic import Field, PrivateAttr

from flows import prefect_login
from flows.prefect_client import INTERRUPTED
from flows.prefect_internals import patience
from flows.prefect_internals.worker import ClaimingWorker, ForkedConfiguration
from flows.warm_worker import allowed_flows, children, places
from flows.warm_worker.alarm import Alarm
from flows.warm_worker.certificates import spare_certificates
from flows.warm_worker.child import CANCEL_SIGNAL, ChildReport, Order
from retrieval import logs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from anyio.abc import TaskStatus
    from prefect.client.schemas.objects import FlowRun
    from prefect.client.schemas.responses import DeploymentResponse, WorkerFlowRunResponse

log = structlog.get_logger()

SETTLE_SECONDS = 10.0
"""How long the worker tries to tell the server what became of a run."""


SUSPENDED = "Suspended"
"""The name of a paused state that a flow run's process is to leave; one that is only Paused waits within it."""


class WarmVariables(BaseVariables):
    """What an operator may set on the work pool or a deployment."""

    grace_seconds: float = Field(
        default=10, ge=0, description="How long a flow run may go on after the worker's SIGTERM."
    )
    child_runs: int = Field(default=100, ge=1, description="A child process is replaced after so many flow runs.")
    child_megabytes: int = Field(default=1024, ge=1, description="A child is replaced when it holds more memory.")


class WarmConfiguration(ForkedConfiguration):
    """The job variables of one run, and its order."""

    grace_seconds: float = 10
    child_runs: int = 100
    child_megabytes: int = 1024
    _order: Order | None = PrivateAttr(default=None)
    _refusal: str | None = PrivateAttr(default=None)

    def prepare_for_flow_run(
        self, flow_run: FlowRun, deployment: DeploymentResponse | None = None, *args: Any, **context: Any
    ) -> None:
        super().prepare_for_flow_run(flow_run, deployment, *args, **context)
        environment = {name: value for name, value in self.env.items() if name.startswith("PREFECT__") and value}
        code = f"{deployment.id} {deployment.updated}" if deployment else str(flow_run.id)
        self._refusal = allowed_flows.refusal(flow_run, deployment)
        entrypoint = deployment.entrypoint if deployment and not self._refusal else None
        self._order = Order(flow_run, code, entrypoint or "", environment)

    @property
    def order(self) -> Order:
        if self._order is None:
            raise RuntimeError("This job configuration was not prepared for a flow run")
        return self._order

    @property
    def refusal(self) -> str | None:
        """Why the run is not executed; None if it is one of this service's own."""
        return self._refusal


class WarmResult(BaseWorkerResult):
    """Non-zero: the child died, and Prefect marks the run Crashed unless it is final."""


@dataclass(slots=True, eq=False)
class Job:
    """A flow run that a child of ours executes."""

    child: children.Child
    cancelled: anyio.Event
    suspended: bool = False


class WarmWorker(ClaimingWorker[WarmConfiguration, WarmVariables, WarmResult]):
    """Polls a work pool and hands each flow run to a warm child."""

    type = "warm"
    job_configuration = WarmConfiguration
    job_configuration_variables = WarmVariables
    _display_name = "Warm"
    _description = "Execute flow runs in warm, pre-imported child processes of the worker: they start in milliseconds."

    def __init__(self, work_pool_name: str, *, limit: int | None = None, **options: Any) -> None:
        limit = limit or os.cpu_count() or 1
        super().__init__(work_pool_name, limit=limit + places.SHORT_PLACES, **options)
        self._children = children.Children(limit + places.SHORT_PLACES)
        self._places = places.Places(limit)
        self._alarm = Alarm(self.get_and_submit_flow_runs, self._notice_requests)
        self._polling = anyio.Lock()
        self._jobs: dict[UUID, Job] = {}

    async def setup(self) -> None:
        """Start the children, then everything else: a worker that cannot run flows does not take any."""
        logs.lose_what_does_not_fit()
        spare_certificates()
        patience.shorten()
        children.prepare()
        try:
            await self._children.top_up()
            await super().setup()
            self._alarm.start()
        except BaseException as error:
            await self._end_children()
            if isinstance(error, PrefectHTTPStatusError) and (told := prefect_login.sentence(error)):
                raise SystemExit(told) from None
            raise

    async def teardown(self, *exc_info: Any) -> None:
        """Ends running runs (each in `run`), gives back what has not begun, and leaves no process."""
        interrupted: set[UUID] = set()
        await self._alarm.stop()
        try:
            interrupted = self.submitting
            await super().teardown(*exc_info)
        finally:
            await self._end_children()
            await self._give_back(interrupted & self.claimed)

    async def get_and_submit_flow_runs(self) -> list[FlowRun]:
        """One poll: replace dead children, look for cancellations and suspensions of our runs, then take new runs."""
        async with self._polling:
            await self._children.top_up()
            await self._notice_requests()
            return await super().get_and_submit_flow_runs()

    def fitting(self, waiting: Sequence[WorkerFlowRunResponse]) -> list[WorkerFlowRunResponse]:
        """Those for which there is a place."""
        return self._places.fitting(waiting, {*self.submitting, *self._jobs})

    async def run(
        self, flow_run: FlowRun, configuration: WarmConfiguration, task_status: TaskStatus[Any] | None = None
    ) -> WarmResult:
        """Execute one flow run in a child. Returns when the run has a final state or its child is dead."""
        if configuration.refusal:
            return await self._refuse(flow_run.id, configuration.refusal, task_status)
        child = await self._children.take()
        job = self._jobs[flow_run.id] = Job(child, anyio.Event())
        self.claimed.discard(flow_run.id)
        code: int | None = None
        try:
            if task_status is not None:
                task_status.started(child.name)
            answer = await self._execute(job, configuration.order)
            if answer is None:
                code = await self._lose(flow_run.id, job)
            else:
                left: State[None] = Crashed(message="The engine left this run unfinished.")
                await self._settle(self.client, flow_run.id, left, taken=flow_run.state)
                code = await self._release(child, answer, configuration)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self._shut_down(flow_run, job, configuration.grace_seconds)
            raise
        finally:
            if self._jobs.get(flow_run.id) is job:  # retried at once, the run may be with another child already
                del self._jobs[flow_run.id]
            if code is None:
                await self._children.retire(child)
            self._alarm.ring_soon()
        return WarmResult(identifier=child.name, status_code=code)

    async def kill_infrastructure(
        self,
        infrastructure_pid: str,
        configuration: WarmConfiguration,
        grace_seconds: int = 30,  # noqa: ARG002  (the base class's; a child gets a second)
    ) -> None:
        """Called for runs that are cancelled before they have begun. Every worker of the pool is asked."""
        job = self._jobs.get(configuration.order.run.id)
        if job is None:
            raise InfrastructureNotAvailable(f"The process {infrastructure_pid} belongs to another worker")
        job.cancelled.set()

    async def _refuse(self, run_id: UUID, reason: str, task_status: TaskStatus[Any] | None) -> WarmResult:
        """A deployment that is not ours lies in our pool: no child ever hears of its run."""
        self.claimed.discard(run_id)
        if task_status is not None:
            task_status.started("refused")
        log.warning("worker.run_refused", flow_run_id=str(run_id), reason=reason)
        await self.client.set_flow_run_state(run_id, Failed(name="Refused", message=reason), force=True)
        return WarmResult(identifier="refused", status_code=0)

    async def _execute(self, job: Job, order: Order) -> ChildReport | None:
        """The child's answer; None if it died or the run was cancelled."""
        answer: ChildReport | None = None
        async with anyio.create_task_group() as group:

            async def until_cancelled() -> None:
                await job.cancelled.wait()
                group.cancel_scope.cancel()

            group.start_soon(until_cancelled)
            answer = await job.child.execute(order)
            group.cancel_scope.cancel()
        return answer

    async def _lose(self, run_id: UUID, job: Job) -> int:
        """End a child that is dead or whose run was cancelled. 0 if that settled the run."""
        if not job.cancelled.is_set():
            return await self._children.retire(job.child) or 1
        await job.child.stop(CANCEL_SIGNAL)
        await self._children.retire(job.child)
        await self._settle(self.client, run_id, Cancelled())
        return 0

    async def _release(self, child: children.Child, answer: ChildReport, configuration: WarmConfiguration) -> int:
        worn = child.runs >= configuration.child_runs or answer.memory > configuration.child_megabytes * 1024 * 1024
        if worn or not answer.clean:
            await self._children.retire(child)
        else:
            self._children.give_back(child)
        return 0

    async def _shut_down(self, flow_run: FlowRun, job: Job, grace_seconds: float) -> None:
        """The worker is leaving: wait for the run, then end it, and never leave it Running."""
        with anyio.move_on_after(grace_seconds):
            await job.child.answer()
        await job.child.stop()
        stopped: State[None] = Crashed(name=INTERRUPTED, message="The worker was stopped before this run ended.")
        await self._settle(self.client, flow_run.id, stopped, taken=flow_run.state)

    async def _settle(
        self, client: PrefectClient, run_id: UUID, unfinished: State[Any], *, taken: State[Any] | None = None
    ) -> None:
        """A run that nobody executes any more must not look as if somebody did.

        `taken`: the state in which it came to us. If it has ended since, somebody retried it: it is another's now.
        """
        with anyio.move_on_after(SETTLE_SECONDS):
            try:
                state = (await client.read_flow_run(run_id)).state
            except ObjectNotFound:
                return
            if state is None or state.is_running() or state.is_pending():
                if taken and await _has_ended_since(client, run_id, taken):
                    return
                await client.set_flow_run_state(run_id, unfinished, force=True)
            elif state.is_cancelling():
                await client.set_flow_run_state(run_id, Cancelled(), force=True)

    async def _notice_requests(self) -> None:
        """Flow runs at work that somebody cancelled or suspended."""
        if not self._jobs:
            return
        asked = FlowRunFilter(
            id=FlowRunFilterId(any_=list(self._jobs)),
            state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.CANCELLING, StateType.PAUSED])),
        )
        for flow_run in await self.client.read_flow_runs(flow_run_filter=asked):
            job, state = self._jobs.get(flow_run.id), flow_run.state
            if job is None or state is None:
                continue
            if state.is_cancelling():
                job.cancelled.set()
            elif state.name == SUSPENDED and not job.suspended:
                job.suspended = True
                job.child.suspend(flow_run.id, state)

    async def _give_back(self, run_ids: set[UUID]) -> None:
        """Runs that we claimed and never began are for another worker."""
        if not run_ids:
            return
        with anyio.CancelScope(shield=True):
            async with get_client() as client:
                for run_id in run_ids:
                    await self._settle(
                        client, run_id, Scheduled(message="The worker stopped before it began this run.")
                    )

    async def _end_children(self) -> None:
        with anyio.CancelScope(shield=True):
            await self._children.close()


async def _has_ended_since(client: PrefectClient, run_id: UUID, taken: State[Any]) -> bool:
    states = await client.read_flow_run_states(run_id)
    since = next((place for place, state in enumerate(states) if state.id == taken.id), 0)
    return any(state.is_final() for state in states[since:])
