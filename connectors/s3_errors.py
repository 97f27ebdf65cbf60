"""Errors of S3-compatible storage as port errors, without text of the storage."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    ParamValidationError,
    SSLError,
)

from connectors.http.retries import retry_after
from retrieval.errors import Fatal, Retryable, Skippable, StepError
from retrieval.network.fetch_guard import BlockedAddress

_BUSY = {408, 409, 425, 429, 500, 502, 503, 504, 509, 529}
_BUSY_CODES = {"InternalError", "RequestTimeout", "ServiceUnavailable", "SlowDown", "Throttling", "NoSuchUpload"}
_KEY_CODES = {"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken", "AuthFailure"}
_REGION_CODES = {
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException",
    "PermanentRedirect",
    "TemporaryRedirect",
    "IncorrectEndpoint",
}


def of_answer(error: ClientError, gone: str) -> StepError:
    """Return the error for an answer, from its code and status. `gone`: message for a missing file."""
    code = str(error.response.get("Error", {}).get("Code", ""))
    meta: dict[str, Any] = error.response.get("ResponseMetadata", {})
    status = int(meta.get("HTTPStatusCode", 0))
    if code in _BUSY_CODES or status in _BUSY:
        return Retryable("The file storage is busy or has an error.", after=retry_after(meta.get("HTTPHeaders", {})))
    if code == "NoSuchBucket":
        return Fatal("The file storage has no bucket of this name.", field="bucket")
    if status == 404:
        return _not_there(error.operation_name, gone)
    if code in _REGION_CODES or 300 <= status < 400:
        return Fatal("The bucket is not in this region, or not at this endpoint.", field="region")
    return _refusal(code, status)


def _not_there(operation: str, gone: str) -> StepError:
    """Return the error for a 404: a missing file for reads, a missing bucket for writes."""
    if operation in {"UploadPart", "CompleteMultipartUpload"}:
        return Retryable("The file storage forgot an upload that was under way: the file is sent again.")
    if operation in {"PutObject", "CreateMultipartUpload"}:
        return Fatal("The file storage has no such bucket, or not at this endpoint (status 404).", field="bucket")
    return Skippable(gone)


def of_transport(error: Exception) -> StepError:
    """Return the error for a failed connection."""
    inner = getattr(error, "kwargs", {}).get("error")
    if isinstance(inner, BlockedAddress):
        return Fatal(str(inner), field="endpoint")
    if isinstance(error, SSLError):
        return Fatal("The certificate of the file storage's endpoint is not trusted.", field="endpoint")
    if isinstance(error, EndpointConnectionError | ConnectTimeoutError):
        return Retryable("The endpoint of the file storage cannot be reached.")
    if isinstance(error, ParamValidationError):
        return Fatal("This is not a name that a bucket can have.", field="bucket")
    if isinstance(error, HTTPClientError | OSError):
        return Retryable("The connection to the file storage broke off or took too long.")
    return Retryable("The file storage's answer could not be read.")


def _refusal(code: str, status: int) -> StepError:
    if code in _KEY_CODES or status == 401:
        return Fatal("The file storage does not accept the access key or its secret.", field="credentials")
    if code == "RequestTimeTooSkewed":
        return Fatal("The file storage says that this machine's clock is wrong.")
    if status == 403:
        return Fatal("The access key may not read, write and delete in this bucket.", field="credentials")
    return Fatal(f"The file storage refused the request with status {status}.")
