"""How long Prefect's client waits before it repeats a request that its server did not take."""

from __future__ import annotations

from typing import Final

LONGEST_SECONDS: Final = 3.0
"""Between two attempts, whatever came before."""


def shorten() -> None:
    """From now on in this process and those forked from it: never wait longer than `LONGEST_SECONDS`.

    The client waits twice as long after each attempt, at last for 32 s: the dispatcher, a worker that polls and every
    flow run would sleep on long after the server is back.
    """
    from prefect.client import base
    from prefect.utilities.math import clamped_poisson_interval as usual

    def shorter(average_interval: float, clamping_factor: float = 0.3) -> float:
        return usual(min(average_interval, LONGEST_SECONDS / (1 + clamping_factor)), clamping_factor)

    base.clamped_poisson_interval = shorter  # type: ignore[attr-defined]
