"""Emits events of job runs and connections to Prefect, for automations of data teams.

`retrieval.run.queued | pre-processing | processing | completed` about `retrieval.run.<id>`, and
`retrieval.connection.active | failed | removals-waiting` about `retrieval.connection.<id>`, at least once each.
"""

from __future__ import annotations

import asyncio

from prefect.events import Event, Resource
from prefect.events.clients import get_events_client

from flows import prefect_client
from flows.lanes import Lane
from retrieval.webhooks.events import PrefectEvent, emitted, list_waiting

_LABELS = ("organizationId", "namespaceId", "tenantId", "status", "outcome", "source", "connectionId", "connector")


async def emit(lane: Lane) -> int:
    """Emit the oldest that wait; how many. Whatever fails is tried again, under the same id."""
    rows = await lane.run(list_waiting)
    if rows:
        async with asyncio.timeout(prefect_client.CALL_SECONDS):
            async with get_events_client() as client:
                for row in rows:
                    await client.emit(_event(row))
        await lane.run(emitted, [row.id for row in rows])
    return len(rows)


def _event(row: PrefectEvent) -> Event:
    noun, _, verb = row.type.removeprefix("INGEST_JOB_").partition("_")
    about = row.data
    identity = about["ingestJobRunId" if noun == "RUN" else "connectionId"]
    labels = {f"retrieval.{name}": str(about[name]) for name in _LABELS if about.get(name) is not None}
    kind = f"retrieval.{noun.lower()}"
    return Event(
        id=row.event_id,
        occurred=row.at,
        event=f"{kind}.{verb.lower().replace('_', '-')}",
        resource=Resource({"prefect.resource.id": f"{kind}.{identity}", "prefect.resource.name": identity, **labels}),
        payload=about,
    )
