"""Readiness of roles (`roles`) and progress of dispatch (`dispatch`)."""

from retrieval.readiness.dispatch import (
    LATE_AFTER_SECONDS,
    DispatchState,
    LoopReport,
    LoopState,
    async_read_dispatch,
    deregister_dispatcher,
    read_dispatch,
    record_loops,
)

__all__ = [
    "LATE_AFTER_SECONDS",
    "DispatchState",
    "LoopReport",
    "LoopState",
    "async_read_dispatch",
    "deregister_dispatcher",
    "read_dispatch",
    "record_loops",
]
