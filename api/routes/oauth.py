"""The OAuth callback. No API key: the `state` parameter authenticates it."""

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
from api.errors import STATUS
from api.openapi import TEXT, describe_response, documented_open, error_responses, text_parameter
from api.request import ApiRequest
from api.routes.connections import redirect_uri, tell_vendor
from api.services import Services
from connectors import registry
from retrieval import sources
from retrieval.accounts.audit import Entry, Source
from retrieval.connections import connections
from retrieval.connections import tokens as authorizations
from retrieval.connections.connections import Taken
from retrieval.errors import ErrorCode, ServiceError, StepError
from retrieval.namespaces import namespaces
from retrieval.network import redirects
from retrieval.statuses import ConnectionStatus

log = structlog.get_logger()

DECLINED = "The access was declined at the content service."
REFUSED = "The content service did not grant the access. Authorize the connection again."


_RESPONSES = {
    "200": describe_response("A page that says what became of it", ["text/html"]),
    "302": describe_response("To the application", Location=OpenAPIHeader(schema=TEXT, description="Where to go on.")),
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
    operation_class=documented_open(
        _RESPONSES,
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
    parameters = _query(request.scope["query_string"])
    authorization = await _take(services, parameters.get("state", ""), connector)
    outcome = await _settle(services, authorization, connector, parameters)
    services.notices.send()
    await services.audit.write(_entry(request, authorization))
    log.info(
        "connection.callback", connection_id=authorization.connection_id, connector=connector, status=outcome.status
    )
    if authorization.client_redirect_url is None:
        return result_page(outcome.status, done=outcome.done)
    return redirect_to(
        redirects.redirect_target(authorization.client_redirect_url, authorization.connection_id, outcome.status)
    )


@dataclass(frozen=True, slots=True)
class Outcome:
    """The status that the connection has now, and whether this authorization is what it holds."""

    status: str
    done: bool


async def _take(services: Services, state: str, connector: str) -> Taken:
    is_valid = bool(state) and connector in sources.APPS
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


async def _settle(services: Services, authorization: Taken, connector: str, parameters: dict[str, str]) -> Outcome:
    """Exchange the code and store the tokens, or record the reason of the failure."""
    code, scope = parameters.get("code", ""), authorization.scope
    if "error" in parameters or not code:
        reason = DECLINED if parameters.get("error") == "access_denied" else REFUSED
        return Outcome(
            await authorizations.record_refusal(services.db, authorization.connection_id, reason), done=False
        )
    try:
        config = await namespaces.get(services.db, services.ring, scope.organization, scope.namespace)
        authorizer = registry.make_authorizer(
            connector, connections.usable_app(config, connector, services.settings), services.settings
        )
        tokens = await services.in_thread(
            authorizer.exchange_code,
            code,
            redirect_uri=redirect_uri(services, connector),
            verifier=authorization.verifier,
        )
    except (StepError, ServiceError) as error:
        return Outcome(
            await authorizations.record_refusal(services.db, authorization.connection_id, str(error)), done=False
        )
    status = await authorizations.store_grant(services.db, services.ring, authorization.connection_id, tokens)
    if status == ConnectionStatus.REVOKED:
        await tell_vendor(services, scope, connector, tokens)
    return Outcome(status, done=status == ConnectionStatus.ACTIVE)


def _entry(request: ApiRequest, authorization: Taken) -> Entry:
    """Return the authorization's entry in the audit log. It has no key, because the state alone authorizes the
    callback."""
    return Entry(
        organization_id=authorization.scope.organization,
        method="GET",
        route="/v1/oauth/callback/{connector}",
        object_type="connection",
        object_id=authorization.connection_id,
        status=200,
        request_id=request_context.get_context(request.scope).request_id,
        source=Source.API,
    )


def _query(query: bytes) -> dict[str, str]:
    """Return the vendor's parameters; none if it is not a query string. The first of a repeated name counts."""
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100)
    except ValueError:
        return {}
    return dict(reversed(pairs))


_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_RESULTS = {
    "ACTIVE": ("Connected", "The connection is authorized. You can close this window."),
    "FAILED": ("Not connected", "The connection was not authorized. Start again from the application."),
    "REVOKED": ("Revoked", "The connection was revoked in the meantime. Create another one in the application."),
}
_KEPT = ("Not changed", "The new authorization did not succeed. The connection goes on with the one that it has.")
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 32rem; margin: 15vh auto; padding: 0 1.5rem; color: #1c1c1c }}
h1 {{ font-size: 1.5rem }}
</style></head><body><main><h1>{title}</h1><p>{text}</p></main></body></html>
"""


def accepts_html(request: Request[Any, Any, Any]) -> bool:
    """Tell whether a browser sent the request: programs do not accept HTML, and get JSON."""
    return "text/html" in request.headers.get("accept", "").lower()


def result_page(status: str, *, done: bool) -> Response[bytes]:
    """Return the page for the result of an authorization. A connection may outlive a failed new authorization."""
    return _page(*(_RESULTS[status] if done or status != "ACTIVE" else _KEPT))


def error_page(about: ServiceError) -> Response[bytes]:
    return _page("This did not work", about.message, STATUS[about.code], about.headers)


def redirect_to(url: str) -> Response[bytes]:
    """Return a redirect that is not cached, since a cached one would skip this service."""
    headers = {"Location": url, "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}
    return Response(b"", status_code=302, headers=headers, media_type="text/plain")


def _page(title: str, text: str, status: int = 200, headers: dict[str, str] | None = None) -> Response[bytes]:
    return Response(
        _PAGE.format(title=escape(title), text=escape(text)).encode(),
        status_code=status,
        media_type="text/html",
        headers={**_HEADERS, **(headers or {})},
    )


HANDLERS = (oauth_callback,)
