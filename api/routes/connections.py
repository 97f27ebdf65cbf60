"""Connections: create, list, read, change and re-authorize, revoke."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import Any

import structlog

from api.openapi import EXAMPLE, TenantUse
from api.operation import Call, operation
from api.services import Services
from api.wire.common import Identified
from api.wire.connections import (
    BrowseConnection,
    BrowsedAnswer,
    BrowsedData,
    BrowsedEntry,
    Chosen,
    Connection,
    ConnectionAnswer,
    ConnectionCreatedAnswer,
    ConnectionData,
    ConnectionDocuments,
    ConnectionQuery,
    ConnectionRevokedAnswer,
    ConnectionsAnswer,
    ConnectionsData,
    ConnectionsQuery,
    ConnectionUpdatedAnswer,
    CreateConnection,
    CreatedConnectionData,
    Fate,
    Permissions,
    RevokeConnection,
    RevokedConnectionData,
    RevokedDocuments,
    UpdateConnection,
    UpdatedConnectionData,
)
from connectors import registry
from retrieval.connections import browsing, connections, oauth_states
from retrieval.connections.browsing import Shown
from retrieval.connections.oauth_states import Start
from retrieval.connections.tokens import ConnectionTokens
from retrieval.documents import connection_documents
from retrieval.errors import ErrorCode, ServiceError, StepError
from retrieval.namespaces import namespaces
from retrieval.network import redirects
from retrieval.ports import Scope, Tokens
from retrieval.sources import slug
from retrieval.statuses import ConnectionStatus

log = structlog.get_logger()

REVOKE_SECONDS = 5.0
"""How long the vendor is given to hear that an authorization has ended."""
BROWSE_SECONDS = 20.0
"""How long a content service is given to show a folder."""
RELEASE_SECONDS = 10.0
"""How long a revocation is waited for to let go of documents; the sweep does what is left."""

_operation = partial(operation, tag="Connections", invalid=ErrorCode.INVALID_REQUEST)
_MISSING = (ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.CONNECTION_NOT_FOUND)
_ONE = "/v1/connections/{connection_id:str}"
_NAMESPACE = {"namespaceId": "ns_06gzpnn6z30k9qdmrw54faz30gfpw60mq5r0"}


@_operation(
    "POST",
    "/v1/connections",
    tenant=TenantUse.MADE,
    failed=ErrorCode.CREATE_CONNECTION_FAILED,
    raises=(ErrorCode.NAMESPACE_NOT_FOUND,),
    creates=True,
    example={
        **_NAMESPACE,
        "name": "Team drive",
        "connector": EXAMPLE,
        "clientRedirectUrl": "https://app.example.com/connected",
    },
)
async def create_connection(call: Call[CreateConnection, None]) -> ConnectionCreatedAnswer | bytes:
    """Create a connection. PENDING until a person visits the authorizationUrl, which is good for ten minutes."""
    body, services = call.body, call.services
    scope, redirect = call.scope(body.namespace_id), body.client_redirect_url or None
    _check_redirect(services, redirect)
    start = await _start(services, scope, body.connector, body.permissions)

    async def create() -> ConnectionCreatedAnswer:
        connection_id = await connections.create(
            services.db,
            scope,
            start,
            name=body.name,
            connector=body.connector,
            client_redirect_url=redirect,
            sync_minutes=body.sync_interval_minutes,
            permissions=body.permissions,
        )
        await call.make_tenant_known()
        return ConnectionCreatedAnswer(
            message="Connection created successfully",
            data=CreatedConnectionData(Identified(connection_id), start.url),
        )

    return await call.once(create)


@_operation(
    "GET", "/v1/connections", failed=ErrorCode.FETCH_CONNECTIONS_FAILED, raises=(ErrorCode.NAMESPACE_NOT_FOUND,)
)
async def list_connections(call: Call[None, ConnectionsQuery]) -> ConnectionsAnswer:
    """List connections. All of the namespace and tenant, newest first; in parts with `pageSize`."""
    services, scope = call.services, call.scope(call.query.namespace_id)
    await namespaces.require(services.db, scope.organization, scope.namespace)
    part = await call.part(call.query.part(), scope.namespace)
    page = await connections.list_part(services.db, services.ring, scope, call.query.connector, part)
    data = ConnectionsData(connections=[Connection.of(connection) for connection in page.items]).lead_on(
        part, await call.cursor(page.cursor, scope.namespace)
    )
    return ConnectionsAnswer(message="Connections fetched successfully", data=data)


@_operation("GET", _ONE, failed=ErrorCode.FETCH_CONNECTIONS_FAILED, raises=(ErrorCode.CONNECTION_NOT_FOUND,))
async def get_connection(call: Call[None, ConnectionQuery]) -> ConnectionAnswer:
    """Get a connection. Tokens are masked; `credentials` is null before the authorization and after the revocation."""
    services, bound, namespace_id = call.services, call.caller.namespace, call.query.namespace_id
    if bound is not None and namespace_id not in {None, bound}:
        raise connections.connection_not_found()
    connection = await connections.get(
        services.db,
        services.ring,
        call.caller.organization,
        call.tenant,
        call.path["connection_id"],
        namespace=namespace_id or bound,
    )
    count = await connection_documents.count(services.db, connection.id)
    newest = await browsing.newest(services.db, connection)
    chosen = Chosen.of(newest, named="documents:read" in call.caller.scopes)
    data = ConnectionData(Connection.of(connection), ConnectionDocuments(count.own, count.shared), chosen)
    return ConnectionAnswer(message="Connection fetched successfully", data=data)


@_operation("PATCH", _ONE, raises=_MISSING, example={**_NAMESPACE, "name": "Team drive, finance"})
async def update_connection(call: Call[UpdateConnection, None]) -> ConnectionUpdatedAnswer:
    """Change or re-authorize a connection.

    The authorizationUrl re-authorizes, or changes the selected pages. A REVOKED connection stays so.
    """
    services, change = call.services, call.body.to_values()
    scope, connection_id = await _place(call)
    _check_redirect(services, change.client_redirect_url)
    stored = await connections.find(services.db, services.ring, scope, connection_id)
    if stored.status == ConnectionStatus.REVOKED:
        raise connections.is_revoked()
    start = await _start(services, scope, stored.connector, change.permissions or stored.permissions)
    changed = await connections.change(services.db, services.ring, scope, connection_id, change, start)
    return ConnectionUpdatedAnswer(
        message="Connection updated successfully",
        data=UpdatedConnectionData(start.url, Connection.of(changed)),
    )


@_operation("POST", _ONE + "/revoke", raises=_MISSING, example={**_NAMESPACE, "documents": "KEEP"})
async def revoke_connection(call: Call[RevokeConnection, None]) -> ConnectionRevokedAnswer:
    """Revoke a connection.

    Final: deletes the tokens, and revokes them at vendors that offer it. Repeating it changes nothing.
    """
    services, keep = call.services, call.body.documents is Fate.KEEP
    scope, connection_id = await _place(call)
    revoked = await connections.revoke(services.db, services.ring, scope, connection_id, keep=keep)
    if revoked.tokens is not None:
        await tell_vendor(services, scope, revoked.connection.connector, revoked.tokens)
    if revoked.documents.own or revoked.documents.shared:
        release = partial(connection_documents.release, services.db, connection_id, keep=keep, seconds=RELEASE_SECONDS)
        await services.in_thread(release)
    own_count = revoked.documents.own
    counts = RevokedDocuments(
        kept=own_count if keep else 0, deleted=0 if keep else own_count, shared=revoked.documents.shared
    )
    return ConnectionRevokedAnswer(
        message="Connection revoked successfully",
        data=RevokedConnectionData(Connection.of(revoked.connection), counts),
    )


@_operation("POST", _ONE + "/browse", raises=(*_MISSING, ErrorCode.NOT_FOUND), example=_NAMESPACE)
async def browse_connection(call: Call[BrowseConnection, None]) -> BrowsedAnswer:
    """Browse what a connection gives access to.

    One folder of the account, as the service shows it now; nothing is ingested.
    """
    services, parent = call.services, call.body.parent_id
    scope, connection_id = await _place(call)
    stored = await connections.find(services.db, services.ring, scope, connection_id)
    browsing.require_active(stored)
    position = await call.place(call.body.cursor, scope.namespace)
    config = await namespaces.get(services.db, services.ring, scope.organization, scope.namespace)
    app = connections.usable_app(config, stored.connector, services.settings)
    newest = await browsing.newest(services.db, stored)
    chosen = None if newest is None else newest.choice
    pages: list[tuple[list[Shown], str | None]] = []

    def ask() -> None:
        connector = registry.make_connector(stored.connector, app, services.settings)
        tokens = ConnectionTokens(services.db, services.ring, stored.id, connector.authorizer)
        pages.append(browsing.level(tokens, connector, parent, position, chosen))

    try:
        async with asyncio.timeout(BROWSE_SECONDS):
            await services.browsing.run(ask)
    except TimeoutError as error:
        message = f"{registry.connector_infos()[stored.connector].title} has not answered in time: try again."
        late = {"Retry-After": "5"}
        raise ServiceError(ErrorCode.SERVICE_UNAVAILABLE, message, reason="vendor", headers=late) from error
    entries_shown, following = pages[0]
    entries = [BrowsedEntry.of(entry) for entry in entries_shown]
    cursor = await call.cursor(following, scope.namespace)
    return BrowsedAnswer(message="Folder listed successfully", data=BrowsedData(entries, cursor is not None, cursor))


HANDLERS = (
    create_connection,
    list_connections,
    get_connection,
    update_connection,
    browse_connection,
    revoke_connection,
)


async def tell_vendor(services: Services, scope: Scope, connector: str, tokens: Tokens) -> None:
    """Revoke the authorization at the vendor too. Errors are logged and do not stop the revocation."""
    try:
        config = await namespaces.get(services.db, services.ring, scope.organization, scope.namespace)
        authorizer = registry.make_authorizer(
            connector, connections.usable_app(config, connector, services.settings), services.settings
        )
        async with asyncio.timeout(REVOKE_SECONDS):
            await services.in_thread(authorizer.revoke, tokens)
    except (StepError, ServiceError, TimeoutError) as error:
        log.warning("connection.not_revoked_at_vendor", connector=connector, error=str(error) or "timeout")


def redirect_uri(services: Services, connector: str) -> str:
    """Return the URL that the vendor redirects the browser to; apps are registered with it. Microsoft refuses
    127.0.0.1."""
    base = services.settings.base_url
    if registry.connector_infos()[connector].localhost:
        base = re.sub("^http://127\\.0\\.0\\.1(?=[:/]|$)", "http://localhost", base)
    return f"{base}/v1/oauth/callback/{slug(connector)}"


async def _start(services: Services, scope: Scope, connector: str, permissions: str) -> Start:
    config = await namespaces.get(services.db, services.ring, scope.organization, scope.namespace)
    app, sharing = connections.app(config, connector), permissions == Permissions.SOURCE
    authorizer = registry.make_authorizer(connector, app, services.settings, sharing=sharing)
    return oauth_states.begin(services.ring, connector, authorizer, redirect_uri(services, connector))


async def _place(call: Call[Any, None]) -> tuple[Scope, str]:
    """Return the scope that the body names, once its namespace exists, and the id of the path."""
    scope = call.scope(call.body.namespace_id)
    await namespaces.require(call.services.db, scope.organization, scope.namespace)
    return scope, call.path["connection_id"]


def _check_redirect(services: Services, url: str | None) -> None:
    if url is not None:
        redirects.check(url, services.settings.redirect_hosts)
