"""Keeps a batch's lease alive while the flow works, and hands it back when that is cut short.

From a thread and by a connection of its own: a worker whose connections are all at work is not dead.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import structlog

from retrieval.database.database import AWAY, HELD, Database
from retrieval.ingestion import poison_detection
from retrieval.jobs.queries import batches
from retrieval.jobs.queries.batches import Lease
from retrieval.metrics import counts

log = structlog.get_logger()

AGAIN_SECONDS = 1.0
"""After which a lease is renewed again that could not be."""


@contextmanager
def beating(db: Database, lease: Lease, *, seconds: float) -> Iterator[None]:
    """Renew the lease every third of its time, by a connection of its own.

    A lost lease stops nothing here: the fence refuses the next write. Of a batch that was closed from outside, as
    with its namespace, it is said until the end that a worker may still be writing to a store.

    Where the process is asked to end, which is no `Exception`, the lease is handed back at once. What ends within a
    third of the lease opens no connection.
    """
    own_db = db.sibling(size=1, role="heartbeat")
    over, closed = threading.Event(), threading.Event()

    def beat() -> None:
        pause = seconds / 3
        while not over.wait(pause):
            try:
                if not batches.renew(own_db, lease, seconds=seconds):
                    if not closed.is_set():
                        log.warning("lease.lost", batch_id=lease.batch_id)
                    if not batches.linger(own_db, lease, seconds=seconds):
                        return
                    closed.set()
                counts.write(own_db)
                pause = seconds / 3
            except HELD:  # by a write under this very fence: while it goes on nobody takes us for dead
                pause = 0
            except AWAY:
                pause = min(AGAIN_SECONDS, seconds / 3)
                log.warning("lease.not_renewed", batch_id=lease.batch_id, reason="the database is away")

    thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    except Exception:
        raise
    except BaseException:
        with suppress(*AWAY):
            poison_detection.release(own_db, lease)
        log.info("lease.released", batch_id=lease.batch_id)
        raise
    finally:
        over.set()
        thread.join()
        if closed.is_set():
            with suppress(*AWAY):
                batches.linger(own_db, lease, seconds=0)
        own_db.close()
        counts.write(db)
