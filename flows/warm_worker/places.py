"""How many flow runs a worker takes at once: as many as its limit, and one more of the work queue `short`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

from retrieval.jobs.shares import SHORT

if TYPE_CHECKING:
    from uuid import UUID

    from prefect.client.schemas.responses import WorkerFlowRunResponse

SHORT_PLACES: Final = 1
"""Beside a worker's limit, for short flow runs alone: whatever fills the others, these go on."""


class Places:
    """Which of the flow runs that wait may begin. Short ones may have any place, others `limit` of them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._short: set[UUID] = set()

    def fitting(
        self, waiting: Sequence[WorkerFlowRunResponse], at_work: Collection[UUID]
    ) -> list[WorkerFlowRunResponse]:
        """Of those that wait, in their order. `at_work`: ids of the flow runs that have a place."""
        at_work = set(at_work)
        self._short &= at_work
        room = self._limit - len(at_work - self._short)
        found = []
        for entry in waiting:
            run = entry.flow_run
            if run.work_queue_name == SHORT:
                self._short.add(run.id)
            elif run.id not in at_work:
                if room <= 0:
                    continue
                room -= 1
            found.append(entry)
        return found
