"""The installed package of a wheel; in a checkout, the service's packages are next to it.

In a wheel, the packages are below `packages/`, on the path of the service's processes only: `api`, `flows` and the
others collide with nothing in the environment. Child processes run modules with this folder as working directory.
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
