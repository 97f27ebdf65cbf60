"""Rate limits and retries of all vendors.

policy.call(tokens, request)
    └─ retries: a 429 pauses all threads of the connection; transient errors are retried with backoff
        └─ token: read from the connection's row; a 401 renews it under a lock, a second one fails
"""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import TypeVar

import structlog

from retrieval import tracing
from retrieval.errors import Retryable
from retrieval.jobs import breaker_watch
from retrieval.jobs.breaker_watch import Circuit
from retrieval.metrics import catalog, counts
from retrieval.ports import TokenSource

log = structlog.get_logger()
ResultT = TypeVar("ResultT")

# Seconds of waiting and tries of a call to a model or parser, fewer for queries, since a person waits. Of content
# services: `ServicePolicy`.
MAX_RETRY_SECONDS = {"document": 180.0, "query": 4.0}
MAX_TRIES = {"document": 5, "query": 2}
FIRST_PAUSE_SECONDS = 0.5
MAX_PAUSE_SECONDS = 30.0
# Longer waits requested by a vendor are cut to this.
MAX_RETRY_AFTER_SECONDS = 3600.0
_NUMBER_PATTERN = re.compile(r"[0-9]+(\.[0-9]*)?")


class RateLimited(Exception):
    """Rate limit of the vendor; `after`: requested wait in seconds, or None."""

    def __init__(self, after: float | None) -> None:
        super().__init__("busy")
        self.after = after


class TransientError(Exception):
    """Temporary error such as a reset, a timeout or a 5xx; `vendor_message` quotes the vendor."""

    def __init__(self, message: str, *, vendor_message: str = "") -> None:
        super().__init__(message)
        self.vendor_message = vendor_message


class Timeout(TransientError):
    """No complete answer in time."""


class InputFault(Exception):
    """The vendor fails only this request, because of its content. The message is shown to users."""


class Bucket:
    """Token bucket with pauses. Thread-safe."""

    # A request may cost several tokens. One of one token does not wait until
    # there are enough for an expensive one, so an ingestion does not delay queries.

    def __init__(self, per_minute: float, burst: int) -> None:
        self._rate = per_minute / 60
        self._burst = float(burst)
        self._tokens = float(burst)
        self._updated_at = time.monotonic()
        self._free_at = 0.0
        self._lock = threading.Lock()

    def take(self, cost: float = 1) -> float:
        """Take tokens and return 0, or return the seconds until the next attempt."""
        cost = min(cost, self._burst)
        with self._lock:
            current = time.monotonic()
            if current < self._free_at:
                return self._free_at - current + random.uniform(0, 0.1)  # noqa: S311 - spreads threads, hides nothing
            self._tokens = min(self._burst, self._tokens + (current - self._updated_at) * self._rate)
            self._updated_at = current
            if self._tokens >= cost:
                self._tokens -= cost
                return 0.0
            return (cost - self._tokens) / self._rate

    @property
    def is_paused(self) -> bool:
        return time.monotonic() < self._free_at

    def pause(self, seconds: float) -> None:
        """Pause all requests; a longer pause in progress stays."""
        with self._lock:
            self._free_at = max(self._free_at, time.monotonic() + seconds)


@dataclass(slots=True)
class Retries:
    """Limits of a call: seconds of waiting, and tries; a 429 is not a try. A request costs `cost` tokens."""

    vendor: str
    bucket: Bucket
    seconds: float
    tries: int
    cost: float = 1
    attributes: tracing.Attributes | None = None

    def call(self, request: Callable[[], ResultT], known_good: Callable[[], object] | None = None) -> ResultT:
        """Repeat `request` until success. Retryable beyond the limits, Unavailable with an open circuit, InputFault if
        the vendor answers only the `known_good` request; other exceptions of `request` pass at once."""
        end = time.monotonic() + self.seconds
        circuit = breaker_watch.current_circuit()
        failed = busy = 0
        content_check = None if known_good is None else _ContentCheck(circuit, known_good)
        while True:
            is_probing = content_check is not None and content_check.error is not None
            self._wait(end, 1 if is_probing else self.cost)
            outcome, began = "refused", time.monotonic()
            try:
                with tracing.trace_call(f"request to {self.vendor}", self.attributes):
                    if content_check is None:
                        answer = _report(circuit, request)
                    elif not is_probing:
                        answer = _report(circuit, request, count_failure=False)
                    else:
                        content_check.probe()
            except RateLimited as limited:
                outcome = "rate_limited"
                busy += 1
                pause = limited.after if limited.after is not None else _pause(busy)
                log.info("vendor.rate_limited", vendor=self.vendor, seconds=round(pause, 1))
                self.bucket.pause(pause)
                counts.add_count(catalog.VENDOR_WAIT, by=pause)
            except TransientError as trouble:
                outcome = "failed"
                failed += 1
                if content_check is not None and not is_probing:
                    content_check.record_failure(trouble, time.monotonic() - began)
                    continue
                if failed >= self.tries:
                    # A local name of the error would form a cycle with its traceback and keep the socket open.
                    message = f"{_find_cause(content_check, trouble)} Attempts: {failed}."
                    raise Retryable(message) from _find_cause(content_check, trouble)
                time.sleep(max(0.0, min(_pause(failed), end - time.monotonic())))
            else:
                outcome = "ok"
                if not is_probing:
                    return answer
                if content_check is not None and content_check.content_failure is not None:
                    raise content_check.take_content_failure()
            finally:
                counts.add_count(catalog.VENDOR, _label(self.vendor), outcome)

    def _wait(self, end: float, cost: float) -> None:
        """Wait for tokens of the bucket. Retryable beyond `end`."""
        while wait := self.bucket.take(cost):
            if time.monotonic() + wait > end:
                if self.bucket.is_paused:
                    message = f"{self.vendor} takes no more requests for now (429): its rate limit is used up."
                else:
                    message = f"Too many requests to {self.vendor} are waiting for this service's own rate limit."
                raise Retryable(message, after=wait)
            time.sleep(wait)


