"""Ingestion requests of this service itself, accepted by the API's operations within the process."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, cast

import msgspec
from litestar import Litestar, Request, Response
from litestar.datastructures import State
from litestar.types import HTTPScope

from api import auth, request_context
from api.audit import AuditLog
from api.errors import render_error, to_service_error
from api.in_process import run_request
from api.request import ApiRequest
from api.request_context import RequestContext
from api.routes import ingest, ingest_sources
from api.services import make_services
from api.wire.ingest import IngestAnswer
from retrieval import origin, write_details
from retrieval.accounts.audit import Source
from retrieval.accounts.idempotency import IDEMPOTENCY_HEADER
from retrieval.accounts.queries import tenants
from retrieval.database.database import Database
from retrieval.errors import ErrorCode, ServiceError
from retrieval.namespaces import namespaces
from retrieval.origin import Origin
from retrieval.security.secrets import KeyRing
from retrieval.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """Ingestion request of a schedule or webhook of this service."""

    sender: Source
    path: str  # last segment of the operation's path, such as `website`
    body: Mapping[str, Any]
    organization: str
    tenant: str | None
    key: str  # the Idempotency-Key
    on_accepted: Callable[[str], Awaitable[None]]  # runs in the transaction of the acceptance


async def accept_submission(settings: Settings, db: Database, ring: KeyRing, submission: Submission) -> str:
    """Accept a request with the API's checks, quotas and audit entry; return the job run's id or raise ServiceError."""
    services = make_services(settings, db, ring)
    scope, context = await _build_request(db, submission)
    content = msgspec.json.encode(submission.body)
    app = Litestar(
        route_handlers=[*ingest.ROUTE_HANDLERS, *ingest_sources.ROUTE_HANDLERS],
        exception_handlers={Exception: _render_error},
        request_class=ApiRequest,
        state=State({"services": services}),
        openapi_config=None,
        logging_config=None,
        request_max_body_size=None,
    )
    origin.set_origin(Origin(context.request_id, organization=submission.organization))
    context.status, answer = await run_request(app, scope, content)
    await AuditLog(services.audit).record_write(scope, context, answer)
    if context.status != HTTPStatus.OK:
        raise _refusal(msgspec.json.decode(answer))
    return msgspec.json.decode(answer, type=IngestAnswer).data.ingest_job_run_id


async def _build_request(db: Database, submission: Submission) -> tuple[HTTPScope, RequestContext]:
    own_id = "req_" + secrets.token_hex(12)
    context = RequestContext(submission.key, own_id, write_details.begin_details(), source=submission.sender)
    tenant = submission.tenant
    sent_tenant = None if tenant is None else tenant if tenants.is_tenant_id(tenant) else ""
    name = submission.sender.value.capitalize()
    context.caller = await auth.find_service_caller(db, name, submission.organization, sent_tenant)
    if context.caller is None:
        raise namespaces.not_found()

    async def follow_up(answer: IngestAnswer) -> None:
        await submission.on_accepted(answer.data.ingest_job_run_id)

    context.follow_up = follow_up
    path = f"/v1/ingest/{submission.path}"
    key_header = IDEMPOTENCY_HEADER.lower().encode()
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "scheme": "http",
        "server": None,
        "client": None,
        "root_path": "",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"content-type", b"application/json"), (key_header, submission.key.encode())],
        "extensions": {},
    }
    request_context.attach_context(cast("HTTPScope", scope), context)
    return cast("HTTPScope", scope), context


def _render_error(_: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    rendered = render_error(to_service_error(error, unexpected_code=ErrorCode.INGESTION_FAILED))
    return Response(rendered.body, status_code=rendered.status, media_type="application/json")


def _refusal(answer: Mapping[str, Any]) -> ServiceError:
    error = answer["error"]
    code = error if isinstance(error, str) else error["code"]
    return ServiceError(ErrorCode(code), answer["message"])
