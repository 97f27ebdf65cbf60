"""Whether somebody suspends a flow run in Prefect: looked for beside it, and only if it takes longer than a moment."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

LATER_SECONDS: Final = 1.0
"""After the beginning of a run; what is suspended before is seen then."""


def look_later() -> None:
    """From now on in this process and those forked from it.

    Prefect's engine looks before each run is Running: by a thread, an event loop, a WebSocket and a request of its own,
    for which the run waits, and up to 0.2 s more at its end.
    """
    import prefect.flow_engine as flow_engine  # noqa: PLR0402  (undocumented: by its whole name)

    usual = flow_engine.observe_flow_run_suspension  # type: ignore[attr-defined]

    @contextmanager
    def later(flow_run_id: UUID, suspension_request: Any, polling_interval: float = 10) -> Iterator[None]:
        over = threading.Event()

        def look() -> None:
            if not over.wait(LATER_SECONDS):
                with usual(flow_run_id, suspension_request, polling_interval):
                    over.wait()

        threading.Thread(target=copy_context().run, args=(look,), name="suspension", daemon=True).start()
        try:
            yield
        finally:
            over.set()

    flow_engine.observe_flow_run_suspension = later  # type: ignore[attr-defined]
