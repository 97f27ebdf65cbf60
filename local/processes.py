"""Processes by id: is it still the one that we started, and how to end it with all that it started.

A process id is reused by the kernel, so it is only ever trusted together with its start time. What a killed
supervisor left behind is found by a random token in the environment that every child of it inherits.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

TOKEN = "RETRIEVAL_INSTANCE"  # noqa: S105 - the name of a variable
_PROC = Path("/proc")
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


@dataclass(frozen=True, slots=True)
class Process:
    """One process. `started`: clock ticks since boot, as in /proc; together they name it for good."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> Process | None:
        started = _start_time(pid)
        return cls(pid, started) if started is not None else None

    def alive(self) -> bool:
        return _start_time(self.pid) == self.started

    def signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


def end_with_parent(number: int) -> Callable[[], None]:
    """Function for a child to run before exec, so that the kernel sends it `number` when the supervisor dies, even by
    kill -9."""
    parent = os.getpid()

    def arrange() -> None:
        if _libc is not None:
            _libc.prctl(_PR_SET_PDEATHSIG, number)
            if os.getppid() != parent:
                os._exit(1)

    return arrange


def carrying(token: str, *, besides: str = "") -> list[Process]:
    """Every process whose environment holds this token of an instance, but this one and those of a program."""
    marker = f"{TOKEN}={token}".encode()
    matching = (p for p in _all() if p.pid != os.getpid() and marker in _read(p.pid, "environ").split(b"\0"))
    return [p for p in matching if not besides or Path(_link(p.pid, "exe")).name != besides]


def working_in(folder: Path, program: str) -> list[Process]:
    """Every process of this program whose working directory is `folder`: it identifies a PostgreSQL."""
    return [p for p in _all() if _link(p.pid, "cwd") == str(folder) and Path(_link(p.pid, "exe")).name == program]


def end(processes: Iterable[Process], *, first: int = signal.SIGTERM, grace: float = 5.0) -> None:
    """Send `first`, wait up to `grace` seconds, then SIGKILL the rest and wait until they have ended."""
    remaining = list(processes)
    for number, patience in ((first, grace), (signal.SIGKILL, 5.0)):
        for process in remaining:
            process.signal(number)
        deadline = time.monotonic() + patience
        while (remaining := [p for p in remaining if p.alive()]) and time.monotonic() < deadline:
            time.sleep(0.05)


def _all() -> Iterator[Process]:
    for entry in _PROC.iterdir() if _PROC.is_dir() else ():
        if entry.name.isdigit() and (process := Process.of(int(entry.name))):
            yield process


def _start_time(pid: int) -> int | None:
    """Field 22 of /proc/pid/stat; None if there is no such process or only its unreaped remains."""
    state, *fields = _read(pid, "stat").rpartition(b")")[2].split() or [b"Z"]
    return None if state in (b"Z", b"X") else int(fields[18])


def _read(pid: int, name: str) -> bytes:
    try:
        return (_PROC / str(pid) / name).read_bytes()
    except OSError:
        return b""


def _link(pid: int, name: str) -> str:
    try:
        return str((_PROC / str(pid) / name).readlink()).removesuffix(" (deleted)")
    except OSError:
        return ""
