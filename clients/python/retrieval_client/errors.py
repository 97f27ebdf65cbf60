"""What the client raises: one error with the service's code, and one for a wait that was given up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class RetrievalError(Exception):
    """The service refused a request, or it could not be reached.

    code: the service's, such as NAMESPACE_NOT_FOUND; CONNECTION_FAILED and TIMEOUT where it did not answer.
    status: of HTTP, None without an answer. details: `reason`, and `field` where a field is wrong.
    request_id: by which the service's log is searched, None without an answer. attempts: requests that were made.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int | None = None,
        details: Mapping[str, Any] | None = None,
        request_id: str | None = None,
        attempts: int = 1,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status
        self.details: dict[str, Any] = dict(details or {})
        self.request_id = request_id
        self.attempts = attempts

    def __str__(self) -> str:
        place = f" ({self.details['field']})" if self.details.get("field") else ""
        return f"{self.code}{place}: {self.message}"


class WaitTimeout(RetrievalError):
    """A job run did not end within the time that was given; it goes on. `run_id` names it."""

    def __init__(self, run_id: str, seconds: float) -> None:
        super().__init__("TIMEOUT", f"job run {run_id} has not ended within {seconds:g} s; it goes on")
        self.run_id = run_id
