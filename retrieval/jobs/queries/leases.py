"""Renewal and end of the lease of a batch."""

from __future__ import annotations

from typing import LiteralString

from retrieval.database.database import Database
from retrieval.jobs.queries.batches import Lease


def renew_lease(db: Database, lease: Lease, *, seconds: float) -> bool:
    """Renew the lease; False after another claim or a return."""
    renewed = db.execute(
        """
        update batches set lease_until = now() + make_interval(secs => %(seconds)s)
        where id = %(batch)s and fence = %(fence)s and finished_at is null and not released
        """,
        {"batch": lease.batch_id, "fence": lease.fence, "seconds": seconds},
    )
    return bool(renewed)


def extend_lease(db: Database, lease: Lease, *, seconds: float) -> bool:
    """Extend the lease of a closed batch for writes to stores (0 ends it); False after another claim."""
    extended = db.execute(
        """
        update batches set lease_until = now() + make_interval(secs => %(seconds)s)
        where id = %(batch)s and fence = %(fence)s + 1 and finished_at is not null
        """,
        {"batch": lease.batch_id, "fence": lease.fence, "seconds": seconds},
    )
    return bool(extended)


def expire_lease(db: Database, lease: Lease) -> None:
    """End the lease of a failed flow run."""
    # Unlike after a state set by hand, when the lease is alive.
    db.execute(
        "update batches set lease_until = now() where id = %(batch)s and fence = %(fence)s and finished_at is null",
        {"batch": lease.batch_id, "fence": lease.fence},
    )


def is_dispatched_to(db: Database, batch_id: str, attempt: int, flow_run_id: str) -> bool:
    """Return whether this attempt of an open batch belongs to the flow run."""
    statement: LiteralString = (
        "select exists (select from batches where id = %(id)s and attempt = %(attempt)s and finished_at is null"
        " and flow_run_id = %(flow_run)s)"
    )
    return bool(db.fetch_one(bool, statement, {"id": batch_id, "attempt": attempt, "flow_run": flow_run_id}))
