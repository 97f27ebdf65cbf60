"""Error codes with HTTP statuses, and conversion of exceptions into error responses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import structlog
from litestar.exceptions import HTTPException
from msgspec import UNSET
from psycopg.errors import QueryCanceled, ReadOnlySqlTransaction

from api.request_limits import Disconnected
from api.wire.common import ErrorAnswer, ErrorDetails, ErrorInfo, TenantErrorAnswer
from retrieval.database import disk_full
from retrieval.database.database import UNAVAILABLE_ERRORS
from retrieval.errors import ErrorCode, NotEmbedded, ServiceError, StepError

log = structlog.get_logger()

STATUS_BY_CODE: Mapping[ErrorCode, int] = {
    ErrorCode.UNAUTHORIZED: 401,
    ErrorCode.FORBIDDEN: 403,
    ErrorCode.NOT_FOUND: 404,
    ErrorCode.METHOD_NOT_ALLOWED: 405,
    ErrorCode.REQUEST_TIMEOUT: 408,
    ErrorCode.IDEMPOTENCY_CONFLICT: 409,
    ErrorCode.CONFLICT: 409,
    ErrorCode.PAYLOAD_TOO_LARGE: 413,
    ErrorCode.UNSUPPORTED_MEDIA_TYPE: 415,
    ErrorCode.RATE_LIMIT_EXCEEDED: 429,
    ErrorCode.QUOTA_EXCEEDED: 403,
    ErrorCode.INTERNAL_ERROR: 500,
    ErrorCode.SERVICE_UNAVAILABLE: 503,
    ErrorCode.INVALID_REQUEST: 400,
    ErrorCode.NAMESPACE_NOT_FOUND: 404,
    ErrorCode.MISSING_TENANT_ID: 400,
    ErrorCode.INVALID_TENANT_ID: 400,
    ErrorCode.WEB_SCRAPER_CONFIG_NOT_SET: 400,
    ErrorCode.INVALID_INGEST_CONFIG: 400,
    ErrorCode.INVALID_CHUNK_CONFIG: 400,
    ErrorCode.INVALID_SCRAPE_OPTIONS: 400,
    ErrorCode.INGESTION_FAILED: 500,
    ErrorCode.INGEST_JOB_RUN_NOT_FOUND: 404,
    ErrorCode.INVALID_SEARCH_REQUEST: 400,
    ErrorCode.INVALID_HYBRID_CONFIG: 400,
    ErrorCode.SEARCH_FAILED: 500,
    ErrorCode.CONNECTION_NOT_FOUND: 404,
    ErrorCode.CREATE_CONNECTION_FAILED: 500,
    ErrorCode.FETCH_CONNECTIONS_FAILED: 500,
    ErrorCode.WEBHOOK_NOT_FOUND: 404,
    ErrorCode.INVALID_NAMESPACE_CONFIG: 400,
    ErrorCode.STORAGE_CONFIG_ERROR: 400,
    ErrorCode.VECTOR_DB_CONFIG_ERROR: 400,
    ErrorCode.EMBEDDING_CONFIG_ERROR: 400,
    ErrorCode.NAMESPACE_LIMIT_EXCEEDED: 403,
    ErrorCode.DOCUMENTS_NOT_FOUND: 404,
    ErrorCode.INVALID_FILTER_CONFIG: 400,
    ErrorCode.UPDATE_DOCUMENTS_FAILED: 500,
    ErrorCode.DELETE_DOCUMENTS_FAILED: 500,
}
DIFY_PATH = "/v1/compat/dify/"
_NO_LANGUAGE_MODELS = (
    "This service runs no language models: send this request to your model server, and search here by"
    " POST /v1/vector_stores/{id}/search (`vector_stores.search`)."
)
# Remedies by the first path segment below `/v1/`.
UNSUPPORTED_OPENAI_CALLS: Mapping[str, str] = {
    "uploads": "Uploads in parts are not offered: send the whole file to POST /v1/files (`files.create`).",
    "models": "Models are fixed: GET /v1/models lists them (`models.list`).",
    **dict.fromkeys(
        (
            *("assistants", "audio", "batches", "chat", "completions", "containers", "conversations", "embeddings"),
            *("evals", "fine_tuning", "images", "moderations", "realtime", "responses", "threads", "videos"),
        ),
        _NO_LANGUAGE_MODELS,
    ),
}
# OpenAI's clients read `type` and `param` of an error below these segments.
_OPENAI_SEGMENTS = {"vector_stores", "files", *UNSUPPORTED_OPENAI_CALLS}
SCIM_PATH = re.compile(r"/v1/namespaces/[^/]+/scim/")
_OPENAI_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
TENANT_CODES = frozenset({ErrorCode.MISSING_TENANT_ID, ErrorCode.INVALID_TENANT_ID})
_ROUTER_ERRORS = {
    404: (ErrorCode.NOT_FOUND, "There is nothing at this path. GET /openapi.json lists every operation."),
    405: (ErrorCode.METHOD_NOT_ALLOWED, "This path does not take this method. GET /openapi.json lists what it takes."),
    413: (ErrorCode.PAYLOAD_TOO_LARGE, "The request is larger than allowed."),
}
_EXTRA_HEADERS: Mapping[ErrorCode, Mapping[str, str]] = {
    ErrorCode.UNAUTHORIZED: {"WWW-Authenticate": "Bearer"},
    ErrorCode.SERVICE_UNAVAILABLE: {"Retry-After": "2"},
}


@dataclass(frozen=True, slots=True)
class RenderedError:
    """HTTP response of an error."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


