"""What is said of a job run that waits: since when, at which place, until when."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from ui.parts.labels import ago, moment, seconds

PATIENCE_SECONDS = 60.0
"""A job run usually begins within seconds; nobody is asked to look for a worker sooner."""


def since(created: dict[str, Any]) -> str:
    """How long something waits: `2 min`."""
    return ago(created).removesuffix(" ago")


def told(run: dict[str, Any], now: datetime | None = None) -> str:
    """How long a QUEUED run waits, its place, and when it is likely to begin.

    Only where nothing has begun for an hour, as far as the API knows, is it asked whether a worker runs.
    """
    now = now or datetime.now(UTC)
    parts = [f"Queued for {since(run['createdAt'])}"]
    if run["queuePosition"]:
        parts.append(f"place {run['queuePosition']:,} in its queue")
    created, start = moment(run["createdAt"]), moment(run["estimatedStart"])
    if start is not None and start > now:
        parts.append(f"likely to begin in {seconds((start - now).total_seconds())}")
    elif nobody_works(run) and created and (now - created).total_seconds() > PATIENCE_SECONDS:
        parts.append("nothing has begun for an hour: see Queue and workers")
    return " · ".join(parts)


def nobody_works(run: dict[str, Any]) -> bool:
    """Whether a QUEUED run, as GET answers it, waits for a worker that may not be there: no start can be told."""
    return run["queuePosition"] is not None and run["estimatedStart"] is None and not run["notices"]
