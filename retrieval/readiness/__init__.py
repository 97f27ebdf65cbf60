"""What ready means: `roles` says it for each role, `dispatch` whether accepted work is on its way."""

from retrieval.readiness.dispatch import LATE, Beat, Dispatch, Loop, async_look, leave, look, record

__all__ = ["LATE", "Beat", "Dispatch", "Loop", "async_look", "leave", "look", "record"]
