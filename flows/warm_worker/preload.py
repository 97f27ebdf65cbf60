"""Imported by the fork server alone, and for its effects: a process group of its own, and the imports of every child.

A group of its own keeps a Ctrl-C or a signal sent to the worker's group away from running flow runs: only the worker
decides when they end. An ImportError is raised as another kind, because the fork server would swallow it in silence.
"""

import os

from flows.warm_worker.child import preload

os.setpgid(0, 0)
try:
    preload()
except ImportError as error:
    raise RuntimeError(f"The worker's children cannot be prepared: {error}") from error
