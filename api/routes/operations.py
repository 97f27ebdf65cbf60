"""State of the service: activity, queue, metrics, `/health` and `/ready`."""

from __future__ import annotations

import asyncio
import time

import msgspec
from litestar import Response, get
from litestar.di import NamedDependency
from litestar.openapi.spec import OpenAPIMediaType, OpenAPIResponse
from msgspec import UNSET

from api import problems
from api.openapi import public_operation_class, schema_reference
from api.operation import operation
from api.request import ApiRequest, TenantUse
from api.services import Services
from api.wire.activity import ActivityAnswer, ActivityData, ActivityQuery, Health, QueueAnswer, QueueData, Readiness
from api.wire.problems import ProblemsAnswer, ProblemsData, ProblemsQuery
from connectors import registry
from retrieval.database.database import UNAVAILABLE_ERRORS
from retrieval.errors import ErrorCode
from retrieval.jobs import activity
from retrieval.metrics import counts, exposition
from retrieval.namespaces import namespaces
from retrieval.readiness import roles, work


@operation(
    "GET",
    "/v1/activity",
    tag="Administration",
    invalid=ErrorCode.INVALID_REQUEST,
    raises=(ErrorCode.NAMESPACE_NOT_FOUND,),
)
async def read_activity(request: ApiRequest, params: NamedDependency[ActivityQuery]) -> ActivityAnswer:
    """Get the activity of a namespace.

    Unfinished job runs, failures of the last day, tokens, and search times. Counts may be some seconds old.
    """
    db, scope = request.services.db, request.scope_of(params.namespace_id)
    figures = await activity.read_activity(db, scope)
    if figures is None:
        raise namespaces.not_found()
    history = await activity.read_history(db, scope) if params.history else None
    return ActivityAnswer(message="Activity fetched successfully", data=ActivityData.from_figures(figures, history))


@operation("GET", "/v1/queue", tag="Administration", tenant=TenantUse.IGNORED, invalid=ErrorCode.INVALID_REQUEST)
async def read_queue(request: ApiRequest) -> QueueAnswer:
    """Get the queue.

    Waiting job runs of the organization, the reasons they wait, and running batches; for all tenants.
    """
    queue = await work.read_queue(request.services.db, request.caller.organization)
    listed = await problems.list_service_problems(request.services, queue)
    storage_problems = await request.services.storage.list_problems()
    data = QueueData.from_queue(queue, registry.list_parser_warnings(), storage_problems, listed)
    return QueueAnswer(message="Queue fetched successfully", data=data)


@operation(
    "GET",
    "/v1/problems",
    tag="Administration",
    invalid=ErrorCode.INVALID_REQUEST,
    raises=(ErrorCode.NAMESPACE_NOT_FOUND,),
)
async def list_problems(request: ApiRequest, params: NamedDependency[ProblemsQuery]) -> ProblemsAnswer:
    """List problems.

    What blocks, fails or waits for a person, the most severe first: of the installation, and of a namespace if one is
    given. Connections and documents are included if the key may read them.
    """
    listed = await problems.read_problems(request, params.namespace_id)
    return ProblemsAnswer(message="Problems fetched successfully", data=ProblemsData(listed))


@operation(
    "GET",
    "/metrics",
    tag="Administration",
    media_type=exposition.MEDIA_TYPE.partition("; charset")[0],
    tenant=TenantUse.IGNORED,
    invalid=ErrorCode.INVALID_REQUEST,
)
async def read_metrics(request: ApiRequest) -> bytes:
    """Get metrics for Prometheus.

    Metrics of the organization in Prometheus' text format. Metrics of the installation are served on
    `RETRIEVAL_METRICS_PORT`.
    """
    services = request.services
    await counts.async_write_counts(services.db)
    reading = await services.read_figures(request.caller.organization)
    return exposition.render_text(reading, of_organization=True)


_PROBE_SECONDS = 2.0
# Concurrent probes share one check of the database.
_READY_CACHE_SECONDS = 1.0


def _describe_probe(kind: type[Health | Readiness], description: str) -> OpenAPIResponse:
    return OpenAPIResponse(description, content={"application/json": OpenAPIMediaType(schema=schema_reference(kind))})


@get(
    "/health",
    opt={"structs": (Health,)},
    operation_class=public_operation_class({"200": _describe_probe(Health, "The process answers")}),
    operation_id="health",
    tags=["Operation"],
    summary="The process answers",
)
async def health() -> Response[bytes]:
    """The process answers"""
    return _answer_json(200, Health("ok"))


@get(
    "/ready",
    opt={"structs": (Readiness,)},
    operation_class=public_operation_class(
        {
            "200": _describe_probe(Readiness, "Requests are served and accepted work is on its way"),
            "503": _describe_probe(Readiness, "Requests cannot be served now; `reason` says why"),
        }
    ),
    operation_id="ready",
    tags=["Operation"],
    summary="Requests are served and accepted work is on its way",
)
async def ready(request: ApiRequest) -> Response[bytes]:
    """Requests are served and accepted work is on its way"""
    services = request.services
    if services.ending.is_set():
        return _answer_unavailable(("This process is about to end: send requests to another one.",))
    requests_only = request.query_params.get("for") == "requests"
    ready_times = services.ready_at
    reasons: tuple[str, ...] = ()
    if time.monotonic() - ready_times.get(requests_only, float("-inf")) > _READY_CACHE_SECONDS:
        reasons = await _find_problems(services, requests_only=requests_only)
        if not reasons:
            ready_times[requests_only] = time.monotonic()
    if reasons:
        return _answer_unavailable(reasons)
    return _answer_json(200, Readiness("ready", warnings=registry.list_parser_warnings() or UNSET))


async def _find_problems(services: Services, *, requests_only: bool) -> tuple[str, ...]:
    """Return the reasons why the service is not ready."""
    # A check without an answer in time is cancelled and ends by itself.
    check = asyncio.create_task(roles.api_problems(services.db, services.settings, requests_only=requests_only))
    answered, _ = await asyncio.wait({check}, timeout=_PROBE_SECONDS)
    if not answered:
        check.cancel()
        return ("The database does not answer.",)
    try:
        return check.result()
    except UNAVAILABLE_ERRORS:
        return ("The database does not answer.",)


def _answer_unavailable(reasons: tuple[str, ...]) -> Response[bytes]:
    return _answer_json(503, Readiness("unavailable", " ".join(reasons)), {"Retry-After": "2"})


def _answer_json(status: int, content: Health | Readiness, headers: dict[str, str] | None = None) -> Response[bytes]:
    return Response(
        msgspec.json.encode(content), status_code=status, media_type="application/json", headers=headers or {}
    )


ROUTE_HANDLERS = (
    read_activity,
    read_queue,
    list_problems,
    read_metrics,
    health,
    ready,
)
