"""What a process needs in its environment to have a clock of its own: libfaketime, Debian's package `faketime`."""

from __future__ import annotations

from pathlib import Path

LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
"""Empty where it is not installed."""


def environment(clock: Path) -> dict[str, str]:
    """Variables for a process whose clock is off by what the file says, as `+3600s`; it is read every second."""
    return {
        "LD_PRELOAD": str(LIBRARIES[0]),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
    }
