"""Processes: identity by start time, termination with descendants, user to run as."""
# The kernel reuses process ids, so an id counts only with its start time. Orphans of a killed supervisor are found by a
# random token in their environment.

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

TOKEN_VARIABLE = "RETRIEVAL_INSTANCE"  # noqa: S105 - the name of a variable
_PROC_FOLDER = Path("/proc")
_PR_SET_PDEATHSIG = 1
_UNMAPPED_ID = 65534
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


@dataclass(frozen=True, slots=True)
class Process:
    """Process id with the start time in clock ticks since boot."""

    pid: int
    started: int

    @classmethod
    def from_pid(cls, pid: int) -> Process | None:
        started = _start_time(pid)
        return cls(pid, started) if started is not None else None

    def is_alive(self) -> bool:
        return _start_time(self.pid) == self.started

    def send_signal(self, number: int) -> None:
        """Send a signal unless the process has ended."""
        if self.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


def make_parent_death_hook(signal_number: int) -> Callable[[], None]:
    """Return a `preexec_fn`: the kernel sends the child this signal at the parent's death."""
    parent = os.getpid()

    def set_death_signal() -> None:
        if _libc is not None:
            _libc.prctl(_PR_SET_PDEATHSIG, signal_number)
            # The parent died before the call.
            if os.getppid() != parent:
                os._exit(1)

    return set_death_signal


def list_carrying(token: str, *, excluded: str = "") -> list[Process]:
    """Return other processes with this token in their environment, without those of the program `excluded`."""
    marker = f"{TOKEN_VARIABLE}={token}".encode()
    matching = (
        p for p in _list_processes() if p.pid != os.getpid() and marker in _read_file(p.pid, "environ").split(b"\0")
    )
    return [p for p in matching if not excluded or Path(_read_link(p.pid, "exe")).name != excluded]


def list_working_in(folder: Path, program: str) -> list[Process]:
    """Return processes of the program in this working directory, which identifies a PostgreSQL."""
    return [
        p
        for p in _list_processes()
        if _read_link(p.pid, "cwd") == str(folder) and Path(_read_link(p.pid, "exe")).name == program
    ]


def end_processes(processes: Iterable[Process], *, first: int = signal.SIGTERM, grace: float = 5.0) -> None:
    """Send `first`, wait `grace` seconds, then SIGKILL, until all have ended."""
    remaining = list(processes)
    for number, patience in ((first, grace), (signal.SIGKILL, 5.0)):
        for process in remaining:
            process.send_signal(number)
        deadline = time.monotonic() + patience
        while (remaining := [p for p in remaining if p.is_alive()]) and time.monotonic() < deadline:
            time.sleep(0.05)


def _list_processes() -> Iterator[Process]:
    for entry in _PROC_FOLDER.iterdir() if _PROC_FOLDER.is_dir() else ():
        if entry.name.isdigit() and (process := Process.from_pid(int(entry.name))):
            yield process


def _start_time(pid: int) -> int | None:
    """Return field 22 of /proc/pid/stat; None for an ended or unreaped process."""
    state, *fields = _read_file(pid, "stat").rpartition(b")")[2].split() or [b"Z"]
    return None if state in (b"Z", b"X") else int(fields[18])


def _read_file(pid: int, name: str) -> bytes:
    try:
        return (_PROC_FOLDER / str(pid) / name).read_bytes()
    except OSError:
        return b""


def _read_link(pid: int, name: str) -> str:
    try:
        return str((_PROC_FOLDER / str(pid) / name).readlink()).removesuffix(" (deleted)")
    except OSError:
        return ""


@dataclass(frozen=True, slots=True)
class Identity:
    """User to run a program as: a command prefix, or user and group ids."""

    prefix: tuple[str, ...] = ()
    user: int | None = None
    group: int | None = None

    @property
    def process_options(self) -> dict[str, Any]:
        """Options of `subprocess` for this user."""
        return {"user": self.user, "group": self.group, "extra_groups": None if self.user is None else []}

    def take_ownership(self, path: Path) -> None:
        """Give a file or folder, with the content, to this user."""
        if self.user is None or self.group is None:
            return
        os.chown(path, self.user, self.group)
        for entry in path.rglob("*") if path.is_dir() else ():
            os.chown(entry, self.user, self.group, follow_symlinks=False)


def choose_identity(home: Path, program: Path) -> Identity:
    """Return this user; for root a user namespace, else an existing user with access to both folders."""
    if os.geteuid() != 0:
        return Identity()
    owner = _find_owner(home / "postgres")
    if not owner and (prefix := _user_namespace()) and not (_closed_folder(home, 0) or _closed_folder(program, 0)):
        return Identity(prefix=prefix)
    reasons = []
    for user, group in [owner] if owner else _list_accounts(home):
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
    prefix = (program, "--user", f"--map-user={_UNMAPPED_ID}", f"--map-group={_UNMAPPED_ID}")
    process = subprocess.run([*prefix, "/bin/true"], capture_output=True, timeout=10, check=False)
    return prefix if process.returncode == 0 else ()


def _find_owner(data: Path) -> tuple[int, int] | None:
    """Return the owner of the data; None for root or missing data."""
    if not data.exists() or not (status := data.stat()).st_uid:
        return None
    return status.st_uid, status.st_gid


def _list_accounts(home: Path) -> list[tuple[int, int]]:
    """Return user and group ids of candidate owners, without root: the parent folder's owner, postgres, nobody."""
    accounts = pwd.getpwall()
    parent_owner = home.parent.stat().st_uid
    candidates = [account for account in accounts if account.pw_uid == parent_owner and parent_owner != 0]
    for name in ("postgres", "nobody"):
        candidates += [account for account in accounts if account.pw_name == name]
    return [(account.pw_uid, account.pw_gid) for account in candidates]


def _closed_folder(path: Path, uid: int) -> Path | None:
    """Return the first folder of the path that the user may not enter, else None."""
    folder = path if path.is_dir() else path.parent
    for step in reversed((folder, *folder.parents)):
        status = step.stat()
        bit = stat.S_IXUSR if status.st_uid == uid else stat.S_IXOTH
        if not status.st_mode & bit:
            return step
    return None
