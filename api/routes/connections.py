"""Operations on connections."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import Any

import msgspec
import structlog
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from msgspec import UNSET

from api.openapi import CONNECTOR_EXAMPLE
from api.operation import idempotent, operation
from api.request import ApiRequest, TenantUse
from api.routes.push import end_subscription
from api.services import Services
from api.wire import browsing as account_folders
from api.wire import connections as wire
from api.wire.common import ObjectReference
from api.wire.health import ResourceHealth
from api.wire.push import Push
from api.wire.source_address import SourceAddress
from connectors import registry
from retrieval.connections import browsing, connections, queries_push
from retrieval.connections.browsing import SelectableEntry
from retrieval.connections.connections import AuthorizationStart
from retrieval.connections.tokens import ConnectionTokens
from retrieval.documents.queries import connection_documents
from retrieval.errors import ErrorCode, Fatal, ServiceError, StepError
from retrieval.namespaces import namespaces
from retrieval.network import service_urls
from retrieval.ports import Scope, Tokens
from retrieval.sources import CREDENTIAL_SOURCES, ORGANIZATION_SOURCES, source_slug
from retrieval.statuses import ConnectionStatus

log = structlog.get_logger()

# Longest wait for the vendor to revoke an authorization.
REVOKE_SECONDS = 5.0
# Longest wait for a content service to list a folder.
BROWSE_SECONDS = 20.0
# The sweep releases the documents that remain after this time.
RELEASE_SECONDS = 10.0

_operation = partial(operation, tag="Connections", invalid=ErrorCode.INVALID_REQUEST)
_NOT_FOUND_CODES = (ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.CONNECTION_NOT_FOUND)
_CONNECTION_PATH = "/v1/connections/{connection_id:str}"
_NAMESPACE_EXAMPLE = {"namespaceId": "ns_06gzpnn6z30k9qdmrw54faz30gfpw60mq5r0"}


async def begin_authorization(
    request: ApiRequest, data: JSONBody[wire.CreateConnection]
) -> AuthorizationStart | Tokens:
    """Return the authorization to visit, or the tokens of a `config`; raise INVALID_REQUEST for an invalid redirect or
    config."""
    scope = request.scope_of(data.namespace_id)
    if (tokens := await _read_config(request, data.connector, data.config)) is not None:
        _check_permissions(data.connector, data.permissions)
        await namespaces.require_namespace(request.services.db, scope.organization, scope.namespace)
        if not tokens.by_person:
            return tokens
    _check_redirect(request.services, data.client_redirect_url or None)
    return await _begin_authorization(request.services, scope, data.connector, data.permissions, tokens)


@_operation(
    "POST",
    "/v1/connections",
    tenant=TenantUse.ANY,
    failed=ErrorCode.CREATE_CONNECTION_FAILED,
    raises=(ErrorCode.NAMESPACE_NOT_FOUND,),
    dependencies={"start": begin_authorization},
    example={
        **_NAMESPACE_EXAMPLE,
        "name": "Team drive",
        "connector": CONNECTOR_EXAMPLE,
        "clientRedirectUrl": "https://app.example.com/connected",
    },
)
@idempotent
async def create_connection(
    request: ApiRequest, data: JSONBody[wire.CreateConnection], start: NamedDependency[Any]
) -> wire.ConnectionCreatedAnswer:
    """Create a connection.

    It is PENDING until a person visits the authorizationUrl, which is valid for ten minutes. Connectors without
    an app of the namespace, such as OBJECTS or GITHUB, take a `config`, and are ACTIVE at once with the credentials of
    a service.
    """
    connection_id = await connections.add_connection(
        request.services.db,
        request.scope_of(data.namespace_id),
        request.services.ring,
        start,
        name=data.name,
        connector=data.connector,
        client_redirect_url=data.client_redirect_url or None,
        sync_minutes=data.sync_interval_minutes,
        permissions=data.permissions,
    )
    await request.save_tenant()
    url = start.url if isinstance(start, AuthorizationStart) else None
    return wire.ConnectionCreatedAnswer(
        message="Connection created successfully", data=wire.CreatedConnectionData(ObjectReference(connection_id), url)
    )


@_operation(
    "GET", "/v1/connections", failed=ErrorCode.FETCH_CONNECTIONS_FAILED, raises=(ErrorCode.NAMESPACE_NOT_FOUND,)
)
async def list_connections(
    request: ApiRequest, params: NamedDependency[wire.ConnectionsQuery]
) -> wire.ConnectionsAnswer:
    """List connections. Newest first. With `pageSize` the list is paginated."""
    services, scope = request.services, request.scope_of(params.namespace_id)
    await namespaces.require_namespace(services.db, scope.organization, scope.namespace)
    page_request = await request.read_page(params.to_page(), scope.namespace)
    page = await connections.list_page(services.db, services.ring, scope, params.connector, page_request)
    health = await connections.read_health(services.db, page.items)
    items = [
        wire.Connection.from_connection(connection, ResourceHealth.from_health(health[connection.id]))
        for connection in page.items
    ]
    data = wire.ConnectionsData(connections=items).set_page(
        page_request, await request.write_cursor(page.cursor, scope.namespace)
    )
    return wire.ConnectionsAnswer(message="Connections fetched successfully", data=data)


@_operation(
    "GET", _CONNECTION_PATH, failed=ErrorCode.FETCH_CONNECTIONS_FAILED, raises=(ErrorCode.CONNECTION_NOT_FOUND,)
)
async def get_connection(
    request: ApiRequest, connection_id: FromPath[str], params: NamedDependency[wire.ConnectionQuery]
) -> wire.ConnectionAnswer:
    """Get a connection. Tokens are masked; `credentials` is null before the authorization and after the revocation."""
    services, bound, namespace_id = request.services, request.caller.namespace, params.namespace_id
    if bound is not None and namespace_id not in {None, bound}:
        raise connections.connection_not_found()
    connection = await connections.get_connection(
        services.db,
        services.ring,
        request.caller.organization,
        request.tenant,
        connection_id,
        namespace=namespace_id or bound,
    )
    count = await connection_documents.count_connection_documents(services.db, connection.id)
    newest = await browsing.read_newest_request(services.db, connection)
    chosen = wire.Selection.from_newest(newest, shows_access="documents:read" in request.caller.scopes)
    health = await connections.read_health(services.db, [connection])
    push = await queries_push.get_push(services.db, connection.id)
    data = wire.ConnectionData(
        wire.Connection.from_connection(connection, ResourceHealth.from_health(health[connection.id])),
        wire.ConnectionDocuments(count.own, count.shared),
        chosen,
        UNSET if push is None else Push.from_row(push, services.settings.base_url),
    )
    return wire.ConnectionAnswer(message="Connection fetched successfully", data=data)


@_operation(
    "PATCH", _CONNECTION_PATH, raises=_NOT_FOUND_CODES, example={**_NAMESPACE_EXAMPLE, "name": "Team drive, finance"}
)
async def update_connection(
    request: ApiRequest, connection_id: FromPath[str], data: JSONBody[wire.UpdateConnection]
) -> wire.ConnectionUpdatedAnswer:
    """Change or re-authorize a connection.

    The authorizationUrl re-authorizes the connection or changes the selected pages. A REVOKED connection cannot be
    changed.
    """
    services, change = request.services, data.to_change()
    scope = await _require_scope(request, data.namespace_id)
    _check_redirect(services, change.client_redirect_url)
    stored = await connections.find_connection(services.db, services.ring, scope, connection_id)
    if stored.status == ConnectionStatus.REVOKED:
        raise connections.revoked_error()
    tokens: Tokens | None = None
    if data.config is not None:
        tokens = await _read_config(request, stored.connector, data.config, allowed=stored.has_config)
    start: AuthorizationStart | Tokens | None = tokens
    if stored.has_config:
        _check_permissions(stored.connector, change.permissions or stored.permissions)
        tokens = tokens or stored.tokens
    if not stored.has_config or (tokens is not None and tokens.by_person):
        permissions = change.permissions or stored.permissions
        start = await _begin_authorization(services, scope, stored.connector, permissions, tokens)
    changed = await connections.change_connection(services.db, services.ring, scope, connection_id, change, start)
    return wire.ConnectionUpdatedAnswer(
        message="Connection updated successfully",
        data=wire.UpdatedConnectionData(
            start.url if isinstance(start, AuthorizationStart) else None, wire.Connection.from_connection(changed)
        ),
    )


@_operation(
    "POST", _CONNECTION_PATH + "/revoke", raises=_NOT_FOUND_CODES, example={**_NAMESPACE_EXAMPLE, "documents": "KEEP"}
)
async def revoke_connection(
    request: ApiRequest, connection_id: FromPath[str], data: JSONBody[wire.RevokeConnection]
) -> wire.ConnectionRevokedAnswer:
    """Revoke a connection.

    Deletes the tokens, and revokes them at the vendor if possible. This is final. Repeating it has no effect.
    """
    services, keep = request.services, data.documents is wire.RevokedDocumentsAction.KEEP
    scope = await _require_scope(request, data.namespace_id)
    await connections.find_connection(services.db, services.ring, scope, connection_id)
    await end_subscription(services, scope, connection_id)
    revoked = await connections.revoke_connection(services.db, services.ring, scope, connection_id, keep_documents=keep)
    if revoked.tokens is not None:
        await revoke_at_vendor(services, scope, revoked.connection.connector, revoked.tokens)
    if revoked.documents.own or revoked.documents.shared:
        release = partial(
            connection_documents.release_documents, services.db, connection_id, keep=keep, seconds=RELEASE_SECONDS
        )
        await services.run_in_thread(release)
    own_count = revoked.documents.own
    counts = wire.RevokedDocuments(
        kept=own_count if keep else 0, deleted=0 if keep else own_count, shared=revoked.documents.shared
    )
    return wire.ConnectionRevokedAnswer(
        message="Connection revoked successfully",
        data=wire.RevokedConnectionData(wire.Connection.from_connection(revoked.connection), counts),
    )


@_operation(
    "POST", _CONNECTION_PATH + "/browse", raises=(*_NOT_FOUND_CODES, ErrorCode.NOT_FOUND), example=_NAMESPACE_EXAMPLE
)
async def browse_connection(
    request: ApiRequest, connection_id: FromPath[str], data: JSONBody[account_folders.BrowseConnection]
) -> account_folders.BrowsedAnswer:
    """Browse the account of a connection.

    Lists one folder of the account. Nothing is ingested.
    """
    services, parent = request.services, data.parent_id
    scope = await _require_scope(request, data.namespace_id)
    stored = await connections.find_connection(services.db, services.ring, scope, connection_id)
    browsing.require_active(stored)
    position = await request.read_cursor(data.cursor, scope.namespace)
    config = await namespaces.get_namespace(services.db, services.ring, scope.organization, scope.namespace)
    app = connections.get_usable_app(config, stored.connector, services.settings)
    newest = await browsing.read_newest_request(services.db, stored)
    chosen = None if newest is None else newest.choice
    pages: list[tuple[list[SelectableEntry], str | None]] = []

    def list_folder() -> None:
        connector = registry.make_connector(
            stored.connector, app, registry.narrow_settings(services.settings, scope.organization)
        )
        tokens = ConnectionTokens(services.db, services.ring, stored.id, connector.authorizer)
        pages.append(browsing.list_folder(tokens, connector, parent, position, chosen))

    try:
        async with asyncio.timeout(BROWSE_SECONDS):
            await services.browsing.run_call(request.caller.organization, list_folder)
    except TimeoutError as error:
        message = f"{registry.load_source_infos()[stored.connector].title} has not answered in time: try again."
        late = {"Retry-After": "5"}
        raise ServiceError(ErrorCode.SERVICE_UNAVAILABLE, message, reason="vendor", headers=late) from error
    entries_shown, following = pages[0]
    entries = [account_folders.BrowsedEntry.from_browsed(entry) for entry in entries_shown]
    cursor = await request.write_cursor(following, scope.namespace)
    return account_folders.BrowsedAnswer(
        message="Folder listed successfully", data=account_folders.BrowsedData(entries, cursor is not None, cursor)
    )


ROUTE_HANDLERS = (
    create_connection,
    list_connections,
    get_connection,
    update_connection,
    browse_connection,
    revoke_connection,
)


async def revoke_at_vendor(services: Services, scope: Scope, connector: str, tokens: Tokens) -> None:
    """Revoke the authorization at the vendor; log errors."""
    try:
        config = await namespaces.get_namespace(services.db, services.ring, scope.organization, scope.namespace)
        authorizer = registry.make_authorizer(
            connector, connections.get_usable_app(config, connector, services.settings), services.settings
        )
        async with asyncio.timeout(REVOKE_SECONDS):
            await services.run_in_thread(authorizer.revoke, tokens)
    except (StepError, ServiceError, TimeoutError) as error:
        log.warning("connection.not_revoked_at_vendor", connector=connector, error=str(error) or "timeout")


def redirect_uri(services: Services, connector: str) -> str:
    """Return the URL registered for the vendor's redirect."""
    # Microsoft refuses 127.0.0.1.
    base = services.settings.base_url
    if registry.load_source_infos()[connector].localhost:
        base = re.sub("^http://127\\.0\\.0\\.1(?=[:/]|$)", "http://localhost", base)
    return f"{base}/v1/oauth/callback/{source_slug(connector)}"


