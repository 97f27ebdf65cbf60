"""Gives a role of the service a clock of its own: it begins anew with libfaketime, which reads what the clock says from
`clock.ROLE` in the instance's home. On `PYTHONPATH` of the services that `tests/faults` starts, and nowhere else."""

import os
import select
import sys
import time
from pathlib import Path

ROLES = {"api": "api", "flows.dispatch": "dispatcher", "prefect": "worker"}
"""By the module that is run."""

module = sys.orig_argv[2] if sys.orig_argv[1:2] == ["-m"] else ""
role = ROLES.get(module) if module != "prefect" or "worker" in sys.orig_argv else None
clock = Path(os.environ.get("RETRIEVAL_HOME", "/nowhere"), f"clock.{role}")
if role and "FAKETIME_TIMESTAMP_FILE" not in os.environ and clock.exists():
    from clock_of import environment  # type: ignore[import-not-found]

    os.execve(sys.executable, sys.orig_argv, os.environ | environment(clock))


def sleep(seconds: float) -> None:
    """libfaketime 0.9.10 refuses the call that Python's own makes: to sleep until a moment of the monotonic clock."""
    select.select([], [], [], seconds)


if "FAKETIME_TIMESTAMP_FILE" in os.environ:
    time.sleep = sleep
