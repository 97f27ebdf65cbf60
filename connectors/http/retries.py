"""Rate limits and retries: one policy for all vendors.

A requested wait (429) is no failure: every thread that shares the bucket waits. Trouble that passes is tried again
with growing pauses. Both end: with a search after seconds, with an ingestion after minutes.

policy.call(tokens, request)
    └─ retries: 429 pauses every thread of the connection, passing trouble is tried again, both end
        └─ token: fresh from the connection's row; after a 401 renewed under its lock, then FAILED
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
T = TypeVar("T")

WAITING = {"document": 180.0, "query": 4.0}
"""Seconds that one call may wait for its turn in all: a person waits for a query."""
TRIES = {"document": 5, "query": 2}
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
LONGEST_ASKED = 3600.0
"""Seconds: a vendor that asks for more is asked again after these."""
_NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?")


class RateLimited(Exception):
    """Rate limit of the vendor; `after`: seconds to wait, None if it did not say."""

    def __init__(self, after: float | None) -> None:
        super().__init__("busy")
        self.after = after


class TransientError(Exception):
    """Error that may pass: a reset, a timeout, a 5xx. The text is in our words; `vendor_words` are the vendor's own."""

    def __init__(self, message: str, *, vendor_words: str = "") -> None:
        super().__init__(message)
        self.vendor_words = vendor_words


class Timeout(TransientError):
    """No answer, or not the whole of it, within the time for it."""


class InputFault(Exception):
    """The vendor answers other requests and fails this one: its content is at fault. The text is for people."""


class Bucket:
    """Lets requests begin at an even rate, `burst` of them at once, and none during a pause. Shared by threads.

    Where a vendor counts what requests hold, they cost that much. A small one then goes before large ones, which wait
    until there is room for all that they hold: a query is not kept by an ingestion.
    """

    def __init__(self, per_minute: float, burst: int) -> None:
        self._rate = per_minute / 60
        self._burst = float(burst)
        self._tokens = float(burst)
        self._seen = time.monotonic()
        self._free_at = 0.0
        self._lock = threading.Lock()

    def take(self, cost: float = 1) -> float:
        """Take a turn: 0 if it may begin now, else the seconds after which to ask again."""
        cost = min(cost, self._burst)
        with self._lock:
            current = time.monotonic()
            if current < self._free_at:
                return self._free_at - current + random.uniform(0, 0.1)  # noqa: S311 - spreads threads, hides nothing
            self._tokens = min(self._burst, self._tokens + (current - self._seen) * self._rate)
            self._seen = current
            if self._tokens >= cost:
                self._tokens -= cost
                return 0.0
            return (cost - self._tokens) / self._rate

    def pause(self, seconds: float) -> None:
        """Pause all requests for this long; a longer pause that is in progress stays."""
        with self._lock:
            self._free_at = max(self._free_at, time.monotonic() + seconds)


@dataclass(slots=True)
class Retries:
    """One call's budget of waiting and of tries. `vendor` names it to people; `cost`: of each try, to the bucket;
    `attributes`: of the span of each try."""

    vendor: str
    bucket: Bucket
    seconds: float
    tries: int
    cost: float = 1
    attributes: tracing.Attributes | None = None

    def ask(self, request: Callable[[], T], known_good: Callable[[], object] | None = None) -> T:
        """Send `request`, repeated until it succeeds; Retryable when the time budget is used up.

        Each try reports its result to the circuit that it goes through; Unavailable once that is open. With a
        `known_good` request, raise InputFault if the vendor answers that one and fails `request`.
        """
        end = time.monotonic() + self.seconds
        circuit = breaker_watch.current_circuit()
        failed = busy = 0
        suspicion = None if known_good is None else _Suspicion(circuit, known_good)
        while True:
            is_probing = suspicion is not None and suspicion.error is not None
            self._turn(end, 1 if is_probing else self.cost)
            outcome, began = "refused", time.monotonic()
            try:
                with tracing.trace_call(f"request to {self.vendor}", self.attributes):
                    if suspicion is None:
                        answer = _report(circuit, request)
                    elif not is_probing:
                        answer = _report(circuit, request, count_failure=False)
                    else:
                        suspicion.probe()
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
                if suspicion is not None and not is_probing:
                    suspicion.raise_doubt(trouble, time.monotonic() - began)
                    continue
                if failed >= self.tries:
                    # A local name of the error would form a cycle with its traceback and keep the socket open.
                    message = f"{_find_cause(suspicion, trouble)} It was asked {failed} times."
                    raise Retryable(message) from _find_cause(suspicion, trouble)
                time.sleep(max(0.0, min(_pause(failed), end - time.monotonic())))
            else:
                outcome = "ok"
                if not is_probing:
                    return answer
                if suspicion is not None and suspicion.fault is not None:
                    raise suspicion.take_fault()
            finally:
                counts.add_count(catalog.VENDOR, _label(self.vendor), outcome)

    def _turn(self, end: float, cost: float) -> None:
        """Wait until the bucket lets this begin; Retryable with the time left if that is beyond the budget."""
        while wait := self.bucket.take(cost):
            if time.monotonic() + wait > end:
                raise Retryable(
                    f"{self.vendor} takes no more requests for now (429): its rate limit for this key is used up.",
                    after=wait,
                )
            time.sleep(wait)


