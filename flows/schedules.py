"""Connections with a sync interval, as schedules of one deployment in Prefect: made, changed and taken away to fit."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import structlog
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.schedules import IntervalSchedule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prefect.client.schemas.objects import DeploymentSchedule

log = structlog.get_logger()

DEPLOYMENT = "sync-connection/sync-connection"


async def reconcile(client: PrefectClient, wanted: Mapping[str, int]) -> int:
    """Let Prefect's schedules say what our table says: connection id to minutes. How many were touched."""
    deployment = await client.read_deployment_by_name(DEPLOYMENT)
    there = {one.slug or "": one for one in await client.read_deployment_schedules(deployment.id)}
    gone = [one for slug, one in there.items() if slug not in wanted]
    changed = [one for slug, one in there.items() if slug in wanted and not _fits(one, slug, wanted[slug])]
    missing = [name for name in wanted if name not in there]
    for schedule in gone:
        await client.delete_deployment_schedule(deployment.id, schedule.id)
    for schedule in changed:
        name = str(schedule.slug)
        await client.update_deployment_schedule(
            deployment.id, schedule.id, schedule=_every(wanted[name]), parameters=_parameters(name)
        )
    if missing:
        await client.create_deployment_schedules(deployment.id, [_schedule(name, wanted[name]) for name in missing])
    if touched := len(gone) + len(changed) + len(missing):
        log.info("schedules.reconciled", made=len(missing), changed=len(changed), removed=len(gone))
    return touched


def _schedule(connection_id: str, minutes: int) -> DeploymentScheduleCreate:
    return DeploymentScheduleCreate(schedule=_every(minutes), slug=connection_id, parameters=_parameters(connection_id))


def _parameters(connection_id: str) -> dict[str, str]:
    """Of the flow. An update that names none takes them away."""
    return {"connection_id": connection_id}


def _every(minutes: int) -> IntervalSchedule:
    return IntervalSchedule(interval=timedelta(minutes=minutes))


def _fits(schedule: DeploymentSchedule, connection_id: str, minutes: int) -> bool:
    every = schedule.schedule
    return (
        isinstance(every, IntervalSchedule)
        and every.interval == timedelta(minutes=minutes)
        and schedule.parameters == _parameters(connection_id)
    )
