"""The package that a wheel installs; a checkout has the service's packages next to it.

In a wheel they lie below `packages/`, which is only on the path of the service's own processes: `api`, `flows` and the
others collide with nothing in the environment. Child processes run modules with that folder as their working directory.
"""

import os
import sys
from pathlib import Path

PACKAGES = Path(__file__).with_name("packages")


def main() -> int:
    """Run the `retrieval` command."""
    if PACKAGES.is_dir():
        sys.path.insert(0, str(PACKAGES))
        os.environ.pop("PYTHONSAFEPATH", None)  # it would keep the working directory off the path of child processes
    from local.cli import main as run_command

    return run_command()
