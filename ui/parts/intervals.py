"""Sync intervals of connections, in words."""

from __future__ import annotations

INTERVALS = {
    None: "Only when asked for",
    15: "Every 15 minutes",
    60: "Every hour",
    360: "Every 6 hours",
    1440: "Every day",
    10080: "Every week",
}
"""Minutes between two ingestions, in words."""


def name_of(minutes: int | None) -> str:
    """An interval in words, also one that is not offered."""
    return INTERVALS.get(minutes, f"Every {minutes} minutes")
