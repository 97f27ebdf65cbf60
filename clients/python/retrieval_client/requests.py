"""A call's requests: what they hold, when one is sent again, and after how long. No I/O: both transports ask here."""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote

import httpx

from retrieval_client.errors import RetrievalError

_REFUSED = frozenset({429, 503})
"""The service did nothing and says so: any request may be sent again."""
_BROKEN = frozenset({500, 502, 504})
"""It is not known whether the service acted: only what is safe to repeat is sent again."""


@dataclass(frozen=True, slots=True)
class Retries:
    """How often and how long is tried.

    attempts: requests at most for one call. backoff: seconds before the second request; doubled each time, with jitter.
    longest_wait: a longer `Retry-After` is not waited for but raised, in seconds.
    """

    attempts: int = 6
    backoff: float = 0.25
    longest_wait: float = 60.0


@dataclass(slots=True)
class Call:
    """One call of the API, from its first request to its answer.

    repeatable: the operation only reads, sets or deletes. keyed: it takes an Idempotency-Key, which makes it
    repeatable; the same key goes with every request of the call.
    """

    method: str
    path: str
    retries: Retries
    repeatable: bool
    keyed: bool = False
    key: str | None = None
    query: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    seconds: float | None = None
    made: int = 0

    def __post_init__(self) -> None:
        if self.keyed and self.key is None:
            self.key = str(uuid.uuid4())

    def request(self, client: httpx.Client | httpx.AsyncClient) -> httpx.Request:
        """The next request; the same each time."""
        self.made += 1
        options = dict(self.options)
        if self.seconds is not None:
            options["timeout"] = self.seconds
        query = {name: _in_query(value) for name, value in self.query.items() if value is not None}
        headers = {"Idempotency-Key": self.key} if self.key is not None else {}
        return client.build_request(self.method, self.path, params=query or None, headers=headers, **options)

    def wait_after_answer(self, response: httpx.Response) -> float | None:
        """Seconds to wait before the next request; None where the answer is the answer."""
        retry_seconds = retry_after(response)
        if response.status_code in _REFUSED:
            again = True
        else:
            again = response.status_code in _BROKEN and (self.repeatable or self.keyed)
        if not again or self.made >= self.retries.attempts or (retry_seconds or 0) > self.retries.longest_wait:
            return None
        return retry_seconds if retry_seconds is not None else self._backoff()

    def wait_after_error(self, error: httpx.TransportError) -> float | None:
        """As `wait_after_answer`, where there was none."""
        never_sent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
        if self.made >= self.retries.attempts or not (never_sent or self.repeatable or self.keyed):
            return None
        return self._backoff()

    def unanswered(self, error: httpx.TransportError) -> RetrievalError:
        """What is raised where no request was answered."""
        code = "TIMEOUT" if isinstance(error, httpx.TimeoutException) else "CONNECTION_FAILED"
        reason = str(error) or type(error).__name__
        url = error.request.url.copy_with(query=None)
        return RetrievalError(code, f"{self.method} {url} was not answered: {reason}", attempts=self.made)

    def refused(self, response: httpx.Response) -> RetrievalError:
        """The error of an answer that is none of success."""
        code, message, details = _error_of(response)
        return RetrievalError(
            code,
            message,
            status=response.status_code,
            details=details,
            request_id=response.headers.get("X-Request-Id"),
            attempts=self.made,
        )

    def _backoff(self) -> float:
        longest: float = min(self.retries.backoff * 2 ** (self.made - 1), self.retries.longest_wait)
        return longest * random.uniform(0.5, 1)  # noqa: S311 - spreads clients, no secret


def retry_after(response: httpx.Response) -> float | None:
    """Seconds that `Retry-After` asks for, as a number or a date; None where it is absent or neither."""
    said = response.headers.get("Retry-After", "").strip()
    if not said:
        return None
    try:
        return max(0.0, float(said))
    except ValueError:
        pass
    try:
        at = parsedate_to_datetime(said)
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - datetime.now(UTC)).total_seconds())


def segment(value: object) -> str:
    """A value as one segment of a path."""
    whole = quote(str(value), safe="")
    return whole if whole.strip(".") else whole.replace(".", "%2E")


def _in_query(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value


def _error_of(response: httpx.Response) -> tuple[str, str, dict[str, Any]]:
    try:
        body = response.json()
        said = body["error"]
        if isinstance(said, str):  # about a tenant
            return said, str(body.get("message", "")), {}
        return str(said["code"]), str(said.get("message", "")), dict(said.get("details") or {})
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"HTTP_{response.status_code}", response.text[:500] or response.reason_phrase, {}
