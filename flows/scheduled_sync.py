"""Flow of a schedule: it requests an ingestion, which then runs like any other."""

from __future__ import annotations

import asyncio

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Completed

from flows import context
from retrieval.connections import schedules
from retrieval.jobs import notifications


@flow(name="sync-connection", persist_result=False)
async def sync_connection(connection_id: str | None = None, schedule_id: str | None = None) -> State[None]:
    """The next ingestion of a schedule, or of a connection with an interval, unless one is under way."""
    db = context.open_database()
    if schedule_id is not None:
        scheduled_run = await asyncio.to_thread(schedules.repeat_ingestion, db, schedule_id)
    else:
        scheduled_run = await asyncio.to_thread(schedules.record_run, db, connection_id or "")
    if scheduled_run.job_run_id is None:
        return Completed(name="Skipped", message=scheduled_run.reason)
    await asyncio.to_thread(notifications.notify_listeners, db)
    return Completed(message=f"Job run {scheduled_run.job_run_id} waits for its turn.")