async def _begin_authorization(
    services: Services, scope: Scope, connector: str, permissions: str, tokens: Tokens | None = None
) -> AuthorizationStart:
    """Begin the authorization of a connection, with the `tokens` of a config."""
    config = await namespaces.get_namespace(services.db, services.ring, scope.organization, scope.namespace)
    app = connections.get_app(config, connector) if tokens is None else {}
    sharing, access_token = permissions == wire.PermissionMode.SOURCE, tokens.access_token if tokens else ""
    authorizer = registry.make_authorizer(connector, app, services.settings, sharing=sharing, access_token=access_token)
    uri = redirect_uri(services, connector)
    try:
        return connections.begin_authorization(services.ring, connector, authorizer, uri, tokens)
    except Fatal as error:  # the operator's app was removed
        raise ServiceError(ErrorCode.INVALID_REQUEST, str(error), field="connector", reason="app_not_set") from error


async def _read_config(
    request: ApiRequest, connector: str, config: SourceAddress | None, *, allowed: bool = True
) -> Tokens | None:
    """Return the tokens of a config; None for a connector with an app. Raise INVALID_REQUEST."""
    is_allowed = allowed and connector in {*CREDENTIAL_SOURCES, *ORGANIZATION_SOURCES}
    if config is None and connector not in CREDENTIAL_SOURCES:
        return None
    if config is None or not is_allowed:
        problem = f"is needed by {connector}" if config is None else f"is not for {connector}: authorize it instead"
        raise _config_error("config", problem)
    settings = registry.narrow_settings(request.services.settings, request.caller.organization)
    try:
        return await request.services.run_in_thread(
            registry.read_config, connector, msgspec.to_builtins(config), settings
        )
    except ValueError as error:
        name, problem = error.args
        raise _config_error(f"config.{name}", problem) from None


def _config_error(field: str, problem: str) -> ServiceError:
    return ServiceError(ErrorCode.INVALID_REQUEST, f"{field} {problem}.", field=field, reason="invalid_config")


def _check_permissions(connector: str, permissions: str) -> None:
    can_read = connector in ORGANIZATION_SOURCES or registry.load_source_infos()[connector].shares
    if permissions == wire.PermissionMode.SOURCE and not can_read:
        message = "permissions cannot be SOURCE: this connector does not read access lists."
        raise ServiceError(ErrorCode.INVALID_REQUEST, message, field="permissions", reason="not_supported")


async def _require_scope(request: ApiRequest, namespace_id: str) -> Scope:
    """Return the scope in a namespace; raise NAMESPACE_NOT_FOUND."""
    scope = request.scope_of(namespace_id)
    await namespaces.require_namespace(request.services.db, scope.organization, scope.namespace)
    return scope


def _check_redirect(services: Services, url: str | None) -> None:
    if url is not None:
        service_urls.require_client_redirect(url, services.settings.redirect_hosts)
