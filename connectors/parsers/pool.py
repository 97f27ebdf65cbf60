"""Pool of warm parser children: each reads one file at a time, and is killed and replaced beyond the limits."""

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
from connectors.parsers.confinement import LANDLOCK_MISSING, SandboxFolder
from connectors.parsers.messages import Reply, Task
from retrieval.errors import Interrupted, Retryable, Skippable
from retrieval.settings import PROJECT_ROOT

log = structlog.get_logger(__name__)
_FILES_PER_CHILD = 200
_POLL_SECONDS = 0.25
_START_SECONDS = 60.0
# Niceness of a child in the slow lane.
_SLOW_NICENESS = 10
# Wall clock limit as a multiple of the processor time, because the machine may be busy.
CLOCK_FACTOR = 10
# Of the quick lane: a file that misses it is read again in the slow lane.
_QUICK_CLOCK_FACTOR = 3
_CHILD_ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "MALLOC_ARENA_MAX": "2",
    "RUST_BACKTRACE": "0",
    "RAYON_NUM_THREADS": "1",
    "OMP_THREAD_LIMIT": "1",
}
_NOT_STARTED = "The process that reads files could not be started on the worker."
_SPLIT_ADVICE = "Split it into smaller files and upload those."


class _DeadlineMissed(Exception):
    """The child missed its deadline."""


class _ChildDied(Exception):
    """The child died."""


class _SlowLaneFull(Exception):
    """The file is slow and the slow lane is full."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one file: processor time in seconds (`confinement.allow_cpu`), and memory in bytes."""

    seconds: float
    memory_bytes: int
    # Path of the only program allowed to the child, such as tesseract.
    program: str = ""
    # Wall clock limit as a multiple of `seconds`.
    clock_factor: int = CLOCK_FACTOR
    # Maximum size of a written file, such as a member of an archive.
    file_bytes: int = 2**30


class ParserChild:
    """Child process with its pipes. Not thread-safe."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        self._peak_memory = 0
        self._ready = False
        self.file_count = 0
        self.spent = False
        self._folder = SandboxFolder()
        command = [sys.executable, "-m", "connectors.parsers.child"]
        command += [str(limits.memory_bytes), str(limits.file_bytes)]
        command += [str(self._folder.input_folder), str(self._folder.output_folder), *filter(None, [limits.program])]
        self._process = subprocess.Popen(
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=PROJECT_ROOT,
            env=_CHILD_ENVIRONMENT | {"TMPDIR": str(self._folder.output_folder)},
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
        """Wait until the child is ready. Retryable if the machine cannot start it."""
        if self._ready:
            return
        try:
            _log_confinement(self._receive_reply(time.monotonic() + _START_SECONDS).landlock)
        except (_DeadlineMissed, _ChildDied) as error:
            log.warning("parser.child_not_started", said=self._read_errors()[:300].decode("utf-8", "replace"))
            raise Retryable(_NOT_STARTED) from error
        self._ready = True

    def run(self, task: Task, report_progress: Callable[[float], None] | None = None) -> Reply:
        """Return the child's reply. Skippable with the cause after the child's death or the deadline.

        `report_progress`: called about four times a second with the processor seconds used, or a third of the wall
        clock time if more; exceptions end the run.
        """
        self.start()
        self.file_count += 1
        began, used = time.monotonic(), confinement.cpu_seconds_of(self.pid)
        deadline = began + self._limits.clock_factor * self._limits.seconds

        def check_usage() -> None:
            self._peak_memory = max(self._peak_memory, confinement.data_bytes_of(self.pid))
            if report_progress is not None:
                by_clock = (time.monotonic() - began) / _QUICK_CLOCK_FACTOR
                report_progress(max(confinement.cpu_seconds_of(self.pid) - used, by_clock))

        try:
            self._in.write(messages.frame_message(self._folder.link_input(task)))
            reply = self._receive_reply(deadline, check_usage)
            self.spent |= reply.spent
            return self._folder.collect_output(reply, task.unpack)
        except _DeadlineMissed:
            reason = self._clock_timeout_message()
        except (_ChildDied, BrokenPipeError):
            reason = self._death_message()
        finally:
            self._folder.clear()
        raise Skippable(reason)

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        """Kill the child and release all resources."""
        if self.is_alive():
            self._process.kill()
        self._process.wait()
        self.forget()
        self._folder.remove()

    def forget(self) -> None:
        """Close this process's ends of the pipes, without waiting for the child."""
        if self._process.returncode is None:  # after a fork it is the child of another process
            self._process.returncode = 0
        for file in (self._in, self._out, self._errors):
            file.close()

    def lower_priority(self) -> None:
        """Lower the child's priority and retire the process after the current file."""
        self.spent = True
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self.pid, _SLOW_NICENESS)

    def _receive_reply(self, deadline: float, check_usage: Callable[[], None] = lambda: None) -> Reply:
        size = messages.LENGTH.unpack(self._read(messages.LENGTH.size, deadline, check_usage))[0]
        return msgspec.msgpack.decode(self._read(size, deadline, check_usage), type=Reply)

    def _read(self, size: int, deadline: float, check_usage: Callable[[], None]) -> bytes:
        data = bytearray()
        while len(data) < size:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise _DeadlineMissed
            if not self._poll.poll(min(remaining, _POLL_SECONDS) * 1000):
                check_usage()
                continue
            piece = os.read(self._out.fileno(), min(size - len(data), 1 << 20))
            if not piece:
                raise _ChildDied
            data += piece
        return bytes(data)

    def _read_errors(self) -> bytes:
        return os.pread(self._errors.fileno(), 65536, 0)

    def _timeout_message(self) -> str:
        return f"Reading the file took more than {self._limits.seconds:g} s and was given up. {_SPLIT_ADVICE}"

    def _clock_timeout_message(self) -> str:
        """Return the message for a file at the wall clock limit with processor time to spare."""
        limit = self._limits.clock_factor * self._limits.seconds
        log.warning("parser.child_late", seconds=limit)
        return f"Reading the file came to no end within {limit:g} s by the clock: try again when less is going on."

    def _death_message(self) -> str:
        """Return the cause of the child's death, in words for the user."""
        status = self._process.wait()
        message = self._read_errors()
        log.warning(
            "parser.child_died",
            status=status,
            memory_bytes=self._peak_memory,
            said=message[:300].decode("utf-8", "replace"),
        )
        if status == -signal.SIGXCPU:
            return self._timeout_message()
        starved = status == messages.OUT_OF_MEMORY or self._peak_memory > 0.8 * self._limits.memory_bytes
        if starved or any(sign in message for sign in (b"memory allocation of", b"os error 12", b"MemoryError")):
            limit = self._limits.memory_bytes // 2**20
            return f"Reading the file takes more than {limit} MB of memory and was given up. {_SPLIT_ADVICE}"
        if status in (-signal.SIGKILL, -signal.SIGTERM):
            return "Reading the file was ended from outside: perhaps the machine ran out of memory. Upload it again."
        return messages.CRASHED


