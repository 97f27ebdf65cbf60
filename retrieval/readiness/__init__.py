"""Readiness: `roles` for each role, `dispatch` for whether accepted work moves."""

from retrieval.readiness.dispatch import LATE, Beat, Dispatch, Loop, async_look, leave, look, record

__all__ = ["LATE", "Beat", "Dispatch", "Loop", "async_look", "leave", "look", "record"]
