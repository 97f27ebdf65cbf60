"""Keeps a batch's lease alive from a thread of its own while the flow works; hands it back when that is cut short."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import structlog

from retrieval import batches, losses
from retrieval.batches import Lease
from retrieval.database import AWAY, Database

log = structlog.get_logger()


@contextmanager
def beating(db: Database, lease: Lease, *, seconds: float) -> Iterator[None]:
    """Renew every third of the lease, by a connection that nobody else waits for.

    A lost lease stops nothing here: the fence refuses the next write.

    Where the process is asked to end, which is no `Exception`, the lease is handed back at once.
    """
    over, own = threading.Event(), db.sibling(size=1, role="worker")

    def beat() -> None:
        while not over.wait(seconds / 3):
            try:
                if not batches.renew(own, lease, seconds=seconds):
                    log.warning("lease.lost", batch_id=lease.batch_id)
                    return
            except AWAY:
                log.warning("lease.not_renewed", batch_id=lease.batch_id, reason="the database is away")

    thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    except Exception:
        raise
    except BaseException:
        with suppress(*AWAY):
            losses.release(db, lease)
        log.info("lease.released", batch_id=lease.batch_id)
        raise
    finally:
        over.set()
        thread.join()
        own.close()
