"""Warm parser children: a few per process, one file at a time each, ended at their limits and replaced."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache

import msgspec
import structlog

from connectors.parsers import confinement, messages
from connectors.parsers.confinement import MISSING, Room
from connectors.parsers.messages import Reply, Task
from retrieval.errors import Interrupted, Retryable, Skippable
from retrieval.settings import PROJECT

log = structlog.get_logger(__name__)
_FILES_PER_CHILD = 200
_GLANCE = 0.25
_START_SECONDS = 60.0
_SLOW_PRIORITY = 10
"""Of a child that takes long (nice)."""
CLOCK_FACTOR = 10
"""How many times its processor time a file may take by the clock: a busy machine is not the file's fault."""
_QUICK_CLOCK_FACTOR = 3
"""The same before a file counts as slow, which costs it little."""
_ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "MALLOC_ARENA_MAX": "2",
    "RUST_BACKTRACE": "0",
    "RAYON_NUM_THREADS": "1",
    "OMP_THREAD_LIMIT": "1",
}
_NOT_STARTED = "The process that reads files could not be started on the worker."
_ADVICE = "Split it into smaller files and upload those."


class _Late(Exception):
    """The child did not answer in time."""


class _Gone(Exception):
    """The child is dead."""


class _Slow(Exception):
    """The file takes long, and there is no room for it among those that do."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one file in its child: seconds of processor time, and bytes of memory.

    `clock_factor`: the limit by the clock, as a multiple of those seconds.
    """

    seconds: float
    memory_bytes: int
    program: str = ""
    """The path of the one program that the child may start, with what that starts."""
    clock_factor: int = CLOCK_FACTOR
    file_bytes: int = 2**30
    """Size of a file that the child may write, such as a member of an archive."""


class Child:
    """One child process and its pipes. Used by one thread at a time."""

    def __init__(self, allowed: Limits) -> None:
        self._limits = allowed
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        self._most_memory = 0
        self._ready = False
        self.files = 0
        self.spent = False
        self._room = Room()
        command = [sys.executable, "-m", "connectors.parsers.child"]
        command += [str(allowed.memory_bytes), str(allowed.file_bytes)]
        command += [str(self._room.given), str(self._room.made), *filter(None, [allowed.program])]
        self._process = subprocess.Popen(
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=PROJECT,
            env=_ENVIRONMENT | {"TMPDIR": str(self._room.made)},
        )
        assert self._process.stdin is not None  # noqa: S101
        assert self._process.stdout is not None  # noqa: S101
        self._in, self._out = self._process.stdin, self._process.stdout
        self._poll = select.poll()
        self._poll.register(self._out, select.POLLIN)

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self) -> None:
        """Wait until the child is ready. Retryable if it never is: the machine's fault, no file's."""
        if self._ready:
            return
        try:
            _told_once(self._receive(time.monotonic() + _START_SECONDS).landlock)
        except (_Late, _Gone) as error:
            log.warning("parser.child_not_started", said=self._said()[:300].decode("utf-8", "replace"))
            raise Retryable(_NOT_STARTED) from error
        self._ready = True

    def run(self, task: Task, worked: Callable[[float], None] | None = None) -> Reply:
        """The child's answer. Skippable with the reason if it has none within the limits.

        `worked` is called now and then with the processor seconds so far, or a third of those by the clock if that is
        more; what it raises ends the run.
        """
        self.start()
        self.files += 1
        began, used = time.monotonic(), confinement.cpu_seconds_of(self.pid)
        deadline = began + self._limits.clock_factor * self._limits.seconds

        def look() -> None:
            self._most_memory = max(self._most_memory, confinement.data_bytes_of(self.pid))
            if worked is not None:
                by_clock = (time.monotonic() - began) / _QUICK_CLOCK_FACTOR
                worked(max(confinement.cpu_seconds_of(self.pid) - used, by_clock))

        try:
            self._in.write(messages.frame_message(self._room.bring(task)))
            reply = self._receive(deadline, look)
            self.spent |= reply.spent
            return self._room.take(reply, task.unpack)
        except _Late:
            reason = self._too_late()
        except (_Gone, BrokenPipeError):
            reason = self._death()
        finally:
            self._room.clear()
        raise Skippable(reason)

    def alive(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        """Kill the child if it runs and give back what it holds."""
        if self.alive():
            self._process.kill()
        self._process.wait()
        self.forget()
        self._room.remove()

    def forget(self) -> None:
        """Close our ends of the pipes; in a forked process, without waiting for what is another's child."""
        if self._process.returncode is None:
            self._process.returncode = 0
        for file in (self._in, self._out, self._errors):
            file.close()

    def slow_down(self) -> None:
        """Give other processes precedence from now on; the child is for no other file after that."""
        self.spent = True
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self.pid, _SLOW_PRIORITY)

    def _receive(self, deadline: float, look: Callable[[], None] = lambda: None) -> Reply:
        size = messages.LENGTH.unpack(self._read(messages.LENGTH.size, deadline, look))[0]
        return msgspec.msgpack.decode(self._read(size, deadline, look), type=Reply)

    def _read(self, size: int, deadline: float, look: Callable[[], None]) -> bytes:
        data = bytearray()
        while len(data) < size:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise _Late
            if not self._poll.poll(min(remaining, _GLANCE) * 1000):
                look()
                continue
            piece = os.read(self._out.fileno(), min(size - len(data), 1 << 20))
            if not piece:
                raise _Gone
            data += piece
        return bytes(data)

    def _said(self) -> bytes:
        return os.pread(self._errors.fileno(), 65536, 0)

    def _too_long(self) -> str:
        return f"Reading the file took more than {self._limits.seconds:g} s and was given up. {_ADVICE}"

    def _too_late(self) -> str:
        """Return the message for a file that hit the limit by the clock with processor time to spare."""
        limit = self._limits.clock_factor * self._limits.seconds
        log.warning("parser.child_late", seconds=limit)
        return f"Reading the file came to no end within {limit:g} s by the clock: try again when less is going on."

    def _death(self) -> str:
        """Return why the child died, in words for the user."""
        status = self._process.wait()
        message = self._said()
        log.warning(
            "parser.child_died",
            status=status,
            memory_bytes=self._most_memory,
            said=message[:300].decode("utf-8", "replace"),
        )
        if status == -signal.SIGXCPU:
            return self._too_long()
        starved = status == messages.OUT_OF_MEMORY or self._most_memory > 0.8 * self._limits.memory_bytes
        if starved or any(sign in message for sign in (b"memory allocation of", b"os error 12", b"MemoryError")):
            limit = self._limits.memory_bytes // 2**20
            return f"Reading the file takes more than {limit} MB of memory and was given up. {_ADVICE}"
        if status in (-signal.SIGKILL, -signal.SIGTERM):
            return "Reading the file was ended from outside: perhaps the machine ran out of memory. Upload it again."
        return messages.CRASHED