@dataclass(slots=True)
class _Suspicion:
    """Finds out by a known good request whether a failure is an outage or the fault of the request's content."""

    circuit: Circuit | None
    known_good: Callable[[], object]
    error: TransientError | None = None
    fault: InputFault | None = None
    _seconds: float = 0.0
    _doubts: int = 0
    _is_outage: bool = False

    def raise_doubt(self, error: TransientError, seconds: float) -> None:
        """Remember the failure of a request, which took so long, until `probe` explains it."""
        self.error, self._seconds, self._is_outage = error, seconds, False
        self._doubts += 1

    def probe(self) -> None:
        """Send the known good request, and set `fault` if it is answered, unless an outage may explain the failure."""
        error = self.error
        try:
            _report(self.circuit, self.known_good, before_failure=self._report_doubt)
        except TransientError:
            self._is_outage = True
            raise
        # The first failure next to an outage may be its effect; a second one is the content's own.
        if not self._is_outage or self._doubts > 1:
            self.fault = InputFault(_describe_fault(error))
            self.fault.__cause__ = error
        else:
            self.error = None

    def take_fault(self) -> InputFault:
        """Return the fault and forget it: a reference from the frame that raises it would keep the socket open."""
        fault, self.fault = self.fault, None
        return fault or InputFault("")

    def _report_doubt(self) -> None:
        if self.circuit is not None and not self._is_outage:
            self.circuit.record_failure(self._seconds, str(self.error))


def _find_cause(suspicion: _Suspicion | None, error: TransientError) -> TransientError:
    """Return the failure of the request itself, which a probe may have followed."""
    return error if suspicion is None or suspicion.error is None else suspicion.error


def _describe_fault(error: TransientError | None) -> str:
    words = error.vendor_words if error is not None else ""
    return f"{error} It says: {words.rstrip('.')}." if words else str(error)


def _label(vendor: str) -> str:
    """`Google Drive` as metrics spell it."""
    return vendor.upper().replace(" ", "_")


def _report(
    circuit: Circuit | None,
    request: Callable[[], T],
    *,
    count_failure: bool = True,
    before_failure: Callable[[], None] = lambda: None,
) -> T:
    """Call `request` and record its result with the circuit breaker: a refusal is an answer, too.

    `before_failure` is called before a failure is counted.
    """
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
    """Backoff with jitter, so that many callers do not return at once."""
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (count - 1)) * random.uniform(0.75, 1.25)  # noqa: S311


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that an answer requests to wait, at most LONGEST_ASKED; None if absent or invalid.

    Retry-After is a number, which some vendors give with a fraction, or a date (RFC 9110, section 10.2.3);
    `retry-after-ms` is OpenAI's. The names of `headers` may be in any case.
    """
    delays = {name.lower(): value.strip() for name, value in headers.items() if name.lower().startswith("retry-after")}
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        if _NUMBER.fullmatch(delays.get(name, "")):
            return min(float(delays[name]) * unit, LONGEST_ASKED)
    try:
        moment = parsedate_to_datetime(delays.get("retry-after", ""))
        seconds = moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(seconds, 0.0), LONGEST_ASKED)


class Unauthorized(Exception):
    """The service does not accept this access token (401)."""


@dataclass(frozen=True, slots=True)
class ServicePolicy:
    """Request policy of a content service, per connection. `seconds`: how long one call may wait for its turn."""

    service: str
    per_minute: float = 600
    burst: int = 10
    seconds: float = 120
    tries: int = 4

    def call(self, tokens: TokenSource, request: Callable[[str], T]) -> T:
        """Return what `request(access token)` returns. It may raise this module's errors or the port's."""
        retries = Retries(self.service, self._bucket(tokens.connection_id), self.seconds, self.tries)
        return retries.ask(lambda: self._with_token(tokens, request))

    def _with_token(self, tokens: TokenSource, request: Callable[[str], T]) -> T:
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

    def _bucket(self, connection_id: str) -> Bucket:
        return _connection_bucket(self.service, connection_id, self.per_minute, self.burst)


@lru_cache(maxsize=1024)
def _connection_bucket(_service: str, _connection_id: str, per_minute: float, burst: int) -> Bucket:
    """One for each connection that this process speaks for."""
    return Bucket(per_minute, burst)
