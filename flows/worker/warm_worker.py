"""Prefect worker type `warm`: each flow run in a process forked with all imports."""

from __future__ import annotations

import platform
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Self, cast

import anyio
import anyio.to_thread
import structlog
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId, FlowRunFilterState, FlowRunFilterStateType
from prefect.client.schemas.objects import StateType
from prefect.exceptions import InfrastructureNotAvailable, InfrastructureNotFound
from prefect.states import Cancelled, Crashed, Failed, Scheduled
from prefect.workers.base import BaseJobConfiguration, BaseVariables, BaseWorker, BaseWorkerResult
from pydantic import Field, PrivateAttr

from flows import deployments
from flows.prefect_errors import INTERRUPTED_STATE, REFUSED_STATE, SERVER_ERRORS
from flows.worker.run_process import RunProcess
from retrieval import settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from anyio.abc import TaskStatus
    from prefect.client.orchestration import PrefectClient
    from prefect.client.schemas.objects import FlowRun, State
    from prefect.client.schemas.responses import DeploymentResponse

log = structlog.get_logger()

# A stopping worker reports an interrupted flow run to Prefect within this time.
REPORT_SECONDS: Final = 10.0


# Anyone who can write to Prefect's server can create a deployment, and a worker holds the database's password and the
# key of stored secrets: it runs no pull steps, storage, commands or variables of a deployment.
# Other job variables are for workers that start programs.
ALLOWED_JOB_VARIABLES = frozenset({"grace_seconds"})


@lru_cache(maxsize=1)
def allowed_entrypoints() -> frozenset[str]:
    return frozenset(deployment["entrypoint"] for deployment in deployments.read_plan()["deployments"]) | frozenset(
        settings.load_settings().worker_entrypoints
    )


def refusal_reason(flow_run: FlowRun, deployment: DeploymentResponse | None) -> str | None:
    """Return the reason not to execute a run; None for a run of this service."""
    if deployment is None:
        return "Refused: a run without a deployment is none of this service's."
    if deployment.entrypoint not in allowed_entrypoints():
        return f"Refused: the entrypoint {deployment.entrypoint!r} is none of this service's (prefect.yaml)."
    if deployment.pull_steps:
        return "Refused: its deployment has pull steps, which these workers never execute."
    if deployment.storage_document_id or deployment.infrastructure_document_id:
        return "Refused: its deployment names a storage or infrastructure block, which these workers never load."
    forbidden = sorted({*(deployment.job_variables or {}), *(flow_run.job_variables or {})} - ALLOWED_JOB_VARIABLES)
    if forbidden:
        return f"Refused: the job variables {', '.join(forbidden)} may not be set; these may: {_list_allowed()}."
    return None


def _list_allowed() -> str:
    return ", ".join(sorted(ALLOWED_JOB_VARIABLES))


# Prefect's worker reads the deployment before it submits a run, and discards the response. If this read fails, the run
# keeps its slot for good, or the worker ends; no public method or setting changes that (docs/adr/0077). The submission
# reads the deployment again: if that fails, Prefect marks the run Crashed and frees the slot, and the dispatcher starts
# the batch again.
class SubmissionClient:
    """Prefect client without the first read of a deployment."""

    def __init__(self, client: PrefectClient) -> None:
        self.unwrapped = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unwrapped, name)

    async def read_deployment(self, _deployment_id: UUID) -> None:
        """Do nothing: `WarmConfiguration.resolve_for_flow_run` reads the deployment."""


class WarmVariables(BaseVariables):
    """Job variables of the work pool or a deployment."""

    grace_seconds: float = Field(
        default=10, ge=0, description="Seconds that a flow run has to end after the worker receives SIGTERM."
    )


class WarmConfiguration(BaseJobConfiguration):
    """Job variables of a flow run, and the reason to refuse the run."""

    grace_seconds: float = 10
    _entrypoint: str = PrivateAttr(default="")
    _refusal: str | None = PrivateAttr(default=None)

    @classmethod
    async def resolve_for_flow_run(cls, flow_run: FlowRun, *, client: Any, **options: Any) -> Self:
        """Read the run's deployment and pool with the unwrapped client."""
        client = client.unwrapped if isinstance(client, SubmissionClient) else client
        return await super().resolve_for_flow_run(flow_run, client=client, **options)

    def prepare_for_flow_run(
        self, flow_run: FlowRun, deployment: DeploymentResponse | None = None, *args: Any, **context: Any
    ) -> None:
        super().prepare_for_flow_run(flow_run, deployment, *args, **context)
        self._refusal = refusal_reason(flow_run, deployment)
        self._entrypoint = (deployment.entrypoint if deployment else None) or ""

    @property
    def refusal(self) -> str | None:
        """Return the reason to refuse the run, or None."""
        return self._refusal

    def environment(self) -> dict[str, str]:
        """Return the environment of the process: flow run and allowed entrypoint."""
        own = {name: value for name, value in self.env.items() if name.startswith("PREFECT__") and value}
        return own | {"PREFECT__FLOW_ENTRYPOINT": self._entrypoint}


class WarmResult(BaseWorkerResult):
    """Exit code of the process; Prefect marks the run Crashed for codes other than 0."""


