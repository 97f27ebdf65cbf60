"""Circuits of a batch: report request results to the vendor's breaker and refuse requests while open."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import structlog

from retrieval.database.database import UNAVAILABLE_ERRORS, Database
from retrieval.errors import Retryable, StepError, Unavailable
from retrieval.jobs.queries import breakers
from retrieval.jobs.queries.batches import Lease
from retrieval.jobs.queries.breakers import BreakerState, BreakerTarget

log = structlog.get_logger()

_current: ContextVar[Circuit | None] = ContextVar("circuit", default=None)
STATE_REFRESH_SECONDS: Final = 5.0


def current_circuit() -> Circuit | None:
    """Return the circuit of this thread's requests; threads inherit it by context."""
    return _current.get()


class Circuit:
    """Circuit of one vendor or site for one batch, safe for several threads."""

    def __init__(self, db: Database, batch_id: str, target: BreakerTarget) -> None:
        self._db, self._batch, self._target = db, batch_id, target
        self._lock = threading.Lock()
        self._answered_at = 0.0
        self._look()

    @property
    def key(self) -> str:
        return self._target.key

    def require_closed(self) -> None:
        """Raise Unavailable while the breaker is open, except for the probing batch."""
        with self._lock:
            if self._is_open() and time.monotonic() >= self._look_at:
                self._look()
            if not self._is_open():
                return
            seconds_left = max(1.0, self._state.closed_in or 0)
        name = self._target.name
        raise Unavailable(
            f"{name} does not answer; it is asked again in {seconds_left:.0f} s.", after=seconds_left, key=self.key
        )

    def record_failure(self, seconds: float, reason: str) -> None:
        """Record a failed request and its duration."""
        with self._lock:
            try:
                state = breakers.record_failure(self._db, self._target, self._batch, seconds=seconds, reason=reason)
            except UNAVAILABLE_ERRORS:
                return
            self._set(state)
            if self._is_open():
                log.warning("breaker.open", batch_id=self._batch, name=self._target.name, reason=reason)

    def record_success(self) -> None:
        """Record a response, of any status."""
        self._answered_at = time.monotonic()
        if not self._state.failures:
            return
        with self._lock:
            try:
                breakers.record_success(self._db, self.key)
            except UNAVAILABLE_ERRORS:
                return
            log.info("breaker.closed", batch_id=self._batch, name=self._target.name)
            self._set(BreakerState())

    @contextmanager
    def use(self) -> Iterator[None]:
        """Send the requests of this thread through the circuit during the context."""
        self.require_closed()
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def has_answered(self, since: float) -> bool:
        """Return whether a request of the batch was answered after this monotonic time."""
        return self._answered_at > since

    def _is_open(self) -> bool:
        return self._state.closed_in is not None and self._state.probe != self._batch

    def _look(self) -> None:
        self._set(breakers.breaker_state(self._db, self.key, self._batch))

    def _set(self, state: BreakerState) -> None:
        self._state = state
        self._look_at = time.monotonic() + min(STATE_REFRESH_SECONDS, max(0.0, state.closed_in or 0))


class Circuits:
    """Circuits of a batch. `blocked_runs`: open breaker by job run; `scope_breakers`: breakers of the scope."""

    def __init__(self, db: Database, lease: Lease) -> None:
        self._db, self.lease = db, lease
        self._circuits: dict[str, Circuit] = {}
        self._lock = threading.Lock()
        self.blocked_runs: dict[str, str] = {}
        self.scope_breakers: set[str] = set()
        self._faulty: set[str] = set()

    @contextmanager
    def isolate_item(self, target: BreakerTarget, item: str) -> Iterator[None]:
        """Fetch an item within `guard_requests`; Retryable if the vendor answered other requests in the same time."""
        # The breaker closes again, and later failures of this item do not count.
        circuit, started_at = self.circuit_for(target), time.monotonic()
        token = _current.set(None) if item in self._faulty else None
        try:
            yield
        except Unavailable as error:
            if not circuit.has_answered(started_at):
                raise
            self._faulty.add(item)
            circuit.record_success()
            raise Retryable(f"{target.name} answered other requests, but failed three times for this one.") from error
        finally:
            if token is not None:
                _current.reset(token)

    def circuit_for(self, target: BreakerTarget) -> Circuit:
        with self._lock:
            if (circuit := self._circuits.get(target.key)) is None:
                circuit = self._circuits[target.key] = Circuit(self._db, self.lease.batch_id, target)
            return circuit

    @contextmanager
    def guard_requests(
        self, target: BreakerTarget, *, job_run: str | None = None, count_failures: bool, min_seconds: float = 0
    ) -> Iterator[None]:
        """Send requests through a circuit. `job_run`: affected run, None for the scope."""
        # `count_failures` counts failures of the block of at least `min_seconds`, since its tries do not report
        # themselves.
        circuit, started_at = self.circuit_for(target), time.monotonic()
        try:
            with circuit.use():
                yield
        except Unavailable as error:
            self._wait(error, job_run)
            raise
        except Retryable as error:
            seconds = time.monotonic() - started_at
            if count_failures and error.after is None and seconds >= min_seconds:
                circuit.record_failure(seconds, str(error))
            raise
        except StepError:
            if count_failures:
                circuit.record_success()
            raise
        else:
            if count_failures:
                circuit.record_success()

    def _wait(self, error: Unavailable, job_run: str | None) -> None:
        with self._lock:
            if job_run is None:
                self.scope_breakers.add(error.key)
            else:
                self.blocked_runs[job_run] = error.key

    @property
    def has_blocked_work(self) -> bool:
        """Return whether a job run of the batch or its scope waits for a breaker."""
        return bool(self.blocked_runs or self.scope_breakers)

    def release_probes(self) -> None:
        """Release the probes at the end of the batch."""
        breakers.release_probes(self._db, self.lease.batch_id, self.lease.partition)
