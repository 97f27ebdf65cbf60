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
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from local import LocalError

TOKEN_VARIABLE = "RETRIEVAL_INSTANCE"  # noqa: S105 - the name of a variable
PROC_FOLDER = Path("/proc")
_PR_SET_PDEATHSIG = 1
_UNMAPPED_ID = 65534
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


@dataclass(frozen=True, slots=True)
class Process:
    """Process id with the start time: clock ticks since boot, or hundredths of a second since 1970 without /proc."""

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


def end_with_parent(number: int) -> Callable[[], None]:
    """Return a function to run before exec, so that the kernel signals the child when the supervisor dies."""
    parent = os.getpid()

    def set_death_signal() -> None:
        if _libc is not None:
            _libc.prctl(_PR_SET_PDEATHSIG, number)
            if os.getppid() != parent:
                os._exit(1)

    return set_death_signal


def list_carrying(token: str, *, excluded: str = "") -> list[Process]:
    """Return other processes with this token in their environment, without those of the program `excluded`."""
    found = psutil.process_iter(["environ", "exe"])
    carrying = (p for p in found if (p.info["environ"] or {}).get(TOKEN_VARIABLE) == token and p.pid != os.getpid())
    return _identify(p for p in carrying if not excluded or Path(p.info["exe"] or "").name != excluded)


def list_working_in(folder: Path, program: str) -> list[Process]:
    """Return processes of the program in this working directory, which identifies a PostgreSQL."""
    found = psutil.process_iter(["cwd", "exe"])
    return _identify(p for p in found if p.info["cwd"] == str(folder) and Path(p.info["exe"] or "").name == program)


def end_processes(processes: Iterable[Process], *, first: int = signal.SIGTERM, grace: float = 5.0) -> None:
    """Send `first`, wait `grace` seconds, then SIGKILL, until all have ended."""
    remaining = list(processes)
    for number, patience in ((first, grace), (signal.SIGKILL, 5.0)):
        for process in remaining:
            process.send_signal(number)
        deadline = time.monotonic() + patience
        while (remaining := [p for p in remaining if p.is_alive()]) and time.monotonic() < deadline:
            time.sleep(0.05)


def _start_time(pid: int) -> int | None:
    """Return the start time; None for an ended or unreaped process."""
    if not PROC_FOLDER.is_dir():
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            return None if process.status() == psutil.STATUS_ZOMBIE else round(100 * process.create_time())
        return None
    # Field 22 of /proc/pid/stat: psutil's time since 1970 moves on Linux whenever the clock is set.
    try:
        fields = (PROC_FOLDER / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def _identify(found: Iterable[psutil.Process]) -> list[Process]:
    return [process for p in found if (process := Process.from_pid(p.pid))]


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
    """Return candidate owners: the parent folder's owner, postgres, nobody."""
    accounts = pwd.getpwall()
    around = home.parent.stat().st_uid
    chosen = [a for a in accounts if a.pw_uid == around != 0]
    chosen += [a for name in ("postgres", "nobody") for a in accounts if a.pw_name == name]
    return [(account.pw_uid, account.pw_gid) for account in chosen]


def _closed_folder(path: Path, uid: int) -> Path | None:
    """Return the first folder of the path that the user may not enter, else None."""
    folder = path if path.is_dir() else path.parent
    for step in reversed((folder, *folder.parents)):
        status = step.stat()
        bit = stat.S_IXUSR if status.st_uid == uid else stat.S_IXOTH
        if not status.st_mode & bit:
            return step
    return None
