"""Process of one flow run, forked with all imports; runs Prefect's engine."""

from __future__ import annotations

import multiprocessing
import os
import platform
import runpy
import signal
import sys
import threading
import time
import warnings
from contextlib import suppress
from typing import Final

import anyio
import anyio.to_thread

from connectors import registry
from retrieval import logs, tracing

FORK_CONTEXT: Final = multiprocessing.get_context("forkserver")
FORK_CONTEXT.set_forkserver_preload(["flows.worker.preload"])

# Time of the process to report its flow run as crashed after the death of its worker.
ORPHAN_SECONDS: Final = 5.0
# Pause between SIGTERM and SIGKILL.
STOP_SECONDS: Final = 2.0
KILLED_EXIT_CODE: Final = -int(signal.SIGKILL)


def execute_flow_run(environment: dict[str, str], embedder_socket: str | None) -> None:
    """Run `python -m prefect.engine` in this process."""
    os.setpgid(0, 0)
    logs.drop_failed_output()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_follow_worker, name="follow-worker", daemon=True).start()
    registry.use_embedding_process(embedder_socket)
    os.environ.update(environment)
    sys.argv = ["prefect.engine"]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # the module is imported already
            runpy.run_module("prefect.engine", run_name="__main__", alter_sys=True)
    finally:
        registry.close_parser()
        tracing.end_tracing()


def _follow_worker() -> None:
    """End with the worker."""
    # SIGTERM lets the engine report a crash; SIGKILL follows.
    worker = multiprocessing.parent_process()
    if worker is None:
        return
    worker.join()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(ORPHAN_SECONDS)
    os.killpg(0, signal.SIGKILL)


class RunProcess:
    """Handle of a flow run's process in the worker."""

    def __init__(self, environment: dict[str, str], embedder_socket: str | None) -> None:
        arguments = (environment, embedder_socket)
        self._process = FORK_CONTEXT.Process(target=execute_flow_run, args=arguments, name="flow-run")
        self._process.start()
        self.pid: int = self._process.pid or 0
        self.name = f"{platform.node()}:{self.pid}"
        self.is_cancelled = False

    async def wait(self) -> int:
        """Wait for the end of the process; return the exit code, 0 for a cancelled flow run."""
        await anyio.wait_readable(self._process.sentinel)
        await anyio.to_thread.run_sync(self._process.join)
        self.kill()
        code = self._process.exitcode
        return 0 if self.is_cancelled else KILLED_EXIT_CODE if code is None else code

    def close(self) -> None:
        """Free the handle of an ended process."""
        with suppress(ValueError):
            self._process.close()

    def cancel(self) -> None:
        """Kill the process with children; `wait` then returns 0."""
        self.is_cancelled = True
        self.kill()

    def kill(self) -> None:
        """Send SIGKILL to the process and all children."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        if self._process.exitcode is None:
            self._process.kill()

    async def stop(self, grace_seconds: float) -> None:
        """Wait for the flow run, then send SIGTERM, then SIGKILL."""
        for seconds, end in ((grace_seconds, self._process.terminate), (STOP_SECONDS, self.kill), (STOP_SECONDS, None)):
            with anyio.move_on_after(seconds):
                await anyio.wait_readable(self._process.sentinel)
                return
            if end is not None:
                end()
