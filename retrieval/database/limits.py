"""How long PostgreSQL may take for the statements of each role."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds after which PostgreSQL ends what a connection does. Whatever is ended so is tried again later.

    `lock`: waiting for one lock. `statement`: one statement, its waiting included. `idle`: doing nothing within a
    transaction, as a process does that was stopped.
    """

    lock: float
    statement: float
    idle: float


LIMITS: Mapping[str, Limits] = {
    "api": Limits(lock=10, statement=60, idle=60),
    "dispatcher": Limits(lock=1, statement=20, idle=20),
    "sweep": Limits(lock=5, statement=60, idle=60),
    "heartbeat": Limits(lock=5, statement=10, idle=10),
    "worker": Limits(lock=60, statement=600, idle=300),
    "metrics": Limits(lock=2, statement=20, idle=20),
}
"""By role. Whoever has none (migrations, index builds, the command line) may take as long as it takes."""


def milliseconds(limits: Limits) -> dict[str, str]:
    """The limits as PostgreSQL takes them."""
    return {name: str(round(seconds * 1000)) for name, seconds in asdict(limits).items()}
