"""Circuits of a batch: the worker's side of `breakers`.

with circuits.of(asked).watching(): …      # each try within reports its result (`current`)
"""

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
from retrieval.jobs.queries.breakers import Asked, State

log = structlog.get_logger()

_current: ContextVar[Circuit | None] = ContextVar("circuit", default=None)
LOOK_SECONDS: Final = 5.0
"""After which a state that was open is looked at again."""


def current_circuit() -> Circuit | None:
    """The circuit that this thread's request goes through; what starts threads hands it on by the context."""
    return _current.get()


class Circuit:
    """One vendor or site, for one batch. Safe to use from several threads."""

    def __init__(self, db: Database, batch_id: str, asked: Asked) -> None:
        self._db, self._batch, self._asked = db, batch_id, asked
        self._lock = threading.Lock()
        self._answered_at = 0.0
        self._look()

    @property
    def key(self) -> str:
        return self._asked.key

    def require(self) -> None:
        """Raise Unavailable while the breaker is open, except for the batch that probes."""
        with self._lock:
            if self._is_open() and time.monotonic() >= self._look_at:
                self._look()
            if not self._is_open():
                return
            seconds_left = max(1.0, self._state.closed_in or 0)
        name = self._asked.name
        raise Unavailable(
            f"{name} does not answer; it is asked again in {seconds_left:.0f} s.", after=seconds_left, key=self.key
        )

    def failed(self, seconds: float, reason: str) -> None:
        """A request failed after so long; `reason` in our words."""
        with self._lock:
            try:
                state = breakers.record_failure(self._db, self._asked, self._batch, seconds=seconds, reason=reason)
            except UNAVAILABLE_ERRORS:
                return
            self._set(state)
            if self._is_open():
                log.warning("breaker.open", batch_id=self._batch, name=self._asked.name, reason=reason)

    def succeeded(self) -> None:
        """Record a response, of any status."""
        self._answered_at = time.monotonic()
        if not self._state.failures:
            return
        with self._lock:
            try:
                breakers.record_success(self._db, self.key)
            except UNAVAILABLE_ERRORS:
                return
            log.info("breaker.closed", batch_id=self._batch, name=self._asked.name)
            self._set(State())

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Send the requests of this thread within the block through the circuit."""
        self.require()
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def has_answered(self, since: float) -> bool:
        """Tell whether another request of the batch was answered after this time of the monotonic clock."""
        return self._answered_at > since

    def _is_open(self) -> bool:
        return self._state.closed_in is not None and self._state.probe != self._batch

    def _look(self) -> None:
        self._set(breakers.breaker_state(self._db, self.key, self._batch))

    def _set(self, state: State) -> None:
        self._state = state
        self._look_at = time.monotonic() + min(LOOK_SECONDS, max(0.0, state.closed_in or 0))


class Circuits:
    """Circuits of a batch. `waiting`: the key of an open breaker by job run; `held`: keys that the scope waits for."""

    def __init__(self, db: Database, lease: Lease) -> None:
        self._db, self.lease = db, lease
        self._circuits: dict[str, Circuit] = {}
        self._lock = threading.Lock()
        self.waiting: dict[str, str] = {}
        self.held: set[str] = set()
        self._faulty: set[str] = set()

    @contextmanager
    def tell_apart(self, asked: Asked, item: str) -> Iterator[None]:
        """Fetch an item within `through`. Retryable if it alone fails, because others were answered meanwhile: the
        breaker is closed again, and later failures of this item do not count."""
        circuit, began = self.of(asked), time.monotonic()
        token = _current.set(None) if item in self._faulty else None
        try:
            yield
        except Unavailable as error:
            if not circuit.has_answered(began):
                raise
            self._faulty.add(item)
            circuit.succeeded()
            raise Retryable(f"{asked.name} answered other requests, but failed three times for this one.") from error
        finally:
            if token is not None:
                _current.reset(token)

    def of(self, asked: Asked) -> Circuit:
        with self._lock:
            if (circuit := self._circuits.get(asked.key)) is None:
                circuit = self._circuits[asked.key] = Circuit(self._db, self.lease.batch_id, asked)
            return circuit

    @contextmanager
    def through(self, asked: Asked, *, job_run: str | None = None, each: bool, least: float = 0) -> Iterator[None]:
        """Send requests through a circuit. `job_run`: the one that needs it, None where the whole scope does.

        `each`: count failures of the block, because its tries do not report themselves; those that took less than
        `least` seconds do not count.
        """
        circuit, began = self.of(asked), time.monotonic()
        try:
            with circuit.watching():
                yield
        except Unavailable as error:
            self._wait(error, job_run)
            raise
        except Retryable as error:
            took = time.monotonic() - began
            if each and error.after is None and took >= least:
                circuit.failed(took, str(error))
            raise
        except StepError:
            if each:
                circuit.succeeded()
            raise
        else:
            if each:
                circuit.succeeded()

    def _wait(self, error: Unavailable, job_run: str | None) -> None:
        with self._lock:
            if job_run is None:
                self.held.add(error.key)
            else:
                self.waiting[job_run] = error.key

    @property
    def left_out(self) -> bool:
        """Tell if a job run of the batch, or its scope, waits for a breaker."""
        return bool(self.waiting or self.held)

    def end(self) -> None:
        """The batch ends."""
        breakers.release_probes(self._db, self.lease.batch_id, self.lease.partition)
