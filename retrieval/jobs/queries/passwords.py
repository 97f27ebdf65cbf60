"""Passwords of protected files: sealed in the job run that opens the files with them, and deleted at its end.

The end of a run deletes its password by a trigger of the schema, whichever statement ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from retrieval.database.statements import LoopConnection
from retrieval.security.secrets import KeyRing

Seal = Callable[[str], bytes]
"""Returns a password, sealed for the job run of this id."""


def sealer(ring: KeyRing, password: str | None) -> Seal | None:
    """Return what seals the password; None without one."""
    return None if password is None else lambda run_id: ring.seal(password.encode(), row=row_name(run_id))


async def keep_password(connection: LoopConnection, run_ids: Sequence[str], seal: Seal) -> None:
    """Store the password with new job runs, within the transaction that creates them."""
    await connection.execute(
        "update job_runs r set password = w.sealed"
        " from unnest(%(runs)s::text[], %(sealed)s::bytea[]) as w (run, sealed) where r.id = w.run",
        {"runs": list(run_ids), "sealed": [seal(run_id) for run_id in run_ids]},
    )


def open_password(ring: KeyRing, run_id: str, sealed: bytes | None) -> str:
    """Return the password of a job run; "" if it has none."""
    return "" if sealed is None else ring.open(sealed, row=row_name(run_id)).decode()


def row_name(run_id: str) -> str:
    """Under which name the password of a job run is sealed."""
    return f"job_runs/{run_id}/password"
