"""Observed health of webhooks, schedules and connections."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from api.wire.common import Timestamp
from retrieval.jobs import run_health


class ObservedHealth(Struct, rename="camel", kw_only=True):
    """Observed outcomes, next to the status that was set."""

    state: Annotated[
        Literal["HEALTHY", "FAILING", "UNKNOWN"],
        Meta(description="FAILING after a failure, HEALTHY after a success, UNKNOWN without an outcome."),
    ]
    last_outcome: Annotated[
        str | None,
        Meta(
            description="DELIVERED or FAILED for webhooks; for others the outcome of the newest job run that ended, or "
            "NOT_STARTED if the last due time could not start one. Null without one."
        ),
    ]
    last_success_at: Annotated[
        Timestamp | None, Meta(description="Time of the newest success, within 10 seconds; null if none is known.")
    ]
    failures_since: Annotated[
        Timestamp | None, Meta(description="Time of the first failure since the last success; null without one.")
    ]
    consecutive_failures: Annotated[int, Meta(description="Number of failures since the last success.")]
    next_attempt_at: Annotated[
        Timestamp | None, Meta(description="Time of the next delivery or job run; null if none is planned.")
    ]
    reason: Annotated[str | None, Meta(description="Reason of the last failure; null after a success.")]

    @classmethod
    def from_health(cls, health: run_health.Health) -> ObservedHealth:
        return cls(
            state=health.state,
            last_outcome=health.last_outcome,
            last_success_at=_optional_timestamp(health.last_success_at),
            failures_since=_optional_timestamp(health.failures_since),
            consecutive_failures=health.consecutive_failures,
            next_attempt_at=_optional_timestamp(health.next_attempt_at),
            reason=health.reason,
        )


def _optional_timestamp(moment: datetime | None) -> Timestamp | None:
    return None if moment is None else Timestamp.from_datetime(moment)
