"""Errors: codes for API clients, and the three kinds that a step can raise.

ServiceError            an error response of the API, with a code of the contract
StepError
├── Retryable          try again, after `after` seconds if the service named a delay
│    └── Unavailable   a circuit breaker is open: job runs that need it wait outside of the workers
├── Fatal              stop the run: nothing after this can work
└── Skippable          leave this one document out and continue with the others
     ├── ItemMissing   the source answers that there is no such item
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
    """Every code an answer can carry. `api.errors.STATUS_BY_CODE` gives each its HTTP status."""

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
    """An error that an API client sees. `message` never holds a submitted value, a secret or a vendor's text.

    quota: where one is exceeded, its name, what is `used` and the `limit`.
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
    """Trouble in a step of the pipeline or behind a port. Its text is shown to the user as a document's error."""


class Retryable(StepError):
    """Error that may pass: a timeout, a reset, a 429 or 5xx. `after`: seconds the other side requested."""

    def __init__(self, message: str, *, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after
        self.each: dict[Any, Retryable] = {}
        """What each document of a step met, by its key, where not all met this."""


class Unavailable(Retryable):
    """Error of an open circuit breaker: the vendor or site did not answer before. `key`: of the breaker."""

    def __init__(self, message: str, *, after: float, key: str) -> None:
        super().__init__(message, after=after)
        self.key = key


class Fatal(StepError):
    """Cannot work for any document of this run: a refused key, a missing index. `field`: the config field at fault."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class AppRefused(Fatal):
    """A service refuses the app itself, such as its secret. The authorizations that people gave to it stand."""


class ConfigChanged(StepError):
    """The namespace got another model or vector store meanwhile: what was made for the old one does not count."""


class Interrupted(StepError):
    """The turn of its batch ended before a document was begun: it stays as it is."""


class Skippable(StepError):
    """Error of this one document: a corrupt file, a missing page."""


class ItemMissing(Skippable):
    """Answer of a source that there is no such item; an endpoint that the vendor removed answers so for every item."""


class Unreadable(Skippable):
    """The text of the document cannot be trusted, or none is there. `pages`: how many of its pages are unreadable."""

    def __init__(self, message: str, pages: int = 0) -> None:
        super().__init__(message)
        self.pages = pages


class NotEmbedded(Skippable):
    """The model cannot embed some texts of a call, but answers others.

    `reasons`: for people, by the position of a text; `vectors`: of all other texts, in order.
    """

    def __init__(self, reasons: Mapping[int, str], vectors: npt.NDArray[np.float32]) -> None:
        super().__init__(f"The model cannot embed this text: {next(iter(reasons.values()))} It embeds other texts.")
        self.reasons, self.vectors = reasons, vectors
