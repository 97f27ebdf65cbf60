"""OAuth callback, authorized by its `state` parameter."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any
from urllib.parse import parse_qsl

import structlog
from litestar import Request, Response, get
from litestar.openapi.spec import OpenAPIHeader
from litestar.params import FromPath

from api import request_context
from api.errors import STATUS_BY_CODE
from api.openapi import TEXT_SCHEMA, describe_response, error_responses, public_operation_class, text_parameter
from api.request import ApiRequest
from api.routes.connections import redirect_uri, revoke_at_vendor
from api.services import Services
from connectors import registry
from retrieval import sources
from retrieval.accounts.audit import AuditEntry, Source
from retrieval.connections import connections
from retrieval.connections import tokens as authorizations
from retrieval.connections.connections import ConsumedState
from retrieval.errors import ErrorCode, ServiceError, StepError
from retrieval.namespaces import namespaces
from retrieval.network import service_urls
from retrieval.statuses import ConnectionStatus

log = structlog.get_logger()

DECLINED_REASON = "The access was declined at the content service."
REFUSED_REASON = "The content service did not grant the access. Authorize the connection again."


_CALLBACK_RESPONSES = {
    "200": describe_response("A page that says what became of it", ["text/html"]),
    "302": describe_response(
        "To the application", Location=OpenAPIHeader(schema=TEXT_SCHEMA, description="Where to go on.")
    ),
    **error_responses(
        (
            ErrorCode.INVALID_REQUEST,
            ErrorCode.RATE_LIMIT_EXCEEDED,
            ErrorCode.INTERNAL_ERROR,
            ErrorCode.SERVICE_UNAVAILABLE,
        ),
        pages=True,
    ),
}


@get(
    "/v1/oauth/callback/{connector:str}",
    opt={"page": True},
    operation_class=public_operation_class(
        _CALLBACK_RESPONSES,
        text_parameter("state", "What the service gave the content service to send back."),
        text_parameter("code", "What the content service gives in exchange for tokens."),
        text_parameter("error", "Why the content service refused."),
    ),
    operation_id="oauthCallback",
    tags=["Connections"],
    summary="Finish an authorization",
)
async def oauth_callback(request: ApiRequest, connector: FromPath[str]) -> Response[bytes]:
    """Handle the vendor's redirect. Redirects to clientRedirectUrl with connectionId and status, or shows a page."""
    services = request.services
    connector = connector.upper().replace("-", "_")
    parameters = _read_query(request.scope["query_string"])
    authorization = await _take_authorization(services, parameters.get("state", ""), connector)
    outcome = await _store_authorization(services, authorization, connector, parameters)
    services.notices.send()
    await services.audit.write(_audit_entry(request, authorization))
    log.info(
        "connection.callback", connection_id=authorization.connection_id, connector=connector, status=outcome.status
    )
    if authorization.client_redirect_url is None:
        return result_page(outcome.status, done=outcome.done)
    return redirect_to(
        service_urls.add_outcome(authorization.client_redirect_url, authorization.connection_id, outcome.status)
    )


@dataclass(frozen=True, slots=True)
class AuthorizationOutcome:
    """Status of the connection, and success of this authorization."""

    status: str
    done: bool


async def _take_authorization(services: Services, state: str, connector: str) -> ConsumedState:
    is_valid = bool(state) and connector in sources.CONNECTED_SOURCES
    authorization = await connections.take_state(services.db, services.ring, state, connector) if is_valid else None
    if authorization is None:
        raise ServiceError(
            ErrorCode.INVALID_REQUEST,
            "This authorization link is not valid: it was used already, is older than ten minutes, or never was."
            " Start again from the application.",
            field="state",
            reason="invalid_state",
        )
    return authorization


