"""State of dispatch, as `retrieval status` shows it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg

from local import deadline, disk, environment
from local.errors import LocalError
from retrieval import readiness
from retrieval.database.database import AWAY, Database
from retrieval.readiness import Dispatch
from retrieval.settings import Settings


def seen(settings: Settings) -> Dispatch | None:
    """None if the database does not tell within `disk.SECONDS`."""

    def look() -> Dispatch:
        with closing(Database(environment.resolve(settings).database_url, size=1)) as db:
            return readiness.look(db)

    try:
        return deadline.call(look, disk.SECONDS)
    except (TimeoutError, LocalError, *AWAY, psycopg.Error):
        return None


def as_json(dispatch: Dispatch) -> dict[str, Any]:
    """Ages in seconds."""
    return {
        "stalled": dispatch.stalled,
        "held": dispatch.is_held,
        "levers": [lever.effect for lever in dispatch.levers],
        "reasons": list(dispatch.reasons),
        "oldestWaitingSeconds": _rounded(dispatch.waiting),
        "openBreakers": dispatch.breakers,
        "loops": [
            {"loop": loop.name, "lastSuccessSeconds": _rounded(loop.age), "late": loop.late, "reason": loop.reason}
            for loop in dispatch.loops
        ],
    }


def lines(dispatch: Dispatch | None) -> Iterator[str]:
    """Describe dispatch for people: why it is stalled, what is late, and how long work has waited."""
    if dispatch is None:
        yield "dispatch: unknown, since the database does not answer"
        return
    state = "held in Prefect" if dispatch.is_held else "stalled" if dispatch.stalled else "running"
    yield f"dispatch: {state}{_waiting(dispatch)}"
    yield from (f"  {lever.effect}" for lever in dispatch.levers)
    yield from (f"  {reason}" for reason in dispatch.reasons)
    if dispatch.breakers:
        yield f"  Vendors and sites that do not answer, whose job runs wait for them: {dispatch.breakers}"
    yield from (f"  {loop}" for loop in dispatch.late if str(loop) not in dispatch.reasons)


def _waiting(dispatch: Dispatch) -> str:
    return "" if dispatch.waiting is None else f", the oldest job run has waited for {dispatch.waiting:.0f} s"


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
