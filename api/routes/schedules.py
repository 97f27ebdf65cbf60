"""Operations on schedules of ingestion."""

from __future__ import annotations

from functools import partial

from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from msgspec import UNSET

from api.operation import idempotent, operation
from api.request import ApiRequest
from api.wire import schedules as wire
from retrieval.connections import schedules
from retrieval.connections.queries_schedules import ScheduleRow
from retrieval.connections.schedules import Timing
from retrieval.errors import ErrorCode, ServiceError
from retrieval.namespaces import namespaces
from retrieval.ports import Scope

_operation = partial(operation, tag="Schedules", invalid=ErrorCode.INVALID_REQUEST)
_NOT_FOUND_CODES = (ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.NOT_FOUND)
_SCHEDULE_PATH = "/v1/schedules/{schedule_id:str}"
_NAMESPACE_EXAMPLE = {"namespaceId": "ns_06gzpnn6z30k9qdmrw54faz30gfpw60mq5r0"}


@_operation(
    "POST",
    "/v1/schedules",
    raises=(ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.INGEST_JOB_RUN_NOT_FOUND),
    example={
        **_NAMESPACE_EXAMPLE,
        "ingestJobRunId": "ijr_06gzppa1c3e5g7j9m2p4r6t8w1",
        "cron": "0 6 * * MON-FRI",
        "timeZone": "Europe/Berlin",
    },
)
@idempotent
async def create_schedule(request: ApiRequest, data: JSONBody[wire.CreateSchedule]) -> wire.ScheduleAnswer:
    """Create a schedule.

    It repeats the request of a job run of a website, sitemap, URL list or connection. An unfinished job run of the
    schedule is not overtaken by the next one.
    """
    scope = await _require_scope(request, data.namespace_id)
    timing = _check_timing(Timing(data.interval_minutes, data.cron, data.time_zone))
    created = await schedules.create_schedule(request.services.db, scope, data.ingest_job_run_id, timing)
    return _answer_schedule("created", created)


@_operation("GET", "/v1/schedules", raises=(ErrorCode.NAMESPACE_NOT_FOUND,))
async def list_schedules(request: ApiRequest, params: NamedDependency[wire.SchedulesQuery]) -> wire.SchedulesAnswer:
    """List schedules. Newest first, of a namespace or of all. With `pageSize` the list is paginated."""
    db, caller = request.services.db, request.caller
    if params.namespace_id is not None:
        await _require_scope(request, params.namespace_id)
    namespace = params.namespace_id or caller.namespace
    page_request = await request.read_page(params.to_page(), namespace or "")
    page = await schedules.list_page(db, caller.organization, request.tenant, namespace, page_request)
    data = wire.SchedulesData(schedules=[wire.Schedule.from_row(row) for row in page.items]).set_page(
        page_request, await request.write_cursor(page.cursor, namespace or "")
    )
    return wire.SchedulesAnswer(message="Schedules fetched successfully", data=data)


@_operation("GET", _SCHEDULE_PATH, raises=_NOT_FOUND_CODES)
async def get_schedule(
    request: ApiRequest, schedule_id: FromPath[str], params: NamedDependency[wire.ScheduleQuery]
) -> wire.ScheduleAnswer:
    """Get a schedule. With its next due time and its newest job run."""
    scope = await _require_scope(request, params.namespace_id)
    return _answer_schedule("fetched", await schedules.get_schedule(request.services.db, scope, schedule_id))


@_operation("PATCH", _SCHEDULE_PATH, raises=_NOT_FOUND_CODES, example={**_NAMESPACE_EXAMPLE, "paused": True})
async def update_schedule(
    request: ApiRequest, schedule_id: FromPath[str], data: JSONBody[wire.UpdateSchedule]
) -> wire.ScheduleAnswer:
    """Change a schedule, pause it or continue it. The new time takes effect within seconds."""
    db, scope = request.services.db, await _require_scope(request, data.namespace_id)
    stored = await schedules.get_schedule(db, scope, schedule_id)
    time_zone = None if data.time_zone is UNSET else data.time_zone
    timing = None
    if data.interval_minutes is not UNSET or data.cron is not UNSET:
        timing = Timing(
            None if data.interval_minutes is UNSET else data.interval_minutes,
            None if data.cron is UNSET else data.cron,
            time_zone or stored.time_zone,
        )
    _check_timing(timing or Timing(stored.minutes, stored.cron, time_zone or stored.time_zone))
    paused = None if data.paused is UNSET else data.paused
    return _answer_schedule(
        "updated", await schedules.change_schedule(db, scope, schedule_id, timing, time_zone, paused=paused)
    )


@_operation("DELETE", _SCHEDULE_PATH, raises=_NOT_FOUND_CODES)
async def delete_schedule(
    request: ApiRequest, schedule_id: FromPath[str], params: NamedDependency[wire.ScheduleQuery]
) -> wire.ScheduleAnswer:
    """Delete a schedule. Its documents and job runs are kept."""
    scope = await _require_scope(request, params.namespace_id)
    return _answer_schedule("deleted", await schedules.delete_schedule(request.services.db, scope, schedule_id))


ROUTE_HANDLERS = (create_schedule, list_schedules, get_schedule, update_schedule, delete_schedule)


def _answer_schedule(done: str, row: ScheduleRow) -> wire.ScheduleAnswer:
    return wire.ScheduleAnswer(
        message=f"Schedule {done} successfully", data=wire.ScheduleData(wire.Schedule.from_row(row))
    )


def _check_timing(timing: Timing) -> Timing:
    """Return the timing; raise INVALID_REQUEST if invalid."""
    if fault := schedules.check_timing(timing):
        field, reason = fault
        raise ServiceError(ErrorCode.INVALID_REQUEST, f"{field} {reason}.", field=field, reason="invalid_schedule")
    return timing


async def _require_scope(request: ApiRequest, namespace_id: str) -> Scope:
    scope = request.scope_of(namespace_id)
    await namespaces.require_namespace(request.services.db, scope.organization, scope.namespace)
    return scope
