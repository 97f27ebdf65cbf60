"""Restart of the local worker, as recorded by the supervisor of `retrieval up`."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path


def find_restart(home: Path) -> str | None:
    """Describe the restart of the worker; None if it is up, or if no supervisor started this process."""
    try:
        record = json.loads((home / "state.json").read_text())
    except (OSError, ValueError):
        return None
    # Each supervised role leads a session of its own.
    if os.getsid(0) not in {role["pid"] for role in record["roles"]}:
        return None
    worker = next((role for role in record["roles"] if role["name"] == "worker"), None)
    if worker is None or worker["state"] not in {"starting", "restarting"}:
        return None
    if worker["state"] == "restarting":
        return "The worker died and is starting again."
    again = " again" if worker["restarts"] else ""
    return f"The worker is starting{again} ({max(0.0, time.time() - worker['since']):.0f} s)."
