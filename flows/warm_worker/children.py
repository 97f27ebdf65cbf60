"""The worker's side of its child processes: start them, send them work, watch and end them."""

from __future__ import annotations

import atexit
import multiprocessing
import multiprocessing.util  # what it does at exit comes after what is registered here
import os
import signal
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import structlog

from flows.warm_worker.child import ORPHAN_SECONDS, ChildReport, Order, Suspension, serve

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from uuid import UUID

    from prefect.client.schemas.objects import State

log = structlog.get_logger()

FORKS = multiprocessing.get_context("forkserver")
STOP_SECONDS = 1.0
"""Between the signal that asks a flow run to end and SIGKILL."""
RETIRE_SECONDS = 10.0
"""How long a child that is not needed any more may take to send its last logs and events."""
UNKNOWN_EXIT = 255


class Child:
    """One warm process. It executes one order at a time; after `close` it is gone."""

    def __init__(self) -> None:
        self._control, theirs = _pipe()
        try:
            self._process = FORKS.Process(target=serve, args=(theirs,), name="warm-child")
            self._process.start()
        except BaseException:
            self._control.close()
            raise
        finally:
            theirs.close()
        self.pid: int = self._process.pid or 0
        self.name = f"{socket.gethostname()}:{self.pid}"
        self.runs = 0
        self._closed = False

    def is_alive(self) -> bool:
        return not self._closed and self._process.is_alive()

    async def execute(self, order: Order) -> ChildReport | None:
        """Send the order and wait for its answer. None: the child died; `close` tells its exit code."""
        self.runs += 1
        try:
            self._control.send(order)
            return await self.answer()
        except OSError:
            return None

    async def answer(self) -> ChildReport | None:
        """The answer to the order that is out, or None if the child died. May be awaited again after a cancellation."""
        await _readable(self._control.fileno(), self._process.sentinel)
        try:
            answer: ChildReport | None = self._control.recv() if self._control.poll() else None
        except (EOFError, OSError):
            return None
        return answer

    def suspend(self, run_id: UUID, state: State[Any]) -> None:
        """Have the flow run end before its next task, if it is still this child's."""
        with suppress(OSError):  # the child died, or is closed
            self._control.send(Suspension(run_id, state))

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal, a second later SIGKILL to the child and what it started; its exit code."""
        if self.is_alive():
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)
        return await self.close(STOP_SECONDS)

    async def close(self, seconds: float = RETIRE_SECONDS) -> int:
        """End the child: it leaves when its pipe closes, and is killed after `seconds`. Its exit code."""
        if self._closed:
            return UNKNOWN_EXIT
        self._closed = True
        self._control.close()
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._process.join, seconds)
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            await anyio.to_thread.run_sync(self._process.join, seconds)
        code = self._process.exitcode
        with suppress(ValueError):
            self._process.close()
        return UNKNOWN_EXIT if code is None else code


class Children:
    """As many warm children as the worker's limit, idle or at work."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._idle: list[Child] = []
        self._busy: set[Child] = set()
        self._lock = anyio.Lock()

    async def top_up(self) -> None:
        """Replace idle children that died, and start those that are missing."""
        async with self._lock:
            for child in [child for child in self._idle if not child.is_alive()]:
                self._idle.remove(child)
                log.warning("worker.child_died_idle", pid=child.pid, exit_code=await child.close())
            while len(self._idle) + len(self._busy) < self._size:
                self._idle.append(await _start())

    async def take(self) -> Child:
        """An idle child that lives, or a fresh one."""
        while self._idle:
            child = self._idle.pop()
            if child.is_alive():
                self._busy.add(child)
                return child
            await child.close()
        child = await _start()
        self._busy.add(child)
        return child

    def give_back(self, child: Child) -> None:
        """The child is free for the next run."""
        self._busy.discard(child)
        self._idle.append(child)

    async def retire(self, child: Child) -> int:
        """End a child for good; `top_up` replaces it. Its exit code."""
        try:
            return await child.close()
        finally:
            self._busy.discard(child)

    async def close(self) -> None:
        """End all children at once."""
        everyone = [*self._idle, *self._busy]
        self._idle.clear()
        self._busy.clear()
        async with anyio.create_task_group() as group:
            for child in everyone:
                group.start_soon(child.close)


def prepare() -> None:
    """What the fork server imports before the first child; `__main__` spares each child the import of the program.

    And what becomes of children that nobody has closed when this process ends.
    """
    FORKS.set_forkserver_preload(["__main__", "flows.warm_worker.preload"])
    atexit.register(_end_left)


def _end_left() -> None:
    """Where the worker ends by an error. multiprocessing would wait for them for ever, and they for this process."""
    left = multiprocessing.active_children()
    for process in left:
        process.terminate()
    deadline = time.monotonic() + ORPHAN_SECONDS
    for process in left:
        process.join(max(0.0, deadline - time.monotonic()))
        process.kill()


async def _start() -> Child:
    """A new child; the start is shielded, because a child that nobody knows would be left behind."""
    with anyio.CancelScope(shield=True):
        child = await anyio.to_thread.run_sync(Child)
    log.info("worker.child_started", pid=child.pid)
    return child


async def _readable(*descriptors: int) -> None:
    """Until one of the descriptors can be read."""
    async with anyio.create_task_group() as group:

        async def watch(descriptor: int) -> None:
            await anyio.wait_readable(descriptor)
            group.cancel_scope.cancel()

        for descriptor in descriptors:
            group.start_soon(watch, descriptor)


def _pipe() -> tuple[Connection, Connection]:
    ours, theirs = FORKS.Pipe(duplex=True)
    return ours, theirs
