"""Readiness: `roles` for each role, `dispatch` for whether accepted work moves."""

from retrieval.readiness.dispatch import (
    LATE,
    Beat,
    Dispatch,
    Loop,
    async_look,
    deregister_dispatcher,
    read_dispatch,
    record_loops,
)

__all__ = ["LATE", "Beat", "Dispatch", "Loop", "async_look", "deregister_dispatcher", "read_dispatch", "record_loops"]
