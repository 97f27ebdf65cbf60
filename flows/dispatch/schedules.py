"""Schedules of ingestion as schedules of one deployment in Prefect: made, changed and taken away to fit.

A pause goes both ways: one that a request sets is told to Prefect, one that is set in Prefect is stored.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import structlog
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule

from flows import prefect_errors
from flows.dispatch.call_deadline import deadline
from retrieval.connections import schedules
from retrieval.connections.schedules import Timing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from uuid import UUID

    from prefect.client.schemas.objects import DeploymentSchedule

log = structlog.get_logger()

DEPLOYMENT = "sync-connection/sync-connection"


async def reconcile_schedules(
    client: PrefectClient,
    wanted: Mapping[str, Timing],
    troubled: dict[str, str] | None = None,
    settle_pause: Callable[[str, bool], Awaitable[None]] | None = None,
) -> int:
    """Make Prefect's schedules match our timings, by id. Returns the number of changes.

    A schedule that Prefect refuses, or does not answer for in time, delays no other one. `troubled`: errors of those
    before, by id, so that each is logged once; they are handled last. `settle_pause`: stores the state that
    Prefect has. A server that cannot be reached or refuses our login is raised.
    """
    troubled = {} if troubled is None else troubled
    deployment = await deadline.wait_for(client.read_deployment_by_name(DEPLOYMENT))
    schedules_read = await deadline.wait_for(client.read_deployment_schedules(deployment.id))
    existing = {schedule.slug or "": schedule for schedule in schedules_read}
    names = sorted({*wanted, *existing}, key=lambda name: (name in troubled, name))
    done = Counter(
        [
            await _alone(client, deployment.id, name, (wanted.get(name), existing.get(name)), troubled, settle_pause)
            for name in names
        ]
    )
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
    pair: tuple[Timing | None, DeploymentSchedule | None],
    troubled: dict[str, str],
    settle_pause: Callable[[str, bool], Awaitable[None]] | None,
) -> str:
    """Reconcile one schedule: `made`, `changed`, `removed`, or nothing if it matches or cannot be changed."""
    timing, schedule = pair
    try:
        done, paused = await deadline.wait_for(_fitted(client, deployment, name, timing, schedule))
        is_settled = timing is None or not (timing.pending or paused != timing.paused)
        if settle_pause is not None and not is_settled:
            await settle_pause(name, paused)
    except Exception as error:
        if prefect_errors.affects_all_calls(error):
            raise
        reason = f"{prefect_errors.failure_reason(error)}: {str(error)[:300]}"
        if troubled.get(name) != reason:
            log.warning("schedule.not_reconciled", schedule_id=name, timing=str(timing), reason=reason)
        troubled[name] = reason
        return ""
    troubled.pop(name, None)
    return done


async def _fitted(
    client: PrefectClient, deployment: UUID, name: str, timing: Timing | None, schedule: DeploymentSchedule | None
) -> tuple[str, bool]:
    """Return what was done, and whether the schedule is paused in Prefect now."""
    if timing is None:
        if schedule is not None:
            await client.delete_deployment_schedule(deployment, schedule.id)
        return "removed", False
    due = make_schedule(name, timing)
    parameters = {"schedule_id": name}
    if schedule is None:
        active = not timing.paused
        new_schedule = DeploymentScheduleCreate(schedule=due, slug=name, parameters=parameters, active=active)
        await client.create_deployment_schedules(deployment, [new_schedule])
        return "made", not active
    active = not timing.paused if timing.pending else schedule.active
    if _parts(schedule.schedule) == _parts(due) and (schedule.parameters, schedule.active) == (parameters, active):
        return "", not active
    # an update without the parameters would remove them
    await client.update_deployment_schedule(deployment, schedule.id, active=active, schedule=due, parameters=parameters)
    return "changed", not active


def _parts(schedule: Any) -> tuple[Any, ...]:
    """Return what distinguishes two schedules."""
    if isinstance(schedule, IntervalSchedule):
        return schedule.interval, schedule.anchor_date
    return (schedule.cron, schedule.timezone) if isinstance(schedule, CronSchedule) else (schedule,)


def make_schedule(schedule_id: str, timing: Timing) -> IntervalSchedule | CronSchedule:
    """Prefect's schedule of a timing."""
    if timing.minutes is None:
        return CronSchedule(cron=timing.cron or "", timezone=timing.time_zone)
    anchor = schedules.anchor_time(schedule_id, timing.minutes)
    return IntervalSchedule(interval=timedelta(minutes=timing.minutes), anchor_date=anchor)
