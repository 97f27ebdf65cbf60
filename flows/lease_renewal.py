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
    """Renew a lease of `seconds` after each third of this time; release the lease when the process is stopped."""
    # A separate connection: the lease stays alive while all connections of the worker are busy.
    heartbeat_db = db.sibling(size=1, role="heartbeat")
    is_batch_closed = threading.Event()

    def renew() -> float | None:
        """Renew the lease; return the seconds until the next renewal, None after a loss."""
        try:
            if not leases.renew_lease(heartbeat_db, lease, seconds=seconds):
                # After a loss the flow goes on until its next write, which the fence refuses.
                if not is_batch_closed.is_set():
                    log.warning("lease.lost", batch_id=lease.batch_id)
                # A deleted namespace closes its batches. The lease is kept, since this worker may still write to a
                # vector store, and the store is emptied only after its end.
                if not leases.extend_lease(heartbeat_db, lease, seconds=seconds):
                    return None
                is_batch_closed.set()
            # The heartbeat also saves the metrics counted in this process.
            counts.write_counts(heartbeat_db)
        except LOCK_ERRORS:
            # A write of this worker holds the row.
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
                # The reconciler sees a failed flow by its expired lease, and a state set by a person by a live one.
                with suppress(*UNAVAILABLE_ERRORS):
                    leases.expire_lease(heartbeat_db, lease)
                raise
            except BaseException:
                # The process is being stopped: another worker may continue at once.
                with suppress(*UNAVAILABLE_ERRORS):
                    crashes.release_lease(heartbeat_db, lease)
                log.info("lease.released", batch_id=lease.batch_id)
                raise
    finally:
        if is_batch_closed.is_set():
            with suppress(*UNAVAILABLE_ERRORS):
                leases.extend_lease(heartbeat_db, lease, seconds=0)
        heartbeat_db.close()
        counts.write_counts(db)


@contextmanager
def repeat_in_thread(call: Callable[[], float | None], seconds: float, *, name: str) -> Iterator[None]:
    """Repeat `call` in a thread, first after `seconds`, then after the seconds it returned; None ends the thread."""
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
