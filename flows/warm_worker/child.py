"""The child side of the `warm` worker: one process, already imported, that runs one flow run after another."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from flows.prefect_internals import engine, patience, suspension
from retrieval import logs, tracing

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from uuid import UUID

    from prefect import Flow
    from prefect.client.schemas.objects import FlowRun, State

PRELOAD = (*engine.MODULES, "flows.ingest")
"""Imported once, before the children are forked. A missing module is left out; one that fails is an error."""

CANCEL_SIGNAL = signal.SIGUSR1
"""Ends the flow run like SIGTERM, but the engine does not report a crash: the worker reports the cancellation."""

ORPHAN_SECONDS = 5.0
"""How long a child whose worker died may take to report its flow run as crashed."""


@dataclass(frozen=True, slots=True)
class Order:
    """One flow run to execute, as the worker took it from the pool.

    `code` names a version of its deployment: the same code means the same flow object. `entrypoint`: the one that the
    worker has allowed; the child loads exactly this one.
    """

    run: FlowRun
    code: str
    entrypoint: str
    environment: dict[str, str]


@dataclass(frozen=True, slots=True)
class Suspension:
    """Somebody suspended the flow run in Prefect: if it is still the one at work, it is to end before its next task."""

    run_id: UUID
    state: State[Any]


@dataclass(frozen=True, slots=True)
class ChildReport:
    """`clean`: the engine came back in good order, whatever the state of the run. `memory`: resident bytes."""

    clean: bool
    memory: int


def preload(modules: tuple[str, ...] = PRELOAD) -> None:
    """Import what every flow run needs; runs in the fork server only."""
    for name in modules:
        if _exists(name):
            __import__(name)
    patience.shorten()
    suspension.leave_to_the_worker()


def serve(control: Connection) -> None:
    """Execute the orders that come over `control`, until the worker closes it. Main thread of the child."""
    os.setpgid(0, 0)
    logs.lose_what_does_not_fit()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(CANCEL_SIGNAL, _cancel)
    threading.Thread(target=_follow_worker, name="follow-worker", daemon=True).start()
    orders: SimpleQueue[Order | None] = SimpleQueue()
    threading.Thread(target=_listen, args=(control, orders), name="listen", daemon=True).start()
    flows: dict[str, Flow[..., Any]] = {}
    try:
        with engine.Engine() as runs, suppress(BrokenPipeError):
            while (order := orders.get()) is not None:
                control.send(ChildReport(clean=_execute(order, runs, flows), memory=_resident_bytes()))
    finally:
        tracing.end()


def _exists(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _listen(control: Connection, orders: SimpleQueue[Order | None]) -> None:
    """To the worker, also while a flow run is at work; None for the main thread once the worker has closed."""
    try:
        while True:
            told: Order | Suspension = control.recv()
            if isinstance(told, Order):
                orders.put(told)
            else:
                suspension.suspend(told.run_id, told.state)
    except (EOFError, ConnectionResetError):
        return
    finally:
        orders.put(None)


def _follow_worker() -> None:
    """When the worker is gone, end as well: SIGTERM lets the engine report a crash, SIGKILL follows."""
    worker = multiprocessing.parent_process()
    if worker is None:
        return
    worker.join()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(ORPHAN_SECONDS)
    os.killpg(0, signal.SIGKILL)


def _cancel(_signal: int, _frame: object) -> None:
    engine.end_as_cancelled()


def _execute(order: Order, runs: engine.Engine, flows: dict[str, Flow[..., Any]]) -> bool:
    from prefect.flows import load_flow_from_entrypoint

    os.environ.update(order.environment)
    try:
        with engine.engine_signals(order.run.id):
            log = engine.run_logger(order.run)
            if order.code not in flows:
                try:
                    flows[order.code] = load_flow_from_entrypoint(order.entrypoint, use_placeholder_flow=False)
                except Exception:
                    log.exception("The flow of this run could not be loaded")
                    raise
            runs.execute(flows[order.code], order.run, log)
    except SystemExit as ended:
        return not ended.code
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return True


def _resident_bytes() -> int:
    """Resident memory now; where the kernel does not say it, the peak."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return pages * resource.getpagesize()