@dataclass(slots=True)
class _ContentCheck:
    """Check by a known good request for failures of the content or of the vendor."""

    circuit: Circuit | None
    known_good: Callable[[], object]
    error: TransientError | None = None
    content_failure: InputFault | None = None
    _seconds: float = 0.0
    _failure_count: int = 0
    _is_outage: bool = False

    def record_failure(self, error: TransientError, seconds: float) -> None:
        """Record a failure and its duration for `probe`."""
        self.error, self._seconds, self._is_outage = error, seconds, False
        self._failure_count += 1

    def probe(self) -> None:
        """Send the known good request; success sets `content_failure`, unless an outage explains the failure."""
        error = self.error
        try:
            _report(self.circuit, self.known_good, before_failure=self._report_failure)
        except TransientError:
            self._is_outage = True
            raise
        # The first failure next to an outage may be its effect; a second one is the content's own.
        if not self._is_outage or self._failure_count > 1:
            self.content_failure = InputFault(_describe_failure(error))
            self.content_failure.__cause__ = error
        else:
            self.error = None

    def take_content_failure(self) -> InputFault:
        # A reference from the raising frame would keep the socket open.
        failure, self.content_failure = self.content_failure, None
        return failure or InputFault("")

    def _report_failure(self) -> None:
        if self.circuit is not None and not self._is_outage:
            self.circuit.record_failure(self._seconds, str(self.error))


def _find_cause(content_check: _ContentCheck | None, error: TransientError) -> TransientError:
    """Return the failure of the request, not of its probe."""
    return error if content_check is None or content_check.error is None else content_check.error


def _describe_failure(error: TransientError | None) -> str:
    words = error.vendor_message if error is not None else ""
    return f"{error} It says: {words.rstrip('.')}." if words else str(error)


def _label(vendor: str) -> str:
    """Return the label in metrics: GOOGLE_DRIVE for `Google Drive`."""
    return vendor.upper().replace(" ", "_")


def _report(
    circuit: Circuit | None,
    request: Callable[[], ResultT],
    *,
    count_failure: bool = True,
    before_failure: Callable[[], None] = lambda: None,
) -> ResultT:
    """Call `request` and record the result with the circuit breaker."""
    # A refusal is an answer: it counts as success.
    if circuit is None:
        return request()
    circuit.require_closed()
    began = time.monotonic()
    try:
        answer = request()
    except TransientError as trouble:
        if count_failure:
            seconds = time.monotonic() - began
            before_failure()
            circuit.record_failure(seconds, str(trouble))
        raise
    except Exception:
        circuit.record_success()
        raise
    circuit.record_success()
    return answer


def _pause(count: int) -> float:
    """Return the pause after the count-th failure, or after a 429 without Retry-After."""
    # Jitter spreads the retries of many callers.
    return min(MAX_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** (count - 1)) * random.uniform(0.75, 1.25)  # noqa: S311


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the requested wait in seconds, at most MAX_RETRY_AFTER_SECONDS; None if absent or invalid."""
    # A number, with a fraction from some vendors, or a date (RFC 9110, section 10.2.3). OpenAI sends `retry-after-ms`.
    delays = {name.lower(): value.strip() for name, value in headers.items() if name.lower().startswith("retry-after")}
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        if _NUMBER_PATTERN.fullmatch(delays.get(name, "")):
            return min(float(delays[name]) * unit, MAX_RETRY_AFTER_SECONDS)
    try:
        moment = parsedate_to_datetime(delays.get("retry-after", ""))
        seconds = moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)


class Unauthorized(Exception):
    """The service does not accept this access token (401)."""


@dataclass(frozen=True, slots=True)
class ServicePolicy:
    """Rate limit and retries of a content service; `seconds` limits the wait of a call."""

    service: str
    per_minute: float = 600
    burst: int = 10
    seconds: float = 120
    tries: int = 4

    def call(
        self, tokens: TokenSource, request: Callable[[str], ResultT], bucket_name: str = "", *, cost: float = 1
    ) -> ResultT:
        """Call `request` with an access token, with retries. Retryable after the wait, Fatal if unauthorized.

        Calls with the same `bucket_name` share a rate limit; by default, those of a connection do. `cost`: in units of
        the limit.
        """
        bucket = self._bucket(bucket_name or tokens.connection_id)
        retries = Retries(self.service, bucket, self.seconds, self.tries, cost)
        return retries.call(lambda: self._call_with_token(tokens, request))

    def _call_with_token(self, tokens: TokenSource, request: Callable[[str], ResultT]) -> ResultT:
        token = tokens.token()
        try:
            return request(token)
        except Unauthorized:
            token = tokens.renew(token)
        try:
            return request(token)
        except Unauthorized:
            raise tokens.end_authorization(
                f"{self.service} refuses the access, also after it was renewed: authorize the connection again.", token
            ) from None

    def _bucket(self, name: str) -> Bucket:
        return _shared_bucket(self.service, name, self.per_minute, self.burst)


@lru_cache(maxsize=1024)
def _shared_bucket(_service: str, _name: str, per_minute: float, burst: int) -> Bucket:
    """Return this process's bucket of a name."""
    return Bucket(per_minute, burst)
