"""Supervisor: keeps the roles of one instance running, reports why one died, and ends them in order. One thread, one
loop."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from local import instance, logs, processes
from local.errors import REFUSED, LocalError
from local.identity import Identity
from local.instance import Record, RoleRecord
from local.log_errors import Watch
from local.processes import Process

_TICK = 0.1
_WINDOW = 60.0
_DEATHS = 6
_DEATHS_BEFORE_READY = 3
_LONGEST_PAUSE = 8.0
_LOOK_AGAIN = 1.0
_BOUND_LOGS_EVERY = 30.0
_READ_LOGS_EVERY = 2.0
_ASK_EVERY = 5.0
"""Seconds between two questions to a role that is up whether it still answers."""


class Stopped(Exception):
    """Request to stop the instance."""


@dataclass(frozen=True, slots=True)
class Role:
    """Program of a role. `ready` is called until True; `grace`: seconds it may take to end before it is killed."""

    name: str
    command: list[str]
    environment: dict[str, str]
    ready: Callable[[], bool]
    folder: Path
    address: str | None = None
    stop_signal: int = signal.SIGTERM
    grace: float = 4.0
    settle: float = 0.0
    """Seconds it must have lived to count as ready."""
    identity: Identity = field(default_factory=Identity)
    before: Callable[[], None] | None = None
    """Runs before each restart."""
    lacks: Callable[[], str | None] | None = None
    """What it cannot run without and a person has to see to, as a sentence; it is started again once that is there."""
    silent_for: float | None = None
    """Seconds without a yes from `ready` after which a role that was up is killed and started again; None: never."""


@dataclass(slots=True)
class _Child:
    role: Role
    record: RoleRecord
    process: subprocess.Popen[bytes]
    watch: Watch
    log_offset: int = 0
    was_ready: bool = False
    deaths: deque[float] = field(default_factory=deque)
    restart_at: float | None = None
    lacked: str | None = None
    asked_at: float = 0.0
    silent_since: float | None = None


@dataclass(slots=True)
class Errand:
    """A running role that ends by itself, such as the migrations."""

    role: Role
    record: RoleRecord
    process: subprocess.Popen[bytes]
    log_offset: int


class Supervisor:
    """Holds the children of one home. Only the main thread may call it: the children end with that thread."""

    def __init__(self, home: Path, record: Record, say: Callable[[str], None]) -> None:
        self._home = home
        self._record = record
        self._say = say
        self._children: list[_Child] = []
        self._errands: list[Errand] = []
        self._stop_requests = 0
        self._next_bound = 0.0
        self._next_read = 0.0
        self._is_saved = True

    def listen(self) -> None:
        """Handle SIGINT and SIGTERM: the first asks for an orderly end, a second one for a quick one."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def start(self, role: Role) -> None:
        record = RoleRecord(role.name, address=role.address)
        self._record.roles.append(record)
        offset = self._log_size(role.name)
        watch = Watch(logs.path(self._home, role.name), record.errors)
        self._children.append(_Child(role, record, self._spawn(role, record), watch, offset))

    def run(self, role: Role) -> bytes:
        """Run a role that ends by itself; its standard output. LocalError with the end of its log if it fails."""
        return self.finish(self.begin(role))

    def begin(self, role: Role) -> Errand:
        """Start a role that ends by itself; `finish` waits for it."""
        record = RoleRecord(role.name)
        self._record.roles.append(record)
        offset = self._log_size(role.name)
        errand = Errand(role, record, self._spawn(role, record, output=subprocess.PIPE), offset)
        self._errands.append(errand)
        return errand

    def finish(self, errand: Errand) -> bytes:
        """Wait for the end of an errand while the others are looked after."""
        role, process = errand.role, errand.process
        while process.poll() is None:
            self.tick()
        output = process.stdout.read() if process.stdout else b""
        errand.record.state, errand.record.pid = "done" if process.returncode == 0 else "stopped", None
        self._save()
        if process.returncode == REFUSED:
            raise LocalError(logs.tail(self._home, role.name, since=errand.log_offset, lines=1).strip())
        if process.returncode:
            raise LocalError(
                f"{role.name} failed ({_reason(process.returncode)}).\n"
                f"{logs.tail(self._home, role.name, since=errand.log_offset)}\n"
                f"  Its log: {logs.path(self._home, role.name)}"
            )
        return output

    def wait_for(self, fact: Callable[[], bool], what: str, *, seconds: float, errand: Errand | None = None) -> None:
        """Until something outside is true, or an errand that makes it so has ended."""
        deadline = time.monotonic() + seconds
        while not fact():
            if errand and errand.process.poll() is not None:
                return
            if time.monotonic() > deadline:
                raise LocalError(f"{what} within {seconds:.0f} s.")
            self.tick()

    def wait_ready(self, *names: str, seconds: float) -> None:
        """Until each of these roles, or of all, is ready; LocalError names the one that is not in time."""
        deadline = time.monotonic() + seconds
        for child in self._children:
            name = child.role.name
            while (not names or name in names) and child.record.state != "up":
                if time.monotonic() > deadline:
                    raise LocalError(
                        f"{name} was not ready within {seconds:.0f} s.\n{logs.tail(self._home, name)}\n"
                        f"  Its log: {logs.path(self._home, name)}"
                    )
                self.tick()

    def watch(self) -> None:
        """Watch the roles until a stop is requested (Stopped) or a role cannot be kept alive (LocalError)."""
        while True:
            self.tick()

    def tick(self) -> None:
        """One look at every child; restarts what is due."""
        time.sleep(_TICK)
        if self._stop_requests:
            raise Stopped
        for child in self._children:
            self._look_at(child)
        self._read_logs()
        if time.monotonic() > self._next_bound:
            if not self._is_saved:
                self._save()
            self._next_bound = time.monotonic() + _BOUND_LOGS_EVERY
            logs.bound(self._home)

    def _read_logs(self) -> None:
        """Note errors that the roles have logged, for `retrieval status`."""
        if time.monotonic() > self._next_read:
            self._next_read = time.monotonic() + _READ_LOGS_EVERY
            changes = [child.watch.look(time.time()) for child in self._children]
            if any(changes):
                self._save()

    def stop(self, order: Iterable[str]) -> None:
        """End the roles in this order, each in its grace, then whatever they left; a second signal shortens it."""
        self._record.phase = "stopping"
        self._save()
        by_name = {child.role.name: child for child in self._children}
        for name in order:
            if child := by_name.get(name):
                self._end(child)
        for errand in self._errands:
            with errand.process, contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(errand.process.pid, signal.SIGKILL)
        processes.end(processes.carrying(self._record.token), grace=1)

    def _end(self, child: _Child) -> None:
        process, stop_requests = child.process, self._stop_requests
        if process.poll() is None:
            process.send_signal(child.role.stop_signal)
        deadline = time.monotonic() + child.role.grace
        while process.poll() is None and time.monotonic() < deadline and self._stop_requests <= max(stop_requests, 1):
            time.sleep(0.05)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        child.record.state, child.record.pid = "stopped", None
        self._save()

    def _look_at(self, child: _Child) -> None:
        if child.restart_at is not None:
            if time.monotonic() >= child.restart_at:
                self._restart_unless_it_lacks(child)
        elif (code := child.process.poll()) is not None:
            self._on_death(child, code)
        elif child.record.state == "starting" and _settled(child) and child.role.ready():
            child.record.state, child.was_ready = "up", True
            self._save()
            if child.record.restarts:
                self._say(f"{child.role.name} is up again.")
        elif child.role.silent_for and child.record.state in ("up", "stalled"):
            self._ask(child, child.role.silent_for)

    def _ask(self, child: _Child, silent_for: float) -> None:
        """Kill a role that has not answered for `silent_for` seconds; its death is then handled as any other."""
        name, current = child.role.name, time.monotonic()
        if current - child.asked_at < _ASK_EVERY:
            return
        child.asked_at = current
        if child.role.ready():
            child.silent_since = None
            self._mark(child, "up")
            return
        child.silent_since = child.silent_since or current
        if current - child.silent_since >= silent_for:
            child.silent_since = None
            self._say(f"{name} has not answered for {silent_for:.0f} s: it is ended and started again.")
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.process.pid, signal.SIGKILL)
        elif current > child.silent_since:
            self._mark(child, "stalled")

    def _mark(self, child: _Child, state: instance.RoleState) -> None:
        if child.record.state != state:
            child.record.state = state
            self._save()

    def _restart_unless_it_lacks(self, child: _Child) -> None:
        """Restart a role. If a dependency is missing, look again soon: it would die of the same, and then everything
        would be stopped."""
        lacks = child.role.lacks() if child.role.lacks else None
        if lacks is None:
            child.lacked = None
            self._restart(child)
            return
        if lacks != child.lacked:
            self._say(f"{child.role.name} is not started: {lacks}")
        child.lacked, child.restart_at = lacks, time.monotonic() + _LOOK_AGAIN
        child.deaths.clear()

    def _restart(self, child: _Child) -> None:
        if child.role.before:
            child.role.before()
        child.restart_at = None
        child.record.restarts += 1
        child.log_offset = self._log_size(child.role.name)
        child.process = self._spawn(child.role, child.record)

    def _on_death(self, child: _Child, code: int) -> None:
        name, current = child.role.name, time.monotonic()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.process.pid, signal.SIGKILL)
        child.deaths.append(current)
        while child.deaths[0] < current - _WINDOW:
            child.deaths.popleft()
        story = f"{name} died ({_reason(code)}).\n{logs.tail(self._home, name, since=child.log_offset)}"
        limit = _DEATHS if child.was_ready else _DEATHS_BEFORE_READY
        if len(child.deaths) >= limit and not (child.role.lacks and child.role.lacks()):
            raise LocalError(
                f"{story}\n  It died {len(child.deaths)} times within a minute; everything is stopped. "
                f"Its log: {logs.path(self._home, name)}"
            )
        pause = min(_LONGEST_PAUSE, 0.5 * 2 ** (len(child.deaths) - 1))
        child.record.state, child.record.pid, child.restart_at = "restarting", None, current + pause
        self._save()
        self._say(f"{story}\n  It is started again in {pause:g} s.")

    def _spawn(self, role: Role, record: RoleRecord, *, output: int | None = None) -> subprocess.Popen[bytes]:
        with logs.open_for(self._home, role.name) as log:
            process = subprocess.Popen(
                role.command,
                stdin=subprocess.DEVNULL,
                stdout=log if output is None else output,
                stderr=log,
                cwd=role.folder,
                env=role.environment,
                start_new_session=True,
                user=role.identity.user,
                group=role.identity.group,
                extra_groups=None if role.identity.user is None else [],
                # Safe here: this program has one thread, and its children do nothing else before exec.
                preexec_fn=processes.end_with_parent(role.stop_signal),  # noqa: PLW1509
            )
        started = Process.of(process.pid)
        record.pid, record.started = process.pid, started.started if started else None
        record.state, record.since = "starting", time.time()
        self._save()
        return process

    def _log_size(self, name: str) -> int:
        file = logs.path(self._home, name)
        return file.stat().st_size if file.exists() else 0

    def _save(self) -> None:
        """On a full disk the last state stays; what happens next is written when there is room again."""
        try:
            instance.save(self._home, self._record)
            self._is_saved = True
        except OSError:
            self._is_saved = False

    def _on_signal(self, _number: int, _frame: object) -> None:
        self._stop_requests += 1


def _settled(child: _Child) -> bool:
    return time.time() - (child.record.since or 0) >= child.role.settle


def _reason(code: int) -> str:
    """A return code in words: a signal by its name."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
