"""Error codes and their HTTP statuses, and the conversion of exceptions into error responses."""

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

STATUS: Mapping[ErrorCode, int] = {
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
DIFY = "/v1/compat/dify/"
_NO_LANGUAGE_MODELS = (
    "This service runs no language models: send this request to your model server, and search here by"
    " POST /v1/vector_stores/{id}/search (`vector_stores.search`)."
)
NOT_OFFERED: Mapping[str, str] = {
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
"""Remedies for OpenAI's calls that are not offered, by the first segment of their path below `/v1/`."""
_OPENAI = {"vector_stores", "files", *NOT_OFFERED}
"""First segments of the paths of OpenAI's clients, which read `type` and `param` of an error."""
SCIM = re.compile(r"/v1/namespaces/[^/]+/scim/")
_OPENAI_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
TENANT_CODES = frozenset({ErrorCode.MISSING_TENANT_ID, ErrorCode.INVALID_TENANT_ID})
_BY_STATUS = {
    404: (ErrorCode.NOT_FOUND, "There is nothing at this path. GET /openapi.json lists every operation."),
    405: (ErrorCode.METHOD_NOT_ALLOWED, "This path does not take this method. GET /openapi.json lists what it takes."),
    413: (ErrorCode.PAYLOAD_TOO_LARGE, "The request is larger than allowed."),
}
_EXTRA_HEADERS: Mapping[ErrorCode, Mapping[str, str]] = {
    ErrorCode.UNAUTHORIZED: {"WWW-Authenticate": "Bearer"},
    ErrorCode.SERVICE_UNAVAILABLE: {"Retry-After": "2"},
}


@dataclass(frozen=True, slots=True)
class Rendered:
    """An error as it goes over the wire."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


def render_error(error: ServiceError, path: str = "", *, has_key: bool = True) -> Rendered:
    """Return the response of an error. The two tenant errors have a shape of their own. Below paths for clients of
    other services, the fields that those clients read are added. has_key: whether a bearer key was sent."""
    answer: ErrorAnswer | TenantErrorAnswer
    if error.code in TENANT_CODES:
        answer = TenantErrorAnswer(error=error.code, message=error.message)
    else:
        answer = ErrorAnswer(message=error.message, error=describe_error(error))
        if path.startswith(DIFY):
            answer.error_code, answer.error_msg = _of_dify(error.code, has_key=has_key), error.message
        elif _first_segment(path) in _OPENAI:
            status = STATUS[error.code]
            answer.error.type = _OPENAI_TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
            answer.error.param = error.field
        elif SCIM.match(path):
            answer.schemas = ["urn:ietf:params:scim:api:messages:2.0:Error"]
            answer.status, answer.detail = str(STATUS[error.code]), error.message
            answer.scim_type = error.reason or UNSET
    headers = {**_EXTRA_HEADERS.get(error.code, {}), **error.headers}
    return Rendered(STATUS[error.code], msgspec.json.encode(answer), headers)


def _first_segment(path: str) -> str:
    """Return `files` of `/v1/files/x`."""
    return path.removeprefix("/v1/").partition("/")[0]


def _of_dify(code: ErrorCode, *, has_key: bool) -> int:
    """The number that Dify gives to it; the HTTP status where it gives none."""
    if code is ErrorCode.UNAUTHORIZED:
        return 1002 if has_key else 1001
    if code is ErrorCode.FORBIDDEN:
        return 1002
    return 2001 if code is ErrorCode.NAMESPACE_NOT_FOUND else STATUS[code]


def describe_error(error: ServiceError) -> ErrorInfo:
    """Code, message and details of an error."""
    details = ErrorDetails(
        error.reason or error.code.lower(), error.field or msgspec.UNSET, **cast("dict[str, Any]", error.quota)
    )
    return ErrorInfo(error.code, error.message, details)


def to_service_error(error: Exception, *, failed: ErrorCode = ErrorCode.INTERNAL_ERROR, path: str = "") -> ServiceError:
    """Return the error for clients. `failed`: the area's code for unexpected exceptions; `path`: of the request."""
    if isinstance(error, ServiceError):
        return error
    if (full := disk_full.full_disk_reason(error)) is not None or isinstance(error, UNAVAILABLE_ERRORS):
        log.warning("disk.full" if full else "database.away", error=type(error).__name__, reason=full)
        return unavailable_error(full, error)
    if isinstance(error, StepError):
        log.warning("request.step_failed", error=str(error))
        return _not_embedded(error) if isinstance(error, NotEmbedded) else ServiceError(failed, str(error))
    if isinstance(error, Disconnected):
        return ServiceError(ErrorCode.INVALID_REQUEST, "The request ended before its body was complete.")
    if isinstance(error, HTTPException):
        code, message = _BY_STATUS.get(error.status_code, (ErrorCode.INVALID_REQUEST, "The request is not valid HTTP."))
        if error.status_code in {404, 405}:
            message = NOT_OFFERED.get(_first_segment(path), message)
        return ServiceError(code, message, headers=_allow(error))
    log.error("request.failed", exc_info=error)
    return ServiceError(failed, "An internal error occurred. Try again; if it persists, report the X-Request-Id.")


def _not_embedded(error: NotEmbedded) -> ServiceError:
    message = f"{error} Ask in other words, or search by keywords only (keywordWeight 1)."
    return ServiceError(ErrorCode.INVALID_SEARCH_REQUEST, message, field="query", reason="not_embedded")


def unavailable_error(full: str | None = None, error: Exception | None = None) -> ServiceError:
    """Return SERVICE_UNAVAILABLE: the database is away, read-only or too slow (by `error`), or a disk is full (`full`,
    in words)."""
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
    """Codes by status, for the documentation of an operation."""
    by_status: dict[int, list[ErrorCode]] = {}
    for code in codes:
        by_status.setdefault(STATUS[code], []).append(code)
    return dict(sorted(by_status.items()))


def _allow(error: HTTPException) -> dict[str, str]:
    """Return the header Allow with the path's methods, sorted. OPTIONS, which the router adds, is left out."""
    header = next((value for name, value in (error.headers or {}).items() if name.lower() == "allow"), "")
    methods = sorted({method.strip() for method in header.split(",")} - {"", "OPTIONS"})
    return {"Allow": ", ".join(methods)} if methods else {}
