"""Retries of webhook deliveries: pauses, the end of a delivery, and when an endpoint is switched off."""

from __future__ import annotations

from datetime import timedelta

RETRY_SCHEDULE_SECONDS = (5, 30, 120, 600, 3600)
# Interval of attempts after the end of the schedule.
LATER_RETRY_SECONDS = 6 * 3600
# A delivery is repeated until this time after its event; the next refusal ends it as failed.
DELIVERY_LIFETIME = timedelta(days=1)
# When a delivery ends as failed, its endpoint is disabled if it accepted nothing for this time; at a 410 at once.
ENDPOINT_PATIENCE = timedelta(hours=24)


def retry_pause(tries: int) -> int:
    """Return the seconds to the next attempt after a refused one, by the number of tries before that one."""
    return RETRY_SCHEDULE_SECONDS[tries] if tries < len(RETRY_SCHEDULE_SECONDS) else LATER_RETRY_SECONDS
