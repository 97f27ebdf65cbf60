"""Schedules of connections and websites, kept as schedules of one deployment in Prefect.

Pauses go both ways: a requested pause is set in Prefect, and a pause set in Prefect is stored.
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

SYNC_DEPLOYMENT = "sync-connection/sync-connection"


async def reconcile_schedules(
    client: PrefectClient,
    timings: Mapping[str, Timing],
    errors: dict[str, str] | None = None,
    settle_pause: Callable[[str, bool], Awaitable[None]] | None = None,
) -> int:
    """Make Prefect's schedules match the timings by id; return the number of changes."""
    # `errors`: of the last pass, by schedule id; these schedules come last, and each error is logged once.
    # A refused or slow schedule delays no other; an unreachable server or refused login is raised.
    errors = {} if errors is None else errors
    deployment = await deadline.wait_for(client.read_deployment_by_name(SYNC_DEPLOYMENT))
    schedules_read = await deadline.wait_for(client.read_deployment_schedules(deployment.id))
    existing = {schedule.slug or "": schedule for schedule in schedules_read}
    names = sorted({*timings, *existing}, key=lambda name: (name in errors, name))
    changes = Counter(
        [
            await _reconcile_schedule(
                client, deployment.id, name, (timings.get(name), existing.get(name)), errors, settle_pause
            )
            for name in names
        ]
    )
    for name in errors.keys() - {*timings, *existing}:
        del errors[name]
    del changes[""]
    if changes:
        log.info("schedules.reconciled", made=changes["made"], changed=changes["changed"], removed=changes["removed"])
    return changes.total()


async def _reconcile_schedule(
    client: PrefectClient,
    deployment: UUID,
    name: str,
    pair: tuple[Timing | None, DeploymentSchedule | None],
    errors: dict[str, str],
    settle_pause: Callable[[str, bool], Awaitable[None]] | None,
) -> str:
    """Reconcile one schedule: `made`, `changed`, `removed`, or "" if unchanged or failed."""
    timing, schedule = pair
    try:
        change, paused = await deadline.wait_for(_apply_timing(client, deployment, name, timing, schedule))
        is_settled = timing is None or not (timing.pause_pending or paused != timing.paused)
        if settle_pause is not None and not is_settled:
            await settle_pause(name, paused)
    except Exception as error:
        if prefect_errors.affects_all_calls(error):
            raise
        reason = f"{prefect_errors.failure_reason(error)}: {str(error)[:300]}"
        if errors.get(name) != reason:
            log.warning("schedule.not_reconciled", schedule_id=name, timing=str(timing), reason=reason)
        errors[name] = reason
        return ""
    errors.pop(name, None)
    return change


async def _apply_timing(
    client: PrefectClient, deployment: UUID, name: str, timing: Timing | None, schedule: DeploymentSchedule | None
) -> tuple[str, bool]:
    """Apply a timing; return the change and the pause in Prefect."""
    if timing is None:
        if schedule is not None:
            await client.delete_deployment_schedule(deployment, schedule.id)
        return "removed", False
    prefect_schedule = make_schedule(name, timing)
    parameters = {"schedule_id": name}
    if schedule is None:
        is_active = not timing.paused
        new_schedule = DeploymentScheduleCreate(
            schedule=prefect_schedule, slug=name, parameters=parameters, active=is_active
        )
        await client.create_deployment_schedules(deployment, [new_schedule])
        return "made", not is_active
    is_active = not timing.paused if timing.pause_pending else schedule.active
    if _schedule_key(schedule.schedule) == _schedule_key(prefect_schedule) and (
        schedule.parameters,
        schedule.active,
    ) == (parameters, is_active):
        return "", not is_active
    # An update without parameters would remove them.
    await client.update_deployment_schedule(
        deployment, schedule.id, active=is_active, schedule=prefect_schedule, parameters=parameters
    )
    return "changed", not is_active


def _schedule_key(schedule: Any) -> tuple[Any, ...]:
    """Return the distinguishing values of a schedule."""
    if isinstance(schedule, IntervalSchedule):
        return schedule.interval, schedule.anchor_date
    return (schedule.cron, schedule.timezone) if isinstance(schedule, CronSchedule) else (schedule,)


def make_schedule(schedule_id: str, timing: Timing) -> IntervalSchedule | CronSchedule:
    """Convert a timing to Prefect's schedule."""
    if timing.minutes is None:
        return CronSchedule(cron=timing.cron or "", timezone=timing.time_zone)
    anchor = schedules.anchor_time(schedule_id, timing.minutes)
    return IntervalSchedule(interval=timedelta(minutes=timing.minutes), anchor_date=anchor)
