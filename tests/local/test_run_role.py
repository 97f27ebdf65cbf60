"""Start one role in the foreground."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import os, sys
from local import roles, run_role
from retrieval.settings import Settings
told = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
roles.list_commands = lambda *_: {"metrics": [sys.executable, "-c", told]}
run_role._replace_process("metrics", Settings(home=sys.argv[1]), dict(os.environ))
"""


def test_a_role_that_a_script_starts_in_its_background_hears_sigint(tmp_path: Path) -> None:
    # Background processes of a script ignore SIGINT; Prefect's worker stops through a SIGINT to its own process.
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=Path(__file__).resolve().parents[2],
        env=os.environ | {"RETRIEVAL_HOME": str(tmp_path)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    assert done.stdout.strip() == "True"
