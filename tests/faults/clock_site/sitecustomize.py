"""Gives a role of the service a clock of its own: it begins anew with libfaketime, which reads what the clock says from
`clock.ROLE` in the instance's home. On `PYTHONPATH` of the services that `tests/faults` starts, and nowhere else."""

import os
import sys
from pathlib import Path

ROLES = {"api": "api", "flows.dispatch": "dispatcher", "prefect": "worker"}
"""By the module that is run."""

module = sys.orig_argv[2] if sys.orig_argv[1:2] == ["-m"] else ""
role = ROLES.get(module) if module != "prefect" or "worker" in sys.orig_argv else None
clock = Path(os.environ.get("RETRIEVAL_HOME", "/nowhere"), f"clock.{role}")
if role and "FAKETIME_TIMESTAMP_FILE" not in os.environ and clock.exists():
    from clock_of import environment  # type: ignore[import-not-found]

    os.execve(sys.executable, sys.orig_argv, os.environ | environment(clock))
