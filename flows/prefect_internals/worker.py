"""Prefect's base class of workers, with the three of its internals that a worker with places of its own needs."""

from __future__ import annotations

from abc import ABC
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from prefect.workers.base import BaseJobConfiguration, BaseVariables, BaseWorker, BaseWorkerResult

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from prefect.client.schemas.objects import FlowRun
    from prefect.client.schemas.responses import WorkerFlowRunResponse

C = TypeVar("C", bound=BaseJobConfiguration)
V = TypeVar("V", bound=BaseVariables)
R = TypeVar("R", bound=BaseWorkerResult)

CLAIM_SECONDS = 10.0
"""How long a claim may take, a shutdown or not."""


class ClaimingWorker(BaseWorker[C, V, R], ABC):
    """`claimed`: flow runs that this worker has made Pending and not yet begun; a subclass takes them out.

    Abstract by name: Prefect registers every other subclass as a type of worker.
    """

    def __init__(self, work_pool_name: str, **options: Any) -> None:
        super().__init__(work_pool_name, **options)
        self.claimed: set[UUID] = set()

    @property
    def submitting(self) -> set[UUID]:
        """Flow runs between being taken from the pool and being begun; Prefect's own set, which it changes."""
        return self._submitting_flow_run_ids

    def fitting(self, waiting: Sequence[WorkerFlowRunResponse]) -> list[WorkerFlowRunResponse]:
        """Which of the flow runs that wait this worker takes now; a subclass has its own places."""
        return list(waiting)

    async def _get_scheduled_flow_runs(self) -> list[WorkerFlowRunResponse]:
        return self.fitting(await super()._get_scheduled_flow_runs())

    async def _propose_pending_state(self, flow_run: FlowRun) -> bool:
        """Shielded: an answer lost to a shutdown would leave the run Pending for ever."""
        ours = False
        with anyio.move_on_after(CLAIM_SECONDS, shield=True):
            ours = await super()._propose_pending_state(flow_run)
        if ours:
            self.claimed.add(flow_run.id)
        return ours
