"""Health of webhooks, schedules and connections in responses."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from api.wire.common import Timestamp
from retrieval.jobs import run_health


class ResourceHealth(Struct, rename="camel", kw_only=True):
    """Health of a webhook, schedule or connection by outcomes of deliveries or job runs."""

    state: Annotated[
        Literal["HEALTHY", "FAILING", "UNKNOWN"],
        Meta(description="FAILING after a failure, HEALTHY after a success, UNKNOWN without an outcome."),
    ]
    last_outcome: Annotated[
        str | None,
        Meta(
            description="Of a webhook, DELIVERED or FAILED. Of a schedule or connection, the outcome of the newest "
            "ended job run, or NOT_STARTED if no job run could start at the last due time. Null before the first one."
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
    def from_health(cls, health: run_health.Health) -> ResourceHealth:
        return cls(
            state=health.state,
            last_outcome=health.last_outcome,
            last_success_at=Timestamp.from_optional(health.last_success_at),
            failures_since=Timestamp.from_optional(health.failures_since),
            consecutive_failures=health.consecutive_failures,
            next_attempt_at=Timestamp.from_optional(health.next_attempt_at),
            reason=health.reason,
        )
