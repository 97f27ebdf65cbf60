"""Circuits: connect the requests of a batch with the stored circuit breakers of vendors and sites."""
# A circuit reports the results of requests to its breaker, and refuses requests while the breaker is open.

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
    """Return the circuit of the requests of this thread, set by `Circuits.guard_requests`."""
    return _current.get()


class Circuit:
    """Thread-safe circuit of a batch to one vendor or site."""

    def __init__(self, db: Database, batch_id: str, target: BreakerTarget) -> None:
        self._db, self._batch_id, self._target = db, batch_id, target
        self._lock = threading.Lock()
        # Monotonic time.
        self._answered_at = 0.0
        self._refresh_state()

    @property
    def key(self) -> str:
        return self._target.key

    def require_closed(self) -> None:
        """Raise Unavailable while the breaker is open, except in the batch that probes the vendor."""
        with self._lock:
            if self._is_open() and time.monotonic() >= self._refresh_at:
                self._refresh_state()
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
                state = breakers.record_failure(self._db, self._target, self._batch_id, seconds=seconds, reason=reason)
            except UNAVAILABLE_ERRORS:
                return
            self._set_state(state)
            if self._is_open():
                log.warning("breaker.open", batch_id=self._batch_id, name=self._target.name, reason=reason)

    def record_success(self) -> None:
        """Record a response of any status and close the breaker."""
        self._answered_at = time.monotonic()
        if not self._state.failures:
            return
        with self._lock:
            try:
                breakers.record_success(self._db, self.key)
            except UNAVAILABLE_ERRORS:
                return
            log.info("breaker.closed", batch_id=self._batch_id, name=self._target.name)
            self._set_state(BreakerState())

    @contextmanager
    def activate(self) -> Iterator[None]:
        """Make this the circuit of the thread's requests; raise Unavailable while the breaker is open."""
        self.require_closed()
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def has_answered(self, since: float) -> bool:
        """Return whether a request of the batch was answered after a monotonic time."""
        return self._answered_at > since

    def _is_open(self) -> bool:
        return self._state.closed_in is not None and self._state.probe != self._batch_id

    def _refresh_state(self) -> None:
        self._set_state(breakers.breaker_state(self._db, self.key, self._batch_id))

    def _set_state(self, state: BreakerState) -> None:
        self._state = state
        self._refresh_at = time.monotonic() + min(STATE_REFRESH_SECONDS, max(0.0, state.closed_in or 0))


class Circuits:
    """Circuits of a batch, and the open breakers blocking its work."""

    def __init__(self, db: Database, lease: Lease) -> None:
        self._db, self.lease = db, lease
        # By key of the breaker.
        self._circuits: dict[str, Circuit] = {}
        self._lock = threading.Lock()
        # Key of the open breaker by blocked job run.
        self.blocked_runs: dict[str, str] = {}
        # Keys of open breakers that block the whole scope.
        self.scope_breakers: set[str] = set()
        self._faulty_items: set[str] = set()

    @contextmanager
    def isolate_item(self, target: BreakerTarget, item: str) -> Iterator[None]:
        """Keep failures of a single item from opening the breaker; to be used within `guard_requests`.

        If the vendor answered other requests in the meantime, Unavailable becomes Retryable.
        """
        circuit, started_at = self.circuit_for(target), time.monotonic()
        # Requests for an item that failed before are not reported.
        token = _current.set(None) if item in self._faulty_items else None
        try:
            yield
        except Unavailable as error:
            if not circuit.has_answered(started_at):
                raise
            self._faulty_items.add(item)
            # Closes the breaker again.
            circuit.record_success()
            raise Retryable(f"{target.name} answered other requests, but failed three times for this one.") from error
        finally:
            if token is not None:
                _current.reset(token)

    def circuit_for(self, target: BreakerTarget) -> Circuit:
        """Return the batch's circuit of a target."""
        with self._lock:
            if (circuit := self._circuits.get(target.key)) is None:
                circuit = self._circuits[target.key] = Circuit(self._db, self.lease.batch_id, target)
            return circuit

    @contextmanager
    def guard_requests(
        self, target: BreakerTarget, *, job_run: str | None = None, count_failures: bool, min_seconds: float = 0
    ) -> Iterator[None]:
        """Send the block's requests through a circuit. `job_run`: run that an open breaker blocks, None for all."""
        # Clients of `connectors.http` report each request. For other clients, `count_failures` reports the block's
        # result, and a failure only after `min_seconds`.
        circuit, started_at = self.circuit_for(target), time.monotonic()
        try:
            with circuit.activate():
                yield
        except Unavailable as error:
            self._record_blocked(error, job_run)
            raise
        except Retryable as error:
            seconds = time.monotonic() - started_at
            if count_failures and error.after is None and seconds >= min_seconds:
                circuit.record_failure(seconds, str(error))
            raise
        except StepError:
            # The vendor answered, with a refusal.
            if count_failures:
                circuit.record_success()
            raise
        else:
            if count_failures:
                circuit.record_success()

    def _record_blocked(self, error: Unavailable, job_run: str | None) -> None:
        with self._lock:
            if job_run is None:
                self.scope_breakers.add(error.key)
            else:
                self.blocked_runs[job_run] = error.key

    @property
    def has_blocked_work(self) -> bool:
        """Check if a breaker blocks job runs of the batch or the whole scope."""
        return bool(self.blocked_runs or self.scope_breakers)

    def release_probes(self) -> None:
        """Let other batches probe, at the end of this one."""
        breakers.release_probes(self._db, self.lease.batch_id, self.lease.partition)
