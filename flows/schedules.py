"""Connections with a sync interval, as schedules of one deployment in Prefect: made, changed and taken away to fit."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING

import structlog
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.schedules import IntervalSchedule

from flows import prefect_client
from retrieval.connections import schedules

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from prefect.client.schemas.objects import DeploymentSchedule

log = structlog.get_logger()

DEPLOYMENT = "sync-connection/sync-connection"


async def reconcile_schedules(
    client: PrefectClient, wanted: Mapping[str, int], troubled: dict[str, str] | None = None
) -> int:
    """Make Prefect's schedules match our table: connection id to minutes. Returns the number of changes.

    Each stands alone: what Prefect refuses, or does not answer in time, keeps no other from its turn. `troubled`: what
    was said of those before, by connection, so that it is logged once; they come last. A server that cannot be reached
    or refuses our login is raised.
    """
    troubled = {} if troubled is None else troubled
    async with asyncio.timeout(prefect_client.CALL_SECONDS):
        deployment = await client.read_deployment_by_name(DEPLOYMENT)
        existing = {schedule.slug or "": schedule for schedule in await client.read_deployment_schedules(deployment.id)}
    names = sorted({*wanted, *existing}, key=lambda name: (name in troubled, name))
    done = Counter([await _alone(client, deployment.id, name, wanted, existing, troubled) for name in names])
    for name in troubled.keys() - {*wanted, *existing}:
        del troubled[name]
    del done[""]
    if done:
        log.info("schedules.reconciled", made=done["made"], changed=done["changed"], removed=done["removed"])
    return done.total()


async def _alone(
    client: PrefectClient,
    deployment: UUID,
    name: str,
    wanted: Mapping[str, int],
    there: Mapping[str, DeploymentSchedule],
    troubled: dict[str, str],
) -> str:
    """Reconcile one schedule: `made`, `changed`, `removed`, or nothing if it matches or cannot be changed."""
    try:
        async with asyncio.timeout(prefect_client.CALL_SECONDS):
            done = await _fitted(client, deployment, name, wanted.get(name), there.get(name))
    except Exception as error:
        if prefect_client.is_of_all(error):
            raise
        reason = f"{prefect_client.failure_reason(error)}: {str(error)[:300]}"
        if troubled.get(name) != reason:
            log.warning("schedule.not_reconciled", connection_id=name, minutes=wanted.get(name), reason=reason)
        troubled[name] = reason
        return ""
    troubled.pop(name, None)
    return done


async def _fitted(
    client: PrefectClient, deployment: UUID, name: str, minutes: int | None, schedule: DeploymentSchedule | None
) -> str:
    if minutes is None:
        if schedule is not None:
            await client.delete_deployment_schedule(deployment, schedule.id)
        return "removed"
    interval = make_interval(name, minutes)
    parameters = {"connection_id": name}
    if schedule is None:
        new_schedule = DeploymentScheduleCreate(schedule=interval, slug=name, parameters=parameters)
        await client.create_deployment_schedules(deployment, [new_schedule])
        return "made"
    current = schedule.schedule
    if (
        isinstance(current, IntervalSchedule)
        and (current.interval, current.anchor_date) == (interval.interval, interval.anchor_date)
        and schedule.parameters == parameters
    ):
        return ""
    # an update without the parameters would remove them
    await client.update_deployment_schedule(deployment, schedule.id, schedule=interval, parameters=parameters)
    return "changed"


def make_interval(connection_id: str, minutes: int) -> IntervalSchedule:
    return IntervalSchedule(
        interval=timedelta(minutes=minutes), anchor_date=schedules.anchor_time(connection_id, minutes)
    )
