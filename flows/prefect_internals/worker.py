"""Prefect's base class of workers, with those of its internals that a worker with places of its own needs.

Between taking a flow run from the pool and beginning it the base class asks Prefect's server for six things, one after
the other. Those that the beginning need not wait for are left out here, asked for once, or beside it.
"""

from __future__ import annotations

import time
from abc import ABC
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import anyio
import structlog
from prefect.client.orchestration import PrefectClient
from prefect.exceptions import ObjectNotFound
from prefect.workers.base import BaseJobConfiguration, BaseVariables, BaseWorker, BaseWorkerResult

from flows import server_clock
from flows.prefect_client import AWAY

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from prefect.client.schemas.objects import Flow, FlowRun
    from prefect.client.schemas.responses import DeploymentResponse, WorkerFlowRunResponse

log = structlog.get_logger()

C = TypeVar("C", bound=BaseJobConfiguration)
V = TypeVar("V", bound=BaseVariables)
R = TypeVar("R", bound=BaseWorkerResult)

CLAIM_SECONDS = 10.0
"""How long a claim may take, a shutdown or not."""
DEPLOYMENT_SECONDS: Final = 1.0
"""How long a deployment that was read for one use may serve a second one."""


class Reader:
    """Prefect's client, for whom a flow's name never changes, and that reads a deployment once for both uses of it.

    The base class looks whether the deployment is there, and then what it says.
    """

    def __init__(self, client: PrefectClient) -> None:
        self._client = client
        self._deployments: dict[UUID, tuple[float, DeploymentResponse]] = {}
        self._flows: dict[UUID, Flow] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def read_deployment(self, deployment_id: UUID) -> DeploymentResponse:
        read_at, known = self._deployments.pop(deployment_id, (0.0, None))
        if known is not None and time.monotonic() - read_at < DEPLOYMENT_SECONDS:
            return known
        read_at, found = time.monotonic(), await self._client.read_deployment(deployment_id)
        self._deployments[deployment_id] = read_at, found
        return found

    async def read_flow(self, flow_id: UUID) -> Flow:
        if flow_id not in self._flows:
            self._flows[flow_id] = await self._client.read_flow(flow_id)
        return self._flows[flow_id]


class ForkedConfiguration(BaseJobConfiguration):
    """Of a run in a process forked from the worker: it has the worker's settings, and is handed none of them.

    To write them out again for each run takes Prefect 30 ms.
    """

    @classmethod
    def _base_environment(cls) -> dict[str, str]:
        return {}


class ClaimingWorker(BaseWorker[C, V, R], ABC):
    """`claimed`: flow runs that this worker has made Pending and not yet begun; a subclass takes them out.

    Abstract by name: Prefect registers every other subclass as a type of worker.
    """

    def __init__(self, work_pool_name: str, **options: Any) -> None:
        super().__init__(work_pool_name, **options)
        self.claimed: set[UUID] = set()

    async def setup(self) -> None:
        await super().setup()
        self._client = cast("PrefectClient", Reader(self.client))

    @property
    def submitting(self) -> set[UUID]:
        """Flow runs between being taken from the pool and being begun; Prefect's own set, which it changes."""
        return self._submitting_flow_run_ids

    def fitting(self, waiting: Sequence[WorkerFlowRunResponse]) -> list[WorkerFlowRunResponse]:
        """Which of the flow runs that wait this worker takes now; a subclass has its own places."""
        return list(waiting)

    async def _get_scheduled_flow_runs(self) -> list[WorkerFlowRunResponse]:
        """As the base class does, but by the server's clock."""
        before = await server_clock.now(self.client) + timedelta(seconds=self._prefetch_seconds)
        try:
            waiting = await self.client.get_scheduled_flow_runs_for_work_pool(
                work_pool_name=self._work_pool_name, scheduled_before=before, work_queue_names=list(self._work_queues)
            )
        except ObjectNotFound:  # the pool: it is made with the next registration
            return []
        return self.fitting(waiting)

    async def _propose_pending_state(self, flow_run: FlowRun) -> bool:
        """Shielded: an answer lost to a shutdown would leave the run Pending for ever."""
        ours = False
        with anyio.move_on_after(CLAIM_SECONDS, shield=True):
            ours = await super()._propose_pending_state(flow_run)
        if ours:
            self.claimed.add(flow_run.id)
        return ours

    async def _propose_submitting_state(self, flow_run: FlowRun) -> None:
        """Left out: a warm child begins within milliseconds, and between Pending and Running this says nothing."""

    async def _give_worker_labels_to_flow_run(self, flow_run_id: UUID) -> None:
        """Beside the run, which does not wait for it."""

        give = super()._give_worker_labels_to_flow_run

        async def label() -> None:
            try:
                await give(flow_run_id)
            except AWAY as error:
                log.warning("worker.not_labelled", flow_run_id=str(flow_run_id), reason=type(error).__name__)

        if self._runs_task_group is not None:
            self._runs_task_group.start_soon(label)
