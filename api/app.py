"""Creates the ASGI application from settings, database and keys."""

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
from api.mcp_hosts import Hosts
from api.middleware import RequestMiddleware, rendered_error
from api.oidc.issuer_keys import IssuerKeys
from api.oidc.roles import Roles
from api.oidc.tokens import TokenRules, Verifier
from api.request import ApiRequest, Operation
from api.routes import (
    admin,
    connections,
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

ROUTES = (
    namespaces,
    ingest,
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
    webhooks,
    admin,
    operations,
    mcp,
    docs,
)
COUNT_SECONDS = 1.0
"""What a process that is killed may not have told of its counts."""
HANDLERS = tuple(handler for routes in ROUTES for handler in routes.HANDLERS)


def create_app(settings: Settings, database: Database, ring: KeyRing) -> RequestMiddleware:
    """The application. It opens the database on the first request, so it starts while the database is away."""
    authenticator = Authenticator(database, ring, _tokens(settings), Roles(settings.oidc_roles))
    access = AccessLog(settings.log_format) if settings.log_level in {"debug", "info"} else None
    services = make_services(settings, database, ring)

    @asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncIterator[None]:
        background = [
            asyncio.create_task(services.times.write_periodically()),
            asyncio.create_task(services.weak_searches.write_periodically()),
            asyncio.create_task(_keep_counts(database, served.counts)),
            asyncio.create_task(_make_secrets(services.cursor_secret, services.receipt_secret)),
        ]
        announce_on_sigterm(services.ending, settings.drain_seconds)
        yield
        for task in background:
            task.cancel()
        await services.times.write_counts()
        await services.weak_searches.write_pending()
        await _write_counts(database, served.counts)
        await authenticator.close()
        if access is not None:
            access.write()
        await database.async_close()
        database.close()
        services.threads.shutdown(wait=False, cancel_futures=True)
        services.reranking.shutdown(wait=False, cancel_futures=True)
        services.asking.shutdown(wait=False, cancel_futures=True)
        services.counting.shutdown(wait=False, cancel_futures=True)
        services.drawings.close()
        services.conversions.close()
        await asyncio.to_thread(tracing.end_tracing)

    router = Litestar(
        route_handlers=HANDLERS,
        exception_handlers={Exception: _on_error},
        lifespan=[lifespan],
        request_class=ApiRequest,
        state=State({"services": services}),
        openapi_config=docs.openapi_config(),
        logging_config=None,
        request_max_body_size=None,
        debug=False,
    )
    served = RequestMiddleware(
        router,
        authenticator,
        settings.trusted_proxies,
        access,
        AuditLog(services.audit),
        tracing.make_tracer("api"),
        mcp_hosts=Hosts.of(settings),
        cross_origin=CrossOrigin(settings.cors_origins) if settings.cors_origins else None,
    )
    return served


def _tokens(settings: Settings) -> Verifier | None:
    """Return the verifier of the identity provider's tokens, or None if no provider is set."""
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
    return Verifier(rules, keys)


async def _make_secrets(*secrets: ServerSecret) -> None:
    """Make what reads would otherwise make on first use: a database that takes no writes then would refuse them."""
    for secret in secrets:
        with suppress(psycopg.Error):
            await secret.read()


async def _keep_counts(database: Database, requests: RequestCounts) -> None:
    """Write what this process has counted, until cancelled."""
    while True:
        await asyncio.sleep(COUNT_SECONDS)
        await _write_counts(database, requests)


async def _write_counts(database: Database, requests: RequestCounts) -> None:
    requests.pass_on()
    if waits := database.pool_waits():
        counts.add_count(catalog.POOL_WAITS, by=waits)
    await counts.async_write(database)


def _on_error(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Every exception of the router and of a handler becomes an answer here."""
    handler = request.scope.get("route_handler")
    about: Operation | None = handler.opt.get("operation") if handler else None
    failed = about.failed if about else ErrorCode.INTERNAL_ERROR
    understood = to_service_error(error, failed=failed, path=request.scope["path"])
    request_context.get_context(request.scope).code = understood.code
    if handler and "page" in handler.opt and oauth.accepts_html(request):
        return oauth.error_page(understood)
    response = rendered_error(request.scope, understood)
    return Response(
        response.body, status_code=response.status, media_type="application/json", headers=dict(response.headers)
    )
