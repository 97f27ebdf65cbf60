"""Processes by id: is it still the one that we started, how to end it with all that it started, as whom to start one.

A process id is reused by the kernel, so it is only ever trusted together with its start time. What a killed
supervisor left behind is found by a random token in the environment that every child of it inherits.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local import LocalError

TOKEN = "RETRIEVAL_INSTANCE"  # noqa: S105 - the name of a variable
_PROC = Path("/proc")
_PR_SET_PDEATHSIG = 1
_UNMAPPED = 65534
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


def list_carrying(token: str, *, besides: str = "") -> list[Process]:
    """Every process whose environment holds this token of an instance, but this one and those of a program."""
    marker = f"{TOKEN}={token}".encode()
    matching = (p for p in _all() if p.pid != os.getpid() and marker in _read(p.pid, "environ").split(b"\0"))
    return [p for p in matching if not besides or Path(_link(p.pid, "exe")).name != besides]


def list_working_in(folder: Path, program: str) -> list[Process]:
    """Every process of this program whose working directory is `folder`: it identifies a PostgreSQL."""
    return [p for p in _all() if _link(p.pid, "cwd") == str(folder) and Path(_link(p.pid, "exe")).name == program]


def end_processes(processes: Iterable[Process], *, first: int = signal.SIGTERM, grace: float = 5.0) -> None:
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


@dataclass(frozen=True, slots=True)
class Identity:
    """Way to start a program as the owner of the data: a command before it, or another user and group."""

    prefix: tuple[str, ...] = ()
    user: int | None = None
    group: int | None = None

    @property
    def process_options(self) -> dict[str, Any]:
        """Options of `subprocess` that start a program as this user."""
        return {"user": self.user, "group": self.group, "extra_groups": None if self.user is None else []}

    def own(self, path: Path) -> None:
        """Give a file or folder, with all that is in it, to this user."""
        if self.user is None or self.group is None:
            return
        os.chown(path, self.user, self.group)
        for entry in path.rglob("*") if path.is_dir() else ():
            os.chown(entry, self.user, self.group, follow_symlinks=False)


def choose_identity(home: Path, program: Path) -> Identity:
    """Ourselves; as root a user namespace of our own, else an existing user who can reach both folders."""
    if os.geteuid() != 0:
        return Identity()
    owner = _owner(home / "postgres")
    if not owner and (prefix := _user_namespace()) and not (_closed_folder(home, 0) or _closed_folder(program, 0)):
        return Identity(prefix=prefix)
    reasons = []
    for user, group in [owner] if owner else _accounts(home):
        closed = _closed_folder(home.parent, user) or _closed_folder(program, user)
        if closed is None:
            home.chmod(0o711)
            return Identity(user=user, group=group)
        reasons.append(f"user {user} may not enter {closed}")
    raise LocalError(
        "The embedded Postgres does not run as root, and no way around was found: user namespaces are not allowed, "
        f"and {'; '.join(reasons) or 'there is no other user'}. "
        "Run `retrieval` as an ordinary user, put the project and RETRIEVAL_HOME into a folder that others may enter, "
        "or set RETRIEVAL_DATABASE_URL to a PostgreSQL of your own."
    )


@functools.cache
def _user_namespace() -> tuple[str, ...]:
    program = shutil.which("unshare")
    if program is None:
        return ()
    prefix = (program, "--user", f"--map-user={_UNMAPPED}", f"--map-group={_UNMAPPED}")
    process = subprocess.run([*prefix, "/bin/true"], capture_output=True, timeout=10, check=False)
    return prefix if process.returncode == 0 else ()


def _owner(data: Path) -> tuple[int, int] | None:
    """Owner of the data, unless it is root or there is none."""
    if not data.exists() or not (status := data.stat()).st_uid:
        return None
    return status.st_uid, status.st_gid


def _accounts(home: Path) -> list[tuple[int, int]]:
    """Accounts that may own the data: the owner of the folder around the home, then postgres, then nobody."""
    accounts = pwd.getpwall()
    around = home.parent.stat().st_uid
    chosen = [a for a in accounts if a.pw_uid == around != 0]
    chosen += [a for name in ("postgres", "nobody") for a in accounts if a.pw_name == name]
    return [(account.pw_uid, account.pw_gid) for account in chosen]


def _closed_folder(path: Path, uid: int) -> Path | None:
    """The first folder on the way to `path`, itself included, that this user may not enter without special rights."""
    folder = path if path.is_dir() else path.parent
    for step in reversed((folder, *folder.parents)):
        status = step.stat()
        bit = stat.S_IXUSR if status.st_uid == uid else stat.S_IXOTH
        if not status.st_mode & bit:
            return step
    return None
