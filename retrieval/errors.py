"""Errors: codes for API clients, and outcomes of pipeline steps.

ServiceError            error response of the API, with a code of the contract
StepError
├── Retryable          retry, after `after` seconds if the service requested a delay
│    └── Unavailable   open circuit breaker: job runs wait outside of the workers
├── Fatal              stop the run: later documents would fail, too
└── Skippable          skip this document and continue
     ├── ItemMissing   the source has no such item
     └── NotEmbedded   the model cannot embed some of the texts
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class ErrorCode(StrEnum):
    """Codes of error responses; `api.errors.STATUS_BY_CODE` maps them to HTTP statuses."""

    # Any route
    UNAUTHORIZED = "UNAUTHORIZED"
    FORBIDDEN = "FORBIDDEN"
    NOT_FOUND = "NOT_FOUND"
    METHOD_NOT_ALLOWED = "METHOD_NOT_ALLOWED"
    CONFLICT = "CONFLICT"
    REQUEST_TIMEOUT = "REQUEST_TIMEOUT"
    IDEMPOTENCY_CONFLICT = "IDEMPOTENCY_CONFLICT"
    PAYLOAD_TOO_LARGE = "PAYLOAD_TOO_LARGE"
    UNSUPPORTED_MEDIA_TYPE = "UNSUPPORTED_MEDIA_TYPE"
    RATE_LIMIT_EXCEEDED = "RATE_LIMIT_EXCEEDED"
    QUOTA_EXCEEDED = "QUOTA_EXCEEDED"
    INTERNAL_ERROR = "INTERNAL_ERROR"
    SERVICE_UNAVAILABLE = "SERVICE_UNAVAILABLE"
    INVALID_REQUEST = "INVALID_REQUEST"
    NAMESPACE_NOT_FOUND = "NAMESPACE_NOT_FOUND"
    # Tenants; these two have a body of their own
    MISSING_TENANT_ID = "missing_tenant_id"
    INVALID_TENANT_ID = "invalid_tenant_id"
    # Ingestion
    WEB_SCRAPER_CONFIG_NOT_SET = "WEB_SCRAPER_CONFIG_NOT_SET"
    INVALID_INGEST_CONFIG = "INVALID_INGEST_CONFIG"
    INVALID_CHUNK_CONFIG = "INVALID_CHUNK_CONFIG"
    INVALID_SCRAPE_OPTIONS = "INVALID_SCRAPE_OPTIONS"
    INGESTION_FAILED = "INGESTION_FAILED"
    INGEST_JOB_RUN_NOT_FOUND = "INGEST_JOB_RUN_NOT_FOUND"
    # Search
    INVALID_SEARCH_REQUEST = "INVALID_SEARCH_REQUEST"
    INVALID_HYBRID_CONFIG = "INVALID_HYBRID_CONFIG"
    SEARCH_FAILED = "SEARCH_FAILED"
    # Connections
    CONNECTION_NOT_FOUND = "CONNECTION_NOT_FOUND"
    CREATE_CONNECTION_FAILED = "CREATE_CONNECTION_FAILED"
    FETCH_CONNECTIONS_FAILED = "FETCH_CONNECTIONS_FAILED"
    # Webhooks
    WEBHOOK_NOT_FOUND = "WEBHOOK_NOT_FOUND"
    # Namespaces
    INVALID_NAMESPACE_CONFIG = "INVALID_NAMESPACE_CONFIG"
    STORAGE_CONFIG_ERROR = "STORAGE_CONFIG_ERROR"
    VECTOR_DB_CONFIG_ERROR = "VECTOR_DB_CONFIG_ERROR"
    EMBEDDING_CONFIG_ERROR = "EMBEDDING_CONFIG_ERROR"
    NAMESPACE_LIMIT_EXCEEDED = "NAMESPACE_LIMIT_EXCEEDED"
    # Documents
    DOCUMENTS_NOT_FOUND = "DOCUMENTS_NOT_FOUND"
    INVALID_FILTER_CONFIG = "INVALID_FILTER_CONFIG"
    UPDATE_DOCUMENTS_FAILED = "UPDATE_DOCUMENTS_FAILED"
    DELETE_DOCUMENTS_FAILED = "DELETE_DOCUMENTS_FAILED"


class ServiceError(Exception):
    """Error for API clients. `message` never contains submitted values, secrets or vendor texts.

    `quota`: name, `used` and `limit` of an exceeded quota.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        *,
        field: str | None = None,
        reason: str | None = None,
        headers: dict[str, str] | None = None,
        quota: Mapping[str, str | int] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field
        self.reason = reason
        self.headers = headers or {}
        self.quota = quota or {}


class StepError(Exception):
    """Error of a pipeline step or port; the message is shown as the document's error."""


class Retryable(StepError):
    """Temporary error: timeout, reset, 429 or 5xx. `after`: requested delay in seconds."""

    def __init__(self, message: str, *, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after
        # Errors by document key, if the documents of a step failed differently.
        self.errors_by_key: dict[Any, Retryable] = {}


class Unavailable(Retryable):
    """Open circuit breaker of a vendor or site. `key`: breaker."""

    def __init__(self, message: str, *, after: float, key: str) -> None:
        super().__init__(message, after=after)
        self.key = key


class Fatal(StepError):
    """Error for all documents of the run, such as a refused key. `field`: config field at fault."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class AppRefused(Fatal):
    """Refused app of a content service, such as a wrong secret; authorizations of users stay valid."""


class ConfigChanged(StepError):
    """Concurrent change of the namespace's model or vector store: results for the old one are void."""


class Interrupted(StepError):
    """End of the batch's turn before the document started: it stays unchanged."""


class Skippable(StepError):
    """Error of a single document, such as a corrupt file."""


class ItemMissing(Skippable):
    """Missing item at the source; removed vendor endpoints give this answer for every item."""


class Unreadable(Skippable):
    """Missing or untrustworthy text. `pages`: number of unreadable pages."""

    def __init__(self, message: str, pages: int = 0) -> None:
        super().__init__(message)
        self.pages = pages


class NotEmbedded(Skippable):
    """Refusal of some texts of an embedding call.

    `reasons`: messages by position; `vectors`: of the other texts, in order.
    """

    def __init__(self, reasons: Mapping[int, str], vectors: npt.NDArray[np.float32]) -> None:
        super().__init__(f"The model cannot embed this text: {next(iter(reasons.values()))} It embeds other texts.")
        self.reasons, self.vectors = reasons, vectors