class WarmWorker(BaseWorker[WarmConfiguration, WarmVariables, WarmResult]):
    """Poll a work pool and run each flow run in a forked process."""

    # `embedder` returns the socket of the shared embedding process; without it each flow run loads the model.

    type = "warm"
    job_configuration = WarmConfiguration
    job_configuration_variables = WarmVariables

    def __init__(
        self,
        work_pool_name: str,
        *,
        embedder: Callable[[], str | None] = lambda: None,
        on_run_end: Callable[[], None] = lambda: None,
        **options: Any,
    ) -> None:
        super().__init__(work_pool_name, **options)
        self._embedder, self._on_run_end = embedder, on_run_end
        self._processes: dict[UUID, RunProcess] = {}
        # Final at the last check while their process still worked.
        self._final_run_ids: set[UUID] = set()

    @property
    def client(self) -> PrefectClient:
        return cast("PrefectClient", SubmissionClient(super().client))

    @property
    def is_submitting(self) -> bool:
        """Check for flow runs with a slot but without a process: being submitted, or just ended."""
        return self.is_setup and self.limiter.borrowed_tokens > len(self._processes)

    async def get_and_submit_flow_runs(self) -> list[FlowRun]:
        """Take flow runs from the pool; a retried run waits for the former process to end."""
        try:
            return await super().get_and_submit_flow_runs()
        except RuntimeError:
            # Prefect's limiter raises it while the former process holds the run's slot; it would end the worker.
            if not self._processes:
                raise
            return []

    async def run(
        self, flow_run: FlowRun, configuration: WarmConfiguration, task_status: TaskStatus[Any] | None = None
    ) -> WarmResult:
        """Execute a flow run in a new process; return at the end of the process."""
        if configuration.refusal:
            return await self._refuse(flow_run.id, configuration.refusal, task_status)
        with anyio.CancelScope(shield=True):  # a cancellation would leave the new process running
            process = await anyio.to_thread.run_sync(RunProcess, configuration.environment(), self._embedder())
        self._processes[flow_run.id] = process
        try:
            if task_status is not None:
                task_status.started(process.name)
            code = await process.wait()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await process.stop(configuration.grace_seconds)
                await self._report_interruption(flow_run)
            raise
        finally:
            if self._processes.get(flow_run.id) is process:  # a run that is retried at once has a new process
                del self._processes[flow_run.id]
            process.close()
            self._on_run_end()
        return WarmResult(identifier=process.name, status_code=code)

    async def kill_infrastructure(
        self,
        infrastructure_pid: str,
        configuration: WarmConfiguration,  # noqa: ARG002  (Prefect's signature)
        grace_seconds: int = 30,  # noqa: ARG002
    ) -> None:
        """End the process of a cancelled flow run; InfrastructureNotFound or InfrastructureNotAvailable without one."""
        for process in self._processes.values():
            if process.name == infrastructure_pid:
                process.cancel()
                return
        host = infrastructure_pid.rpartition(":")[0]
        if host != platform.node():
            raise InfrastructureNotAvailable(f"The process {infrastructure_pid} is one of a worker on {host}.")
        raise InfrastructureNotFound(f"This worker has no process {infrastructure_pid}: it has ended.")

    async def end_stopped(self) -> None:
        """End processes of flow runs that were cancelled or set to a final state in Prefect."""
        if not self._processes:
            return
        stopped = FlowRunFilter(
            id=FlowRunFilterId(any_=list(self._processes)),
            state=FlowRunFilterState(type=FlowRunFilterStateType(any_=_STOPPED_STATES)),
        )
        final: set[UUID] = set()
        for flow_run in await self.client.read_flow_runs(flow_run_filter=stopped):
            process = self._processes.get(flow_run.id)
            if process is None or flow_run.state is None:
                continue
            if flow_run.state.is_cancelling():
                process.cancel()
                await self.client.set_flow_run_state(flow_run.id, Cancelled(), force=True)
            elif flow_run.id in self._final_run_ids:
                process.cancel()
            else:  # a finished flow is final for a moment before its process ends
                final.add(flow_run.id)
        self._final_run_ids = final

    async def _refuse(self, run_id: UUID, reason: str, task_status: TaskStatus[Any] | None) -> WarmResult:
        if task_status is not None:
            task_status.started("refused")
        log.warning("worker.run_refused", flow_run_id=str(run_id), reason=reason)
        await self.client.set_flow_run_state(run_id, Failed(name=REFUSED_STATE, message=reason), force=True)
        return WarmResult(identifier="refused", status_code=0)

    async def _report_interruption(self, flow_run: FlowRun) -> None:
        """Schedule a flow run again after an interruption by the stopping worker."""
        with anyio.move_on_after(REPORT_SECONDS):
            try:
                state = (await self.client.read_flow_run(flow_run.id)).state
                if state is not None and (state.is_final() or state.is_cancelling()) and not state.is_crashed():
                    return
                interrupted: State[None] = Scheduled(
                    name=INTERRUPTED_STATE, message="The worker was stopped; the run continues."
                )
                if not (flow_run.parameters.get("batch_id") or flow_run.parameters.get("namespace")):
                    interrupted = Crashed(
                        name=INTERRUPTED_STATE, message="The worker was stopped before this run ended."
                    )
                await self.client.set_flow_run_state(flow_run.id, interrupted, force=True)
            except SERVER_ERRORS as error:  # the dispatcher recovers the batch after the lease has ended
                reason = type(error).__name__
                log.warning("worker.interruption_not_reported", flow_run_id=str(flow_run.id), reason=reason)


_STOPPED_STATES = [StateType.CANCELLING, StateType.COMPLETED, StateType.FAILED, StateType.CRASHED]
