"""Lease renewal: a batch's lease is renewed while the flow works, and handed back when that is cut short.

From a thread and by a connection of its own: a worker whose connections are all at work is not dead.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import structlog

from retrieval.database.database import LOCK_ERRORS, UNAVAILABLE_ERRORS, Database
from retrieval.ingestion.queries import poison
from retrieval.jobs.queries import leases
from retrieval.jobs.queries.batches import Lease
from retrieval.metrics import counts

log = structlog.get_logger()

AGAIN_SECONDS = 1.0
"""After which a lease is renewed again that could not be."""


@contextmanager
def keep_lease(db: Database, lease: Lease, *, seconds: float) -> Iterator[None]:
    """Renew the lease every third of its time, by a connection of its own.

    A lost lease stops nothing here: the fence refuses the next write. Of a batch that was closed from outside, as
    with its namespace, it is said until the end that a worker may still be writing to a store.

    Where the process is asked to end, which is no `Exception`, the lease is handed back at once. What ends within a
    third of the lease opens no connection.
    """
    own_db = db.sibling(size=1, role="heartbeat")
    closed = threading.Event()

    def renew() -> float | None:
        try:
            if not leases.renew_lease(own_db, lease, seconds=seconds):
                if not closed.is_set():
                    log.warning("lease.lost", batch_id=lease.batch_id)
                if not leases.extend_lease(own_db, lease, seconds=seconds):
                    return None
                closed.set()
            counts.write_counts(own_db)
        except LOCK_ERRORS:  # by a write with this fence, which also shows that the worker lives
            return 0
        except UNAVAILABLE_ERRORS:
            log.warning("lease.not_renewed", batch_id=lease.batch_id, reason="the database is away")
            return min(AGAIN_SECONDS, seconds / 3)
        return seconds / 3

    try:
        with repeat_in_thread(renew, seconds / 3, name="heartbeat"):
            try:
                yield
            except Exception:
                # The end of the lease tells this failure from a state that a person sets while the run works.
                with suppress(*UNAVAILABLE_ERRORS):
                    leases.expire_lease(own_db, lease)
                raise
            except BaseException:
                with suppress(*UNAVAILABLE_ERRORS):
                    poison.release_lease(own_db, lease)
                log.info("lease.released", batch_id=lease.batch_id)
                raise
    finally:
        if closed.is_set():
            with suppress(*UNAVAILABLE_ERRORS):
                leases.extend_lease(own_db, lease, seconds=0)
        own_db.close()
        counts.write_counts(db)


@contextmanager
def repeat_in_thread(call: Callable[[], float | None], seconds: float, *, name: str) -> Iterator[None]:
    """Call after so many seconds, and again after those that it returns, until it returns None."""
    over = threading.Event()

    def repeat() -> None:
        pause: float | None = seconds
        while pause is not None and not over.wait(pause):
            pause = call()

    thread = threading.Thread(target=repeat, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