@lru_cache(maxsize=1)
def _log_confinement(version: int) -> None:
    """Log the confinement of parser children, once per process."""
    if not version:
        log.warning("parser.files_not_confined", why=LANDLOCK_MISSING)
    else:
        log.debug("parser.files_confined", landlock=version)


def is_always_needed() -> bool:
    """Return True: the work is needed until its end."""
    return True


def _require_need(is_needed: Callable[[], bool]) -> None:
    """Raise Interrupted for work no longer needed."""
    if not is_needed():
        raise Interrupted


@contextmanager
def _lane_slot(lane: threading.BoundedSemaphore, keep_waiting: Callable[[], bool]) -> Iterator[None]:
    while not lane.acquire(timeout=_POLL_SECONDS):
        if not keep_waiting():
            raise Interrupted
    try:
        yield
    finally:
        lane.release()


class ChildPool:
    """Pool of at most `size` children; further threads wait.

    `quick_seconds` adds a slow lane of `size` children. A file beyond this processor time moves there with its child,
    or starts again later if the lane is full.
    """

    def __init__(self, size: int, limits: Limits, quick_seconds: float | None = None) -> None:
        self.size = size
        self._limits = limits
        self._quick_seconds = quick_seconds
        self._quick_lane = threading.BoundedSemaphore(size)
        self._slow_lane = threading.BoundedSemaphore(size)
        self._lock = threading.Lock()
        self._idle: list[ParserChild] = []
        self._children: set[ParserChild] = set()

    def run(
        self,
        task: Task,
        keep_waiting: Callable[[], bool] = is_always_needed,
        is_needed: Callable[[], bool] = is_always_needed,
    ) -> Reply:
        """Read a file in a child. Interrupted if `keep_waiting` returns False during the wait for a child, or
        `is_needed` at any time.
        """
        _require_need(is_needed)

        def is_waiting() -> bool:
            return keep_waiting() and is_needed()

        with ExitStack() as lane_stack:
            lane_stack.enter_context(_lane_slot(self._quick_lane, is_waiting))
            with suppress(_SlowLaneFull), self._borrow_child() as child:
                return self._read(child, task, lane_stack, is_needed)
        with _lane_slot(self._slow_lane, is_waiting), self._borrow_child() as child:
            child.lower_priority()
            return child.run(task, lambda _seconds: _require_need(is_needed))

    def _read(self, child: ParserChild, task: Task, lane_stack: ExitStack, is_needed: Callable[[], bool]) -> Reply:
        is_quick = True

        def report_progress(seconds: float) -> None:
            nonlocal is_quick
            _require_need(is_needed)
            if not is_quick or self._quick_seconds is None or seconds < self._quick_seconds:
                return
            if not self._slow_lane.acquire(blocking=False):
                raise _SlowLaneFull
            is_quick = False
            lane_stack.close()
            lane_stack.callback(self._slow_lane.release)
            child.lower_priority()

        return child.run(task, report_progress)

    def start_child(self) -> None:
        """Start a first child in the background."""
        if not self._children:
            with self._borrow_child():
                pass

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for child in idle:
            self._stop_child(child)

    def forget(self) -> None:
        """Leave the children to the parent process, after a fork."""
        for child in self._children:
            child.forget()
        self._idle, self._children = [], set()

    @contextmanager
    def _borrow_child(self) -> Iterator[ParserChild]:
        """Borrow a child for a file; keep the child idle afterwards, or stop a worn-out child."""
        child = self._take_child()
        keep = False
        try:
            yield child
            keep = child.is_alive() and not child.spent and child.file_count < _FILES_PER_CHILD
        finally:
            if keep:
                with self._lock:
                    self._idle.append(child)
            else:
                self._stop_child(child)

    def _take_child(self) -> ParserChild:
        while True:
            with self._lock:
                child = self._idle.pop() if self._idle else None
            if child is None:
                break
            if child.is_alive():
                return child
            self._stop_child(child)
        try:
            child = ParserChild(self._limits)
        except OSError as error:
            raise Retryable(_NOT_STARTED) from error
        with self._lock:
            self._children.add(child)
        return child

    def _stop_child(self, child: ParserChild) -> None:
        with self._lock:
            self._children.discard(child)
        child.end()
