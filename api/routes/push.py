"""Hints of content services at the push addresses of connections, authorized by the services' signatures."""

from __future__ import annotations

import asyncio
import time
from functools import partial

import structlog
from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from api import request_limits
from api.openapi import describe_response, error_responses, public_operation_class, text_parameter
from api.operation import operation
from api.request import ApiRequest
from api.services import Services
from api.wire import push as wire
from api.wire.common import ObjectReference
from connectors import registry
from retrieval.connections import connections, push_subscriptions, push_vendors, pushes, queries_push
from retrieval.connections.push_vendors import PushRequest
from retrieval.connections.queries_push import PushRow
from retrieval.errors import ErrorCode
from retrieval.namespaces import namespaces
from retrieval.ports import Connector, Scope
from retrieval.sources import APP_CONFIGS

log = structlog.get_logger()

# Services retry a failed delivery; a person cannot shorten it.
MAX_PUSH_BYTES = 1024 * 1024
# Longest wait for a service to end a subscription.
UNSUBSCRIBE_SECONDS = 5.0
_PATH = "/v1/push/{push_id:str}"
_ERRORS = (
    ErrorCode.NOT_FOUND,
    ErrorCode.RATE_LIMIT_EXCEEDED,
    ErrorCode.INTERNAL_ERROR,
    ErrorCode.SERVICE_UNAVAILABLE,
)
_RESPONSES = {
    "200": describe_response("Empty, or the challenge of the service", ["text/plain"]),
    **error_responses((*_ERRORS, ErrorCode.UNAUTHORIZED, ErrorCode.PAYLOAD_TOO_LARGE, ErrorCode.REQUEST_TIMEOUT)),
}
_CHALLENGE_RESPONSES = {
    "200": describe_response("The challenge of the service", ["text/plain"]),
    **error_responses(_ERRORS),
}

_operation = partial(
    operation,
    tag="Connections",
    invalid=ErrorCode.INVALID_REQUEST,
    raises=(ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.CONNECTION_NOT_FOUND),
)
_CONNECTION_PUSH_PATH = "/v1/connections/{connection_id:str}/push"


@_operation("POST", _CONNECTION_PUSH_PATH, example={"namespaceId": "ns_06gzpnn6z30k9qdmrw54faz30gfpw60mq5r0"})
async def turn_push_on(
    request: ApiRequest, connection_id: FromPath[str], data: JSONBody[wire.TurnPushOn]
) -> wire.PushAnswer:
    """Turn push on.

    The content service then announces changes at the address in the answer, and an ingestion starts within seconds. A
    repetition keeps the address and replaces the secret.
    """
    services, scope = request.services, request.scope_of(data.namespace_id)
    config = await namespaces.get_namespace(services.db, services.ring, scope.organization, scope.namespace)
    stored = await connections.find_connection(services.db, services.ring, scope, connection_id)
    app = config.connectors.get(APP_CONFIGS.get(stored.connector, "")) or {}
    push = await pushes.turn_on(
        services.db,
        services.ring,
        scope,
        connection_id,
        connector=stored.connector,
        secret=data.secret,
        app_secret=app.get("clientSecret") or "",
    )
    return wire.PushAnswer(
        message="Push turned on successfully",
        data=wire.PushData(wire.Push.from_row(push.row, services.settings.base_url), push.secret),
    )


@_operation("DELETE", _CONNECTION_PUSH_PATH)
async def turn_push_off(
    request: ApiRequest, connection_id: FromPath[str], params: NamedDependency[wire.PushQuery]
) -> wire.PushDeletedAnswer:
    """Turn push off.

    Its address answers 404 from then on, and a subscription at the service is ended. Repeating it has no effect.
    """
    services, scope = request.services, request.scope_of(params.namespace_id)
    await namespaces.require_namespace(services.db, scope.organization, scope.namespace)
    await connections.find_connection(services.db, services.ring, scope, connection_id)
    await end_subscription(services, scope, connection_id)
    await pushes.turn_off(services.db, connection_id)
    return wire.PushDeletedAnswer(message="Push turned off successfully", data=ObjectReference(connection_id))


async def end_subscription(services: Services, scope: Scope, connection_id: str) -> None:
    """End the subscription of a push at its service; log errors."""
    push = await queries_push.get_push(services.db, connection_id)
    if push is None or push.subscription is None:
        return
    config = await namespaces.get_namespace(services.db, services.ring, scope.organization, scope.namespace)

    def open_connector(row: PushRow) -> Connector:
        app = connections.get_usable_app(config, row.connector, services.settings)
        return registry.make_connector(row.connector, app, services.settings)

    try:
        async with asyncio.timeout(UNSUBSCRIBE_SECONDS):
            await services.run_in_thread(
                push_subscriptions.end_subscription, services.db, services.ring, push, open_connector
            )
    except TimeoutError:
        log.warning("push.not_unsubscribed", connector=push.connector, reason="timeout")


@post(
    _PATH,
    status_code=200,
    operation_class=public_operation_class(
        _RESPONSES, text_parameter("validationToken", "What Microsoft Graph expects as the answer; without a body.")
    ),
    operation_id="receivePush",
    tags=["Connections"],
    summary="Receive a hint of a content service",
)
async def receive_push(request: ApiRequest, push_id: FromPath[str]) -> Response[bytes]:
    """Check the signature, and synchronize the connection soon. The body is no content; only a hint."""
    services, headers = request.services, list(request.scope["headers"])
    seconds = services.settings.body_seconds
    chunks = [
        chunk
        async for chunk in request_limits.read_chunks(request.receive, headers, cap=MAX_PUSH_BYTES, seconds=seconds)
    ]
    # A repeated header counts as none: two readers could take different ones.
    names = [name for name, _ in headers]
    single = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers if names.count(name) == 1}
    validation_token = request.query_params.get("validationToken")
    hint = PushRequest(single, b"".join(chunks), time.time(), validation_token)
    answer = await pushes.receive(services.db, services.ring, push_id, hint)
    if answer.is_hint:
        services.notices.send()
    return Response(answer.content.encode(), media_type="text/plain")


@get(
    _PATH,
    operation_class=public_operation_class(
        _CHALLENGE_RESPONSES, text_parameter("challenge", "What the service expects as the answer.")
    ),
    operation_id="answerPushChallenge",
    tags=["Connections"],
    summary="Answer the challenge of a content service",
)
async def answer_challenge(request: ApiRequest, push_id: FromPath[str]) -> Response[bytes]:
    """Return the challenge of Dropbox, by which it checks an address."""
    challenge = request.query_params.get("challenge")
    await pushes.require_challenge(request.services.db, push_id)
    if challenge is None or len(challenge) > push_vendors.MAX_CHALLENGE_LENGTH:
        raise pushes.not_found()
    return Response(challenge.encode(), media_type="text/plain")


ROUTE_HANDLERS = (turn_push_on, turn_push_off, receive_push, answer_challenge)
