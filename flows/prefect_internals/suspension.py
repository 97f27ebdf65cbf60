"""Flow runs that somebody suspends in Prefect: their worker looks for it, and not each of them for itself."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from prefect.client.schemas.objects import State


def leave_to_the_worker() -> None:
    """From now on in this process and those forked from it.

    Prefect's engine would look for itself: before each run is Running it waits for a thread, an event loop, a WebSocket
    and two requests, and up to 0.2 s more at its end. Its server suspends no run that is not Running.
    """
    import prefect.flow_engine as flow_engine  # noqa: PLR0402  (undocumented: by its whole name)

    @contextmanager
    def nothing(*_: Any) -> Iterator[None]:
        yield

    flow_engine.observe_flow_run_suspension = nothing  # type: ignore[assignment, attr-defined]


def suspend(flow_run_id: UUID, state: State[Any]) -> None:
    """The run, if this process executes it, ends before its next task. From any thread."""
    from prefect._flow_run_suspension import mark_flow_run_suspension_requested

    mark_flow_run_suspension_requested(flow_run_id, state)