def render_error(error: ServiceError, path: str = "", *, has_key: bool = True) -> RenderedError:
    """Return the response of an error in the format of the path's clients."""
    # Tenant errors have their own format.
    answer: ErrorAnswer | TenantErrorAnswer
    if error.code in TENANT_CODES:
        answer = TenantErrorAnswer(error=error.code, message=error.message)
    else:
        answer = ErrorAnswer(message=error.message, error=describe_error(error))
        if path.startswith(DIFY_PATH):
            answer.error_code, answer.error_msg = _dify_code(error.code, has_key=has_key), error.message
        elif _first_segment(path) in _OPENAI_SEGMENTS:
            status = STATUS_BY_CODE[error.code]
            answer.error.type = _OPENAI_TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
            answer.error.param = error.field
        elif SCIM_PATH.match(path):
            answer.schemas = ["urn:ietf:params:scim:api:messages:2.0:Error"]
            answer.status, answer.detail = str(STATUS_BY_CODE[error.code]), error.message
            answer.scim_type = error.reason or UNSET
    headers = {**_EXTRA_HEADERS.get(error.code, {}), **error.headers}
    return RenderedError(STATUS_BY_CODE[error.code], msgspec.json.encode(answer), headers)


def _first_segment(path: str) -> str:
    """Return `files` for `/v1/files/x`."""
    return path.removeprefix("/v1/").partition("/")[0]


def _dify_code(code: ErrorCode, *, has_key: bool) -> int:
    """Return Dify's error number, else the HTTP status."""
    if code is ErrorCode.UNAUTHORIZED:
        return 1002 if has_key else 1001
    if code is ErrorCode.FORBIDDEN:
        return 1002
    return 2001 if code is ErrorCode.NAMESPACE_NOT_FOUND else STATUS_BY_CODE[code]


def describe_error(error: ServiceError) -> ErrorInfo:
    details = ErrorDetails(
        error.reason or error.code.lower(), error.field or msgspec.UNSET, **cast("dict[str, Any]", error.quota)
    )
    return ErrorInfo(error.code, error.message, details)


def to_service_error(
    error: Exception, *, unexpected_code: ErrorCode = ErrorCode.INTERNAL_ERROR, path: str = ""
) -> ServiceError:
    """Convert an exception; unexpected exceptions get `unexpected_code`."""
    if isinstance(error, ServiceError):
        return error
    if (full := disk_full.full_disk_reason(error)) is not None or isinstance(error, UNAVAILABLE_ERRORS):
        log.warning("disk.full" if full else "database.away", error=type(error).__name__, reason=full)
        return unavailable_error(full, error)
    if isinstance(error, StepError):
        log.warning("request.step_failed", error=str(error))
        return (
            _not_embedded_error(error) if isinstance(error, NotEmbedded) else ServiceError(unexpected_code, str(error))
        )
    if isinstance(error, Disconnected):
        return ServiceError(ErrorCode.INVALID_REQUEST, "The request ended before its body was complete.")
    if isinstance(error, HTTPException):
        code, message = _ROUTER_ERRORS.get(
            error.status_code, (ErrorCode.INVALID_REQUEST, "The request is not valid HTTP.")
        )
        if error.status_code in {404, 405}:
            message = UNSUPPORTED_OPENAI_CALLS.get(_first_segment(path), message)
        return ServiceError(code, message, headers=_allow_header(error))
    log.error("request.failed", exc_info=error)
    return ServiceError(
        unexpected_code, "An internal error occurred. Try again; if it persists, report the X-Request-Id."
    )


def _not_embedded_error(error: NotEmbedded) -> ServiceError:
    message = f"{error} Ask in other words, or search by keywords only (keywordWeight 1)."
    return ServiceError(ErrorCode.INVALID_SEARCH_REQUEST, message, field="query", reason="not_embedded")


def unavailable_error(full: str | None = None, error: Exception | None = None) -> ServiceError:
    """Return SERVICE_UNAVAILABLE for a full disk (`full`, its message) or a database error."""
    if full:
        later = {"Retry-After": str(round(disk_full.RETRY_AFTER_SECONDS))}
        return ServiceError(ErrorCode.SERVICE_UNAVAILABLE, full, reason="disk_full", headers=later)
    if isinstance(error, ReadOnlySqlTransaction):
        return ServiceError(ErrorCode.SERVICE_UNAVAILABLE, disk_full.READ_ONLY_MESSAGE, reason="read_only")
    if isinstance(error, QueryCanceled):
        message = "The database could not answer this in time. Ask for less, such as fewer conditions."
        return ServiceError(ErrorCode.SERVICE_UNAVAILABLE, message, reason="took_too_long")
    return ServiceError(
        ErrorCode.SERVICE_UNAVAILABLE, "The service cannot reach its database right now. Try again in a moment."
    )


def group_by_status(*codes: ErrorCode) -> dict[int, list[ErrorCode]]:
    by_status: dict[int, list[ErrorCode]] = {}
    for code in codes:
        by_status.setdefault(STATUS_BY_CODE[code], []).append(code)
    return dict(sorted(by_status.items()))


def _allow_header(error: HTTPException) -> dict[str, str]:
    """Return the Allow header with sorted methods, without the router's OPTIONS."""
    header = next((value for name, value in (error.headers or {}).items() if name.lower() == "allow"), "")
    methods = sorted({method.strip() for method in header.split(",")} - {"", "OPTIONS"})
    return {"Allow": ", ".join(methods)} if methods else {}