@lru_cache(maxsize=1)
def _told_once(landlock: int) -> None:
    """A word in the log of this process about what the kernel keeps its children from."""
    if not landlock:
        log.warning("parser.files_not_confined", why=MISSING)
    else:
        log.debug("parser.files_confined", landlock=landlock)


def always() -> bool:
    """Never ends a wait."""
    return True


@contextmanager
def _place(lane: threading.BoundedSemaphore, goes_on: Callable[[], bool]) -> Iterator[None]:
    while not lane.acquire(timeout=_GLANCE):
        if not goes_on():
            raise Interrupted
    try:
        yield
    finally:
        lane.release()


class Pool:
    """At most `size` children at once; further threads wait for one.

    With `quick_seconds` there are two lanes of `size` children each: a file that takes more processor time leaves its
    child to the next file. It continues in the slow lane if that has room, else it starts again there once it has.
    """

    def __init__(self, size: int, allowed: Limits, quick_seconds: float | None = None) -> None:
        self.size = size
        self._limits = allowed
        self._quick_seconds = quick_seconds
        self._quick = threading.BoundedSemaphore(size)
        self._slow = threading.BoundedSemaphore(size)
        self._lock = threading.Lock()
        self._idle: list[Child] = []
        self._all: set[Child] = set()

    def run(self, task: Task, goes_on: Callable[[], bool] = always) -> Reply:
        """Read a file in a child of the pool. Interrupted if it still waits for one when `goes_on` returns False."""
        with ExitStack() as lane_stack:
            lane_stack.enter_context(_place(self._quick, goes_on))
            with suppress(_Slow), self._child() as child:
                return self._read(child, task, lane_stack)
        with _place(self._slow, goes_on), self._child() as child:
            child.slow_down()
            return child.run(task)

    def _read(self, child: Child, task: Task, place: ExitStack) -> Reply:
        is_quick = True

        def worked(seconds: float) -> None:
            nonlocal is_quick
            if not is_quick or self._quick_seconds is None or seconds < self._quick_seconds:
                return
            if not self._slow.acquire(blocking=False):
                raise _Slow
            is_quick = False
            place.close()
            place.callback(self._slow.release)
            child.slow_down()

        return child.run(task, worked)

    def warm(self) -> None:
        """Start a child, if there is none; it gets ready while the caller does other things."""
        if not self._all:
            with self._child():
                pass

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for child in idle:
            self._end(child)

    def forget(self) -> None:
        """After a fork: leave the children to the process that started them."""
        for child in self._all:
            child.forget()
        self._idle, self._all = [], set()

    @contextmanager
    def _child(self) -> Iterator[Child]:
        """A child for one file; it is kept for the next one unless the file was too much for it."""
        child = self._take()
        keep = False
        try:
            yield child
            keep = child.alive() and not child.spent and child.files < _FILES_PER_CHILD
        finally:
            if keep:
                with self._lock:
                    self._idle.append(child)
            else:
                self._end(child)

    def _take(self) -> Child:
        while True:
            with self._lock:
                child = self._idle.pop() if self._idle else None
            if child is None:
                break
            if child.alive():
                return child
            self._end(child)
        try:
            child = Child(self._limits)
        except OSError as error:
            raise Retryable(_NOT_STARTED) from error
        with self._lock:
            self._all.add(child)
        return child

    def _end(self, child: Child) -> None:
        with self._lock:
            self._all.discard(child)
        child.end()
