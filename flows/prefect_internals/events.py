"""Emits events one by one and says when one was not taken; `prefect.events.emit_event` would only log it."""

from __future__ import annotations

from collections.abc import Iterable

from prefect.events import Event
from prefect.events.clients import get_events_client


async def emit(events: Iterable[Event]) -> None:
    """In their order. Raises what Prefect's client does; then all are to be emitted again, under their ids."""
    async with get_events_client() as client:
        for event in events:
            await client.emit(event)
