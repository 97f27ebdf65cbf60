"""Problems of the installation and of a namespace, by severity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from urllib.parse import quote

from api.flow_runs import build_prefect_url
from api.request import ApiRequest
from api.services import Services
from api.wire.common import Timestamp
from api.wire.filters import FilterConfig
from api.wire.problems import SEVERITIES, Problem
from connectors import registry
from retrieval.connections import connections, schedules
from retrieval.database.pagination import PageRequest
from retrieval.documents import documents, hidden_passages
from retrieval.jobs.levers import Lever
from retrieval.namespaces import namespaces
from retrieval.ports import Scope
from retrieval.readiness import supervised, work
from retrieval.readiness.dispatch import REQUIRED_LOOPS
from retrieval.readiness.work import OrganizationQueue
from retrieval.settings import Settings
from retrieval.statuses import ConnectionStatus, DocumentStatus
from retrieval.webhooks import endpoints

# Newest connections, schedules and webhooks that are examined.
MAX_EXAMINED = 50
RESTART_REMEDY = "It starts by itself; accepted work then goes on."


async def list_service_problems(services: Services, queue: OrganizationQueue) -> list[Problem]:
    """List the problems of the installation, most severe first."""
    storage_reasons, restart = await services.storage.list_problems(), supervised.find_restart(services.settings.home)
    listed = [
        *(Problem(severity="blocked", kind="STORAGE", cause=reason) for reason in storage_reasons),
        *_list_dispatch_problems(services.settings, queue, restart),
        *(
            Problem(
                severity="failing",
                kind="NOT_ANSWERING",
                cause=f"{breaker.name} does not answer: {breaker.reason}",
                remedy="It is tried again by itself; more workers do not help.",
                since=Timestamp.from_optional(breaker.since),
                count=breaker.job_runs,
            )
            for breaker in queue.breakers
        ),
        *(Problem(severity="info", kind="MACHINE", cause=text) for text in registry.list_parser_warnings()),
    ]
    return sort_problems(listed)


def sort_problems(problems: Sequence[Problem]) -> list[Problem]:
    return sorted(problems, key=lambda problem: SEVERITIES.index(problem.severity))


def _list_dispatch_problems(settings: Settings, queue: OrganizationQueue, restart: str | None) -> Iterator[Problem]:
    dispatch, since = queue.dispatch, Timestamp.from_optional(queue.oldest)
    is_restarting = restart is not None and not queue.workers
    if is_restarting:
        yield Problem(severity="blocked", kind="WORKER", cause=str(restart), remedy=RESTART_REMEDY, since=since)
    for lever in dispatch.levers:
        # Prefect misses a worker only after a while, and its restart is reported above.
        if lever.batch is None and not (is_restarting and lever.effect.startswith("No worker ")):
            cause, _, remedy = lever.effect.partition(": ")
            yield Problem(
                severity="blocked" if lever.blocks_all else "info" if lever.delays else "failing",
                kind="PREFECT",
                cause=cause.removesuffix(".") + ".",
                remedy=(remedy[:1].upper() + remedy[1:]) or None,
                since=since if lever.blocks_all else None,
                link=_link_prefect(settings, lever),
            )
    late = [loop for loop in dispatch.late if loop.name in REQUIRED_LOOPS]
    for loop in dispatch.late:
        yield Problem(
            severity="blocked" if loop in late else "failing",
            kind="DISPATCHER",
            cause=str(loop),
            remedy="Its log has the reason: `retrieval status` names the file.",
        )
    # Waiting work is an effect of the problems above.
    if not (dispatch.is_held or late or is_restarting):
        for reason in dispatch.reasons:
            yield Problem(severity="blocked", kind="DISPATCHER", cause=reason, since=since)
    if queue.queued and not (queue.workers or dispatch.loops or dispatch.reasons or dispatch.is_held):
        cause, remedy = "No worker and no dispatcher is connected.", "Start them with `retrieval up`."
        yield Problem(severity="blocked", kind="WORKER", cause=cause, remedy=remedy, since=since)


async def list_namespace_problems(request: ApiRequest, scope: Scope) -> list[Problem]:
    """List the problems of a namespace that the key may read, most severe first."""
    db, scopes, page_request = request.services.db, request.caller.scopes, PageRequest(MAX_EXAMINED, None)
    listed: list[Problem] = []
    if "connections:read" in scopes:
        page = await connections.list_page(db, request.services.ring, scope, None, page_request)
        health = await connections.read_health(db, page.items)
        for connection in page.items:
            state, is_failed = health[connection.id], connection.status == ConnectionStatus.FAILED
            if is_failed or (connection.status == ConnectionStatus.ACTIVE and state.state == "FAILING"):
                listed.append(
                    Problem(
                        severity="failing",
                        kind="CONNECTION",
                        cause=f"The connection “{connection.name}” fails: {state.reason}",
                        remedy="Authorize it again." if is_failed else None,
                        since=Timestamp.from_optional(state.failures_since),
                        object_id=connection.id,
                    )
                )
    rows = (await schedules.list_page(db, scope.organization, scope.tenant, scope.namespace, page_request)).items
    listed += [
        Problem(
            severity="failing",
            kind="SCHEDULE",
            cause=f"The schedule of {row.subject or row.source} fails: {row.health.reason}",
            since=Timestamp.from_optional(row.health.failures_since),
            object_id=row.id,
        )
        for row in rows
        # The connection of a schedule has its own problem.
        if row.health.state == "FAILING" and not row.paused and row.connection_id is None
    ]
    if "documents:read" in scopes:
        listed += await _list_document_problems(request, scope)
    return sort_problems([*listed, *await _list_failing_webhooks(request, page_request)])


async def _list_document_problems(request: ApiRequest, scope: Scope) -> list[Problem]:
    db = request.services.db
    failed = FilterConfig(document_ingestion_statuses=[DocumentStatus.FAILED]).to_values()
    awaiting = FilterConfig(awaiting_removal=True).to_values()
    counts = [
        sum((await documents.count_documents(db, scope, values, viewer=None)).by_status.values())
        for values in (failed, awaiting)
    ]
    problems = (
        Problem(
            severity="attention",
            kind="FAILED_DOCUMENTS",
            cause=f"Documents that failed: {counts[0]:,}.",
            count=counts[0],
        ),
        Problem(
            severity="attention",
            kind="REMOVALS",
            cause=f"Documents that were deleted at their source and wait for a confirmation: {counts[1]:,}.",
            count=counts[1],
        ),
    )
    unmatched = await hidden_passages.count_unmatched(db, scope)
    hidden = Problem(
        severity="attention",
        kind="HIDDEN_PASSAGES",
        cause=f"Documents whose new version does not have a passage that was hidden: {unmatched:,}.",
        remedy="Hide the passage that replaced it, or remove the entry.",
        count=unmatched,
    )
    return [problem for problem in (*problems, hidden) if problem.count]


async def _list_failing_webhooks(request: ApiRequest, page_request: PageRequest) -> list[Problem]:
    caller = request.caller
    if "webhooks:read" not in caller.scopes or caller.tenant_header is not None:
        return []
    webhook_scope = endpoints.WebhookScope(caller.organization, caller.namespace, request.tenant or None)
    return [
        Problem(
            severity="failing",
            kind="WEBHOOK",
            cause=f"The webhook {hook.url} fails: {hook.health.reason}",
            since=Timestamp.from_optional(hook.failures_since),
            object_id=hook.id,
        )
        for hook in (await endpoints.list_webhooks(request.services.db, webhook_scope, page_request)).items
        if hook.status == "ACTIVE" and hook.health.state == "FAILING"
    ]


def _link_prefect(settings: Settings, lever: Lever) -> str | None:
    if lever.source is not None:
        return build_prefect_url(settings, "deployments")
    return build_prefect_url(settings, f"work-pools/work-pool/{quote(settings.work_pool, safe='')}")


async def read_problems(request: ApiRequest, namespace_id: str | None) -> list[Problem]:
    """List the problems of the installation, and of a namespace if given."""
    queue = await work.read_queue(request.services.db, request.caller.organization)
    if request.bound_access is not None:
        # A bound key learns nothing about sites and waiting job runs of other namespaces and tenants.
        queue = replace(queue, breakers=(), oldest=None)
    listed = await list_service_problems(request.services, queue)
    if namespace_id is not None:
        scope = request.scope_of(namespace_id)
        await namespaces.require_namespace(request.services.db, scope.organization, scope.namespace)
        listed += await list_namespace_problems(request, scope)
    return sort_problems(listed)
