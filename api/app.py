"""ASGI application of the API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import psycopg
from litestar import Litestar, Request, Response
from litestar.datastructures import State

from api import request_context
from api.access_log import AccessLog, RequestCounts
from api.audit import AuditLog
from api.auth import Authenticator
from api.cors import CrossOrigin
from api.errors import to_service_error
from api.links import ServerSecret
from api.mcp_hosts import McpHosts
from api.middleware import RequestMiddleware, render_for_path
from api.oidc.issuer_keys import IssuerKeys
from api.oidc.roles import Roles
from api.oidc.tokens import TokenRules, TokenVerifier
from api.request import ApiRequest, Operation
from api.routes import (
    admin,
    connections,
    conversion,
    docs,
    document_parts,
    documents,
    evaluations,
    files,
    groups,
    hidden_passages,
    ingest,
    ingest_sources,
    mcp,
    models,
    namespaces,
    oauth,
    operations,
    push,
    runs,
    schedules,
    scim,
    search,
    vector_store_files,
    vector_stores,
    webhooks,
)
from api.server import announce_on_sigterm
from api.services import make_services
from retrieval import tracing
from retrieval.database.database import Database
from retrieval.errors import ErrorCode
from retrieval.metrics import catalog, counts
from retrieval.security.secrets import KeyRing
from retrieval.settings import Settings

ROUTE_MODULES = (
    namespaces,
    ingest,
    conversion,
    ingest_sources,
    runs,
    schedules,
    scim,
    search,
    vector_stores,
    vector_store_files,
    files,
    models,
    evaluations,
    documents,
    document_parts,
    hidden_passages,
    groups,
    connections,
    oauth,
    push,
    webhooks,
    admin,
    operations,
    mcp,
    docs,
)
# A killed process loses the counts of this time.
COUNT_WRITE_SECONDS = 1.0
ROUTE_HANDLERS = tuple(handler for routes in ROUTE_MODULES for handler in routes.ROUTE_HANDLERS)


def create_app(settings: Settings, database: Database, ring: KeyRing) -> RequestMiddleware:
    """Create the application; raise WrongSetting for defaults of namespaces that no request could send."""
    namespaces.check_defaults(settings)
    # The database is opened on the first request, so the API starts during an outage.
    authenticator = Authenticator(database, ring, _make_verifier(settings), Roles(settings.oidc_roles))
    access_log = AccessLog(settings.log_format) if settings.log_level in {"debug", "info"} else None
    services = make_services(settings, database, ring)

    @asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncIterator[None]:
        background = [
            asyncio.create_task(services.times.write_periodically()),
            asyncio.create_task(services.weak_searches.write_periodically()),
            asyncio.create_task(_keep_counts(database, middleware.counts)),
            asyncio.create_task(_make_secrets(services.cursor_secret, services.receipt_secret)),
        ]
        announce_on_sigterm(services.ending, settings.drain_seconds)
        yield
        for task in background:
            task.cancel()
        await services.times.write_counts()
        await services.weak_searches.write_pending()
        await _write_counts(database, middleware.counts)
        await authenticator.close()
        if access_log is not None:
            access_log.write_lines()
        await database.async_close()
        database.close()
        services.threads.shutdown(wait=False, cancel_futures=True)
        services.reranking.shutdown(wait=False, cancel_futures=True)
        services.vendor_threads.shutdown(wait=False, cancel_futures=True)
        services.figure_threads.shutdown(wait=False, cancel_futures=True)
        services.drawings.close()
        services.conversions.close()
        services.recognitions.close()
        await asyncio.to_thread(tracing.end_tracing)

    router = Litestar(
        route_handlers=ROUTE_HANDLERS,
        exception_handlers={Exception: _answer_exception},
        lifespan=[lifespan],
        request_class=ApiRequest,
        state=State({"services": services}),
        openapi_config=docs.openapi_config(),
        logging_config=None,
        request_max_body_size=None,
        debug=False,
    )
    middleware = RequestMiddleware(
        router,
        authenticator,
        settings.trusted_proxies,
        access_log,
        AuditLog(services.audit),
        tracing.make_tracer("api"),
        mcp_hosts=McpHosts.from_settings(settings),
        cross_origin=CrossOrigin(settings.cors_origins) if settings.cors_origins else None,
    )
    return middleware


def _make_verifier(settings: Settings) -> TokenVerifier | None:
    """Return the verifier of the identity provider's tokens; None without a provider."""
    if settings.oidc_issuer is None:
        return None
    rules = TokenRules(
        settings.oidc_issuer,
        settings.oidc_audiences,
        frozenset(settings.oidc_clients),
        settings.oidc_client_id,
        settings.oidc_principal_claim,
        settings.oidc_groups_claim,
    )
    keys = IssuerKeys(settings.oidc_issuer, settings.oidc_discovery_url, settings.oidc_ca_bundle)
    return TokenVerifier(rules, keys)


async def _make_secrets(*secrets: ServerSecret) -> None:
    """Create secrets at start-up."""
    # A read-only database would refuse them on first use.
    for secret in secrets:
        with suppress(psycopg.Error):
            await secret.load()


async def _keep_counts(database: Database, requests: RequestCounts) -> None:
    """Write this process's counts until cancelled."""
    while True:
        await asyncio.sleep(COUNT_WRITE_SECONDS)
        await _write_counts(database, requests)


async def _write_counts(database: Database, requests: RequestCounts) -> None:
    requests.add_to_metrics()
    if waits := database.pool_waits():
        counts.add_count(catalog.POOL_WAITS, by=waits)
    await counts.async_write_counts(database)


def _answer_exception(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Convert an exception of the router or a handler into a response."""
    handler = request.scope.get("route_handler")
    about: Operation | None = handler.opt.get("operation") if handler else None
    failed = about.failed if about else ErrorCode.INTERNAL_ERROR
    understood = to_service_error(error, unexpected_code=failed, path=request.scope["path"])
    request_context.get_context(request.scope).code = understood.code
    if handler and "page" in handler.opt and oauth.accepts_html(request):
        return oauth.error_page(understood)
    response = render_for_path(request.scope, understood)
    return Response(
        response.body, status_code=response.status, media_type="application/json", headers=dict(response.headers)
    )
