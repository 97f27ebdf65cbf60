"""Passwords of protected files, sealed in the job run and deleted at its end by a trigger of the schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from retrieval.database.statements import LoopConnection
from retrieval.security.secrets import KeyRing

# Takes a job run id, returns the sealed password.
Seal = Callable[[str], bytes]


def make_sealer(ring: KeyRing, password: str | None) -> Seal | None:
    """Return a function that seals the password; None without a password."""
    return None if password is None else lambda run_id: ring.seal(password.encode(), row=row_name(run_id))


async def store_password(connection: LoopConnection, run_ids: Sequence[str], seal: Seal) -> None:
    """Store the password with new job runs in their transaction."""
    await connection.execute(
        "update job_runs r set password = w.sealed"
        " from unnest(%(runs)s::text[], %(sealed)s::bytea[]) as w (run, sealed) where r.id = w.run",
        {"runs": list(run_ids), "sealed": [seal(run_id) for run_id in run_ids]},
    )


def open_password(ring: KeyRing, run_id: str, sealed: bytes | None) -> str:
    """Return the password of a job run, or ""."""
    return "" if sealed is None else ring.open(sealed, row=row_name(run_id)).decode()


def row_name(run_id: str) -> str:
    """Return the sealing name of a job run's password."""
    return f"job_runs/{run_id}/password"