async def _store_authorization(
    services: Services, authorization: ConsumedState, connector: str, parameters: dict[str, str]
) -> AuthorizationOutcome:
    """Exchange the code and store the tokens, or record the failure."""
    code, scope = parameters.get("code", ""), authorization.scope
    if "error" in parameters or not code:
        reason = DECLINED_REASON if parameters.get("error") == "access_denied" else REFUSED_REASON
        return AuthorizationOutcome(
            await authorizations.record_refusal(services.db, authorization.connection_id, reason), done=False
        )
    try:
        config = await namespaces.get_namespace(services.db, services.ring, scope.organization, scope.namespace)
        authorizer = registry.make_authorizer(
            connector,
            connections.get_usable_app(config, connector, services.settings),
            services.settings,
            access_token=authorization.access_token,
        )
        tokens = await services.run_in_thread(
            authorizer.exchange_code,
            code,
            redirect_uri=redirect_uri(services, connector),
            verifier=authorization.verifier,
        )
    except (StepError, ServiceError) as error:
        return AuthorizationOutcome(
            await authorizations.record_refusal(services.db, authorization.connection_id, str(error)), done=False
        )
    status = await authorizations.store_grant(services.db, services.ring, authorization.connection_id, tokens)
    if status == ConnectionStatus.REVOKED:
        await revoke_at_vendor(services, scope, connector, tokens)
    return AuthorizationOutcome(status, done=status == ConnectionStatus.ACTIVE)


def _audit_entry(request: ApiRequest, authorization: ConsumedState) -> AuditEntry:
    """Return the audit entry of the authorization."""
    # No key: the state authorizes the callback.
    return AuditEntry(
        organization_id=authorization.scope.organization,
        method="GET",
        route="/v1/oauth/callback/{connector}",
        object_type="connection",
        object_id=authorization.connection_id,
        status=200,
        request_id=request_context.get_context(request.scope).request_id,
        source=Source.API,
    )


def _read_query(query: bytes) -> dict[str, str]:
    """Return the vendor's parameters, the first of repeated names; none for an invalid query."""
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100)
    except ValueError:
        return {}
    return dict(reversed(pairs))


_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_RESULT_TEXTS = {
    "ACTIVE": ("Connected", "The connection is authorized. You can close this window."),
    "FAILED": ("Not connected", "The connection was not authorized. Start again from the application."),
    "REVOKED": ("Revoked", "The connection was revoked in the meantime. Create another one in the application."),
}
_UNCHANGED_TEXT = (
    "Not changed",
    "The new authorization did not succeed. The connection goes on with the one that it has.",
)
_PAGE_TEMPLATE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 32rem; margin: 15vh auto; padding: 0 1.5rem; color: #1c1c1c }}
h1 {{ font-size: 1.5rem }}
</style></head><body><main><h1>{title}</h1><p>{text}</p></main></body></html>
"""


def accepts_html(request: Request[Any, Any, Any]) -> bool:
    """Return whether a browser sent the request."""
    return "text/html" in request.headers.get("accept", "").lower()


def result_page(status: str, *, done: bool) -> Response[bytes]:
    """Return the page for the outcome of an authorization."""
    # A connection may stay active after a failed new authorization.
    return _render_page(*(_RESULT_TEXTS[status] if done or status != "ACTIVE" else _UNCHANGED_TEXT))


def error_page(about: ServiceError) -> Response[bytes]:
    return _render_page("This did not work", about.message, STATUS_BY_CODE[about.code], about.headers)


def redirect_to(url: str) -> Response[bytes]:
    """Return an uncached redirect."""
    # A cached redirect would skip this service.
    headers = {"Location": url, "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}
    return Response(b"", status_code=302, headers=headers, media_type="text/plain")


def _render_page(title: str, text: str, status: int = 200, headers: dict[str, str] | None = None) -> Response[bytes]:
    return Response(
        _PAGE_TEMPLATE.format(title=escape(title), text=escape(text)).encode(),
        status_code=status,
        media_type="text/html",
        headers={**_PAGE_HEADERS, **(headers or {})},
    )


ROUTE_HANDLERS = (oauth_callback,)
