"""Renewal of a batch's lease while the flow works."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import structlog

from retrieval.database.database import LOCK_ERRORS, UNAVAILABLE_ERRORS, Database
from retrieval.ingestion.queries import crashes
from retrieval.jobs.queries import leases
from retrieval.jobs.queries.batches import Lease
from retrieval.metrics import counts

log = structlog.get_logger()

RENEW_RETRY_SECONDS = 1.0


@contextmanager
def keep_lease(db: Database, lease: Lease, *, seconds: float) -> Iterator[None]:
    """Renew the lease every third of its time; release it at once when the process is stopped."""
    # An own thread and connection: a worker whose connections are all busy is still alive.
    # A lost lease stops nothing here: the fence refuses the next write.
    own_db = db.sibling(size=1, role="heartbeat")
    is_closed = threading.Event()

    def renew() -> float | None:
        try:
            if not leases.renew_lease(own_db, lease, seconds=seconds):
                if not is_closed.is_set():
                    log.warning("lease.lost", batch_id=lease.batch_id)
                # A batch closed from outside, as with its namespace: this worker may still write to a store.
                if not leases.extend_lease(own_db, lease, seconds=seconds):
                    return None
                is_closed.set()
            counts.write_counts(own_db)
        except LOCK_ERRORS:  # a write with this fence holds the row, which shows that the worker lives
            return 0
        except UNAVAILABLE_ERRORS:
            log.warning("lease.not_renewed", batch_id=lease.batch_id, reason="the database is away")
            return min(RENEW_RETRY_SECONDS, seconds / 3)
        return seconds / 3

    try:
        with repeat_in_thread(renew, seconds / 3, name="heartbeat"):
            try:
                yield
            except Exception:
                # An expired lease distinguishes this failure from a state that a person sets during the run.
                with suppress(*UNAVAILABLE_ERRORS):
                    leases.expire_lease(own_db, lease)
                raise
            except BaseException:
                with suppress(*UNAVAILABLE_ERRORS):
                    crashes.release_lease(own_db, lease)
                log.info("lease.released", batch_id=lease.batch_id)
                raise
    finally:
        if is_closed.is_set():
            with suppress(*UNAVAILABLE_ERRORS):
                leases.extend_lease(own_db, lease, seconds=0)
        own_db.close()
        counts.write_counts(db)


@contextmanager
def repeat_in_thread(call: Callable[[], float | None], seconds: float, *, name: str) -> Iterator[None]:
    """Call in a thread after `seconds`, then after each returned pause; None ends the calls."""
    stopped = threading.Event()

    def repeat() -> None:
        pause: float | None = seconds
        while pause is not None and not stopped.wait(pause):
            pause = call()

    thread = threading.Thread(target=repeat, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
