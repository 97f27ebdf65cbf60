"""Flow of a schedule: requests an ingestion."""

from __future__ import annotations

import asyncio

import psycopg
from prefect import flow
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed

from flows import context
from retrieval.connections import queries_schedules, schedules
from retrieval.jobs import notifications


def name_flow_run() -> str:
    """Name the flow run after the connection or address."""
    schedule_id = flow_run.parameters.get("schedule_id") or ""
    try:
        name = queries_schedules.read_name(context.open_database(), schedule_id)
    except psycopg.Error:  # the flow meets it, too, and is retried
        name = None
    return f"Sync of {name or schedule_id}"


@flow(name="sync-connection", flow_run_name=name_flow_run, persist_result=False)
async def sync_connection(schedule_id: str) -> State[None]:
    """Ingest a connection by its schedule, unless an ingestion is under way."""
    db = context.open_database()
    scheduled_run = await asyncio.to_thread(schedules.repeat_ingestion, db, schedule_id)
    if scheduled_run.job_run_id is None:
        return Completed(name="Skipped", message=scheduled_run.reason)
    await asyncio.to_thread(notifications.notify_listeners, db)
    return Completed(message=f"Job run {scheduled_run.job_run_id} waits for its turn.")
